//! Variables of the environment: which values are shown, which are hidden, and what each of them teaches.

use biopsy_redact::{BundleKey, Options, Redactor};

fn rules(allow_env: &[&str]) -> Redactor {
    Redactor::new(Options {
        key: Some(BundleKey::from_bytes([7; 32])),
        allow_env: allow_env.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    })
    .expect("the built-in packs are right")
}

#[test]
fn a_name_decides_whether_a_value_is_shown() {
    let rules = rules(&["SHOP_MODE", "SHOP_UI_*"]);
    for (name, value, wanted) in [
        ("LANG", "C.UTF-8", "C.UTF-8"),
        ("SHOP_MODE", "blue", "blue"),
        ("SHOP_MODES", "blue", "M"),
        ("SHOP_UI_", "x y", "x y"),
        ("SHOP_UI_COLOUR", "green", "green"),
        ("SHOP_U", "green", "M"),
        ("shop_mode", "blue", "M"),
        // Allowed, and a secret by its name or by what it holds.
        ("SHOP_UI_PASSWORD", "kern77", "M"),
        ("SHOP_UI_URL", "postgres://a:kern77@db/x", "postgres://a:M@db/x"),
        ("SHOP_UI_ARGS", "--token Blau77kern9x -v", "--token M -v"),
        ("OTHER", "", ""),
        ("DB_PASSWORD", "", ""),
        ("", "x", "M"),
    ] {
        let shown = rules.env(name, value);
        assert_eq!(super::outline(&shown.text), wanted, "{name}");
        assert_eq!((shown.masked, shown.length), (wanted == "M", value.len()), "{name}");
        assert_eq!(shown.hits.is_empty(), !wanted.contains('M'), "{name}");
        let length = if shown.masked { format!(" ({} bytes)", value.len()) } else { String::new() };
        assert_eq!(shown.to_string(), format!("{}{length}", shown.text), "{name}");
    }
}

/// What a variable said is masked in every text from then on, unless it is a word of every text.
#[test]
fn what_variables_hold_is_learned_if_it_is_worth_it() {
    for (name, value, said, is_learned) in [
        ("DB_PASSWORD", "kern77x", "kern77x", true),
        ("DB_PASSWORD", "kern7", "kern7", false),
        ("DB_PASSWORD", "postgres", "postgres", false),
        ("DB_PASSWORD", "/run/secrets/db", "/run/secrets/db", false),
        ("DB_URL", "postgres://a:kern77x@db/x", "kern77x", true),
        ("OTHER", "q7Xk2Zr9bLm4TfWvN8Yd", "q7Xk2Zr9bLm4TfWvN8Yd", true),
        ("OTHER", "production-eu", "production-eu", false),
        ("LANG", "de_DE.UTF-8", "de_DE.UTF-8", false),
    ] {
        let rules = rules(&[]);
        let before = rules.generation();
        let _ = rules.env(name, value);
        let text = format!("retry with {said} in 5 s");
        let masked = rules.text(&text).text.into_owned();
        assert_eq!(masked != text, is_learned, "{name}={value}: {masked}");
        assert_eq!(rules.generation() > before, is_learned, "{name}={value}");
    }
}

#[test]
fn equal_values_have_one_pseudonym_whatever_their_names() {
    let rules = rules(&[]);
    let digits = |name: &str, value: &str| {
        let text = rules.env(name, value).text;
        text.trim_end_matches(']').rsplit(':').next().expect("a mask").to_owned()
    };
    assert_eq!(digits("DB_PASSWORD", "kern77x"), digits("OTHER", "kern77x"));
    assert_eq!(digits("DB_PASSWORD", "kern77x"), digits("API_TOKEN", "kern77x"));
    assert_ne!(digits("DB_PASSWORD", "kern77x"), digits("DB_PASSWORD", "kern77y"));
}
