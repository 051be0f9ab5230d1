//! Is there room below this thread's stack pointer, and is it really a stack of the kernel's idea?
//!
//! Writing below a stack pointer is only safe on a stack that is as large as it looks. Goroutines, fibers and the threads of
//! OCaml run on small pieces of heap with other data right below: one write there crashed a Go program on the first try
//! (P2). So a stack is accepted when it is
//!
//! - the kernel's own (`[stack]`), or
//! - a mapping that begins behind a guard and holds the thread's control block (`fs_base`) above the stack pointer,
//!   which is how the C libraries lay out thread stacks, or
//! - the signal stack of a thread of the Go runtime, found through its own structures and not in use.

use std::os::unix::fs::FileExt;

use biopsy_image::{Mapping, PAGE_SIZE, mapping};

use crate::address_space::ProcessMemory;
use crate::process::proc_root::ProcRoot;

/// The ABI lets leaf functions use so many bytes below the stack pointer.
const RED_ZONE: u64 = 128;
/// Room that a thread stack must have below the stack pointer: far more than the frames take.
const ROOM: u64 = 20 << 10;
/// The largest inaccessible range that counts as the guard of a stack (a JVM's four zones are larger than glibc's page).
const LARGEST_GUARD: u64 = 64 << 10;
/// The largest thread stack that is searched for a guard that is no mapping of its own (glibc from 2.42 on).
const LARGEST_STACK: u64 = 64 << 20;
/// Size of the Go runtime's signal stacks (`malg(32 * 1024)` in `runtime/os_linux.go`).
const GO_SIGNAL_STACK: u64 = 32 << 10;

/// Where frames may be written: below this address, so many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// Frames end here.
    pub(super) top: u64,
    /// Bytes that may be used below it.
    pub(super) bytes: u64,
}

/// Finds room for `needed` bytes, or says why there is none.
pub(super) fn find(
    mappings: &[Mapping],
    memory: &ProcessMemory,
    stack_pointer: u64,
    fs_base: u64,
    needed: u64,
) -> Result<Room, &'static str> {
    match thread_stack(mappings, memory, stack_pointer, fs_base, needed) {
        Ok(room) => Ok(room),
        Err(why) => go_signal_stack(mappings, memory, stack_pointer, fs_base)
            .filter(|room| room.bytes >= needed)
            .ok_or(why),
    }
}

fn thread_stack(
    mappings: &[Mapping],
    memory: &ProcessMemory,
    stack_pointer: u64,
    fs_base: u64,
    needed: u64,
) -> Result<Room, &'static str> {
    let own = mapping::find(mappings, stack_pointer).ok_or("its stack pointer leads nowhere")?;
    if !is_plain_memory(own) {
        return Err("its stack is not private memory that can be written");
    }
    let top = stack_pointer.checked_sub(RED_ZONE).ok_or("its stack pointer leads nowhere")?;
    let bytes = top.saturating_sub(own.start);
    let room = Room { top, bytes };
    let is_first = matches!(&own.backing, biopsy_image::Backing::Anonymous { label } if label == "[stack]");
    if is_first {
        return if bytes >= needed { Ok(room) } else { Err("its stack is full") };
    }
    if !(stack_pointer..own.end).contains(&fs_base) {
        return Err("it does not run on the stack of a thread");
    }
    if bytes < ROOM.max(needed) {
        return Err("its stack is nearly full");
    }
    if follows_guard(mappings, own) {
        return Ok(room);
    }
    match guard_inside(memory, own, stack_pointer, fs_base) {
        Some(guard) if top.saturating_sub(guard) >= ROOM.max(needed) => {
            Ok(Room { top, bytes: top.saturating_sub(guard) })
        }
        Some(_) => Err("its stack is nearly full"),
        None => Err("it does not run on the stack of a thread"),
    }
}

fn is_plain_memory(one: &Mapping) -> bool {
    one.is_anonymous() && one.protection.read && one.protection.write && !one.shared && !one.not_frozen
}

