//! A value that was told once, in every form that programs write it in, at every place of a text, whole and in pieces.

use biopsy_redact::verify::verify;
use biopsy_redact::{BundleKey, Options, Redactor};
use proptest::prelude::*;

thread_local! {
    static RULES: Redactor = Redactor::new(Options {
        key: Some(BundleKey::from_bytes([7; 32])),
        learn_from_text: false,
        ..Options::default()
    })
    .expect("the built-in packs are right");
}

/// With nothing learned but this value.
fn told(value: &str) -> Redactor {
    let rules = RULES.with(|rules| rules.for_bundle(BundleKey::from_bytes([8; 32])));
    assert!(rules.learn(value, "password"), "{value}");
    rules
}

fn base64(bytes: &[u8], signs: [char; 2]) -> String {
    let letter = |six: u32| match six {
        0..26 => char::from(b'A' + six as u8),
        26..52 => char::from(b'a' + (six - 26) as u8),
        52..62 => char::from(b'0' + (six - 52) as u8),
        six => signs[six as usize - 62],
    };
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        (0..=three.len()).for_each(|at| out.push(letter(bits >> (18 - 6 * at) & 63)));
    }
    out
}

/// How a program may write a value.
#[derive(Clone, Copy, Debug)]
enum Form {
    Clear,
    Percent,
    PercentAll,
    Json,
    JsonInJson,
    Units,
    Xml,
    Hex,
    HexCapitals,
    Base64(usize),
    Base64Url,
    Base64Wide,
}

const FORMS: [Form; 14] = [
    Form::Clear,
    Form::Percent,
    Form::PercentAll,
    Form::Json,
    Form::JsonInJson,
    Form::Units,
    Form::Xml,
    Form::Hex,
    Form::HexCapitals,
    Form::Base64(0),
    Form::Base64(1),
    Form::Base64(2),
    Form::Base64Url,
    Form::Base64Wide,
];

fn json(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

impl Form {
    fn write(self, value: &str) -> String {
        let percent = |keep: fn(&u8) -> bool| -> String {
            value
                .bytes()
                .map(|b| if keep(&b) { char::from(b).to_string() } else { format!("%{b:02X}") })
                .collect()
        };
        match self {
            Self::Clear => value.to_owned(),
            Self::Percent => percent(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(b)),
            Self::PercentAll => percent(|_| false),
            Self::Json => json(value),
            Self::JsonInJson => json(&json(value)),
            Self::Units => value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
            Self::Xml => {
                value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
            }
            Self::Hex => value.bytes().map(|byte| format!("{byte:02x}")).collect(),
            Self::HexCapitals => value.bytes().map(|byte| format!("{byte:02X}")).collect(),
            Self::Base64(offset) => {
                base64(&[&b"zz"[..offset], value.as_bytes(), b"zzz"].concat(), ['+', '/'])
            }
            Self::Base64Url => base64(value.as_bytes(), ['-', '_']),
            Self::Base64Wide => base64(&super::wide(value), ['+', '/']),
        }
    }
}

/// Values that are worth learning: of every alphabet, with the signs that forms escape.
fn value() -> impl Strategy<Value = String> {
    "[a-z]{2}[A-Z]{2}[0-9]{2}[!#$%&*+./:;<>?@^_~\"-]{1,3}[a-zA-Z0-9äп]{6,20}[0-9][A-Z]"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_form_of_what_was_told_survives(value in value(), before in "[a-z ]{0,20}", size in 1..40_usize) {
        let rules = told(&value);
        for form in FORMS {
            let written = form.write(&value);
            let text = format!("{before} sent {written} to db1\n");
            let fingerprints = rules.fingerprints();
            let found = |bytes: &[u8]| verify([("a.log".to_owned(), bytes)], &fingerprints).len();
            let masked = rules.text(&text).text.into_owned();
            let least = written.get(2..written.len() - 4).unwrap_or(&written);
            prop_assert!(!masked.contains(least), "{:?}: {} became {}", form, text, masked);
            prop_assert!(masked.starts_with(&format!("{before} sent ")) && masked.ends_with(" to db1\n"), "{}", masked);
            prop_assert!(found(text.as_bytes()) > 0, "{:?}: nothing is found in {}", form, text);
            prop_assert_eq!(found(masked.as_bytes()), 0, "{:?}: {}", form, masked);
            let mut streamed = Vec::new();
            let mut chunks = rules.chunks();
            text.as_bytes().chunks(size).for_each(|piece| chunks.push(piece, &mut streamed));
            let _ = chunks.finish(&mut streamed);
            prop_assert_eq!(streamed, masked.as_bytes());
        }
    }
}

#[test]
fn what_is_like_it_stays() {
    let rules = told("hL7-blau.kern/x9Q");
    // UTF-16 in base64 looks like a credential, whatever it is.
    for form in FORMS.into_iter().filter(|form| !matches!(form, Form::Base64Wide)) {
        for other in ["hL7-blau.kern/x8Q", "hL8-blau.kern/x9Q", "HL7-BLAU.KERN/X9Q", "hL7-blau", "kern/x9Q"] {
            let text = format!("sent {} to db1\n", form.write(other));
            assert_eq!(rules.text(&text).text, text, "{form:?}");
        }
    }
}
