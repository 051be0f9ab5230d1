//! Stop-and-copy: the fallback where a process cannot fork.
//!
//! A bounded set of its memory is copied while it stands still: stacks first, then what it wrote, as far as the buffer and
//! the time reach. The buffer is there, touched and locked before anything stops: faulting it in during the pause was
//! measured to cost seconds (P11). What was not copied is known not to be there, and never looks like zeros.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use biopsy_image::write::{AROUND_THREAD_POINTER, module_ranges};
use biopsy_image::{Absence, Backing, GeneralRegisters, Mapping, PAGE_SIZE, ReadError, mapping};
use biopsy_model::{Avma, Pid};
use biopsy_sys::locked::LockedBuffer;

use super::{FreezeError, FreezeOptions, KeptMemory, PreparedCopy, ProcessPlan};
use crate::address_space::{LiveImage, ProcessMemory, read_area_flags, read_mappings};
use crate::process::proc_root::{ProcRoot, is_gone};

/// Descriptors of the process that are looked at.
const DESCRIPTORS: usize = 1 << 16;
/// The ABI lets functions use so many bytes below the stack pointer.
const RED_ZONE: u64 = 128;
/// The most of one stack that is copied before anything else; deep recursions come with the rest.
const STACK: u64 = 256 << 10;
/// Bytes copied in one call.
const PIECE: usize = 1 << 20;
/// What the buffer has beyond the plan: the process goes on between plan and window.
const SLACK: u64 = 4 << 20;

/// Bytes per second that memory of another process is copied at on this machine, on the careful side: measured once, in a
/// few milliseconds, on memory of our own.
pub(super) fn rate() -> u64 {
    /// Assumed where it cannot be measured.
    const USUAL: u64 = 1 << 30;
    const SAMPLE: usize = 8 << 20;
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let Ok(mut into) = LockedBuffer::new(SAMPLE) else { return USUAL };
        let from = vec![1u8; SAMPLE];
        let begin = Instant::now();
        let own = Avma(from.as_ptr().addr() as u64);
        match biopsy_sys::memory::read(Pid(std::process::id()), own, &mut into) {
            Ok(read) if read == SAMPLE => {}
            _ => return USUAL,
        }
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        // Cold memory in single pages, and walking its tables, take about as long again.
        ((SAMPLE as u64).saturating_mul(1_000_000_000) / nanos / 2).clamp(USUAL / 8, 4 * USUAL)
    })
}

/// Makes a copy ready: opens the process and makes the buffer.
///
/// # Errors
/// The process is gone or protected, or there is no memory for the buffer.
pub(super) fn prepare(
    plan: &ProcessPlan,
    options: &FreezeOptions,
) -> Result<Box<dyn PreparedCopy>, FreezeError> {
    let pid = plan.key.pid;
    let memory = ProcessMemory::open(pid).map_err(FreezeError::step(pid, "opening its memory"))?;
    let size = usize::try_from(plan.copy_limit.saturating_add(SLACK)).unwrap_or(usize::MAX);
    let buffer = LockedBuffer::new(size).map_err(FreezeError::step(pid, "making a buffer"))?;
    let half = plan.memory_available.map(|bytes| bytes / 2);
    let full =
        if half.is_some_and(|most| plan.copy_limit >= most) { Absence::OverLimit } else { Absence::NoTime };
    let (stacks_only, time) = (options.stacks_only, options.max_pause);
    let served = served(pid, plan.present_bytes);
    // Found while it runs: in the window, following lists takes a call for each of their items. Of a process that is just mapping
    // a library, that library may be missing, and is known to be.
    let modules = match stacks_only {
        true => LiveImage::open(pid).map_or_else(|_| Vec::new(), |live| module_ranges(&live)),
        false => Vec::new(),
    };
    Ok(Box::new(Prepared { pid, memory, buffer, served, full, stacks_only, modules, time }))
}

