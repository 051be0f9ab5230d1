//! What is masked in which frame, and that the frame stays: tables of texts, each at once, in pieces, in UTF-16 and twice; and documents in
//! which every cell, element and attribute may hold what logs and settings hold, read by readers that share nothing with the redactor.

mod apart;
mod attached;
mod commands;
mod content;
mod csv;
mod environment;
mod learned;
mod memory;
mod values;
mod xml;

use biopsy_redact::{BundleKey, Options, Redactor};

thread_local! {
    static REDACTOR: Redactor = Redactor::new(Options {
        key: Some(BundleKey::from_bytes([7; 32])),
        learn_from_text: false,
        ..Options::default()
    })
    .expect("the built-in packs are right");
}

/// At once.
fn masked(text: &str) -> String {
    REDACTOR.with(|redactor| redactor.text(text).text.into_owned())
}

/// In pieces of so many bytes.
fn streamed(text: &[u8], size: usize) -> Vec<u8> {
    REDACTOR.with(|redactor| {
        let mut out = Vec::new();
        let mut chunks = redactor.chunks();
        text.chunks(size).for_each(|piece| chunks.push(piece, &mut out));
        let _ = chunks.finish(&mut out);
        out
    })
}

/// With `M` for each mask.
fn outline(masked: &str) -> String {
    let mut parts = masked.split("[redacted:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "M" + part.split_once(']').map_or("", |(_, rest)| rest))
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Holds texts against what is to become of them, with `M` for each mask, and says all at once what is wrong.
fn check(rows: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, wanted) in rows {
        let once = masked(text);
        let narrow = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        // With what says that it is UTF-16, where a short text does not.
        let marked = wide(&format!("\u{feff}{text}"));
        let in_utf16 = REDACTOR.with(|redactor| redactor.bytes(&marked).bytes.into_owned());
        let units: Vec<u16> =
            in_utf16.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let readings = [
            ("at once", once.clone()),
            ("again", masked(&once)),
            ("by byte", narrow(streamed(text.as_bytes(), 1))),
            ("by seven bytes", narrow(streamed(text.as_bytes(), 7))),
            ("in UTF-16", String::from_utf16_lossy(&units).trim_start_matches('\u{feff}').to_owned()),
        ];
        let bad = readings.iter().find(|(_, masked)| outline(masked) != *wanted);
        wrong.extend(
            bad.map(|(how, masked)| format!("{how}: {text:?} became {:?}, not {wanted:?}", outline(masked))),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Holds that texts stay.
fn check_clean(rows: &[&str]) {
    let rows: Vec<(&str, &str)> = rows.iter().map(|text| (*text, *text)).collect();
    check(&rows);
}
