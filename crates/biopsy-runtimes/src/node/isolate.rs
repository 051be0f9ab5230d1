//! The isolate of a thread, and the frame from which its JavaScript left for native code.

use std::ops::Range;

use super::symbols::{Layout, Symbols};
use crate::Memory;
use biopsy_elf::raw::PT_TLS;

/// Bytes of an isolate that are searched for what belongs to its thread.
const ISOLATE: usize = 64 << 10;
/// Words behind an isolate's reference to itself in which the frame is.
const NEAR: usize = 48;
/// Where glibc keeps the values of the first keys of a thread, from its thread pointer on (`specific_1stblock` of
/// `struct pthread`, x86-64), how many they are, and where in each the value is.
const VALUES: u64 = 0x310;
const VALUE_BYTES: u64 = 16;
const VALUE: u64 = 8;
const KEYS: u32 = 32;
/// Most bytes of thread-local data of an executable.
const LOCAL: u64 = 1 << 20;

/// Where threads keep their isolate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In a variable of the executable that each thread has, so many bytes below the thread pointer.
    Below(u64),
    /// So many bytes behind it: the value of a key.
    Behind(u64),
}

/// Where threads keep their isolate, in this version.
pub(super) fn place(symbols: &Symbols<'_>) -> Option<Place> {
    if let Some((address, _)) = symbols.elf.symbol(symbols.dynamic, b"_ZN2v88internal18g_current_isolate_E") {
        let within = address.wrapping_sub(symbols.elf.actual(0));
        let block = symbols.elf.of(PT_TLS).next()?;
        // The block ends where the thread pointer is, and begins aligned (System V psABI, variant II).
        let size = block.memory_size.checked_next_multiple_of(ALIGN)?;
        return (within < size && size < LOCAL).then(|| Place::Below(size - within));
    }
    let (address, _) = symbols.elf.symbol(symbols.dynamic, b"_ZN2v88internal7Isolate12isolate_key_E")?;
    let key = symbols.memory.u32(address).filter(|key| *key < KEYS)?;
    Some(Place::Behind(VALUES + VALUE_BYTES * u64::from(key) + VALUE))
}

/// Alignment of thread-local data: pointers are the largest there.
const ALIGN: u64 = 8;

/// What a thread has of V8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Isolate {
    /// Frame pointer of the frame that called native code; `None` while JavaScript runs, or nothing does.
    pub(super) exit: Option<u64>,
}

/// The isolate of the thread with this thread pointer and stack.
pub(super) fn of_thread(
    memory: &Memory<'_>,
    layout: &Layout,
    place: Place,
    thread_pointer: u64,
    stack: &Range<u64>,
) -> Option<Isolate> {
    let slot = match place {
        Place::Below(bytes) => thread_pointer.checked_sub(bytes)?,
        Place::Behind(bytes) => thread_pointer.checked_add(bytes)?,
    };
    isolate(memory, layout, memory.pointer(slot)?, stack)
}

fn isolate(memory: &Memory<'_>, layout: &Layout, address: u64, stack: &Range<u64>) -> Option<Isolate> {
    if address == 0 || !address.is_multiple_of(8) || !memory.is_mapped(address) {
        return None;
    }
    let bytes = memory.bytes(address, ISOLATE);
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    // An isolate has what belongs to its thread inside of it, and there a reference to itself.
    let own = words.iter().enumerate().filter(|(_, word)| **word == address).map(|(index, _)| index);
    let own: Vec<usize> = own.collect();
    if own.is_empty() {
        return None;
    }
    let near = own.iter().flat_map(|index| words.iter().skip(*index).take(NEAR));
    let exit = near.copied().find(|word| is_exit(memory, layout, *word, stack));
    Some(Isolate { exit })
}

/// Whether a frame pointer is one of a call of native code.
pub(super) fn is_exit(memory: &Memory<'_>, layout: &Layout, fp: u64, stack: &Range<u64>) -> bool {
    let is = || {
        let marker = memory.u64(fp.checked_sub(8)?)?;
        let caller = memory.u64(fp)?;
        Some(
            marker & 1 == 0
                && layout.frames.exits.contains(&(marker >> 1))
                && caller > fp
                && stack.contains(&caller),
        )
    };
    fp.is_multiple_of(8) && stack.contains(&fp) && is() == Some(true)
}