/// Where pages are somebody's to bring (userfaultfd(2)), by address: one that is not there yet is no page of zeros, whatever it
/// will be. Only `smaps` tells, and walks all pages for it under the lock of the address space, which a large process would
/// feel: there, and where it does not tell, all memory counts.
fn served(pid: Pid, present_bytes: u64) -> Vec<Range<u64>> {
    const SMALL_ENOUGH: u64 = 4 << 30;
    if !has_userfaultfd(&ProcRoot::live(), pid) {
        return Vec::new();
    }
    let told = (present_bytes <= SMALL_ENOUGH).then(|| read_area_flags(pid).ok()).flatten();
    match told {
        Some(areas) => areas.iter().filter(|area| area.served).map(|area| area.start..area.end).collect(),
        None => std::iter::once(0..u64::MAX).collect(),
    }
}

struct Prepared {
    pid: Pid,
    memory: ProcessMemory,
    buffer: LockedBuffer,
    served: Vec<Range<u64>>,
    /// What limits the buffer: memory of ours, or what can be copied in the time.
    full: Absence,
    stacks_only: bool,
    /// What names the modules and lists them: few pages of it were written by the process.
    modules: Vec<Range<u64>>,
    time: Duration,
}

impl PreparedCopy for Prepared {
    fn copy(self: Box<Self>, registers: &[GeneralRegisters]) -> Result<Box<dyn KeptMemory>, FreezeError> {
        let deadline = Instant::now() + self.time;
        let pid = self.pid;
        let mappings = read_mappings(pid).map_err(FreezeError::step(pid, "reading its mappings"))?;
        let mut copied = Copied {
            memory: self.memory,
            buffer: self.buffer,
            used: 0,
            pieces: Vec::with_capacity(4096),
            written: Vec::with_capacity(4096),
            unseen: BTreeMap::new(),
            mappings,
            served: self.served,
            full: self.full,
            not_copied: if self.stacks_only { Absence::NotOfKind } else { Absence::Unreadable },
        };
        for part in stacks(&copied.mappings, registers) {
            copied.take(part, deadline);
        }
        for part in thread_pointers(registers).chain(locks(registers)) {
            copied.take(part, deadline);
        }
        // The kernel's code for the process is small, and unwinding needs it.
        let vdso = copied
            .mappings
            .iter()
            .find(|one| matches!(one.backing, Backing::Kernel { .. }) && one.protection.execute);
        if let Some(vdso) = vdso.map(Mapping::range).filter(|range| range.end < 1 << 47) {
            copied.take(vdso, deadline);
        }
        copied.take_written(self.stacks_only.then_some(&self.modules), deadline);
        if !copied.memory.is_there() {
            return Err(FreezeError::Ended { pid });
        }
        copied.settle();
        Ok(Box::new(copied))
    }
}

/// The used part of each thread's stack, in the order of threads.
fn stacks(mappings: &[Mapping], registers: &[GeneralRegisters]) -> Vec<Range<u64>> {
    let used = |pointer: u64| {
        let own = mapping::find(mappings, pointer).filter(|one| !one.shared)?;
        let below = pointer.saturating_sub(RED_ZONE);
        let start = (below - below % PAGE_SIZE).max(own.start);
        Some(start..own.end.min(start.saturating_add(STACK)))
    };
    registers.iter().map(|one| one.rsp).filter_map(used).collect()
}

/// The pages around the thread pointers: each thread's control block and variables of its own.
fn thread_pointers(registers: &[GeneralRegisters]) -> impl Iterator<Item = Range<u64>> {
    registers.iter().map(|one| one.fs_base).filter(|&at| at != 0).map(|at| pages(at, AROUND_THREAD_POINTER))
}

/// The pages of what is at most this far from an address.
fn pages(address: u64, around: u64) -> Range<u64> {
    let start = address.saturating_sub(around);
    let end = address.saturating_add(around);
    start - start % PAGE_SIZE..end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(end)
}

