//! Every fuzz target's entry over its seeds and small mutations of them, as an ordinary test: the inputs that fuzzing once failed at
//! are among the seeds, and a target that is forgotten here is noticed.
//!
//! `cargo xtask fuzz` goes on from there, with coverage and for as long as one likes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use biopsy_analyze::dump::DumpFacts;
use biopsy_analyze::{Diagnosis, analyze_dump};
use biopsy_report::{TextOptions, render_html, render_json, render_markdown, render_text};
use biopsy_stacks::image::{Options, walk};

/// What a fuzz target calls.
type Entry = fn(&[u8]);

const ENTRIES: &[(&str, Entry)] = &[
    ("allocators", biopsy_allocators::fuzz::fuzz_footprint),
    ("allocators_mimalloc", biopsy_allocators::fuzz::fuzz_mimalloc),
    ("allocators_musl", biopsy_allocators::fuzz::fuzz_musl),
    ("allocators_tcmalloc", biopsy_allocators::fuzz::fuzz_tcmalloc),
    ("blocks", biopsy_blocks::fuzz::fuzz_blocks),
    ("bundle", biopsy_recording::fuzz_bundle),
    ("compiled_unwind", biopsy_stacks::fuzz::fuzz_compiled),
    ("core", biopsy_image::fuzz::fuzz_dump),
    ("core_packed", biopsy_image::fuzz::fuzz_packed),
    ("demangle", biopsy_stacks::fuzz::fuzz_demangle),
    ("dotnet_heap", biopsy_dotnet::heap::fuzz::fuzz_heap),
    ("dotnet_ipc", biopsy_dotnet_ipc::fuzz_answers),
    ("dotnet_layout", biopsy_dotnet::layout::fuzz::fuzz_layout),
    ("dotnet_metadata", biopsy_dotnet::metadata::fuzz::fuzz_metadata),
    ("dotnet_methods", biopsy_dotnet::methods::fuzz_methods),
    ("dotnet_pdb", biopsy_dotnet::metadata::pdb::fuzz_pdb),
    ("dotnet_triggers", biopsy_record::triggers::fuzz_dotnet),
    ("dotnet_windows_pdb", biopsy_dotnet::metadata::pdb::fuzz_windows_pdb),
    ("dump_report", dump_report),
    ("dwarf", biopsy_stacks::fuzz::fuzz_dwarf),
    ("elf", biopsy_stacks::fuzz::fuzz_elf),
    ("gcdump", gcdump),
    ("heapsnapshot", biopsy_import::heapsnapshot::fuzz),
    ("hprof", biopsy_import::hprof::fuzz),
    ("hsperf", biopsy_record::context::fuzz_hsperf),
    ("kallsyms", biopsy_stacks::fuzz::fuzz_kallsyms),
    ("logs", biopsy_record::logs::fuzz_records),
    ("memory_scanner", biopsy_redact::memory::fuzz_memory),
    ("metrics", biopsy_record::metrics::fuzz_parsers),
    ("minidump", biopsy_image::fuzz::fuzz_dump),
    ("nettrace", nettrace),
    ("perf_data", biopsy_import::fuzz_perf_data),
    ("perf_map", biopsy_stacks::fuzz::fuzz_perf_map),
    ("pprof", biopsy_import::pprof::fuzz),
    ("preload", biopsy_preload::fuzz_preload),
    ("redact", biopsy_redact::fuzz_redact),
    ("runtime_heaps", biopsy_runtimes::fuzz::fuzz_heaps),
    ("sealed", biopsy_seal::fuzz_sealed),
    ("settings", biopsy_watch::fuzz::fuzz_settings),
    ("strands", biopsy_runtimes::fuzz::fuzz_strands),
    ("timeline", biopsy_recording::timeline::fuzz_timeline),
];

/// Its inputs are files of a made-up `/proc`: the property tests of `biopsy-target` have it.
const ELSEWHERE: &[&str] = &["proc"];

fn dump_report(bytes: &[u8]) {
    let Ok(opened) = biopsy_image::open_bytes("fuzz", bytes.to_vec(), &biopsy_image::Limits::default())
    else {
        return;
    };
    let mut options = Options { frames_per_thread: 500, frames: 5_000, ..Options::default() };
    options.symbols.debug_folders.clear();
    let stacks = walk(&*opened.image, &options);
    let analysis = analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened));
    let diagnosis = Diagnosis::new(None, vec![analysis], Vec::new());
    assert!(render_html(&diagnosis, None).ends_with("</html>\n"));
    assert!(!render_text(&diagnosis, 0, TextOptions::default()).contains('\x1b'));
    let _ = (render_json(&diagnosis, None), render_markdown(&diagnosis, None));
}

fn gcdump(bytes: &[u8]) {
    let _ = biopsy_dotnet::gcdump::read(bytes);
}

fn nettrace(bytes: &[u8]) {
    biopsy_dotnet::nettrace::fuzz_nettrace(bytes);
    biopsy_dotnet::events::fuzz_events(bytes);
    biopsy_import::fuzz_nettrace(bytes);
}

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    entries.flatten().filter_map(|entry| stem(entry.path())).collect()
}

#[test]
fn every_target_is_in_the_list_and_in_the_manifest() {
    let targets = names(&fuzz_folder().join("fuzz_targets"));
    let listed: BTreeSet<String> =
        ENTRIES.iter().map(|(name, _)| *name).chain(ELSEWHERE.iter().copied()).map(str::to_owned).collect();
    assert_eq!(targets, listed);
    let manifest = std::fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    for target in targets {
        assert!(manifest.contains(&format!("name = \"{target}\"\n")), "{target}");
    }
    let seeds = names(&fuzz_folder().join("seeds"));
    for seeds in &seeds {
        assert!(listed.contains(seeds), "seeds of a target that is not there: {seeds}");
    }
    for target in &listed {
        // These begin with the recordings and programs of `fixtures`: see `xtask/src/fuzz.rs`.
        let elsewhere = ["bundle", "dump_report", "elf", "perf_data", "timeline"];
        assert!(seeds.contains(target) || elsewhere.contains(&target.as_str()), "no seeds: {target}");
    }
}

/// A generator of numbers that are the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).unwrap_or(0)
    }
}

#[test]
fn seeds_and_small_changes_of_them_do_no_harm() {
    const CHANGES: usize = 24;
    const CUTS: usize = 8;
    for (name, entry) in ENTRIES {
        let mut inputs = vec![Vec::new(), vec![0; 64], vec![0xff; 64], (0..=255).collect::<Vec<u8>>()];
        let files = std::fs::read_dir(fuzz_folder().join("seeds").join(name));
        let mut files: Vec<PathBuf> =
            files.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        inputs.extend(files.iter().map(|file| std::fs::read(file).unwrap()));
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for input in inputs {
            entry(&input);
            for cut in 1..CUTS {
                entry(&input[..input.len() * cut / CUTS]);
            }
            for _ in 0..CHANGES {
                let mut changed = input.clone();
                for _ in 0..=numbers.next(4) {
                    let at = numbers.next(changed.len());
                    let value = [0, 0xff, 0x7f, 0x80, 1][numbers.next(5)];
                    if let Some(byte) = changed.get_mut(at) {
                        *byte = value;
                    }
                }
                entry(&changed);
            }
        }
    }
}
