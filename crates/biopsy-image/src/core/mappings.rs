//! Mappings of a core: segments joined with the mapped files, or with what our own note says.

use biopsy_model::loss::Warning;
use biopsy_model::order::Order as _;

use super::notes::{FileEntry, Notes};
use super::segments::Load;
use crate::mapping::is_memory_file;
use crate::problem::OpenProblem;
use crate::process::auxiliary;
use crate::{Backing, Limits, Mapping, Protection, Thread};

/// `[vsyscall]` of x86-64, which is at the same place in every process.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;
/// Types of the auxiliary vector whose values point into the first stack: AT_RANDOM, AT_EXECFN (getauxval(3)).
const ON_THE_STACK: [u64; 2] = [25, 31];

/// Mappings by address, not overlapping. What our own note says counts; else a segment is one mapping for each file in
/// it, and files without a segment are mappings whose bytes were left out.
pub(super) fn build(
    loads: &[Load],
    notes: &mut Notes,
    threads: &[Thread],
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Mapping>, OpenProblem> {
    let has_files = notes.files.is_some();
    let mut files = notes.files.take().unwrap_or_default();
    files.order_by_key(|file| file.start);
    let before = files.len();
    cut_overlaps(&mut files);
    if files.len() < before {
        warnings.push(Warning::new(
            "dump.odd-headers",
            format!("{} mapped files overlap others; they were left out", before - files.len()),
        ));
    }
    let anonymous = || if has_files { Backing::Anonymous { label: String::new() } } else { Backing::Unknown };
    let mappings = match notes.mappings.take() {
        Some(told) => with_paths(told, &files),
        None => join(loads, files, anonymous),
    };
    if mappings.len() > limits.mappings {
        return Err(OpenProblem::OverLimit {
            what: "mappings",
            found: mappings.len() as u64,
            limit: limits.mappings as u64,
        });
    }
    let mut mappings = mappings;
    label(&mut mappings, notes, threads);
    Ok(mappings)
}

fn cut_overlaps(files: &mut Vec<FileEntry>) {
    let mut free_from = 0u64;
    files.retain_mut(|file| {
        if file.start < free_from {
            file.offset = file.offset.saturating_add(free_from - file.start);
            file.start = free_from;
        }
        free_from = free_from.max(file.end);
        file.start < file.end
    });
}

/// The mappings of our own note, which have no paths: these are in NT_FILE.
fn with_paths(mut told: Vec<Mapping>, files: &[FileEntry]) -> Vec<Mapping> {
    told.order_by_key(|mapping| mapping.start);
    let mut free_from = 0u64;
    told.retain_mut(|mapping| {
        mapping.start = mapping.start.max(free_from);
        free_from = free_from.max(mapping.end);
        mapping.start < mapping.end
    });
    let mut files = files.iter().peekable();
    for mapping in &mut told {
        while files.next_if(|file| file.end <= mapping.start).is_some() {}
        let Backing::File { deleted: was_deleted, identity, .. } = mapping.backing else { continue };
        mapping.backing = match files.peek().filter(|file| file.start <= mapping.start) {
            Some(file) => {
                let (path, deleted) = without_deleted(&file.path);
                Backing::File {
                    path: path.to_vec(),
                    offset: file.offset.saturating_add(mapping.start - file.start),
                    deleted: deleted || was_deleted,
                    identity,
                }
            }
            None => Backing::Unknown,
        };
    }
    told
}

/// One walk over segments and files, both by address and not overlapping.
fn join(loads: &[Load], files: Vec<FileEntry>, anonymous: impl Fn() -> Backing) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::with_capacity(loads.len().max(files.len()));
    let mut files = files.into_iter().peekable();
    for load in loads {
        // Files that have no segment (createdump leaves out what can be had from the file).
        while let Some(file) = files.next_if(|file| file.end <= load.start) {
            mappings.push(of_file(&file, file.start, file.end, None));
        }
        let mut at = load.start;
        while let Some(file) = files.peek_mut().filter(|file| file.start < load.end) {
            if file.start < load.start {
                mappings.push(of_file(file, file.start, load.start, None));
            }
            let (start, end) = (file.start.max(load.start), file.end.min(load.end));
            if at < start {
                mappings.push(plain(at, start, load.protection, anonymous()));
            }
            mappings.push(of_file(file, start, end, Some(load.protection)));
            at = end;
            if file.end > load.end {
                // The rest of the file is looked at with the next segment.
                file.offset = file.offset.saturating_add(end - file.start);
                file.start = end;
                break;
            }
            files.next();
        }
        if at < load.end {
            mappings.push(plain(at, load.end, load.protection, anonymous()));
        }
    }
    mappings.extend(files.map(|file| of_file(&file, file.start, file.end, None)));
    mappings
}

fn plain(start: u64, end: u64, protection: Protection, backing: Backing) -> Mapping {
    Mapping { start, end, protection, shared: false, backing, not_frozen: false }
}

/// The part of a mapped file; without a segment it is said to be readable, as nearly all of them are.
fn of_file(file: &FileEntry, start: u64, end: u64, protection: Option<Protection>) -> Mapping {
    let (path, deleted) = without_deleted(&file.path);
    // A core does not say what is shared; of these it is known.
    let shared = is_memory_file(path);
    let backing = Backing::File {
        path: path.to_vec(),
        offset: file.offset.saturating_add(start.saturating_sub(file.start)),
        deleted,
        identity: (0, 0),
    };
    let readable = Protection { read: true, ..Protection::default() };
    Mapping { shared, ..plain(start, end, protection.unwrap_or(readable), backing) }
}

fn without_deleted(path: &[u8]) -> (&[u8], bool) {
    match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    }
}

/// Names what the kernel would name in `/proc/PID/maps`, where that can be told.
fn label(mappings: &mut [Mapping], notes: &Notes, threads: &[Thread]) {
    let value = |kind| notes.auxiliary.iter().find(|(one, _)| *one == kind).map(|(_, value)| *value);
    let mut name = |address: u64, to: &dyn Fn() -> Backing| {
        let index = mappings.partition_point(|one| one.start <= address).checked_sub(1);
        if let Some(mapping) =
            index.and_then(|index| mappings.get_mut(index)).filter(|one| one.contains(address))
        {
            let unnamed = match &mapping.backing {
                Backing::Anonymous { label } => label.is_empty(),
                Backing::Unknown => true,
                Backing::File { .. } | Backing::Kernel { .. } => false,
            };
            if unnamed {
                mapping.backing = to();
            }
        }
    };
    let kernel = |label: &'static str| move || Backing::Kernel { label: label.to_owned() };
    let stack = || Backing::Anonymous { label: "[stack]".to_owned() };
    name(VSYSCALL, &kernel("[vsyscall]"));
    if let Some(address) = value(auxiliary::SYSINFO_EHDR) {
        name(address, &kernel("[vdso]"));
    }
    let main = notes.process.as_ref().map(|process| process.pid);
    let main = threads.iter().find(|thread| Some(thread.tid.0) == main);
    match ON_THE_STACK.iter().find_map(|kind| value(*kind)) {
        Some(address) => name(address, &stack),
        None => {
            if let Some(registers) = main.and_then(|thread| thread.registers) {
                name(registers.rsp, &stack);
            }
        }
    }
}