/// The pages of the locks that threads wait for: they say who has them, and are on no stack.
fn locks(registers: &[GeneralRegisters]) -> Vec<Range<u64>> {
    /// `futex` on x86-64; its first argument is the address.
    const NR_FUTEX: u64 = 202;
    /// More than a lock has before or behind the word that is waited for.
    const LOCK: u64 = 64;
    let waiting = registers.iter().filter(|one| one.system_call() == Some(NR_FUTEX));
    let mut pages: Vec<Range<u64>> = waiting.map(|one| pages(one.rdi, LOCK)).collect();
    pages.sort_unstable_by_key(|range| range.start);
    pages.dedup();
    pages
}

/// A part of memory, and where it is in the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    range: Range<u64>,
    at: usize,
}

/// What was copied.
struct Copied {
    /// The process, which runs on: for what does not change (files) or is not frozen anyway (shared memory).
    memory: ProcessMemory,
    buffer: LockedBuffer,
    used: usize,
    /// By address, once settled; not overlapping.
    pieces: Vec<Piece>,
    /// All pages of private memory that the process had written, copied or not, by address.
    written: Vec<Range<u64>>,
    mappings: Vec<Mapping>,
    /// Mappings, by their place in the list, that were not looked through to their end: from where on, and why.
    unseen: BTreeMap<usize, (u64, Absence)>,
    /// Where pages that are not there are not known to be zeros, by address.
    served: Vec<Range<u64>>,
    /// Why it ends where the buffer is full.
    full: Absence,
    /// Why written pages were not copied: the first limit that was met; without one they were not asked for, or not given out.
    not_copied: Absence,
}

impl Copied {
    /// Copies what exists of a range of private memory.
    fn take(&mut self, range: Range<u64>, deadline: Instant) {
        let mut runs = Vec::new();
        let first = self.mappings.partition_point(|own| own.end <= range.start);
        for own in self.mappings.iter().skip(first).take_while(|own| own.start < range.end) {
            let part = range.start.max(own.start)..range.end.min(own.end);
            // What cannot be asked for is missing, and known to be.
            let _ = self.memory.written(own, part, &mut runs);
        }
        for run in runs {
            self.take_run(run, deadline);
        }
    }

    fn take_run(&mut self, run: Range<u64>, deadline: Instant) {
        let mut at = run.start;
        while at < run.end {
            if Instant::now() >= deadline {
                self.ended_by(Absence::NoTime);
                return;
            }
            let wanted = usize::try_from(run.end - at).unwrap_or(PIECE).min(PIECE);
            let end = self.used.saturating_add(wanted).min(self.buffer.len());
            let Some(room) = self.buffer.get_mut(self.used..end).filter(|room| !room.is_empty()) else {
                self.ended_by(self.full);
                return;
            };
            let Ok(read) = self.memory.read(at, room) else { return };
            if read == 0 {
                return;
            }
            let next = at.saturating_add(read as u64);
            match self.pieces.last_mut() {
                Some(last) if last.range.end == at => last.range.end = next,
                _ => self.pieces.push(Piece { range: at..next, at: self.used }),
            }
            self.used += read;
            at = next;
        }
    }

    /// Notes the first limit that was met.
    fn ended_by(&mut self, limit: Absence) {
        if !matches!(self.not_copied, Absence::NoTime | Absence::OverLimit) {
            self.not_copied = limit;
        }
    }

