//! Windows PDBs of Microsoft's converter, held against the portable ones of the same sources; and damaged ones.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::{Pdb, PdbError, PdbPlace, PortablePdb, debug_info, find_pdb};
use super::{WindowsId, WindowsPdb};

/// `PdbTestResources` of dotnet/symreader-converter.
fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/others");
    std::fs::read(folder.join(name)).expect("the fixture is there")
}

#[test]
fn all_places_have_the_lines_of_the_portable_form() {
    for (name, methods, lines, files) in [("Async", 10, 9, 1), ("MethodBoundaries", 20, 41, 3)] {
        let windows = WindowsPdb::parse(&fixture(&format!("{name}.pdb"))).unwrap();
        let portable = PortablePdb::parse(Arc::from(fixture(&format!("{name}.pdbx")))).unwrap();
        let (mut seen, mut of_files) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        for token in (0x0600_0000..=0x0600_0000 + methods).chain([0, 0x0200_0001, u32::MAX]) {
            for il in (0..600).map(Some).chain([None, Some(u32::MAX)]) {
                let found = windows.line(token, il);
                assert_eq!(found, portable.line(token, il), "{name} {token:#x} {il:?}");
                of_files.extend(found.iter().map(|line| line.file.clone()));
                seen.extend(found.map(|line| (line.file, line.line)));
            }
        }
        assert_eq!((seen.len(), of_files.len()), (lines, files), "{name}: {seen:?}");
    }
}

#[test]
fn it_is_found_beside_its_assembly_and_is_of_its_build() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let find = |assembly: &str, path: &Path| find_pdb(&fixture(assembly), path, Path::new("/"));
    std::fs::write(at("Async.pdb"), fixture("Async.pdb")).unwrap();
    let (pdb, place) = find("Async.dll", &at("Async.dll")).unwrap().expect("it is beside it");
    assert!(matches!(pdb, Pdb::Windows(_)) && place == PdbPlace::File(at("Async.pdb")));
    let line = pdb.line(0x0600_0005, Some(40)).expect("it has a line");
    assert_eq!((line.file.as_str(), line.line), (r"C:\Async.cs", 9));
    // Under another name of the assembly, by the name that the compiler gave it.
    assert!(find("Async.dll", &at("Renamed.dll")).unwrap().is_some());
    for other in ["MethodBoundaries.pdb", "Async.pdbx"] {
        std::fs::write(at("Async.pdb"), fixture(other)).unwrap();
        let refused = find("Async.dll", &at("Async.dll"));
        assert!(matches!(refused, Err(PdbError::AnotherBuild { .. })), "{other}: {refused:?}");
    }
    let id = debug_info(&fixture("Async.dll")).unwrap().windows.expect("it names one");
    let pdb = WindowsPdb::parse(&fixture("Async.pdb")).unwrap();
    assert!(pdb.is_of(id) && !pdb.is_of(WindowsId { age: id.age + 1, ..id }));
    assert_eq!(debug_info(&fixture("Async.dll")).unwrap().id, None);
}

#[test]
fn what_is_none_or_cut_is_refused_or_has_fewer_lines() {
    for bytes in
        [&b""[..], b"BSJB", b"Microsoft C/C++ MSF 7.00\r\n", b"Microsoft C/C++ program database 2.00\r\n"]
    {
        assert!(WindowsPdb::parse(bytes).is_err());
    }
    let whole = fixture("Async.pdb");
    let lines = |bytes: &[u8]| WindowsPdb::parse(bytes).map_or(0, |pdb| pdb.methods().count());
    assert_eq!(lines(&whole), 2);
    for cut in (0..whole.len()).step_by(97) {
        assert!(lines(&whole[..cut]) <= 2);
    }
}

/// A file of these streams, whose directory may lie about their sizes.
fn container(sizes: &[u32], blocks: &[u32]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().copied().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let directory = [words(&[sizes.len() as u32]), words(sizes), words(blocks)].concat();
    let mut file = super::MAGIC.to_vec();
    file.extend(words(&[512, 1, 4, directory.len() as u32, 0, 2]));
    file.resize(1024, 0);
    file.extend(words(&[3]));
    file.resize(1536, 0);
    file.extend(directory);
    file.resize(2048, 7);
    file
}

#[test]
fn streams_that_share_their_blocks_are_not_put_together_again_and_again() {
    // Each of twenty streams claims all of the file.
    let sizes = vec![2048; 20];
    let blocks: Vec<u32> = std::iter::repeat_n(0..4, 20).flatten().collect();
    let file = container(&sizes, &blocks[..60]);
    assert!(WindowsPdb::parse(&file).is_err(), "the directory is cut");
    let file = container(&[u32::MAX - 1], &[0; 4]);
    assert!(WindowsPdb::parse(&file).is_err(), "more than there is");
    let file = container(&[0, 1900, 0, 1900], &[0, 1, 2, 3, 0, 1, 2, 3]);
    let error = WindowsPdb::parse(&file).unwrap_err();
    assert!(matches!(error, PdbError::Damaged(_)), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Bytes changed anywhere, and no more memory than the file has bytes.
    #[test]
    fn damage_gives_other_lines_or_none(
        of_two: bool, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut: prop::sample::Index,
    ) {
        let mut bytes = fixture(if of_two { "Async.pdb" } else { "MethodBoundaries.pdb" });
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
        if let Ok(pdb) = WindowsPdb::parse(&bytes) {
            prop_assert!(pdb.points.len() * 8 <= bytes.len() && pdb.names.len() <= bytes.len());
            for token in pdb.methods().collect::<Vec<_>>() {
                let _ = pdb.line(token, Some(5));
            }
        }
    }

    #[test]
    fn any_words_as_a_directory_end(sizes in prop::collection::vec(prop_oneof![0u32..3000, any::<u32>()], 0..20), blocks in prop::collection::vec(prop_oneof![0u32..5, any::<u32>()], 0..80)) {
        let _ = WindowsPdb::parse(&container(&sizes, &blocks));
    }
}
