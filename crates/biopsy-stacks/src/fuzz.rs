//! Entry points for fuzzing: arbitrary bytes through every reader of this crate. Any panic or unbounded memory is a
//! bug.

use std::path::PathBuf;
use std::sync::Arc;

use biopsy_elf::Source;
use biopsy_model::{Avma, FileOffset, Svma};

use crate::elf::{ElfCache, ElfFile, Limits, Parts};
use crate::symbols::{self, ModuleSource, Options, Symbolizer};
use crate::unwind::{
    ExecutableMapping, ProcessUnwinder, RuntimeFunction, StackMemory, UserRegisters, windows_rule,
};

/// Reads the bytes as an ELF file: unwinds through it and asks for names in it.
pub fn fuzz_elf(bytes: &[u8]) {
    let limits = Limits { unwind: 4 << 20, symbols: 1 << 16, dwarf: 16 << 20, ..Limits::default() };
    let image: Arc<[u8]> = Arc::from(bytes);
    fuzz_mapped(bytes, &limits);
    let Ok(file) = ElfFile::from_bytes("[fuzz]", Arc::clone(&image), &limits) else { return };
    let _ = file.build_id();
    let file = Arc::new(file);
    let addresses = interesting(&file);
    let mut unwinder = ProcessUnwinder::new();
    let start = Avma(0x1_0000_0000);
    for load in file.loads().take(4) {
        let mapping = ExecutableMapping {
            start: Avma(start.0.wrapping_add(load.address)),
            end: Avma(start.0.wrapping_add(load.address).saturating_add(load.file_size)),
            file_offset: FileOffset(load.offset),
            tag: 0,
        };
        unwinder.add_module(&mapping, Some(Arc::clone(&file)));
    }
    let stack: Vec<u8> = addresses
        .iter()
        .cycle()
        .take(512)
        .flat_map(|svma| (start.0.wrapping_add(svma.0)).to_le_bytes())
        .collect();
    let base = 0x7000_0000;
    let mut frames = Vec::new();
    for svma in &addresses {
        let mut registers = UserRegisters::new(start.0.wrapping_add(svma.0), base, base + 64);
        registers.saved = Some([base + 8, base + 16, base + 24, base + 32, base + 40]);
        frames.clear();
        unwinder.unwind(&registers, StackMemory { base, bytes: &stack }, &mut frames);
    }
    let options = Options { debug_folders: Vec::new(), kallsyms: PathBuf::new(), ..Options::default() };
    let mut symbolizer = Symbolizer::new(options, Arc::new(ElfCache::new(limits)));
    symbolizer.elf(&ModuleSource::vdso(image), &addresses);
}

/// The bytes as the memory of a process that maps a file at `START`.
fn fuzz_mapped(bytes: &[u8], limits: &Limits) {
    const START: u64 = 0x2_0000_0000;
    let read = |address: u64, buffer: &mut [u8]| bytes.read(address.wrapping_sub(START), buffer).unwrap_or(0);
    let Ok(file) = ElfFile::from_mapped("[fuzz]", START, &read, limits, Parts::All) else { return };
    let _ = (file.build_id(), file.same_headers(&file), symbols::find_data(&file, "__abort_msg"));
    let file = Arc::new(file);
    let options = Options { debug_folders: Vec::new(), kallsyms: PathBuf::new(), ..Options::default() };
    let mut symbolizer = Symbolizer::new(options, Arc::new(ElfCache::new(*limits)));
    symbolizer.open_file(&file, "[fuzz]", None, &interesting(&file));
}

/// The bytes as memory that holds a runtime's unwind information and code: the first eight say where.
pub fn fuzz_compiled(bytes: &[u8]) {
    const BASE: u64 = 0x3_0000_0000;
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return };
    let [a, b, c, d, e, f, g, h] = *head;
    let number = |low, high| u32::from(u16::from_le_bytes([low, high]));
    let begin = number(a, b);
    let function =
        RuntimeFunction { begin, end: begin.saturating_add(number(c, d)), unwind_info: number(e, f) };
    let read = |address: u64, buffer: &mut [u8]| {
        let at = usize::try_from(address.wrapping_sub(BASE)).unwrap_or(usize::MAX);
        let found = at.checked_add(buffer.len()).and_then(|end| rest.get(at..end));
        found.map(|found| buffer.copy_from_slice(found)).is_some()
    };
    let address = BASE + u64::from(begin) + u64::from(number(g, h));
    for exact in [false, true] {
        let _ = windows_rule(Avma(BASE), function, Avma(address), exact, &read);
    }
}

/// Reads the bytes as debug information: `.debug_abbrev` of the length that the first two bytes say, then `.debug_info`.
pub fn fuzz_dwarf(bytes: &[u8]) {
    symbols::fuzz_dwarf(bytes);
}

/// Reads the bytes as a perf map.
pub fn fuzz_perf_map(bytes: &[u8]) {
    symbols::fuzz_perf_map(bytes);
}

/// Reads the bytes as `/proc/kallsyms`.
pub fn fuzz_kallsyms(bytes: &[u8]) {
    symbols::fuzz_kallsyms(bytes);
}

/// Demangles the bytes as a name.
pub fn fuzz_demangle(bytes: &[u8]) {
    symbols::demangle(&String::from_utf8_lossy(bytes));
}

/// Addresses all over the executable parts.
fn interesting(file: &ElfFile) -> Vec<Svma> {
    let mut addresses = vec![Svma(0), Svma(u64::MAX)];
    for load in file.loads().take(8) {
        let step = (load.file_size / 32).max(1);
        addresses.extend((0..32).map(|count| Svma(load.address.wrapping_add(count * step))));
    }
    for section in file.sections().iter().filter(|section| section.is_executable()).take(16) {
        let step = (section.size / 16).max(1);
        addresses.extend((0..16).map(|count| Svma(section.address.wrapping_add(count * step))));
    }
    addresses
}
