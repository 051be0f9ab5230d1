//! Runs the examples of every rule of every pack, and packs that are wrong.

use super::load;
use crate::examples::{broken, broken_examples, splice};
use crate::{BundleKey, Options, RedactError, Redactor};

/// A redactor that learns nothing, so that one example does not decide about the next.
fn redactor(personal: bool, extra_packs: Vec<String>) -> Redactor {
    let options = Options {
        key: Some(BundleKey::from_bytes([9; 32])),
        personal,
        learn_from_text: false,
        extra_packs,
        ..Options::default()
    };
    Redactor::new(options).expect("the built-in packs are right")
}

#[test]
fn every_example_of_every_rule_holds() {
    let (common, personal) = (redactor(false, Vec::new()), redactor(true, Vec::new()));
    let common_rules = load(false, &[]).expect("the built-in packs are right").rules.len();
    let mut wrong = Vec::new();
    for (index, rule) in load(true, &[]).expect("the built-in packs are right").rules.iter().enumerate() {
        assert!(!rule.matches.is_empty(), "rule `{}` has no example", rule.id);
        assert!(!rule.no_match.is_empty(), "rule `{}` has no counter-example", rule.id);
        wrong.extend(broken(if index < common_rules { &common } else { &personal }, rule));
    }
    assert!(wrong.is_empty(), "{} examples fail:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn examples_hold_in_utf16_too() {
    let redactor = redactor(false, Vec::new());
    for rule in load(false, &[]).expect("the built-in packs are right").rules {
        for example in &rule.matches {
            let text = splice(&example[0]);
            let want = redactor.text(&text).text.into_owned();
            for little in [true, false] {
                let encode = |text: &str| -> Vec<u8> {
                    std::iter::once(0xfeff)
                        .chain(text.encode_utf16())
                        .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
                        .collect()
                };
                assert_eq!(redactor.bytes(&encode(&text)).bytes, encode(&want), "{}: {text}", rule.id);
            }
        }
    }
}

#[test]
fn extra_packs_are_used() {
    let pack = r#"
        description = "own"
        [[rule]]
        id = "badge"
        description = "Badge numbers."
        kind = "shape"
        keywords = ["badge-"]
        regex = 'badge-(?P<secret>\d{4})'
    "#;
    let redactor = redactor(false, vec![pack.to_owned()]);
    assert_eq!(
        redactor.text("see badge-1234").text,
        format!("see badge-{}", redactor.pseudonym("badge", "1234"))
    );
}

#[test]
fn wrong_packs_are_refused() {
    let refused = |rule: &str| {
        let pack = format!("description = \"x\"\n[[rule]]\n{rule}");
        match Redactor::new(Options { extra_packs: vec![pack], ..Options::default() }) {
            Err(error) => error,
            Ok(_) => panic!("accepted: {rule}"),
        }
    };
    let base = "description = \"d\"\nkind = \"shape\"\nkeywords = [\"abc\"]\n";
    for (rule, problem) in [
        (format!("id = \"password\"\nregex = '(?P<secret>x)'\n{base}"), "the id is taken"),
        (format!("id = \"Bad Id\"\nregex = '(?P<secret>x)'\n{base}"), "ids are 1 to 40"),
        (format!("id = \"a\"\n{base}"), "`regex` is missing"),
        (format!("id = \"a\"\nregex = '(x)'\n{base}"), "no group `secret`"),
        (format!("id = \"a\"\nregex = '(?P<secret>x'\n{base}"), "does not compile"),
        ("id = \"a\"\ndescription = \"d\"\nkind = \"key\"".to_owned(), "`words` needs entries"),
    ] {
        let error = refused(&rule);
        assert!(
            matches!(&error, RedactError::Rule { problem: found, .. } if found.contains(problem)),
            "{error}"
        );
    }
    assert!(matches!(refused("id = 5"), RedactError::Pack { .. }));
    assert!(refused("id = 5").hint().is_some());
}

#[test]
fn own_examples_are_run_and_own_values_stay() {
    let pack = |example: &str| {
        format!(
            "description = \"own\"\nallow = [\"demo-Key-77\"]\n[[rule]]\nid = \"badge\"\ndescription = \"Badges.\"\nkind = \"key\"\n\
             words = [\"badge\"]\nmatch = [[\"badge={example}\", \"Zx81qq\"]]\nno_match = [\"badge=demo-Key-77\"]\n"
        )
    };
    assert_eq!(broken_examples(&[pack("Zx81qq")]).unwrap(), Vec::<String>::new());
    let wrong = broken_examples(&[pack("demo-Key-77")]).unwrap();
    assert!(wrong.len() == 1 && wrong[0].contains("a value is not in its text"), "{wrong:?}");
    let redactor = redactor(false, vec![pack("x")]);
    assert_eq!(
        redactor.text("password=demo-Key-77 badge=demo-Key-77").text,
        "password=demo-Key-77 badge=demo-Key-77"
    );
    assert!(!redactor.learn("demo-Key-77", "password"));
    assert!(redactor.env("DB_PASSWORD", "demo-Key-77").text.contains("demo-Key-77"));
}

/// A text that an expression of the pack matches: letters and digits of each class, the first of several ways.
fn made_of(hir: &regex_syntax::hir::Hir, seed: &mut usize, text: &mut String) {
    use regex_syntax::hir::{Class, HirKind};
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(Class::Unicode(class)) => {
            let all = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            let mut letters: Vec<char> = all.clone().filter(char::is_ascii_alphanumeric).collect();
            if letters.is_empty() {
                letters.extend(all.take(1));
            }
            *seed = (*seed * 31 + 17) % 7919;
            text.push(letters[*seed % letters.len()]);
        }
        HirKind::Class(Class::Bytes(_)) => {}
        HirKind::Repetition(repetition) => {
            let least = repetition.min.max(u32::from(repetition.max.is_none()));
            (0..least).for_each(|_| made_of(&repetition.sub, seed, text));
        }
        HirKind::Capture(capture) => made_of(&capture.sub, seed, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| made_of(part, seed, text)),
        HirKind::Alternation(parts) => made_of(&parts[0], seed, text),
    }
}

#[test]
fn a_value_of_each_form_of_issuers_is_masked_whole() {
    let redactor = redactor(false, Vec::new());
    let (mut wrong, mut seed) = (Vec::new(), 1);
    for rule in load(false, &[]).expect("the built-in packs are right").rules {
        for form in &rule.forms {
            let mut value = String::new();
            made_of(&regex_syntax::parse(form).expect("a right expression"), &mut seed, &mut value);
            let masked = redactor.text(&format!("got {value} from there")).text.into_owned();
            let is_whole = masked.starts_with("got ")
                && masked.ends_with("] from there")
                && masked.matches("[redacted:").count() == 1;
            if !is_whole {
                wrong.push(format!("{form}\n  {value}\n  {masked}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} forms:\n{}", wrong.len(), wrong.join("\n"));
}