    /// Finds all written pages, and copies those that were not copied with the stacks. `only`: no others than these, by address.
    fn take_written(&mut self, only: Option<&Vec<Range<u64>>>, deadline: Instant) {
        // What cannot be read is reserved, or out of use: nobody gets it from the image either. Small ones first: a program that
        // reserves terabytes has its data elsewhere, or little of it in there.
        let readable = |(_, own): &(usize, &Mapping)| !own.shared && own.protection.read;
        let mut order: Vec<(usize, &Mapping)> = self.mappings.iter().enumerate().filter(readable).collect();
        order.sort_by_key(|(_, own)| own.size());
        // Half of the time at most: what was found is to be copied as well. Before Linux 6.7 looking through a reserved terabyte
        // took the whole pause, and nothing was copied.
        let now = Instant::now();
        let look_until = now + deadline.saturating_duration_since(now) / 2;
        for (index, own) in order {
            match self.memory.written_until(own, &mut self.written, look_until) {
                Ok(seen) if seen >= own.end => {}
                Ok(seen) => drop(self.unseen.insert(index, (seen, Absence::NoTime))),
                Err(_) => drop(self.unseen.insert(index, (own.start, Absence::Unreadable))),
            }
        }
        self.written.sort_unstable_by_key(|run| run.start);
        let mut before: Vec<Range<u64>> = self.pieces.iter().map(|piece| piece.range.clone()).collect();
        before.sort_unstable_by_key(|range| range.start);
        let written = std::mem::take(&mut self.written);
        let chosen = |run: &Range<u64>| only.map_or_else(|| vec![run.clone()], |only| common(run, only));
        for part in written.iter().flat_map(chosen).flat_map(|run| without(run, &before)) {
            self.take_run(part, deadline);
        }
        self.written = written;
    }

    /// By address, so that reads can search; where stacks overlapped, the first copy stays.
    fn settle(&mut self) {
        self.pieces.sort_unstable_by_key(|piece| (piece.range.start, piece.at));
        let mut end = 0;
        self.pieces.retain_mut(|piece| {
            let skip = end.max(piece.range.start) - piece.range.start;
            piece.at = piece.at.saturating_add(usize::try_from(skip).unwrap_or(usize::MAX));
            piece.range.start += skip;
            end = end.max(piece.range.end);
            piece.range.start < piece.range.end
        });
    }

    /// What is in the buffer from this address on.
    fn found(&self, address: u64) -> Option<&[u8]> {
        let after = self.pieces.partition_point(|piece| piece.range.start <= address);
        let piece = self.pieces.get(after.checked_sub(1)?).filter(|piece| piece.range.contains(&address))?;
        let offset = usize::try_from(address - piece.range.start).ok()?;
        let length = usize::try_from(piece.range.end - piece.range.start).ok()?;
        self.buffer.get(piece.at.checked_add(offset)?..piece.at.checked_add(length)?)
    }

    /// The first address of a piece behind this one.
    fn next_piece(&self, address: u64) -> u64 {
        let after = self.pieces.partition_point(|piece| piece.range.start <= address);
        self.pieces.get(after).map_or(u64::MAX, |piece| piece.range.start)
    }

    /// The run of written pages that holds the address, or where the next one begins.
    fn written_at(&self, address: u64) -> Result<&Range<u64>, u64> {
        let after = self.written.partition_point(|run| run.start <= address);
        let inside = after.checked_sub(1).and_then(|index| self.written.get(index));
        match inside.filter(|run| run.contains(&address)) {
            Some(run) => Ok(run),
            None => Err(self.written.get(after).map_or(u64::MAX, |run| run.start)),
        }
    }

    /// Bytes that the process did not write: zeros, or the mapped file's.
    fn read_unwritten(&self, own: &Mapping, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        match &own.backing {
            Backing::Anonymous { .. } if own.protection.read || own.protection.write => {
                buffer.fill(0);
                Ok(buffer.len())
            }
            Backing::Anonymous { .. } => Err(missing(address, Absence::Unreadable)),
            Backing::File { .. } => self.memory.read_file(own, address, buffer),
            Backing::Kernel { .. } | Backing::Unknown => Err(missing(address, Absence::Unreadable)),
        }
    }
}

