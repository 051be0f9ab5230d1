//! Whatever the surroundings, the chunks and the encoding: planted secrets never survive, masks are stable, nothing
//! panics, and what the redactor lets through the verification pass does too.

use std::io;

use biopsy_redact::{BundleKey, Options, Redactor, fuzz_redact, verify};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn redactor(learn_from_text: bool) -> Redactor {
    let options =
        Options { key: Some(BundleKey::from_bytes([5; 32])), learn_from_text, ..Options::default() };
    Redactor::new(options).expect("the built-in packs are right")
}

/// The same cases each time, so that a red run says something about the change at hand; with `PROPTEST_CASES` set, as many
/// new ones, which is how faults are found.
fn cases(usual: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(usual),
        rng_seed: if wanted.is_some() { RngSeed::Random } else { RngSeed::Fixed(20_261_121) },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

thread_local! {
    /// Compiled once per test thread; nothing is learned, so cases do not depend on each other.
    static SHARED: Redactor = redactor(false);
}

/// One that learns, without compiling the rules again.
fn learning() -> Redactor {
    thread_local! {
        static RULES: Redactor = redactor(true);
    }
    RULES.with(|rules| rules.for_bundle(BundleKey::from_bytes([6; 32])))
}

fn contains(text: &[u8], secret: &[u8]) -> bool {
    text.windows(secret.len()).any(|window| window == secret)
}

fn utf16(text: &str, little: bool) -> Vec<u8> {
    text.encode_utf16()
        .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
        .collect()
}

/// Ways to write a secret down.
const TEMPLATES: [&str; 24] = [
    "Server=db;User Id=app;Password=@;Encrypt=true",
    "\"password\": \"@\"",
    "{\\\"password\\\":\\\"@\\\"}",
    "password=@ ",
    "db_password: @\n",
    "--password @ ",
    "--password=@ ",
    "<password>@</password>",
    "<add key=\"DbPassword\" value=\"@\" />",
    "{\"name\":\"DB_PASSWORD\",\"value\":\"@\"}",
    "postgres://app:@@db:5432/shop",
    "Authorization: Basic @",
    "Authorization: Bearer @\r\n",
    "Cookie: sid=@; theme=dark\n",
    "Set-Cookie: sid=@; path=/\n",
    "?user=bob&password=@&x=1",
    "api_key=@ ",
    "X-Api-Key: @\n",
    "AccountKey=@;EndpointSuffix=x",
    "client_secret=@&",
    "IDENTIFIED BY '@'",
    "mysql -u root -p@ shop",
    "sshpass -p @ ssh x",
    "ConvertTo-SecureString '@' -AsPlainText",
];

/// Letters, digits and harmless symbols, at least one digit and one letter: no word and no placeholder.
fn secret() -> impl Strategy<Value = String> {
    "[a-z][A-Za-z0-9_+=]{6,40}[0-9]{2}[a-z]"
}

fn planted() -> impl Strategy<Value = (String, String)> {
    (secret(), prop::sample::select(TEMPLATES.as_slice())).prop_map(|(secret, template)| {
        let text = if template.starts_with("postgres") {
            template.replacen('@', &secret, 1)
        } else {
            template.replace('@', &secret)
        };
        (secret, text)
    })
}

/// Text as it may stand around.
fn surroundings() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n]{0,80}",
        "\\PC{0,40}",
        prop::collection::vec(prop::sample::select(SOUP.as_slice()), 0..12).prop_map(|parts| parts.concat()),
    ]
}

