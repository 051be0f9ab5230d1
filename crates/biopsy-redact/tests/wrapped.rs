//! Some five hundred lines that people type, programs write and files hold, each as it is and as a string in another text. What is between
//! `«` and `»` is made up and must not be left; what JSON has it in must read as before.

use biopsy_redact::{BundleKey, Options, Redactor};

fn in_json(text: &str) -> String {
    serde_json::json!({ "level": "info", "msg": text, "n": 17 }).to_string()
}

fn in_json_twice(text: &str) -> String {
    in_json(&in_json(text))
}

fn in_yaml(text: &str) -> String {
    format!("  message: '{}'", text.replace('\'', "''"))
}

fn in_csv(text: &str) -> String {
    format!("2026;app;\"{}\"", text.replace('"', "\"\""))
}

fn in_html(text: &str) -> String {
    let coded = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<pre>{}</pre>", coded.replace('"', "&quot;").replace('\'', "&#39;"))
}

#[test]
fn secrets_are_masked_in_whatever_their_line_is_wrapped() {
    let redactor = Redactor::new(Options::default()).expect("the built-in packs are right");
    let mut left = Vec::new();
    for line in include_str!("corpus/places.txt").lines() {
        let secrets: Vec<&str> =
            line.split('«').skip(1).filter_map(|rest| Some(rest.split_once('»')?.0)).collect();
        assert!(!secrets.is_empty(), "no secret in `{line}`");
        let bare = line.replace(['«', '»'], "");
        let wrappers =
            [str::to_owned as fn(&str) -> String, in_json, in_json_twice, in_yaml, in_csv, in_html];
        for wrap in wrappers {
            let text = wrap(&bare);
            let redactor = redactor.for_bundle(BundleKey::from_bytes([1; 32]));
            let masked = redactor.text(&text).text;
            let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let reads = !is_json || serde_json::from_str::<serde_json::Value>(&masked).is_ok();
            if !reads || secrets.iter().any(|secret| masked.contains(secret)) {
                left.push(masked.into_owned());
            }
        }
    }
    assert_eq!(left, Vec::<String>::new());
}
