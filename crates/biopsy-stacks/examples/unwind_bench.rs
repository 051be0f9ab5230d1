//! How well and how fast real stacks are unwound, beside framehop, and how long naming their frames takes.
//!
//! `cargo run --release -p biopsy-stacks --example unwind_bench [PERF_DATA]`. Without a file it starts a private
//! MariaDB under sysbench and records it with `perf record --call-graph dwarf` (Debian: mariadb-server-core,
//! mariadb-client-core, sysbench, linux-perf).

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use biopsy_model::{Avma, FileOffset, Svma};
use biopsy_stacks::elf::{ElfCache, ElfFile};
use biopsy_stacks::symbols::{ModuleSource, Options, Symbolizer};
use biopsy_stacks::unwind::{ExecutableMapping, ProcessUnwinder, StackMemory, UserRegisters};
use framehop::Unwinder;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use linux_perf_data::linux_perf_event_reader::{EventRecord, constants as perf};
use linux_perf_data::{PerfFileReader, PerfFileRecord};

struct Sample {
    registers: UserRegisters,
    stack: Vec<u8>,
}

struct Mapping {
    start: u64,
    length: u64,
    offset: u64,
    path: String,
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = std::env::args_os().nth(1).map_or_else(|| record(folder.path()), PathBuf::from);
    let (mappings, samples) = read(&path);
    let bytes: usize = samples.iter().map(|sample| sample.stack.len()).sum();
    println!(
        "{} samples with user stacks, {} bytes copied each on average",
        samples.len(),
        bytes / samples.len().max(1)
    );

    let cache = Arc::new(ElfCache::default());
    let mut unwinder = ProcessUnwinder::new();
    let mut theirs: UnwinderX86_64<Vec<u8>> = UnwinderX86_64::new();
    let mut files: HashMap<u32, (String, Arc<ElfFile>)> = HashMap::new();
    let started = Instant::now();
    for (tag, mapping) in mappings.iter().enumerate() {
        let file = cache.open(&mapping.path, &[PathBuf::from(&mapping.path)]).ok();
        let executable = ExecutableMapping {
            start: Avma(mapping.start),
            end: Avma(mapping.start + mapping.length),
            file_offset: FileOffset(mapping.offset),
            tag: tag as u32,
        };
        if let Some(file) = &file {
            add_to_framehop(&mut theirs, mapping, file);
            files.insert(tag as u32, (mapping.path.clone(), Arc::clone(file)));
        }
        unwinder.add_module(&executable, file);
    }
    println!("{} mappings added to both in {:?}", mappings.len(), started.elapsed());

    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut all = BTreeSet::new();
    let mut depth = 0;
    let mut differ = 0;
    let mut cache_of_theirs = CacheX86_64::new();
    let mut time_of_theirs = Duration::ZERO;
    let mut first = Duration::ZERO;
    let mut again = Duration::ZERO;
    for sample in &samples {
        frames.clear();
        let stack = StackMemory { base: sample.registers.sp, bytes: &sample.stack };
        let start = Instant::now();
        let unwound = unwinder.unwind(&sample.registers, stack, &mut frames);
        first += start.elapsed();
        *ends.entry(format!("{:?}", unwound.end)).or_default() += 1;
        depth += frames.len();
        all.extend(frames.iter().copied());
        let start = Instant::now();
        let other = by_framehop(&theirs, &mut cache_of_theirs, sample);
        time_of_theirs += start.elapsed();
        differ += usize::from(other != frames);
        frames.clear();
        let start = Instant::now();
        unwinder.unwind(&sample.registers, stack, &mut frames);
        again += start.elapsed();
    }
    let count = samples.len().max(1);
    println!("ends: {ends:?}; {:.1} frames on average", depth as f64 / count as f64);
    println!("stacks that framehop unwinds otherwise: {differ}");
    let per = |time: Duration| time.as_nanos() as f64 / count as f64 / 1000.0;
    println!(
        "µs a stack: {:.2} from memory not in the processor's cache; {:.2} from there, framehop {:.2}",
        per(first),
        per(again),
        per(time_of_theirs)
    );

    let before = resident();
    let start = Instant::now();
    let mut symbolizer = Symbolizer::new(Options::default(), cache);
    let mut by_file: BTreeMap<u32, Vec<Svma>> = BTreeMap::new();
    for frame in &all {
        if let Some((module, svma)) =
            unwinder.find(*frame).and_then(|module| Some((module, module.svma(*frame)?)))
        {
            by_file.entry(module.tag()).or_default().push(svma);
        }
    }
    let mut named = 0;
    for (tag, addresses) in &by_file {
        let (path, _) = &files[tag];
        named += symbolizer.elf(&ModuleSource::elf(path), addresses).iter().flatten().count();
    }
    println!(
        "{named} of {} distinct frames named in {:?}, {} KiB more resident",
        all.len(),
        start.elapsed(),
        resident().saturating_sub(before)
    );
    for problem in symbolizer.take_problems() {
        println!("problem: {problem}");
    }
}

