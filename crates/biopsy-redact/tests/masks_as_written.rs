//! A report holds masks in whatever form it writes text in: the last look must not take what they are made of for a secret, or the
//! whole bundle is refused.

use biopsy_redact::verify::verify;
use biopsy_redact::{Options, Redactor};
use proptest::prelude::*;

/// As Markdown writes what would be markup.
fn markdown(text: &str) -> String {
    text.chars()
        .flat_map(|one| ("\\`[]<>#*&~|".contains(one).then_some('\\')).into_iter().chain([one]))
        .collect()
}

/// As a page writes its data.
fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap().replace('<', "\\u003c").replace('&', "\\u0026")
}

fn entities(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;")
}

fn percent(text: &str) -> String {
    text.replace('[', "%5B").replace(']', "%5D").replace(':', "%3A").replace('=', "%3D").replace(' ', "+")
}

proptest! {
    #[test]
    fn a_mask_is_no_secret_however_it_is_written(
        rule in "password|api-key|auth-token|private-key|url-password|connection-string|env",
        digits in "[0-9a-f]{8}",
        before in "login failed: password=|\"api_key\": \"|Authorization: Bearer |postgres://app:|PASSWORD: |x ",
        behind in "|\"|@db/x|, next: 1| and more",
    ) {
        let text = format!("{before}[redacted:{rule}:{digits}]{behind}");
        let forms = [text.clone(), markdown(&text), json(&text), json(&markdown(&text)), entities(&text), percent(&text)];
        let learned = Redactor::new(Options::default()).unwrap().fingerprints();
        for form in forms {
            let found = verify([("report".to_owned(), form.as_bytes())], &learned);
            prop_assert!(found.is_empty(), "{form}: {found:?}");
        }
    }
}

#[test]
fn what_only_looks_like_a_mask_hides_nothing() {
    let learned = Redactor::new(Options::default()).unwrap().fingerprints();
    for text in [
        "[redacted:password=Hunter2024x ]",
        "[redacted:password:Hunter2024x, ]",
        r"\[redacted:password:Hunter2024\]",
        "redacted:password:259daad8x1",
    ] {
        assert!(!verify([("log".to_owned(), text.as_bytes())], &learned).is_empty(), "{text}");
    }
}
