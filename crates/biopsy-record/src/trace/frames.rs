//! From registers and stack bytes to interned stacks.

use std::io;

use biopsy_model::stack::{Frame, StackEnd, StackHandle};
use biopsy_model::{Avma, FileOffset};
use biopsy_runtimes::python::RawStack;
use biopsy_stacks::unwind::{ProcessUnwinder, StackMemory, UserRegisters, WalkedFrame};
use rustc_hash::{FxHashMap, FxHashSet};

use super::intern::Interner;
use super::languages::{Language, Timeline, Unmixed};
use super::maps;
use super::processes::Processes;
use super::sink::Sink;

/// Deeper stacks are cut: an endless recursion must not fill the disk.
const DEEPEST: usize = 1024;
/// A thread whose stacks come out the same by frame pointers this many times in a row needs no copies.
const SAME_BEFORE_TRUST: u32 = 64;
/// A trusted thread is checked again every so many samples.
const CHECK_EVERY: u32 = 256;

/// Threads whose mapping is asked for: each costs a reading of the maps.
const MOST_GUESSES: usize = 1024;

/// What was learned of a thread's stack.
#[derive(Clone, Copy, Default, Debug)]
struct Learned {
    /// Just above the outermost frame.
    base: u64,
    /// Samples in a row in which the chain of frame pointers said the same as unwinding.
    same: u32,
    /// Samples since frame pointers have been trusted.
    trusted: u32,
    trusts: bool,
    /// The thread's last two frames, where frame pointers do not lead from one to the other: the C library's first function
    /// keeps none, and calls `start_thread` or its like with a frame pointer of zero.
    root: Option<[Avma; 2]>,
}

/// Whether frame pointers say the same as unwinding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Same {
    /// They do.
    Whole,
    /// They do up to the frame before the thread's root, and end there.
    BeforeRoot,
    /// They do not.
    No,
}

/// What the sampling program should know of a thread from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hint {
    pub(crate) tid: u32,
    pub(crate) base: u64,
    pub(crate) frame_pointers: bool,
}

/// What was recorded beside the registers and the stack of a thread.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Beside<'a> {
    /// Kernel addresses, innermost first.
    pub(crate) kernel: &'a [u64],
    /// Frames of an interpreter, where they are not on the stack.
    pub(crate) language: Option<&'a RawStack>,
}

/// Unwinds and interns.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) processes: Processes,
    pub(crate) interner: Interner,
    learned: FxHashMap<u32, Learned>,
    /// Threads whose mapping was asked for.
    guessed: FxHashSet<u32>,
    /// Changes to tell the kernel part.
    pub(crate) hints: Vec<Hint>,
    /// Interpreters by process.
    pub(crate) languages: FxHashMap<u32, Language>,
    addresses: Vec<Avma>,
    /// A function inside of the innermost frame of the next stack that is on no stack itself.
    entered: Option<Avma>,
    walked: Vec<WalkedFrame>,
    frames: Vec<Frame>,
}

