//! Whatever a path leads to is told apart by what is in it, whatever it is called.

use std::path::{Path, PathBuf};

use biopsy_import::{Evidence, EvidenceError, ImportError};
use biopsy_model::timeline::TraceMethod;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// The same bytes under a name that says nothing.
fn nameless(folder: &Path, name: &str) -> PathBuf {
    let bytes = std::fs::read(fixture(name)).unwrap();
    let bytes = if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes };
    let path = folder.join("file");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn each_kind_is_told_by_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    // Name, dumps, is a heap, is a capture.
    for (name, dumps, heap, capture) in [
        ("recordings/hot-function-1.0.zip", 0, false, true),
        ("others/linux-mini.dmp", 1, false, false),
        ("others/windows-x86.dmp", 1, false, false),
        ("others/wpf-32-bit.gcdump.zst", 0, true, false),
        ("../fuzz/seeds/hprof/list", 0, true, false),
        ("../fuzz/seeds/heapsnapshot/pages", 0, true, false),
        ("others/sleep.data", 0, false, true),
        ("others/dotnet-6.0-checkpoints.nettrace", 0, false, true),
        ("pprof/cpu.pb.gz", 0, false, true),
    ] {
        let path = nameless(folder.path(), name);
        let mut evidence = Evidence::look(&path).unwrap();
        assert_eq!(evidence.dumps(), dumps, "{name}");
        if dumps > 0 {
            let dump = evidence.dump(0).unwrap();
            assert_eq!(dump.file_bytes, Some(path.metadata().unwrap().len()), "{name}");
            assert!(!dump.opened.image.threads().is_empty(), "{name}");
            continue;
        }
        assert!(evidence.dump(0).is_err(), "{name}");
        assert_eq!(evidence.heap(1).unwrap().is_some(), heap, "{name}");
        assert_eq!(evidence.any_heap(&Default::default()).is_ok(), heap, "{name}");
        assert_eq!(evidence.capture(&Default::default()).is_ok(), capture, "{name}");
        assert!(evidence.warnings().is_empty(), "{name}: nothing is around it");
    }
}

#[test]
fn recordings_of_others_are_imported() {
    let perf = Evidence::look(fixture("others/sleep.data")).unwrap().capture(&Default::default()).unwrap();
    assert_eq!(perf.timeline.unwrap().settings.method, TraceMethod::Imported);
}

/// As `dump` makes it: the members lie in a folder of the recording, and other files are none.
#[test]
fn dumps_of_a_folder_come_in_the_order_in_which_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    std::fs::create_dir(&dumps).unwrap();
    let bytes = std::fs::read(fixture("others/linux-mini.dmp")).unwrap();
    for name in ["20.dmp", "3.dmp"] {
        std::fs::write(dumps.join(name), &bytes).unwrap();
    }
    std::fs::write(dumps.join("20.json"), "{}").unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", dumps.join("4.dmp")).unwrap();
    let mut evidence = Evidence::look(folder.path()).unwrap();
    assert_eq!(evidence.dumps(), 2, "a link is no dump of the recording");
    assert!(evidence.dump(1).is_ok());
    assert!(matches!(evidence.dump(2), Err(EvidenceError::Io { .. })));
    assert!(!evidence.warnings().is_empty(), "it says what it lacks");
}

#[test]
fn what_is_nothing_known_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for (bytes, what) in [(&b""[..], "an empty file"), (b"PERF", "a cut magic"), (b"hello", "a text")] {
        std::fs::write(&path, bytes).unwrap();
        let error = Evidence::look(&path).unwrap().capture(&Default::default()).unwrap_err();
        assert!(matches!(error, EvidenceError::Recording(_)), "{what}: {error:?}");
        assert!(error.to_string().contains("notes.txt"), "{what}: {error}");
    }
    // Known by its first bytes, and nothing behind them.
    std::fs::write(&path, b"PERFILE2").unwrap();
    let error = Evidence::look(&path).unwrap().capture(&Default::default()).unwrap_err();
    assert!(matches!(error, EvidenceError::Import(ImportError::Damaged(_))), "{error:?}");
    std::fs::write(&path, b"\x7fELF").unwrap();
    assert!(matches!(Evidence::look(&path).unwrap().dump(0), Err(EvidenceError::Dump(_))));
    std::fs::write(&path, b"PK\x03\x04").unwrap();
    assert!(matches!(Evidence::look(&path), Err(EvidenceError::Recording(_))));
    let none = folder.path().join("none");
    assert!(Evidence::look(&none).unwrap().capture(&Default::default()).is_err(), "nothing is there");
}