/// Pieces that mean something to the rules.
const SOUP: [&str; 64] = [
    "password",
    "Password",
    "pwd",
    "token",
    "secret",
    "api_key",
    "key",
    "=",
    ":",
    ": ",
    " = ",
    "\"",
    "'",
    "\\\"",
    ";",
    "&",
    "?",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    "</",
    "@",
    "://",
    "--",
    "-p",
    "-",
    ".",
    ",",
    "\n",
    "\r\n",
    " ",
    "\t",
    "\0",
    "%3D",
    "%22",
    "&quot;",
    "\\n",
    "\\u0022",
    "Bearer ",
    "Basic ",
    "Authorization",
    "Cookie",
    "Set-Cookie",
    "[redacted:",
    "[redacted:jwt:0123abcd]",
    "[redacted:password:89abcdef]",
    "0123abcd]",
    "hunter2",
    "Ab12Cd34Ef56",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w",
    "-----BEGIN PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0",
    "-----END PRIVATE KEY-----",
    "mysql",
    "name",
    "value",
    "|\n",
    "é",
    "\u{1b}[0m",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(SOUP.as_slice()), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_planted_secret_never_survives(before in surroundings(), (secret, text) in planted(), after in surroundings()) {
        let whole = format!("{before}\n{text}\n{after}");
        SHARED.with(|redactor| {
            let redacted = redactor.text(&whole);
            prop_assert!(!redacted.text.contains(&secret), "{whole:?} -> {:?}", redacted.text);
            prop_assert!(!redacted.hits.is_empty());
            Ok(())
        })?;
    }

    #[test]
    fn nor_on_the_same_line(before in "[ -~]{0,60}", (secret, text) in planted(), after in "[ -~]{0,60}") {
        // A key of its own in front could make the planted pair a part of its value, which is masked all the same.
        let whole = format!("{before} {text} {after}");
        SHARED.with(|redactor| {
            let redacted = redactor.text(&whole);
            prop_assert!(!redacted.text.contains(&secret), "{whole:?} -> {:?}", redacted.text);
            Ok(())
        })?;
    }

    #[test]
    fn nor_in_utf16(before in "[ -~\u{e0}-\u{17f}\n]{0,40}", (secret, text) in planted(), little: bool, mark: bool) {
        let whole = format!("{}{before}\n{text}\n", if mark { "\u{feff}" } else { "" });
        let bytes = utf16(&whole, little);
        SHARED.with(|redactor| {
            let redacted = redactor.bytes(&bytes);
            prop_assert!(!contains(&redacted.bytes, &utf16(&secret, little)), "{whole:?}");
            Ok(())
        })?;
    }

    #[test]
    fn nor_in_a_stretch_of_utf16(before in "[ -~\n]{0,40}", (secret, text) in planted(), little: bool) {
        let mut bytes = format!("{before}\n").into_bytes();
        bytes.extend_from_slice(&utf16(&format!("{text}\n"), little));
        bytes.extend_from_slice(b"\nplain text goes on for a while, longer than the rest of it all so that it is no UTF-16\n");
        SHARED.with(|redactor| {
            let redacted = redactor.bytes(&bytes);
            prop_assert!(!contains(&redacted.bytes, &utf16(&secret, little)), "{text:?}");
            Ok(())
        })?;
    }

    #[test]
    fn nor_in_latin_1(before in prop::collection::vec(0x80u8..=0xff, 0..20), (secret, text) in planted()) {
        let mut bytes = before;
        bytes.push(b' ');
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(b"\n\xe4\xf6\xfc");
        SHARED.with(|redactor| {
            let redacted = redactor.bytes(&bytes);
            prop_assert!(!contains(&redacted.bytes, secret.as_bytes()), "{text:?}");
            Ok(())
        })?;
    }

    #[test]
    fn redacting_twice_changes_nothing(text in prop_oneof![soup(), surroundings(), "\\PC{0,200}"]) {
        SHARED.with(|redactor| {
            let once = redactor.text(&text).text.into_owned();
            let twice = redactor.text(&once);
            prop_assert_eq!(&once, &twice.text, "{:?}", text);
            prop_assert!(twice.hits.is_empty());
            Ok(())
        })?;
    }

    #[test]
    fn redacting_twice_changes_nothing_when_values_are_learned(text in soup()) {
        let redactor = learning();
        let once = redactor.text(&text).text.into_owned();
        let twice = redactor.text(&once);
        prop_assert_eq!(&once, &twice.text, "{:?}", text);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        soup().prop_map(String::into_bytes),
        (soup(), any::<bool>()).prop_map(|(text, little)| utf16(&text, little)),
    ]) {
        fuzz_redact(&bytes);
    }

    #[test]
    fn what_is_redacted_passes_the_verification(parts in prop::collection::vec(prop_oneof![
        soup(), surroundings(), planted().prop_map(|(_, text)| format!("\n{text}\n")),
    ], 0..6)) {
        let text = parts.concat();
        let redactor = learning();
        let redacted = redactor.text(&text).text.into_owned();
        let findings = verify::verify([("member".to_owned(), redacted.as_bytes())], &redactor.fingerprints());
        prop_assert!(findings.is_empty(), "{findings:?}\n{text:?}\n{redacted:?}");
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn window_edges_hide_nothing(
        (secret, text) in planted(),
        offset in -400i64..400,
        edge in 1i64..3,
        one_line: bool,
        chunk in prop_oneof![1usize..100, 1000usize..70_000, Just(1 << 20)],
    ) {
        // Around the first and second place where a block of 512 KiB with 48 KiB of look-ahead is decided.
        let length = usize::try_from((512 << 10) * edge + offset).expect("positive");
        let filler = if one_line { "filler and more of it, " } else { "filler and more of it.\n" };
        let mut whole = filler.repeat(length / filler.len()).into_bytes();
        whole.resize(length, b'x');
        whole.push(b' ');
        whole.extend_from_slice(text.as_bytes());
        whole.extend_from_slice(&filler.repeat(8000).into_bytes());
        SHARED.with(|redactor| {
            let mut out = Vec::new();
            let mut chunks = redactor.chunks();
            // Small chunks over half a megabyte take their time: only around the edge.
            let (head, tail) = whole.split_at(length.saturating_sub(600));
            chunks.push(head, &mut out);
            let (middle, rest) = tail.split_at(tail.len().min(2000));
            for piece in middle.chunks(chunk).chain(rest.chunks(1 << 16)) {
                chunks.push(piece, &mut out);
            }
            let summary = chunks.finish(&mut out);
            prop_assert!(!contains(&out, secret.as_bytes()), "{text:?} at {length}");
            prop_assert_eq!(summary.bytes_in, whole.len() as u64);
            prop_assert_eq!(summary.bytes_out, out.len() as u64);
            // And nothing else is lost.
            prop_assert!(out.ends_with(filler.as_bytes()));
            prop_assert!(out.starts_with(&whole[..length - 64]), "{:?}", text);
            Ok(())
        })?;
    }

    #[test]
    fn streams_keep_what_is_no_secret(length in 0usize..900_000, little: Option<bool>, chunk in 1usize..200_000) {
        let text = "nothing to see hére, 12:00:00 [info] ok\n".repeat(length / 40);
        let bytes = little.map_or_else(|| text.clone().into_bytes(), |little| utf16(&text, little));
        SHARED.with(|redactor| {
            let mut out = Vec::new();
            let mut chunks = redactor.chunks();
            for piece in bytes.chunks(chunk) {
                chunks.push(piece, &mut out);
            }
            let _ = chunks.finish(&mut out);
            prop_assert!(out == bytes);
            Ok(())
        })?;
    }
}

