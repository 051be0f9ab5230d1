//! What fuzzers call.

use std::sync::OnceLock;

use super::{Literals, MemoryScanner, OVERLAP};

/// Masks `data` in every way there is.
///
/// # Panics
/// When a cut changes what is masked, or a byte becomes something else than the mask: the fuzzer is to find that.
pub fn fuzz_memory(data: &[u8]) {
    static SCANNER: OnceLock<Option<MemoryScanner>> = OnceLock::new();
    let scanner = SCANNER.get_or_init(|| {
        let mut literals = Literals::new();
        for value in ["n0t-s0-s3cret", "pässwörd-1"] {
            literals.add(value.as_bytes()).ok()?;
        }
        MemoryScanner::new(&literals).ok()
    });
    let Some(scanner) = scanner else { return };
    let once = masked(scanner, data);
    assert!(once.len() == data.len());
    for (before, after) in data.iter().zip(&once) {
        // In UTF-16 the high half of a character that is masked becomes zero.
        assert!(before == after || *after == b'*' || *after == 0, "a byte became another");
    }

    // Cuts at places that the data chooses.
    let mut start = 0;
    let mut pieces = Vec::with_capacity(data.len());
    while start < data.len() {
        let length = 1 + usize::from(data[start]) * (1 + start % 7);
        let end = data.len().min(start + length);
        pieces.extend_from_slice(&piece(scanner, data, start, end));
        start = end;
    }
    assert!(pieces == once, "a cut changes what is masked");
}

/// All of `data`, masked.
pub(super) fn masked(scanner: &MemoryScanner, data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let whole = 0..bytes.len();
    scanner.mask(&mut bytes, whole, |_, _| {});
    bytes
}

/// `data[start..end]`, masked with what is around it.
pub(super) fn piece(scanner: &MemoryScanner, data: &[u8], start: usize, end: usize) -> Vec<u8> {
    let from = start.saturating_sub(OVERLAP);
    let to = data.len().min(end + OVERLAP);
    let mut bytes = data[from..to].to_vec();
    scanner.mask(&mut bytes, start - from..end - from, |_, _| {});
    bytes[start - from..end - from].to_vec()
}
