//! What the memory of the process is, and which part of it the dump has.

use biopsy_image::mapping::is_memory_file;
use biopsy_image::{Absence, Backing, Image, Mapping, ReadError};
use biopsy_model::order::Order as _;
use biopsy_stacks::image::ImageStacks;
use rustc_hash::FxHashMap;

/// Rows of modules and labels that are told apart; the rest is one row.
const ROWS: usize = 60;
/// Runs of one dump that are asked about. A dump may state millions; then what is there is taken as stated.
const RUNS: usize = 200_000;

/// A kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemoryClass {
    /// Memory of its own that no file is behind: heaps of all kinds.
    Anonymous,
    /// The heap of `brk`.
    Heap,
    /// Stacks of threads.
    Stack,
    /// Memory that may be executed and has no file: code of a JIT compiler.
    JitCode,
    /// Shared memory: memfd, System V, shared anonymous memory.
    Shared,
    /// Code of files.
    FileCode,
    /// Variables of files: private and written.
    FileData,
    /// Other parts of files.
    File,
    /// Of the kernel: vdso.
    Kernel,
    /// Reserved, not accessible.
    Reserved,
    /// A dump that does not say.
    Unknown,
}

impl MemoryClass {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous memory",
            Self::Heap => "heap (brk)",
            Self::Stack => "thread stacks",
            Self::JitCode => "compiled at run time",
            Self::Shared => "shared memory",
            Self::FileCode => "code of files",
            Self::FileData => "variables of files",
            Self::File => "mapped files",
            Self::Kernel => "kernel pages",
            Self::Reserved => "reserved",
            Self::Unknown => "not known",
        }
    }
}

/// A sum over mappings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryRow {
    /// What kind.
    pub class: MemoryClass,
    /// Name of the file or label; empty in sums over a class.
    pub name: String,
    /// Mappings.
    pub mappings: u64,
    /// Bytes of addresses.
    pub mapped: u64,
    /// Bytes that the dump has.
    pub in_dump: u64,
}

/// Why bytes are not in a dump.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MissingReason {
    /// Equal to the mapped file.
    InFile,
    /// Never touched: zeros.
    Zeros,
    /// The writer left it out.
    LeftOut,
    /// The process itself may not read it.
    Unreadable,
    /// The dump had reached its size limit.
    OverLimit,
    /// There was no time to copy it while the process stood still.
    NoTime,
    /// The file ends before.
    Truncated,
    /// It could not be read when the dump was written, or cannot be read now.
    Gone,
}

impl MissingReason {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::InFile => "the same as in the mapped file",
            Self::Zeros => "never touched: zeros",
            Self::LeftOut => "left out by the writer of the dump",
            Self::Unreadable => "not readable, not even for the process",
            Self::OverLimit => "left out above the size limit of the dump",
            Self::NoTime => "there was no time to copy it while the process stood still",
            Self::Truncated => "the file of the dump ends before it",
            Self::Gone => "could not be read any more",
        }
    }

    /// Whether it should have been there.
    #[must_use]
    pub fn is_damage(self) -> bool {
        match self {
            Self::InFile | Self::Zeros | Self::LeftOut | Self::Unreadable => false,
            Self::OverLimit | Self::NoTime | Self::Truncated | Self::Gone => true,
        }
    }
}

/// Bytes that are not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Why.
    pub reason: MissingReason,
    /// Bytes.
    pub bytes: u64,
}

/// Memory by kind and by file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemorySplit {
    /// By kind, most in the dump first.
    pub classes: Vec<MemoryRow>,
    /// By file or label, most in the dump first.
    pub names: Vec<MemoryRow>,
    /// What accessible memory is not in the dump, by reason.
    pub missing: Vec<Missing>,
    /// All mappings.
    pub mappings: u64,
    /// Their bytes.
    pub mapped: u64,
    /// What the dump has of them.
    pub in_dump: u64,
    /// Ranges that are from another moment than the rest.
    pub not_frozen: u64,
}