impl Frames {
    pub(crate) fn new(processes: Processes, interner: Interner) -> Self {
        Self {
            processes,
            interner,
            learned: FxHashMap::default(),
            guessed: FxHashSet::default(),
            hints: Vec::new(),
            languages: FxHashMap::default(),
            addresses: Vec::new(),
            entered: None,
            walked: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Where a thread's stack ends, if that is known.
    pub(crate) fn stack_base(&self, tid: u32) -> Option<u64> {
        self.learned.get(&tid).map(|learned| learned.base).filter(|&base| base != 0)
    }

    pub(crate) fn forget(&mut self, tid: u32) {
        self.learned.remove(&tid);
        self.guessed.remove(&tid);
        for language in self.languages.values_mut() {
            language.forget_thread(tid);
        }
    }

    /// The next stack is of a call that returns to this address. The function that it entered is its innermost one, if it is none of those
    /// that were returned from (`is_other`, by the offset in its file): then it ended by jumping there (a tail call).
    pub(crate) fn returned_to(&mut self, pid: u32, address: Avma, is_other: impl Fn(FileOffset) -> bool) {
        let entered = self.processes.unwinder(pid).and_then(|unwinder| unwinder.entered(address));
        self.entered = entered.filter(|(_, offset)| is_other(*offset)).map(|(start, _)| start);
    }

    /// Interns the stack of a sample whose user part is to be unwound.
    pub(crate) fn user_stack(
        &mut self,
        pid: u32,
        tid: u32,
        registers: &UserRegisters,
        stack: StackMemory<'_>,
        beside: Beside<'_>,
        sink: &mut Sink,
    ) -> io::Result<(Option<StackHandle>, StackEnd)> {
        let Beside { kernel, language } = beside;
        let now = biopsy_sys::clock::monotonic_nanos();
        self.processes.heal(pid, registers.ip, now, &mut self.interner, sink)?;
        self.addresses.clear();
        self.walked.clear();
        let Some(unwinder) = self.processes.unwinder(pid) else {
            return self.intern(pid, kernel, StackEnd::NoUnwindInfo, sink);
        };
        let mut unwound = unwinder.unwind_frames(registers, stack, &mut self.walked);
        let found = find_frame_pointer(unwinder, registers, stack, unwound.end);
        if let Some(found) = &found {
            self.walked.clear();
            unwound = unwinder.unwind_frames(found, stack, &mut self.walked);
        }
        self.addresses.extend(self.walked.iter().map(|frame| frame.lookup));
        let registers = found.as_ref().unwrap_or(registers);
        if unwound.end == StackEnd::Root {
            let same = same_by_frame_pointers(registers, stack, &self.addresses);
            let root = match (same, self.addresses.as_slice()) {
                (Same::BeforeRoot, [.., before, root]) => Some([*before, *root]),
                _ => None,
            };
            // The frames of a language are placed by stack pointers, which the kernel's chains do not have.
            let same_by_frame_pointers = same != Same::No && !self.languages.contains_key(&pid);
            self.learn(tid, unwound.top.0, same_by_frame_pointers, root);
        } else if unwound.needed_beyond && self.stack_base(tid).is_some() {
            // It runs on another stack now (a coroutine, a signal handler's): ask for a generous copy again.
            self.unlearn(tid);
        } else if unwound.needed_beyond {
            self.guess_base(pid, tid, registers.sp);
        }
        if self.languages.contains_key(&pid) {
            return self.intern_mixed(pid, kernel, unwound.end, stack, language, sink);
        }
        self.intern(pid, kernel, unwound.end, sink)
    }

    /// The stack is deeper than what is copied of one whose length is not known. Its mapping says where it ends at most; asked
    /// for once per thread.
    fn guess_base(&mut self, pid: u32, tid: u32, sp: u64) {
        if self.guessed.len() < MOST_GUESSES
            && self.guessed.insert(tid)
            && let Some(base) = maps::mapping_end(pid, sp)
        {
            self.learned.insert(tid, Learned { base, ..Learned::default() });
            self.hints.push(Hint { tid, base, frame_pointers: false });
        }
    }

    /// Interns a stack whose user part is a chain found by frame pointers (`ip`, then return addresses).
    pub(crate) fn chain(
        &mut self,
        pid: u32,
        tid: u32,
        chain: &[Avma],
        kernel: &[u64],
        sink: &mut Sink,
    ) -> io::Result<(Option<StackHandle>, StackEnd)> {
        self.addresses.clear();
        let Some(unwinder) = self.processes.unwinder(pid) else {
            return self.intern(pid, kernel, StackEnd::NoUnwindInfo, sink);
        };
        let mut end = unwinder.check_chain(chain, &mut self.addresses);
        let known = self.learned.get(&tid).and_then(|learned| learned.root);
        if let Some([before, root]) = known
            && end != StackEnd::Root
            && self.addresses.last() == Some(&before)
        {
            self.addresses.push(root);
            end = StackEnd::Root;
        }
        if let Some(learned) = self.learned.get_mut(&tid)
            && learned.trusts
        {
            learned.trusted += 1;
            if end != StackEnd::Root || learned.trusted >= CHECK_EVERY {
                self.unlearn_trust(tid);
            }
        }
        self.intern(pid, kernel, end, sink)
    }

    /// Interns a stack of return addresses alone, innermost first.
    pub(crate) fn return_addresses(
        &mut self,
        pid: u32,
        addresses: &[u64],
        sink: &mut Sink,
    ) -> io::Result<Option<StackHandle>> {
        self.addresses.clear();
        self.entered = None;
        // The call is before the address that it returns to.
        self.addresses.extend(addresses.iter().map(|address| Avma(address.saturating_sub(1))));
        Ok(self.intern(pid, &[], StackEnd::Root, sink)?.0)
    }

    /// Interns kernel frames only, or nothing.
    pub(crate) fn kernel_only(
        &mut self,
        pid: u32,
        kernel: &[u64],
        end: StackEnd,
        sink: &mut Sink,
    ) -> io::Result<(Option<StackHandle>, StackEnd)> {
        self.addresses.clear();
        self.intern(pid, kernel, end, sink)
    }

    /// Interns kernel frames, and native frames with the calls of a language in place of its interpreter.
    fn intern_mixed(
        &mut self,
        pid: u32,
        kernel: &[u64],
        end: StackEnd,
        stack: StackMemory<'_>,
        raw: Option<&RawStack>,
        sink: &mut Sink,
    ) -> io::Result<(Option<StackHandle>, StackEnd)> {
        let Self { processes, interner, languages, walked, frames, entered, .. } = self;
        // An interpreter's functions are put in place by where they are on the stack.
        *entered = None;
        let Some(language) = languages.get_mut(&pid) else { return self.intern(pid, kernel, end, sink) };
        let now = biopsy_sys::clock::monotonic_nanos();
        let word = |address: u64| stack_word(stack, address);
        frames.clear();
        kernel_frames(processes, kernel, frames);
        let mut timeline = Timeline { processes, interner, sink };
        let unmixed = Unmixed { walked, end, word: &word, raw };
        if !language.mixed(unmixed, now, &mut timeline, frames)? {
            return self.intern(pid, kernel, end, sink);
        }
        let cut = frames.len() > DEEPEST;
        frames.truncate(DEEPEST);
        let stack = interner.stack(frames, sink)?;
        Ok((stack, if cut { StackEnd::Truncated } else { end }))
    }

    /// A process runs an interpreter.
    pub(crate) fn set_language(&mut self, pid: u32, language: Language) {
        self.languages.insert(pid, language);
        let trusted = self.learned.iter().filter(|(_, learned)| learned.trusts).map(|(&tid, _)| tid);
        let trusted: Vec<u32> = trusted.filter(|tid| self.processes.process_of(*tid) == Some(pid)).collect();
        for tid in trusted {
            self.unlearn_trust(tid);
        }
    }

    pub(crate) fn language(&self, pid: u32) -> Option<&Language> {
        self.languages.get(&pid)
    }

    /// A process runs no interpreter any more.
    pub(crate) fn forget_language(&mut self, pid: u32) -> bool {
        self.languages.remove(&pid).is_some()
    }

    /// The frames of a language of a thread that sleeps.
    pub(crate) fn language_now(&mut self, pid: u32, tid: u32) -> Option<RawStack> {
        self.languages.get_mut(&pid)?.stack_now(tid, biopsy_sys::clock::monotonic_nanos())
    }

    fn intern(
        &mut self,
        pid: u32,
        kernel: &[u64],
        end: StackEnd,
        sink: &mut Sink,
    ) -> io::Result<(Option<StackHandle>, StackEnd)> {
        self.frames.clear();
        kernel_frames(&self.processes, kernel, &mut self.frames);
        let cut = self.addresses.len() > DEEPEST;
        let entered = self.entered.take().filter(|_| !self.addresses.is_empty());
        for address in entered.iter().chain(&self.addresses).copied().take(DEEPEST) {
            self.frames.push(self.processes.user_frame(pid, address));
        }
        let stack = self.interner.stack(&self.frames, sink)?;
        Ok((stack, if cut { StackEnd::Truncated } else { end }))
    }

    fn learn(&mut self, tid: u32, base: u64, same_by_frame_pointers: bool, root: Option<[Avma; 2]>) {
        let learned = self.learned.entry(tid).or_default();
        if same_by_frame_pointers {
            learned.root = root;
        }
        learned.same = if same_by_frame_pointers { learned.same + 1 } else { 0 };
        let trusts = learned.same >= SAME_BEFORE_TRUST;
        if learned.base != base || learned.trusts != trusts {
            learned.base = base;
            learned.trusts = trusts;
            learned.trusted = 0;
            self.hints.push(Hint { tid, base, frame_pointers: trusts });
        }
    }

    fn unlearn(&mut self, tid: u32) {
        self.learned.remove(&tid);
        self.hints.push(Hint { tid, base: 0, frame_pointers: false });
    }

    /// Copies again for a while; half the proof is kept.
    fn unlearn_trust(&mut self, tid: u32) {
        if let Some(learned) = self.learned.get_mut(&tid) {
            learned.trusts = false;
            learned.trusted = 0;
            learned.same = SAME_BEFORE_TRUST / 2;
            self.hints.push(Hint { tid, base: learned.base, frame_pointers: false });
        }
    }
}

fn kernel_frames(processes: &Processes, kernel: &[u64], frames: &mut Vec<Frame>) {
    for (position, &address) in kernel.iter().enumerate() {
        let lookup = address.saturating_sub(u64::from(position > 0));
        frames.push(processes.kernel_frame(lookup));
    }
}

fn stack_word(stack: StackMemory<'_>, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(stack.base)?).ok()?;
    Some(u64::from_ne_bytes(stack.bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Slots from the stack pointer on that are looked at for a frame pointer, and stacks that are tried.
const SLOTS: usize = 1024;
const TRIES: usize = 24;

/// What `/proc` says of a thread that sleeps since before the recording leaves out its frame pointer, by which libraries of .NET
/// find their frames. The lowest place on the stack that looks like a saved one (a pointer further up, and a return address),
/// and from where the thread's root is reached, is taken for it. `None`: it was known, or is not needed, or not found.
fn find_frame_pointer(
    unwinder: &mut ProcessUnwinder,
    registers: &UserRegisters,
    stack: StackMemory<'_>,
    end: StackEnd,
) -> Option<UserRegisters> {
    if registers.fp != 0 || end == StackEnd::Root {
        return None;
    }
    let words: Vec<u64> = stack
        .bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("chunks of 8")))
        .collect();
    let top = stack.base.saturating_add(stack.bytes.len() as u64);
    let mut unused = Vec::new();
    let slots = words.windows(2).take(SLOTS).enumerate();
    let slots = slots.map(|(slot, pair)| (stack.base.wrapping_add(slot as u64 * 8), pair[0], pair[1]));
    let candidates: Vec<u64> = slots
        .filter(|&(at, saved, return_address)| {
            // Zero is what the outermost one that keeps it has saved.
            let upwards = saved > at && saved < top && saved.is_multiple_of(8);
            (upwards || saved == 0) && unwinder.find(Avma(return_address.wrapping_sub(1))).is_some()
        })
        .map(|(at, ..)| at)
        .collect();
    candidates.into_iter().take(TRIES).map(|fp| UserRegisters { fp, ..*registers }).find(|candidate| {
        unused.clear();
        unwinder.unwind(candidate, stack, &mut unused).end == StackEnd::Root
    })
}

/// Whether following saved frame pointers through the copied stack meets the same callers as unwinding did.
fn same_by_frame_pointers(registers: &UserRegisters, stack: StackMemory<'_>, unwound: &[Avma]) -> Same {
    let word = |address: u64| stack_word(stack, address);
    let mut frame = registers.fp;
    for (position, lookup) in unwound.iter().enumerate().skip(1) {
        let (Some(next), Some(address)) = (word(frame), word(frame.wrapping_add(8))) else {
            let is_last = position + 1 == unwound.len() && position > 1;
            return if is_last && frame == 0 { Same::BeforeRoot } else { Same::No };
        };
        if address.wrapping_sub(1) != lookup.0 || next != 0 && next <= frame {
            return Same::No;
        }
        frame = next;
    }
    Same::Whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three callers: two that keep a frame pointer, and the thread's first function, which keeps none.
    fn stack(last_next: u64) -> Vec<u8> {
        let words = [0_u64, 0x1020, 0x501, 0, last_next, 0x601];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn frame_pointers_may_end_one_frame_before_the_root() {
        let registers = UserRegisters::new(0x400, 0x1000, 0x1008);
        let unwound = |addresses: &[u64]| addresses.iter().copied().map(Avma).collect::<Vec<_>>();
        let bytes = stack(0);
        let memory = StackMemory { base: 0x1000, bytes: &bytes };
        let same = |addresses: &[u64]| same_by_frame_pointers(&registers, memory, &unwound(addresses));
        assert_eq!(same(&[0x400, 0x500, 0x600]), Same::Whole);
        assert_eq!(same(&[0x400, 0x500, 0x600, 0x700]), Same::BeforeRoot);
        assert_eq!(same(&[0x400, 0x500, 0x600, 0x700, 0x800]), Same::No);
        assert_eq!(same(&[0x400, 0x510, 0x600, 0x700]), Same::No);
        let bytes = stack(0x7777_0000);
        let memory = StackMemory { base: 0x1000, bytes: &bytes };
        let same = same_by_frame_pointers(&registers, memory, &unwound(&[0x400, 0x500, 0x600, 0x700]));
        assert_eq!(same, Same::No, "the kernel would go on to somewhere else");
    }
}
