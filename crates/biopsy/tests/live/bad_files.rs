//! Files that are not recordings, or not whole ones.

use crate::support::{biopsy, complaint};
use biopsy_testkit::temp_dir;

#[test]
fn a_file_that_is_missing_empty_or_something_else() {
    let folder = temp_dir("bad-files");
    let text = complaint(biopsy(["analyze"]).arg(folder.path().join("missing.zip")));
    assert!(text.contains("missing.zip"), "{text}");
    for (name, bytes) in [
        ("empty.zip", &b""[..]),
        ("text.zip", b"this is not a recording"),
        ("zip-start.zip", b"PK\x03\x04"),
        ("perf.data", b"PERFILE2"),
        ("elf", b"\x7fELF\x02\x01\x01"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let text = complaint(biopsy(["analyze"]).arg(&path));
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_folder_that_is_not_a_recording() {
    let folder = temp_dir("bad-folder");
    let text = complaint(biopsy(["analyze"]).arg(folder.path()));
    assert!(text.contains("biopsy.json"), "{text}");
}