fn follows_guard(mappings: &[Mapping], own: &Mapping) -> bool {
    let index = mappings.partition_point(|one| one.start < own.start);
    let Some(below) = index.checked_sub(1).and_then(|below| mappings.get(below)) else { return false };
    let closed = !below.protection.read && !below.protection.write && !below.protection.execute;
    below.end == own.start && closed && below.size() <= LARGEST_GUARD
}

/// The guard that was laid into the mapping (`MADV_GUARD_INSTALL`): behind its last page below the stack pointer. `None`
/// when there is none, or when one is between the stack pointer and the control block, which then belong to different
/// threads.
fn guard_inside(memory: &ProcessMemory, own: &Mapping, stack_pointer: u64, fs_base: u64) -> Option<u64> {
    /// Bit of `/proc/PID/pagemap` for such pages (Linux 6.15, Documentation/admin-guide/mm/pagemap.rst).
    const GUARD: u64 = 1 << 58;
    /// Pages at a time.
    const PAGES: u64 = 2048;
    let process = ProcRoot::live().process(memory.tid()).ok()?;
    let pagemap = process.file("pagemap").ok()?;
    let entries = |first: u64, last: u64| {
        let mut bytes = vec![0; usize::try_from(last.saturating_sub(first).min(PAGES) * 8).ok()?];
        pagemap.read_exact_at(&mut bytes, first.checked_mul(8)?).ok()?;
        Some(
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|eight| u64::from_le_bytes(*eight) & GUARD != 0)
                .collect::<Vec<_>>(),
        )
    };
    let here = stack_pointer / PAGE_SIZE;
    let lowest = own.start.max(stack_pointer.saturating_sub(LARGEST_STACK)) / PAGE_SIZE;
    let highest = (fs_base / PAGE_SIZE).min(here.saturating_add(LARGEST_STACK / PAGE_SIZE));
    let mut page = here;
    while page <= highest {
        let guards = entries(page, highest + 1)?;
        if guards.contains(&true) {
            return None;
        }
        page += guards.len() as u64;
    }
    let mut end = here;
    while end > lowest {
        let first = lowest.max(end.saturating_sub(PAGES));
        let guards = entries(first, end)?;
        if let Some(last) = guards.iter().rposition(|&is_guard| is_guard) {
            return (first + last as u64 + 1).checked_mul(PAGE_SIZE);
        }
        end = first;
    }
    None
}

/// The signal stack of the thread of the Go runtime that runs here: `g` is in thread-local storage right below `fs_base`,
/// `g.m` at 0x30 of it, `m.gsignal` near the start of that; a `g` begins with the bounds of its stack
/// (`runtime/runtime2.go`). Every step is checked against the others, so that nothing else passes for it.
fn go_signal_stack(
    mappings: &[Mapping],
    memory: &ProcessMemory,
    stack_pointer: u64,
    fs_base: u64,
) -> Option<Room> {
    const M_OF_G: u64 = 0x30;
    const FIELDS_OF_M: u64 = 0x80;
    let word = |address: u64| {
        let mut bytes = [0; 8];
        let plain = mapping::find(mappings, address).is_some_and(|one| one.protection.write && !one.shared);
        (plain && matches!(memory.read(address, &mut bytes), Ok(8))).then(|| u64::from_le_bytes(bytes))
    };
    let current = word(fs_base.checked_sub(8)?)?;
    let machine = word(current.checked_add(M_OF_G)?)?;
    (0..FIELDS_OF_M).step_by(8).find_map(|field| {
        let candidate = word(machine.checked_add(field)?)?;
        if candidate == current || word(candidate.checked_add(M_OF_G)?)? != machine {
            return None;
        }
        let (low, high) = (word(candidate)?, word(candidate.checked_add(8)?)?);
        let on_it = (low..high).contains(&stack_pointer);
        let whole = mapping::find(mappings, low).is_some_and(|one| is_plain_memory(one) && high <= one.end);
        let fits = high.checked_sub(low)? == GO_SIGNAL_STACK && !on_it && whole;
        fits.then(|| Room { top: high - 64, bytes: GO_SIGNAL_STACK - 64 })
    })
}
