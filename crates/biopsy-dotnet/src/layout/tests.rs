//! Descriptors as 9, 10 and 11 write them, layout files, and a version that nobody has met.

use biopsy_model::Avma;

use super::{Global, Layout, LayoutError, LayoutFiles, json};

const RID: &str = "linux-x64";

fn parsed(text: &str, addresses: &[u64]) -> json::Parsed {
    let addresses: Vec<_> = addresses.iter().copied().map(Avma).collect();
    json::parse("test", text.as_bytes(), &addresses).expect("it parses")
}

#[test]
fn a_descriptor_names_types_globals_and_contracts() {
    let layout = parsed(
        r#"{"version":0,"baseline":"empty",
            "contracts":{"Thread":1,"Loader":2},
            "types":{"Thread":{"Id":16,"LinkNext":[112,"pointer"]},"GCHandle":{"!":8}},
            "globals":{"ThreadStore":[[1],"pointer"],"Bits":["0xc","uint8"],"Plain":"0x10","Architecture":["x64","string"]}}"#,
        &[0x7000, 0x8000],
    )
    .layout;
    assert_eq!(layout.field("Thread", "Id"), Ok(16));
    assert_eq!(layout.field("Thread", "LinkNext"), Ok(112));
    assert_eq!(layout.size("GCHandle"), Ok(8));
    assert_eq!(layout.global_value("ThreadStore"), Some(&Global::Address(0x8000)));
    assert_eq!(layout.global("Bits"), Ok(12));
    assert_eq!(layout.global("Plain"), Ok(16));
    assert_eq!(layout.global_value("Architecture"), Some(&Global::Text("x64".into())));
    assert_eq!(layout.contract("Loader"), Some(2));
    let missing = layout.field("Thread", "Color").unwrap_err();
    assert_eq!(missing.to_string(), "the layout of this runtime does not describe `Thread.Color`");
}

/// 11 writes versions as texts, and parts of the runtime have descriptors of their own.
#[test]
fn a_descriptor_of_the_next_version_is_understood() {
    let text = r#"{"version":0,"contracts":{"Thread":"c1","ExecutionManager":"c2"},
        "types":{"Thread":{"Id":[16,"uint32"],"ExposedObject":[304,"ObjectHandle"]}},
        "globals":{"GCInfoVersion":["0x4","uint32"]},
        "subDescriptors":{"GC":[[0],"pointer"]}}"#;
    let parsed = parsed(text, &[0x9000]);
    assert_eq!(parsed.layout.contract("ExecutionManager"), Some(2));
    assert_eq!(parsed.layout.field("Thread", "ExposedObject"), Ok(304));
    assert_eq!(parsed.parts, [("GC".to_string(), 0x9000)]);
}