pub(super) fn split(image: &dyn Image, stacks: &ImageStacks) -> MemorySplit {
    let mut split = MemorySplit::default();
    let mut classes: FxHashMap<MemoryClass, MemoryRow> = FxHashMap::default();
    let mut names: FxHashMap<(MemoryClass, String), MemoryRow> = FxHashMap::default();
    let mut missing: FxHashMap<MissingReason, u64> = FxHashMap::default();
    // The outermost frame is on the thread's own stack; the innermost may be on one for signals, or below its end.
    let inner = image.threads().iter().filter_map(|thread| Some(thread.registers.as_ref()?.rsp));
    let outer = stacks.threads.iter().filter_map(|stack| Some(stack.frames.last()?.sp.0));
    let mut stack_pointers: Vec<u64> = inner.chain(outer).collect();
    stack_pointers.sort_unstable();
    let mut budget = RUNS;
    for mapping in image.mappings() {
        let class = classify(mapping, &stack_pointers);
        let (in_dump, absent) = present(image, mapping, &mut budget);
        let add = |row: &mut MemoryRow| {
            row.mappings += 1;
            row.mapped = row.mapped.saturating_add(mapping.size());
            row.in_dump = row.in_dump.saturating_add(in_dump);
        };
        let empty = |name: String| MemoryRow { class, name, mappings: 0, mapped: 0, in_dump: 0 };
        add(classes.entry(class).or_insert_with(|| empty(String::new())));
        let name = name(mapping, class);
        add(names.entry((class, name.clone())).or_insert_with(|| empty(name)));
        split.mappings += 1;
        split.mapped = split.mapped.saturating_add(mapping.size());
        split.in_dump = split.in_dump.saturating_add(in_dump);
        if mapping.not_frozen {
            split.not_frozen = split.not_frozen.saturating_add(mapping.size());
        }
        let gone = mapping.size().saturating_sub(in_dump);
        if gone > 0 && class != MemoryClass::Reserved {
            *missing.entry(reason(absent, class)).or_default() += gone;
        }
    }
    split.classes = sorted(classes.into_values());
    split.names = fold(sorted(names.into_values()));
    split.missing = missing.into_iter().map(|(reason, bytes)| Missing { reason, bytes }).collect();
    split.missing.order_by(|a, b| b.bytes.cmp(&a.bytes).then(a.reason.cmp(&b.reason)));
    split
}

fn sorted(rows: impl Iterator<Item = MemoryRow>) -> Vec<MemoryRow> {
    let mut rows: Vec<MemoryRow> = rows.collect();
    rows.order_by(|a, b| {
        (b.in_dump, b.mapped)
            .cmp(&(a.in_dump, a.mapped))
            .then(a.class.cmp(&b.class))
            .then(a.name.cmp(&b.name))
    });
    rows
}

/// The largest rows; the rest as one.
fn fold(mut rows: Vec<MemoryRow>) -> Vec<MemoryRow> {
    if rows.len() > ROWS {
        let rest = rows.split_off(ROWS - 1);
        let sum = |of: fn(&MemoryRow) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        rows.push(MemoryRow {
            class: MemoryClass::Unknown,
            name: format!("{} others", rest.len()),
            mappings: sum(|row| row.mappings),
            mapped: sum(|row| row.mapped),
            in_dump: sum(|row| row.in_dump),
        });
    }
    rows
}

