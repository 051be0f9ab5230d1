//! Entry points for fuzzing: arbitrary bytes as a descriptor and as a layout file. Any panic and any unbounded memory is a bug.

use biopsy_model::Avma;

use super::{LayoutFiles, json};

/// Reads the bytes as a descriptor, and as a layout file that is used.
pub fn fuzz_layout(bytes: &[u8]) {
    let addresses = [0x1000, 0x2000, u64::MAX].map(Avma);
    if let Ok(parsed) = json::parse("fuzz", bytes, &addresses) {
        let mut whole = parsed.layout.clone();
        whole.fill_from(&parsed.layout);
        let _ = (whole.global("ThreadStore"), whole.field("Thread", "Id"), whole.contract("Thread"));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(files) = LayoutFiles::default().with("fuzz", text) else { return };
    for file in files.files() {
        let _ = files.layout(file, &addresses, 24);
    }
    let _ = files.known();
}