/// A line that never ends, made on the fly.
struct LongLine {
    left: usize,
    pattern: Vec<u8>,
    at: usize,
}

impl io::Read for LongLine {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.left);
        for byte in &mut buffer[..length] {
            *byte = self.pattern[self.at % self.pattern.len()];
            self.at += 1;
        }
        self.left -= length;
        Ok(length)
    }
}

#[test]
fn a_line_without_end_needs_little_memory() {
    let redactor = redactor(false);
    let mut line = LongLine {
        left: 6 << 20,
        pattern: br#"{"user":"bob","password":"hunter2x9","text":"something that is a bit longer"},"#
            .to_vec(),
        at: 0,
    };
    let mut chunks = redactor.chunks();
    let (mut read_in, mut wrote, mut survivors) = (0usize, 0usize, 0usize);
    let mut out = Vec::new();
    let mut chunk = vec![0u8; 50_000];
    loop {
        let read = io::Read::read(&mut line, &mut chunk).expect("it reads");
        if read == 0 {
            break;
        }
        chunks.push(&chunk[..read], &mut out);
        read_in += read;
        wrote += out.len();
        survivors += usize::from(contains(&out, b"hunter2x9"));
        out.clear();
        // Masks are longer than these values, so what was written is at least what was decided.
        assert!(read_in < wrote + (1 << 20), "{read_in} read, {wrote} written");
    }
    let _ = chunks.finish(&mut out);
    assert_eq!(survivors + usize::from(contains(&out, b"hunter2x9")), 0);
}

#[test]
fn a_value_longer_than_every_window_is_one_mask() {
    let redactor = redactor(false);
    for (head, tail) in [
        ("{\"password\":\"", "\",\"next\":1}"),
        ("Authorization: Bearer ", " next"),
        ("token=", "&next=1 "),
        ("<password>", "</password> next"),
    ] {
        let mut text = head.as_bytes().to_vec();
        for at in 0..200_000u32 {
            text.extend_from_slice(format!("{:05x}Zq", at.wrapping_mul(2_654_435_761) >> 12).as_bytes());
        }
        text.extend_from_slice(tail.as_bytes());
        let mut out = Vec::new();
        let summary = redactor.stream(&text[..], &mut out).expect("memory can be written");
        let out = String::from_utf8(out).expect("it is ASCII");
        assert!(out.len() < 200, "{head}: {} bytes remain", out.len());
        assert!(out.starts_with(head) && out.contains("next"), "{head}: {out}");
        assert_eq!(summary.hits.iter().map(|hit| hit.count).sum::<u64>(), 1, "{head}: {out}");
    }
}