impl KeptMemory for Copied {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Some(found) = self.found(address) {
            let length = found.len().min(buffer.len());
            for (to, from) in buffer.iter_mut().zip(found) {
                *to = *from;
            }
            return Ok(length);
        }
        let own = mapping::find(&self.mappings, address).ok_or(missing(address, Absence::Unmapped))?;
        let index = self.mappings.partition_point(|one| one.start < own.start);
        let mut end = own.end.min(self.next_piece(address));
        if own.shared {
            // It is the same memory for all who share it: only pages that exist are read.
            let mut runs = Vec::new();
            self.memory.written(own, address..end, &mut runs)?;
            let here = runs.first().filter(|run| run.start == address);
            end = here.map(|run| run.end).ok_or(missing(address, Absence::LeftOut))?;
            return self.memory.read(address, cut(buffer, end - address));
        }
        if let Some(&(from, why)) = self.unseen.get(&index) {
            if address >= from {
                return Err(missing(address, why));
            }
            end = end.min(from);
        }
        match self.written_at(address) {
            Ok(_) => Err(missing(address, self.not_copied)),
            Err(next) => {
                let after = self.served.partition_point(|area| area.end <= address);
                let area = self.served.get(after).filter(|_| own.is_anonymous());
                if area.is_some_and(|area| area.contains(&address)) {
                    return Err(missing(address, Absence::Unreadable));
                }
                let end = area.map_or(end, |area| end.min(area.start)).min(next);
                self.read_unwritten(own, address, cut(buffer, end - address))
            }
        }
    }

    fn mappings(&self) -> Option<&[Mapping]> {
        Some(&self.mappings)
    }

    fn written(&self, own: &Mapping, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let part = range.start.max(own.start)..range.end.min(own.end);
        if part.is_empty() {
            return Ok(());
        }
        if own.shared {
            return self.memory.written(own, part, runs);
        }
        let index = self.mappings.partition_point(|one| one.end <= part.start);
        let unseen =
            self.unseen.get(&index).map_or(part.end, |(from, _)| (*from).clamp(part.start, part.end));
        let first = self.written.partition_point(|run| run.end <= part.start);
        let cut_to = |run: &Range<u64>| run.start.max(part.start)..run.end.min(unseen);
        let written = self.written.iter().skip(first).take_while(|run| run.start < unseen).map(cut_to);
        let first = self.served.partition_point(|area| area.end <= part.start);
        let served = self.served.iter().skip(first).take_while(|area| area.start < unseen).map(cut_to);
        if own.is_anonymous() {
            // Of what is missing nobody must think that it is zeros.
            join_all(written.chain(served).collect(), runs);
        } else {
            runs.extend(written);
        }
        if unseen < part.end {
            // Not looked through: the process, which runs on, tells what it has by now. All of a reserved terabyte would be
            // written out as missing, page by page.
            return self.memory.written(own, unseen..part.end, runs);
        }
        Ok(())
    }
}

fn cut(buffer: &mut [u8], length: u64) -> &mut [u8] {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len());
    buffer.get_mut(..length).unwrap_or_default()
}

/// Appends ranges that may overlap, in any order, as runs by address.
fn join_all(mut ranges: Vec<Range<u64>>, runs: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    let from = runs.len();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match runs.get_mut(from..).and_then(<[_]>::last_mut).filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => runs.push(range),
        }
    }
}

/// The parts of `range` that are in `others`, which are by address.
fn common(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let first = others.partition_point(|one| one.end <= range.start);
    let near = others.iter().skip(first).take_while(|one| one.start < range.end);
    near.map(|one| one.start.max(range.start)..one.end.min(range.end)).collect()
}

/// `range` without `others`, which are by address.
fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    let mut at = range.start;
    let first = others.partition_point(|other| other.end <= range.start);
    for other in others.iter().skip(first).take_while(|other| other.start < range.end) {
        if at < other.start {
            parts.push(at..other.start);
        }
        at = at.max(other.end);
    }
    if at < range.end {
        parts.push(at..range.end);
    }
    parts
}

fn missing(address: u64, why: Absence) -> ReadError {
    ReadError::Missing { address, why }
}

