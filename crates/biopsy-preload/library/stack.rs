//! Who called: return addresses by the rules of the unwind information, kept by address.

use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence};

use crate::layout::DEEPEST;
use crate::start;
use crate::system;
use crate::unwind::{self, AT_BP, Rule};

// A thread's own words: there when the thread is, zero, and of no library.
global_asm!(
    ".section .tbss.biopsy,\"awT\",@nobits",
    ".balign 64",
    ".type biopsy_thread,@object",
    "biopsy_thread:",
    ".zero 64",
    ".size biopsy_thread, 64",
    ".previous",
);

/// What is remembered of a thread.
#[repr(C)]
pub struct Thread {
    last: Cell<u64>,
    /// Its stack, as it was found.
    low: Cell<u64>,
    high: Cell<u64>,
    looks: Cell<u64>,
    calls: Cell<u64>,
}

pub fn thread() -> &'static Thread {
    let at: usize;
    // SAFETY: the linker gives the words a place below the thread pointer, in the part of it that is there from the start of each thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + biopsy_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) at,
            options(nostack, readonly),
        );
    }
    // SAFETY: 64 zeroed bytes, aligned, which only this thread uses; `static` as long as the thread, which is as long as anybody here has it.
    unsafe { &*(at as *const Thread) }
}

/// Looks at the list of mappings that a thread may take: programs that switch stacks need many.
const LOOKS: u64 = 256;
/// The stack of the first thread grows, and the kernel lets nothing be so near below it.
const GROWTH: u64 = 128 << 10;

impl Thread {
    pub fn is_time_to_look(&self) -> bool {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        calls & 0xffff == 0
    }

    pub fn set_last(&self, block: usize) {
        self.last.set(block as u64);
    }

    pub fn was_last(&self, block: usize) -> bool {
        self.last.get() == block as u64
    }

    /// Up to where the stack may be read.
    fn end(&self, sp: u64) -> u64 {
        if sp >= self.low.get() && sp < self.high.get() {
            return self.high.get();
        }
        if self.looks.get() < LOOKS {
            self.looks.set(self.looks.get() + 1);
            if let Some((low, high)) = stack_of(sp) {
                // A signal handler may come between the two, and must not take an old one for the other's.
                self.high.set(0);
                compiler_fence(SeqCst);
                self.low.set(low);
                compiler_fence(SeqCst);
                self.high.set(high);
                return high;
            }
        }
        // The page that it is in.
        (sp | 0xfff) + 1
    }
}

/// The stack that an address is in. `None`: it is not known, or must not be asked for.
#[cold]
#[inline(never)]
fn stack_of(sp: u64) -> Option<(u64, u64)> {
    // A program that has shut itself in may be ended for opening a file.
    if start::is_shut_in() {
        return None;
    }
    let (low, high, is_first) = mapping(sp)?;
    // What is mapped next to a thread's stack may be of the same mapping, and may go. The thread's own words are the upper end of its stack.
    let words = thread() as *const Thread as u64;
    let high = if low <= words && words < high && sp < words { words & !7 } else { high };
    Some((if is_first { low.saturating_sub(GROWTH) } else { low }, high))
}

/// The mapping that an address is in, and whether it is the stack of the first thread.
fn mapping(of: u64) -> Option<(u64, u64, bool)> {
    let path = c"/proc/self/maps".as_ptr() as usize;
    let file = system::call(system::OPENAT, [system::HERE, path, 0o2_000_000, 0, 0, 0]);
    let file = usize::try_from(file).ok()?;
    let mut bytes = [0_u8; 1024];
    let (mut numbers, mut which, mut found) = ([0_u64; 2], 0, None);
    let mut last = [0_u8; 8];
    'all: loop {
        let read = system::call(system::READ, [file, (&raw mut bytes) as usize, bytes.len(), 0, 0, 0]);
        if read <= 0 {
            break;
        }
        for byte in bytes.iter().take(read as usize).copied() {
            if byte == b'\n' {
                if numbers[0] <= of && of < numbers[1] {
                    found = Some((numbers[0], numbers[1], last == *b" [stack]"));
                    break 'all;
                }
                (numbers, which) = ([0; 2], 0);
                continue;
            }
            last = (u64::from_be_bytes(last) << 8 | u64::from(byte)).to_be_bytes();
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                // Behind each number is one other byte.
                _ => {
                    which += 1;
                    continue;
                }
            };
            if let Some(number) = numbers.get_mut(which) {
                *number = *number << 4 | u64::from(digit);
            }
        }
    }
    system::close(file);
    found
}

/// Rules by address: the address, changed by the rule, and the rule, so that one that is half written is none.
const RULES: usize = 1 << 13;
static KNOWN: [[AtomicU64; 2]; RULES] = [const { [const { AtomicU64::new(0) }; 2] }; RULES];

fn rule(address: u64) -> Rule {
    let slot = &KNOWN[(address ^ address >> 13) as usize % RULES];
    let (key, rule) = (slot[0].load(Relaxed), slot[1].load(Relaxed));
    if rule != 0 && key ^ rule == address {
        return Rule(rule);
    }
    let rule = unwind::rule(address);
    slot[0].store(address ^ rule.0, Relaxed);
    slot[1].store(rule.0, Relaxed);
    rule
}

/// Return addresses, innermost first, and what stands for them.
pub fn walk<'a>(
    sp: usize,
    bp: usize,
    thread: &Thread,
    frames: &'a mut [MaybeUninit<u64>; DEEPEST],
) -> (&'a [u64], u64) {
    let (mut sp, mut bp) = (sp as u64, bp as u64);
    let (begin, end) = (sp, thread.end(sp));
    let read = |address: u64| {
        if address < begin || address > end - 8 || address & 7 != 0 {
            return None;
        }
        // SAFETY: between the stack pointer and the end of the mapping that it is in; aligned.
        Some(unsafe { *(address as *const u64) })
    };
    let (mut count, mut hash) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    let mut next = read(sp);
    sp += 8;
    while let Some(address) = next.filter(|address| *address != 0) {
        frames[count].write(address);
        count += 1;
        hash = (hash ^ address).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 32;
        if count == DEEPEST {
            break;
        }
        let rule = rule(address);
        let Some(base) = rule.base(sp, bp) else { break };
        let base = if rule.is_indirect() { read(base) } else { Some(base) };
        // A caller's frame is above.
        let Some(base) = base.filter(|base| *base > sp) else { break };
        if let Some(offset) = rule.saved_bp() {
            let place = if offset == AT_BP { bp } else { base.wrapping_add_signed(offset) };
            let Some(saved) = read(place) else { break };
            bp = saved;
        }
        next = read(base - 8);
        sp = base;
    }
    // SAFETY: so many have been written, one after the other.
    let frames = unsafe { core::slice::from_raw_parts(frames.as_ptr().cast::<u64>(), count) };
    (frames, hash | 1)
}
