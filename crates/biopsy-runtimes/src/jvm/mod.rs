//! Threads of Java: HotSpot, the virtual machine of OpenJDK, read by the tables that it exports about itself.
//!
//! ```text
//! libjvm.so: gHotSpotVM* ─► tables ─► layout ─► vm ─┬─► threads ─────────────┐
//!                                                   ├─► code, methods ─► frames ─► strands
//!                                                   └─► objects ─► monitors, pools ─► waits ┘
//!                              └─► heap: what its memory is for
//! ```
//!
//! Versions 17, 21 and 25 are read; of any other it is said that its layout is not known. Nothing is sent to the process and it
//! need not reach a safepoint: what `jstack` cannot ask, a process that hangs, is read like any other. Virtual threads that are
//! not on a thread at the moment are objects of the heap and are not listed.

mod code;
mod compressed;
mod frames;
mod heap;
mod layout;
mod method;
mod methods;
mod monitors;
mod objects;
mod pools;
mod sampled;
mod tables;
mod threads;
mod vm;
mod waits;

use std::cell::RefCell;

use biopsy_image::{GeneralRegisters, Image};
use biopsy_model::Tid;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Limits, Memory, Module, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind,
    StrandState, WaitKind,
};
use code::CodeCache;
use frames::{Registers, Walk, Walker};
pub use heap::read_heap;
use pools::Pools;
pub use sampled::{FoundJava, JavaRule, SampledJava, find};
use threads::{JavaThread, status};
use vm::Vm;
use waits::Waits;

/// Threads that the virtual machine starts for itself and that run Java, or could.
const OF_RUNTIME: [&str; 12] = [
    "Attach Listener",
    "Common-Cleaner",
    "Finalizer",
    "JFR Recorder Thread",
    "Monitor Deflation Thread",
    "Notification Thread",
    "Reference Handler",
    "Service Thread",
    "Signal Dispatcher",
    "StringDedupThread",
    "StringDedupProcessor",
    "Sweeper thread",
];

/// Bytes of stack that a handler of a signal may use: the virtual machine's own writes its report in there.
const HANDLER_STACK: u64 = 256 << 10;
/// `r8` to `r15`, `rdi`, `rsi`, `rbp`, `rbx`, `rdx`, `rax`, `rcx`, `rsp`, `rip`, flags, selectors.
const CONTEXT_WORDS: usize = 19;

/// The call of a carrier that the frames of a virtual thread are on top of.
const ENTERED: &str = "jdk.internal.vm.Continuation.enterSpecial";