#[test]
fn indices_outside_of_the_table_are_left_out() {
    let layout = parsed(r#"{"globals":{"A":[[7],"pointer"],"B":[[-1],"pointer"]}}"#, &[1]).layout;
    assert_eq!(layout.find_global("A"), None);
    assert_eq!(layout.find_global("B"), None);
}

#[test]
fn all_files_that_are_built_in_are_read() {
    let files = LayoutFiles::built_in();
    for (major, sizes) in [(8, &[1240, 1256][..]), (9, &[1032]), (10, &[1032])] {
        let file = files.find(major, 0, RID).expect("a file for this version");
        for &size in sizes {
            let layout = files.layout(file, &[Avma(0x1000); 157], size).expect("it is a layout");
            assert!(layout.field("GcDacVars", "GenerationSize").is_ok(), "{major}");
            assert!(layout.field("RangeSection", "HeapList").is_ok(), "{major}");
        }
    }
}

#[test]
fn variants_of_a_version_are_told_apart_by_the_size_of_the_table() {
    let files = LayoutFiles::built_in();
    let file = files.find(8, 0, RID).expect("a file for 8.0");
    let table: Vec<_> = (0..157).map(|slot| Avma(0x10_0000 + slot)).collect();
    let slot = |size| files.layout(file, &table, size).expect("a layout").global("SyncTableEntries");
    assert_eq!(slot(1240), Ok(0x10_0000 + 79));
    assert_eq!(slot(1256), Ok(0x10_0000 + 80));
    let unknown = files.layout(file, &table, 1300).unwrap_err();
    let expected = "the table of the runtime has 1300 bytes, layout `coreclr-8.0` knows 1240, 1256";
    assert_eq!(unknown.to_string(), expected);
}

/// A runtime that nobody has met is a new file and no code.
#[test]
fn a_new_runtime_is_a_new_file() {
    let files = (*LayoutFiles::built_in()).clone();
    assert!(files.find(12, 0, RID).is_none());
    let json = r#"{"version":0,"baseline":"coreclr-common",
        "match":{"major":12,"minor":0,"rid":"linux-x64","addresses":"g_dacTable"},
        "types":{"Thread":{"Id":24},"RealCodeHeader":{"MethodDesc":32}},
        "globals":{"ThreadStore":[[2],"pointer"]},
        "variants":[{"dacTableBytes":24,"globals":{"SyncTableEntries":[[1],"pointer"]},"types":{"Thread":{"Id":28}}}]}"#;
    let files = files.with("coreclr-12.0", json).expect("a layout file");
    let file = files.find(12, 0, RID).expect("the new one");
    let layout = files.layout(file, &[0x10, 0x20, 0x30].map(Avma), 24).expect("a layout");
    assert_eq!(layout.global("ThreadStore"), Ok(0x30));
    assert_eq!(layout.global("SyncTableEntries"), Ok(0x20));
    // Its own word counts, the variant's most; what it does not say comes from what it builds upon.
    assert_eq!(layout.field("Thread", "Id"), Ok(28));
    assert_eq!(layout.field("RealCodeHeader", "MethodDesc"), Ok(32));
    assert_eq!(layout.field("RealCodeHeader", "GCInfo"), Ok(16));
    assert_eq!(layout.sources(), ["coreclr-12.0", "coreclr-common"]);
    assert!(files.known().contains("12.0 (linux-x64)"));
}

#[test]
fn what_a_descriptor_says_is_not_changed_by_files() {
    let mut layout = parsed(r#"{"types":{"Thread":{"Id":16}}}"#, &[]).layout;
    let other = parsed(r#"{"types":{"Thread":{"Id":99,"State":4}}}"#, &[]).layout;
    layout.fill_from(&other);
    assert_eq!((layout.field("Thread", "Id"), layout.field("Thread", "State")), (Ok(16), Ok(4)));
}

#[test]
fn files_that_build_upon_each_other_in_a_circle_are_refused() {
    let files = LayoutFiles::default()
        .with("a", r#"{"baseline":"b","match":{"major":1,"minor":0,"rid":"x","addresses":"g_dacTable"}}"#)
        .and_then(|files| files.with("b", r#"{"baseline":"a"}"#))
        .expect("two files");
    let file = files.find(1, 0, "x").expect("a file");
    assert!(matches!(files.layout(file, &[], 0), Err(LayoutError::TooMuch { what: "baselines", .. })));
}

#[test]
fn what_is_no_layout_is_said_to_be_none() {
    for text in ["", "[]", "{", r#"{"types":[]}"#, r#"{"types":{"Thread":7}}"#] {
        assert!(
            matches!(json::parse("x", text.as_bytes(), &[]), Err(LayoutError::Malformed { .. })),
            "{text}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(json::parse("x", deep.as_bytes(), &[]).is_err());
    let layout = Layout::default();
    assert!(matches!(layout.global("X"), Err(LayoutError::NoGlobal { .. })));
}

proptest::proptest! {
    #[test]
    fn damage_is_never_a_panic(changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0u8..128), 1..6)) {
        let mut bytes = include_bytes!("../../layouts/coreclr-8.0.json").to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        super::fuzz::fuzz_layout(&bytes);
    }
}