/// The kernel may hold up a fork until the program that handles page faults has heard of it (UFFD_FEATURE_EVENT_FORK).
pub(super) fn has_userfaultfd(root: &ProcRoot, pid: Pid) -> bool {
    // What cannot be looked at might be one: that only costs a longer pause.
    let may_be = |error: std::io::Error| !is_gone(&error);
    let entries = match std::fs::read_dir(root.path(&format!("proc/{pid}/fd"))) {
        Ok(entries) => entries,
        Err(error) => return may_be(error),
    };
    entries.take(DESCRIPTORS).any(|entry| match entry.and_then(|entry| std::fs::read_link(entry.path())) {
        Ok(link) => link.as_os_str() == "anon_inode:[userfaultfd]",
        Err(error) => may_be(error),
    })
}

#[cfg(test)]
mod tests {
    use biopsy_image::Protection;

    use super::*;

    #[test]
    fn what_was_not_looked_at_is_no_zeros_and_what_was_looked_at_is_known() {
        const START: u64 = 0x7000_0000;
        let pages = |count: u64| START + count * PAGE_SIZE;
        let own = Mapping {
            start: START,
            end: pages(8),
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing: Backing::Anonymous { label: String::new() },
            not_frozen: false,
        };
        let copied = |not_copied| Copied {
            memory: ProcessMemory::open(Pid(std::process::id())).unwrap(),
            buffer: LockedBuffer::new(4096).unwrap(),
            used: 4096,
            pieces: vec![Piece { range: pages(6)..pages(7), at: 0 }],
            written: vec![pages(1)..pages(2), pages(3)..pages(4)],
            mappings: vec![own.clone()],
            unseen: BTreeMap::from([(0, (pages(5), Absence::NoTime))]),
            served: Vec::new(),
            full: Absence::OverLimit,
            not_copied,
        };
        let why = |copied: &Copied, page| match copied.read(pages(page), &mut [1; 1 << 16]) {
            Err(ReadError::Missing { why, .. }) => Err(why),
            other => Ok(other.unwrap()),
        };
        let limited = copied(Absence::OverLimit);
        assert_eq!(why(&limited, 0), Ok(4096), "up to what was written");
        assert_eq!(why(&limited, 1), Err(Absence::OverLimit));
        assert_eq!(why(&limited, 2), Ok(4096), "zeros, between what was written");
        assert_eq!(why(&limited, 4), Ok(4096), "zeros, as far as was looked");
        assert_eq!([5, 7].map(|page| why(&limited, page)), [Err(Absence::NoTime); 2]);
        assert_eq!(why(&limited, 6), Ok(4096), "copied with the stacks");
        // What was seen stays, and the process is asked for the rest: this one has nothing there.
        let mut runs = Vec::new();
        limited.written(&own, pages(0)..pages(8), &mut runs).unwrap();
        assert_eq!(runs, [pages(1)..pages(2), pages(3)..pages(4)]);
        // What somebody is to bring is no zeros either, and said to be there so that it is said to be missing.
        let mut served = copied(Absence::OverLimit);
        served.served.push(pages(2)..pages(4));
        assert_eq!([0, 4].map(|page| why(&served, page)), [Ok(4096); 2]);
        assert_eq!(why(&served, 2), Err(Absence::Unreadable));
        assert_eq!(why(&served, 3), Err(Absence::OverLimit), "it was there");
        let mut runs = Vec::new();
        served.written(&own, pages(0)..pages(8), &mut runs).unwrap();
        assert_eq!((runs.len(), &runs[0]), (1, &(pages(1)..pages(4))));
        // The first limit is the reason.
        let mut hasty = copied(Absence::Unreadable);
        hasty.ended_by(Absence::NoTime);
        hasty.ended_by(Absence::OverLimit);
        assert_eq!(why(&hasty, 1), Err(Absence::NoTime));
    }
}
