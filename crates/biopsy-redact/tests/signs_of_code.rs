//! What keeps source code from being masked must not keep passwords: those that look like names, in front of signs that code has too.

use biopsy_redact::{BundleKey, Options, Redactor};
use proptest::prelude::*;

thread_local! {
    static REDACTOR: Redactor = Redactor::new(Options {
        key: Some(BundleKey::from_bytes([7; 32])),
        learn_from_text: false,
        ..Options::default()
    })
    .expect("the built-in packs are right");
}

fn masked(text: &str) -> String {
    REDACTOR.with(|redactor| redactor.text(text).text.into_owned())
}

#[test]
fn passwords_that_look_like_code_are_masked() {
    for (line, secret) in [
        ("--- password: Hunter2xyz ---", "Hunter2xyz"),
        ("--- secret=Gh7tR29xQm", "Gh7tR29xQm"),
        (r#"{"password": "super-password-here"}"#, "super-password-here"),
        (r#"{"client_secret": "big-secret-of-mine"}"#, "big-secret-of-mine"),
        ("password: correcthorse - user bob", "correcthorse"),
        ("password: correcthorse | user bob", "correcthorse"),
        ("password: Dragon<2024 failed", "Dragon<2024"),
        ("password: Dragon2{4xyz", "Dragon2{4xyz"),
        ("password: &'x8812hunter", "x8812hunter"),
    ] {
        assert!(!masked(line).contains(secret), "{line} -> {}", masked(line));
    }
}

#[test]
fn source_code_stays() {
    for line in [
        "--- PASS: TestVet (0.07s)",
        "const COMMAND: &str = \"request-secret\";",
        "    password: Option<u16>,",
        "    secret: Offer {",
        "    token: &'a str,",
        "let secret = self",
        "type PrivateKey = ed25519.PrivateKey",
        "password: secret + salt",
        "key := derive(password)",
    ] {
        assert_eq!(masked(line), line);
    }
}

proptest! {
    #[test]
    fn a_name_with_digits_is_no_sign_of_code(
        front in prop::sample::select(vec!["password: ", "password=", "--- password: ", "10:00:01 pwd: ", "static secret: ", "let password = ", "PASSWORD := "]),
        secret in "[A-Z][a-z]{3,6}[0-9]{3,5}",
        behind in prop::sample::select(vec!["", ";", ",", " + x", " - failed", " | user=bob", " {\"a\":1}", " 'x'", " \"next\"", " || true", " && go", " ? a : b"]),
    ) {
        let line = format!("{front}{secret}{behind}");
        prop_assert!(!masked(&line).contains(&secret), "{line} -> {}", masked(&line));
    }
}