/// The virtual machine in this module with its threads; `None` when there is none.
#[must_use]
pub fn read(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<RuntimeStrands> {
    let opened = Vm::open(memory, module, limits)?;
    let mut found = RuntimeStrands::new(RuntimeKind::Java, &module.module.path, module.module.start);
    match opened {
        Ok((vm, version)) => {
            found.version = Some(version);
            read_threads(&vm, memory.image(), &mut found);
        }
        Err(refused) => {
            found.version = refused.version;
            found.warn(refused.why);
        }
    }
    Some(found)
}

fn read_threads(vm: &Vm<'_>, image: &dyn Image, found: &mut RuntimeStrands) {
    let Some((mut threads, total)) = vm.threads() else {
        return found.warn("the list of threads could not be read");
    };
    found.total = total;
    let mut of_system = OfSystem::new(image);
    threads.retain_mut(|thread| of_system.has(thread));
    if (threads.len() as u64) < total {
        found.warn(format!("{} of {total} threads could be read", threads.len()));
    }
    let code = CodeCache::read(vm);
    if code.is_none() {
        found.warn("the code cache could not be read: threads have no frames");
    }
    let registers: FxHashMap<Tid, &GeneralRegisters> =
        image.threads().iter().filter_map(|thread| Some((thread.tid, thread.registers.as_ref()?))).collect();
    let ids = ids(vm, &threads);
    let mut left = vm.limits.frames;
    let mut read = Vec::new();
    for thread in &threads {
        let most = vm.limits.frames_per_strand.min(left);
        let registers = thread.tid.and_then(|tid| registers.get(&tid).copied());
        let walked = code.as_ref().map(|code| walk(&Walker { vm, code }, thread, registers, most));
        let (walk, in_java) = walked.unwrap_or_default();
        // Calls that were compiled into the last of them may be more than were left.
        left = left.saturating_sub(walk.frames.len());
        read.push((walk, in_java));
    }
    let waits = Waits { vm, threads: &threads, ids: &ids, notify: RefCell::default() };
    let pools = Pools::of(vm, &threads);
    for (number, ((thread, id), (walk, in_java))) in threads.iter().zip(&ids).zip(read).enumerate() {
        let mut wait = waits.of(thread, &walk.frames);
        if let Some(wait) = wait.as_mut().filter(|wait| wait.kind == WaitKind::Future) {
            wait.queued_in = wait.address.and_then(|task| pools.queue_of(vm, task.0));
        }
        let mut strand = Strand::new(*id, StrandKind::Thread);
        strand.tid = thread.tid;
        strand.name = thread.object.and_then(|object| vm.thread_name(object));
        strand.of_runtime = strand.name.as_deref().is_some_and(is_of_runtime);
        strand.state = state(thread, in_java && wait.is_none(), wait.is_some());
        strand.cut = walk.cut;
        strand.pool = pools.of_thread(number);
        strand.wait = wait;
        let mut frames = walk.frames;
        if let Some(object) = thread.virtual_object {
            let entry = frames.iter().position(|frame| &*frame.function == ENTERED);
            let below = frames.split_off(entry.map_or(0, |entry| entry + 1));
            found.strands.push(mounted(vm, object, &strand, frames));
            frames = below;
            strand.wait = None;
        }
        strand.frames = frames;
        found.strands.push(strand);
    }
}

/// Threads of the system by where they are on their stacks; those without registers, or on another stack (of signals), by their
/// numbers.
struct OfSystem {
    by_stack: Vec<(u64, Tid)>,
    numbers: FxHashSet<Tid>,
    seen: FxHashSet<Tid>,
}

impl OfSystem {
    fn new(image: &dyn Image) -> Self {
        let threads = image.threads();
        let on_stack = |one: &biopsy_image::Thread| Some((one.registers.as_ref()?.rsp, one.tid));
        let mut by_stack: Vec<_> = threads.iter().filter_map(on_stack).collect();
        by_stack.sort_unstable();
        let numbers = threads.iter().map(|one| one.tid).collect();
        Self { by_stack, numbers, seen: FxHashSet::default() }
    }

    /// Gives a thread the number that the image has for it; whether there is such a thread, and nobody had it before. The virtual
    /// machine's number is another one where the process is in a pid namespace of its own, so that the stack decides.
    fn has(&mut self, thread: &mut JavaThread) -> bool {
        let at = self.by_stack.partition_point(|(sp, _)| *sp < thread.stack.start);
        let by_stack = self.by_stack.get(at).filter(|(sp, _)| thread.stack.contains(sp)).map(|(_, tid)| *tid);
        let found = by_stack.or_else(|| thread.tid.filter(|tid| self.numbers.contains(tid)));
        if found.is_some() {
            thread.tid = found;
        }
        found.is_some_and(|tid| self.seen.insert(tid))
    }
}

/// The numbers that Java shows, or addresses where they are not there or not unique.
fn ids(vm: &Vm<'_>, threads: &[JavaThread]) -> Vec<StrandId> {
    let mut seen = FxHashSet::default();
    let number = |thread: &JavaThread| vm.thread_number(thread.object?);
    threads
        .iter()
        .map(|thread| {
            let shown = number(thread).filter(|number| seen.insert(*number));
            StrandId(shown.unwrap_or(thread.address))
        })
        .collect()
}

fn is_of_runtime(name: &str) -> bool {
    OF_RUNTIME.contains(&name)
        || (name.starts_with("C1 CompilerThread") || name.starts_with("C2 CompilerThread"))
        || name.starts_with("JVMCI")
}

/// The frames of a thread, and whether it runs code that was made of Java just now.
fn walk(
    walker: &Walker<'_>,
    thread: &JavaThread,
    registers: Option<&GeneralRegisters>,
    most: usize,
) -> (Walk, bool) {
    let anchor = thread.address.checked_add(walker.vm.layout.threads.anchor).and_then(|at| walker.anchor(at));
    if let Some(from) = anchor {
        return (walker.walk(from, false, &thread.stack, most), false);
    }
    let Some(registers) = registers else { return (Walk::default(), false) };
    let from =
        Registers { pc: registers.rip, sp: registers.rsp, fp: registers.rbp, byte_code: Some(registers.r13) };
    if walker.code.contains(from.pc) {
        return (walker.walk(from, true, &thread.stack, most), true);
    }
    // A handler of a signal runs, on top of the Java code that the signal interrupted.
    match interrupted(walker, registers.rsp, thread) {
        Some(from) => (walker.walk(from, true, &thread.stack, most), true),
        None => (Walk::default(), false),
    }
}

/// Where a signal interrupted Java code: the registers that the kernel has put on the thread's stack (`struct sigcontext_64`, in which the
/// stack pointer is followed by the address of the instruction, the flags, and the selectors of user code and stack).
fn interrupted(walker: &Walker<'_>, sp: u64, thread: &JavaThread) -> Option<Registers> {
    if !thread.stack.contains(&sp) {
        return None;
    }
    let length = (thread.stack.end - sp).min(HANDLER_STACK) as usize;
    let bytes = walker.vm.memory.bytes(sp, length);
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.windows(CONTEXT_WORDS).enumerate().find_map(|(at, context)| {
        let [_, _, _, _, _, byte_code, _, _, _, _, fp, _, _, _, _, to, pc, flags, selectors] = *context
        else {
            return None;
        };
        let above = thread.stack.contains(&to) && to > sp + 8 * at as u64;
        // Bit 1 of the flags is always set.
        let is_user = selectors & 0xffff == 0x33 && flags & 2 != 0 && flags >> 32 == 0;
        (above && is_user && walker.is_code(pc)).then_some(Registers {
            pc,
            sp: to,
            fp,
            byte_code: Some(byte_code),
        })
    })
}

fn state(thread: &JavaThread, in_java: bool, waits: bool) -> StrandState {
    match thread.status {
        Some(now) if now & status::TERMINATED != 0 => StrandState::Ended,
        _ if in_java => StrandState::Running,
        _ if waits => StrandState::Waiting,
        // It left Java without waiting for anything that Java knows.
        Some(now) if now & status::RUNNABLE != 0 => StrandState::Native,
        _ => StrandState::NotKnown,
    }
}

/// The virtual thread that runs on a thread.
fn mounted(vm: &Vm<'_>, object: u64, carrier: &Strand, frames: Vec<StrandFrame>) -> Strand {
    let id = StrandId(vm.thread_number(object).unwrap_or(object));
    let mut strand = Strand::new(id, StrandKind::VirtualThread);
    strand.tid = carrier.tid;
    strand.name = vm.thread_name(object).filter(|name| !name.is_empty());
    strand.state = carrier.state;
    strand.wait = carrier.wait.clone();
    strand.cut = carrier.cut && frames.is_empty();
    strand.frames = frames;
    strand
}

#[cfg(test)]
mod tests;
