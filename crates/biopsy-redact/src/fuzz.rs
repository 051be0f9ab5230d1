//! What fuzzers call.

use std::sync::OnceLock;

use crate::{BundleKey, Options, Redactor};

/// Redacts `data` in every way there is.
///
/// # Panics
/// When redacting the result again changes it: the fuzzer is to find that.
pub fn fuzz_redact(data: &[u8]) {
    static REDACTOR: OnceLock<Option<Redactor>> = OnceLock::new();
    let redactor = REDACTOR.get_or_init(|| {
        // Without learning: one input must not decide about the next.
        let options = Options {
            key: Some(BundleKey::from_bytes([7; 32])),
            learn_from_text: false,
            ..Options::default()
        };
        Redactor::new(options).ok()
    });
    let Some(redactor) = redactor else { return };
    let once = redactor.bytes(data);
    let twice = redactor.bytes(&once.bytes);
    assert!(once.bytes == twice.bytes, "redacting twice changes the text");

    let mut out = Vec::new();
    let mut chunks = redactor.chunks();
    for chunk in data.chunks(7) {
        chunks.push(chunk, &mut out);
    }
    let _ = chunks.finish(&mut out);

    let text = String::from_utf8_lossy(data);
    let mut lines = redactor.lines();
    for line in text.lines() {
        let _ = lines.line(line);
    }
    let args: Vec<String> = text.split('\0').map(str::to_owned).collect();
    let _ = redactor.command_line(&args);
    if let Some((name, value)) = text.split_once('=') {
        let _ = redactor.env(name, value);
    }
    let _ = crate::verify::verify([("fuzz".to_owned(), data)], &redactor.fingerprints());
}