fn record(folder: &Path) -> PathBuf {
    let server = biopsy_testkit::MariaDb::start().expect("MariaDB starts");
    server.prepare_load().expect("sysbench prepares");
    let load = server.load(12).expect("sysbench starts");
    let output = folder.join("perf.data");
    let status = Command::new("perf")
        .args(["record", "-F", "199", "--call-graph", "dwarf,65528", "-p", &server.pid().to_string(), "-o"])
        .arg(&output)
        .args(["--", "sleep", "8"])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "perf records");
    drop(load);
    // The server lives until its mappings have been read from the recording only; its files stay.
    output
}

fn read(path: &Path) -> (Vec<Mapping>, Vec<Sample>) {
    let file = BufReader::new(File::open(path).expect("recording opens"));
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(file).expect("recording is read");
    let (mut mappings, mut samples) = (Vec::new(), Vec::new());
    while let Ok(Some(record)) = record_iter.next_record(&mut perf_file) {
        let PerfFileRecord::EventRecord { record, .. } = record else { continue };
        match record.parse() {
            Ok(EventRecord::Mmap2(map)) if map.pid > 0 && map.protection & 4 != 0 => mappings.push(Mapping {
                start: map.address,
                length: map.length,
                offset: map.page_offset,
                path: String::from_utf8_lossy(&map.path.as_slice()).into_owned(),
            }),
            Ok(EventRecord::Sample(sample)) => {
                let (Some(registers), Some((stack, size))) = (&sample.user_regs, &sample.user_stack) else {
                    continue;
                };
                let get = |register| registers.get(register);
                let (Some(ip), Some(sp), Some(fp)) =
                    (get(perf::PERF_REG_X86_IP), get(perf::PERF_REG_X86_SP), get(perf::PERF_REG_X86_BP))
                else {
                    continue;
                };
                let saved = [
                    perf::PERF_REG_X86_BX,
                    perf::PERF_REG_X86_R12,
                    perf::PERF_REG_X86_R13,
                    perf::PERF_REG_X86_R14,
                    perf::PERF_REG_X86_R15,
                ];
                let saved: Option<Vec<u64>> = saved.into_iter().map(get).collect();
                let saved = saved.and_then(|saved| saved.try_into().ok());
                let length = usize::try_from(*size).unwrap_or(0);
                let stack = stack.as_slice().get(..length).unwrap_or(&[]).to_vec();
                samples.push(Sample { registers: UserRegisters { ip, sp, fp, saved }, stack });
            }
            _ => {}
        }
    }
    (mappings, samples)
}

fn add_to_framehop(unwinder: &mut UnwinderX86_64<Vec<u8>>, mapping: &Mapping, file: &ElfFile) {
    let Some(svma) = file.svma_of_offset(FileOffset(mapping.offset)) else { return };
    let section = |name: &str| file.raw_section(name);
    let (eh_frame, eh_frame_hdr, text) = (section(".eh_frame"), section(".eh_frame_hdr"), section(".text"));
    let range = |section: &Option<(Svma, Vec<u8>)>| {
        section.as_ref().map(|(svma, bytes)| svma.0..svma.0 + bytes.len() as u64)
    };
    let info = framehop::ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(&text),
        eh_frame_svma: range(&eh_frame),
        eh_frame_hdr_svma: range(&eh_frame_hdr),
        eh_frame: eh_frame.map(|(_, bytes)| bytes),
        eh_frame_hdr: eh_frame_hdr.map(|(_, bytes)| bytes),
        ..Default::default()
    };
    let range = mapping.start..mapping.start + mapping.length;
    let base = mapping.start.wrapping_sub(svma.0);
    unwinder.add_module(framehop::Module::new(mapping.path.clone(), range, base, info));
}

fn by_framehop(unwinder: &UnwinderX86_64<Vec<u8>>, cache: &mut CacheX86_64, sample: &Sample) -> Vec<Avma> {
    let UserRegisters { ip, sp, fp, .. } = sample.registers;
    let mut read = |address: u64| {
        let offset = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
        sample
            .stack
            .get(offset..)
            .and_then(|tail| tail.first_chunk())
            .map(|word| u64::from_le_bytes(*word))
            .ok_or(())
    };
    let mut frames = Vec::new();
    let mut iterator = unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, fp), cache, &mut read);
    while let Ok(Some(frame)) = iterator.next() {
        frames.push(Avma(frame.address_for_lookup()));
    }
    frames
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
