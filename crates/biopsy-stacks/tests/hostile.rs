//! Damaged and malicious files: every reader answers, none panics or takes memory for what is not there.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![cfg(target_arch = "x86_64")]

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use biopsy_files::Links;
use biopsy_model::Svma;
use biopsy_model::symbol::SymbolSource;
use biopsy_stacks::elf::{ElfCache, ElfError, ElfFile, Limits};
use biopsy_stacks::fuzz::{fuzz_demangle, fuzz_elf, fuzz_kallsyms, fuzz_perf_map};
use biopsy_stacks::symbols::{ModuleSource, Options, Symbolizer};
use proptest::prelude::*;

/// A library of about 10 KB, with symbols, PLT, unwind and debug information.
fn sample() -> &'static [u8] {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let flags =
            ["-O2", "-g", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--build-id=sha1"];
        let library = support::compile(folder.path(), "tiny.c", "tiny.so", &flags);
        let bytes = std::fs::read(library).unwrap();
        assert!(bytes.len() < 64 << 10);
        bytes
    })
}

/// The same with packed debug sections.
fn packed() -> &'static [u8] {
    static PACKED: OnceLock<Vec<u8>> = OnceLock::new();
    PACKED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("plain"), folder.path().join("packed"));
        std::fs::write(&plain, sample()).unwrap();
        support::run(Command::new("objcopy").arg("--compress-debug-sections=zlib").arg(&plain).arg(&packed));
        std::fs::read(packed).unwrap()
    })
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let original = prop_oneof![Just(sample()), Just(packed())];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24);
    let words = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            prop_oneof![Just(u64::MAX), Just(0), Just(1 << 31), Just(i64::MAX as u64), any::<u64>()],
        ),
        0..4,
    );
    let keep = prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    (original, edits, words, keep).prop_map(|(original, edits, words, keep)| {
        let mut bytes = original.to_vec();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for (at, word) in words {
            let at = at.index(bytes.len() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(keep) = keep {
            bytes.truncate(keep.index(bytes.len()));
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_elf_file_never_panics(bytes in damaged()) {
        fuzz_elf(&bytes);
    }

    #[test]
    fn any_text_is_a_perf_map(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_perf_map(&bytes);
        fuzz_kallsyms(&bytes);
    }

    #[test]
    fn any_name_is_demangled(name in "(_Z|_R|_ZN)?[NIESC_0-9a-zA-Z.@]{0,60}") {
        fuzz_demangle(name.as_bytes());
    }
}

/// What is damaged below is something that is read in full when it is whole.
#[test]
fn the_sample_itself_is_named() {
    for (bytes, source) in [(sample(), SymbolSource::Dwarf), (packed(), SymbolSource::Dwarf)] {
        let mut symbolizer = Symbolizer::new(Options::default(), Arc::new(ElfCache::default()));
        let module = ModuleSource::vdso(bytes);
        let found: Vec<_> = (0..0x2000).map(Svma).collect();
        let found: Vec<_> = symbolizer.elf(&module, &found).into_iter().flatten().collect();
        let named = |name: &str| {
            found.iter().find(|found| found.functions.iter().any(|function| function.name == name))
        };
        assert_eq!(named("exported").map(|found| found.source), Some(source));
        assert!(named("local").is_some() && named("twice").is_some() && named("outside@plt").is_some());
        assert!(symbolizer.take_problems().is_empty());
    }
}

/// Damage where it hurts most: each word of the headers and of the unwind and debug sections in turn.
#[test]
fn each_word_replaced_by_the_worst_numbers() {
    let original = sample();
    for at in (0..original.len() - 8).step_by(8) {
        let mut bytes = original.to_vec();
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        fuzz_elf(&bytes);
    }
}

#[test]
fn what_is_not_a_file_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    support::run(Command::new("mkfifo").arg(&fifo));
    let link = folder.path().join("link");
    symlink("/dev/zero", &link).unwrap();
    for path in [&fifo, &link, &folder.path().to_owned()] {
        let refused = ElfFile::open(path, Links::Follow, &Limits::default());
        assert!(matches!(refused, Err(ElfError::NotRegular { .. })), "{}", path.display());
    }
    let missing = ElfFile::open(Path::new("/nonexistent"), Links::Follow, &Limits::default()).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read `/nonexistent`");
    let text = folder.path().join("text");
    std::fs::write(&text, "#!/bin/sh\n").unwrap();
    assert!(matches!(ElfFile::open(&text, Links::Follow, &Limits::default()), Err(ElfError::NotElf { .. })));
    let mut narrow = sample().to_vec();
    narrow[4] = 1;
    let error = ElfFile::from_bytes("narrow", narrow, &Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`narrow` is ELF of class 1, data encoding 1, machine 62; 64-bit little-endian is read"
    );
}
