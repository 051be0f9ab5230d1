//! A mask goes over each text, whatever is around it, and over nothing that is not a text of somebody.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn starred(text: &str) -> String {
    text.replace("secret", "***")
}

#[test]
fn texts_are_masked_at_all_depths_and_words_of_the_schema_are_not() {
    let value = json!({
        "schema": "secret", "kind": "secret", "severity": "secret", "id": "secret", "source": "secret",
        "state": "secret", "symbols": "secret", "found_by": "secret",
        "name": "a secret", "number": 7, "nothing": null, "sure": true,
        "list": ["secret", ["secret"], {"text": "secret", "kind": "secret"}],
        "deep": {"of": {"text": "the secret"}},
    });
    let masked = masked(&value, &starred);
    assert_eq!(
        masked,
        json!({
            "schema": "secret", "kind": "secret", "severity": "secret", "id": "secret", "source": "secret",
            "state": "secret", "symbols": "secret", "found_by": "secret",
            "name": "a ***", "number": 7, "nothing": null, "sure": true,
            "list": ["***", ["***"], {"text": "***", "kind": "secret"}],
            "deep": {"of": {"text": "the ***"}},
        })
    );
}

#[test]
fn without_a_mask_a_text_is_what_it_was() {
    assert_eq!(masked_text("a secret".to_owned(), None), "a secret");
    assert_eq!(masked_text("a secret".to_owned(), Some(&starred)), "a ***");
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c\"\\\\{}\n]{0,8}|.*secret.*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a-d]", inner), 0..5).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// All texts, in order, and what is left without them.
fn apart(value: &Value, texts: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => {
            texts.push(text.clone());
            Value::Null
        }
        Value::Array(values) => values.iter().map(|value| apart(value, texts)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), apart(value, texts))).collect()
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn what_is_around_a_text_stays(value in values()) {
        // A mask that would end a string if it could.
        let mask = |text: &str| format!("\"}}{}", text.len());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let masked = masked(&value, &mask);
        prop_assert_eq!(apart(&value, &mut before), apart(&masked, &mut after));
        let expected: Vec<String> = before.iter().map(|text| mask(text)).collect();
        prop_assert_eq!(after, expected);
    }

    #[test]
    fn what_was_masked_stays_masked(value in values()) {
        let once = masked(&value, &starred);
        prop_assert_eq!(masked(&once, &starred), once.clone());
        prop_assert!(!once.to_string().contains("secret"));
    }
}