fn classify(mapping: &Mapping, stack_pointers: &[u64]) -> MemoryClass {
    let allowed = mapping.protection;
    let accessible = allowed.read || allowed.write || allowed.execute;
    let at = stack_pointers.partition_point(|sp| *sp < mapping.start);
    let has_stack = stack_pointers.get(at).is_some_and(|sp| *sp < mapping.end) && allowed.write;
    match &mapping.backing {
        Backing::Kernel { .. } => MemoryClass::Kernel,
        // vsyscall, in cores that do not say what it is.
        _ if mapping.start >> 63 == 1 => MemoryClass::Kernel,
        _ if !accessible && !matches!(mapping.backing, Backing::Unknown) => MemoryClass::Reserved,
        Backing::Anonymous { label } if label == "[heap]" => MemoryClass::Heap,
        Backing::Anonymous { label } if label.starts_with("[stack") || has_stack => MemoryClass::Stack,
        Backing::Anonymous { .. } if mapping.shared => MemoryClass::Shared,
        Backing::Anonymous { .. } if allowed.execute => MemoryClass::JitCode,
        Backing::Anonymous { .. } => MemoryClass::Anonymous,
        Backing::File { path, .. } if is_memory_file(path) && allowed.execute => MemoryClass::JitCode,
        Backing::File { path, .. } if is_memory_file(path) => MemoryClass::Shared,
        Backing::File { .. } if allowed.execute => MemoryClass::FileCode,
        Backing::File { .. } if allowed.write && !mapping.shared => MemoryClass::FileData,
        Backing::File { .. } => MemoryClass::File,
        Backing::Unknown if has_stack => MemoryClass::Stack,
        Backing::Unknown => MemoryClass::Unknown,
    }
}

fn name(mapping: &Mapping, class: MemoryClass) -> String {
    match &mapping.backing {
        Backing::File { path, .. } => String::from_utf8_lossy(path).into_owned(),
        Backing::Kernel { label } => label.clone(),
        Backing::Anonymous { label } if !label.is_empty() => label.clone(),
        Backing::Anonymous { .. } | Backing::Unknown => format!("[{}]", class.words()),
    }
}

/// Bytes of a mapping that the dump has, and why the first that is not there is not.
fn present(image: &dyn Image, mapping: &Mapping, budget: &mut usize) -> (u64, Option<Absence>) {
    let mut runs = Vec::new();
    if image.written(mapping.range(), &mut runs).is_err() {
        return (0, Some(Absence::Gone));
    }
    let mut bytes = 0_u64;
    let mut absent = None;
    let mut covered = mapping.start;
    for run in &runs {
        let length = run.end.saturating_sub(run.start);
        if *budget == 0 {
            bytes = bytes.saturating_add(length);
            covered = run.end;
            continue;
        }
        *budget -= 1;
        match absence(image, run.start) {
            None => bytes = bytes.saturating_add(length),
            why => absent = absent.or(why),
        }
        if run.start > covered && absent.is_none() && *budget > 0 {
            *budget -= 1;
            absent = absence(image, covered);
        }
        covered = run.end;
    }
    if covered < mapping.end && absent.is_none() && *budget > 0 {
        *budget -= 1;
        absent = absence(image, covered);
    }
    (bytes.min(mapping.size()), absent)
}

fn absence(image: &dyn Image, address: u64) -> Option<Absence> {
    match image.read(address, &mut [0]) {
        Ok(_) => None,
        Err(ReadError::Missing { why, .. }) => Some(why),
        Err(_) => Some(Absence::Gone),
    }
}

fn reason(absent: Option<Absence>, class: MemoryClass) -> MissingReason {
    match absent {
        // It reads, and the image says that it was never written.
        None if matches!(class, MemoryClass::File | MemoryClass::FileCode | MemoryClass::FileData) => {
            MissingReason::InFile
        }
        None => MissingReason::Zeros,
        Some(Absence::Unmapped | Absence::LeftOut | Absence::NotOfKind) => MissingReason::LeftOut,
        Some(Absence::OverLimit) => MissingReason::OverLimit,
        Some(Absence::NoTime) => MissingReason::NoTime,
        Some(Absence::Unreadable) => MissingReason::Unreadable,
        Some(Absence::Truncated) => MissingReason::Truncated,
        Some(Absence::Gone) => MissingReason::Gone,
    }
}

#[cfg(test)]
mod tests;
