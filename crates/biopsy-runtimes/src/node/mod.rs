//! JavaScript of Node.js: threads with V8, read by the symbols that it exports about itself.
//!
//! ```text
//! v8dbg_* ─► symbols ─► layout ─┬─► isolate: where JavaScript left for native code
//!                               └─► objects: strings, functions, scripts ─► frames, asyncs
//! ```
//!
//! Node 18, 20 and 22 are read; of any other version of V8 it is said that its frames are not known. Nothing is sent to the
//! process. Not seen: functions that the optimizing compilers put into others (their callers are); lines of compiled code, and of
//! functions of which V8 has not needed the lines itself yet.

mod asyncs;
mod frames;
mod inlined;
mod isolate;
mod objects;
mod positions;
mod sampled;
mod symbols;

use std::ops::Range;

use biopsy_elf::MappedElf;
use biopsy_image::{GeneralRegisters, Image, Thread, mapping};

use crate::{
    Limits, Memory, Module, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind,
    StrandState, StrandWait, WaitKind,
};
use frames::Walk;
use isolate::{Isolate, Place};
use objects::Objects;
pub use sampled::{FoundNode, SampledNode, ScriptFrame, find};
use symbols::{Layout, PROGRAM_HEADERS, Symbols};

/// What a thread that waits to be notified is in.
const ATOMICS_WAIT: &str = "Atomics.wait";
/// `futex` of x86-64.
const FUTEX: u64 = 202;
/// `epoll_wait` and `epoll_pwait` of x86-64.
const EVENT_WAITS: [u64; 2] = [232, 281];

/// The Node.js in this module with the threads that run JavaScript; `None` when there is none.
#[must_use]
pub fn read(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<RuntimeStrands> {
    let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
    let elf = MappedElf::read(&read, module.module.start, PROGRAM_HEADERS).ok()?;
    let dynamic = elf.dynamic().unwrap_or_default();
    let symbols = Symbols { memory, elf: &elf, dynamic: &dynamic };
    if !symbols::is_v8(&symbols) {
        // A core lacks the text of files, and the official builds have no build id to know the file by.
        let is_node = module.file_name() == b"node";
        // Debian's is a small program with all of Node.js in a library, which is read by itself.
        let in_library = Module::all(memory.image()).any(|one| is_library_of_node(one.file_name()));
        return (is_node && !in_library || is_library_of_node(module.file_name())).then(|| {
            let mut found = RuntimeStrands::new(RuntimeKind::Node, &module.module.path, module.module.start);
            found.warn("what V8 exports about itself (v8dbg_*) is not in the image");
            found
        });
    }
    let mut found = RuntimeStrands::new(RuntimeKind::Node, &module.module.path, module.module.start);
    let Some(v8) = symbols::version(&symbols) else {
        found.warn("the version of V8 is not in the image");
        return Some(found);
    };
    let [major, minor, build, patch] = v8;
    let v8_version = format!("V8 {major}.{minor}.{build}.{patch}");
    let Some(node) = symbols::node_of(v8) else {
        found.version = Some(format!("with {v8_version}"));
        found.warn(format!("the frames of {v8_version} are not known (those of Node 18, 20 and 22 are)"));
        return Some(found);
    };
    found.version = Some(format!("{node} ({v8_version})"));
    match (Layout::of(&symbols), isolate::place(&symbols)) {
        (Ok(layout), Some(place)) => {
            let objects = Objects::new(memory, limits, layout);
            read_threads(&objects, place, memory.image(), &mut found);
        }
        (Err(missing), _) => found.warn(format!("the executable does not export {missing}")),
        (Ok(_), None) => found.warn("where threads keep their isolate is not understood"),
    }
    Some(found)
}

/// `libnode.so.115`.
fn is_library_of_node(name: &[u8]) -> bool {
    name.starts_with(b"libnode.so")
}

fn read_threads(objects: &Objects<'_>, place: Place, image: &dyn Image, found: &mut RuntimeStrands) {
    let mut left = objects.limits.frames;
    let mut optimized = 0;
    for thread in image.threads() {
        let Some(registers) = &thread.registers else { continue };
        let stack = stack_of(image, registers);
        let of_thread = isolate::of_thread(objects.memory, &objects.layout, place, registers.fs_base, &stack);
        let Some(isolate) = of_thread else { continue };
        found.total += 1;
        if found.strands.len() >= objects.limits.strands {
            continue;
        }
        let most = objects.limits.frames_per_strand.min(left);
        let walk = walk(objects, isolate, registers, &stack, most);
        left -= walk.frames.len();
        optimized += walk.optimized;
        found.strands.push(strand(thread, isolate, registers, walk));
    }
    if found.total > 0 && objects.layout.types.async_function.is_some() {
        let (calls, all) = objects.suspended();
        found.total += calls.len() as u64;
        found.strands.extend(calls.into_iter().take(objects.limits.strands - found.strands.len()));
        if !all {
            found.warn("not all memory was searched for calls of async functions");
        }
    }
    if (found.strands.len() as u64) < found.total {
        found.warn(format!("{} of {} threads are listed", found.strands.len(), found.total));
    }
    if optimized > 0 {
        found.warn(format!(
            "{optimized} frames are of optimized or compiled code: they have no line, and functions inside of them are not seen"
        ));
    }
}

/// What is mapped from the stack pointer on: frames are there.
fn stack_of(image: &dyn Image, registers: &GeneralRegisters) -> Range<u64> {
    let mapped = mapping::find(image.mappings(), registers.rsp);
    mapped.map_or(0..0, |mapped| registers.rsp..mapped.end)
}

fn walk(
    objects: &Objects<'_>,
    isolate: Isolate,
    registers: &GeneralRegisters,
    stack: &Range<u64>,
    most: usize,
) -> Walk {
    if let Some(exit) = isolate.exit {
        return objects.walk(exit, None, stack, most);
    }
    // JavaScript runs, or native code that it called in passing and that may have another use for the register.
    match objects.is_frame(registers.rbp, stack) {
        true => objects.walk(registers.rbp, Some(registers.rip), stack, most),
        false => Walk::default(),
    }
}

/// Of a thread that stands in `Atomics.wait`, which is built in and waits at a futex: until somebody calls `Atomics.notify`.
fn notified(first: &StrandFrame, registers: &GeneralRegisters) -> Option<StrandWait> {
    let is_wait = first.file.is_none() && &*first.function == "wait";
    if !is_wait || registers.system_call() != Some(FUTEX) {
        return None;
    }
    let mut wait = StrandWait::of(WaitKind::Condition, ATOMICS_WAIT);
    // The time limit of the call.
    wait.ends_by_itself = registers.r10 != 0;
    Some(wait)
}

fn strand(thread: &Thread, isolate: Isolate, registers: &GeneralRegisters, walk: Walk) -> Strand {
    let mut strand = Strand::new(StrandId(thread.tid.0.into()), StrandKind::Thread);
    strand.tid = Some(thread.tid);
    strand.name = thread.name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned());
    let waits_for_events =
        registers.system_call().is_some_and(|number| EVENT_WAITS.contains(&number)) && walk.frames.is_empty();
    let notified =
        walk.frames.first().filter(|_| isolate.exit.is_some()).and_then(|first| notified(first, registers));
    strand.state = match () {
        () if waits_for_events || notified.is_some() => StrandState::Waiting,
        () if walk.frames.is_empty() || isolate.exit.is_some() => StrandState::Native,
        () => StrandState::Running,
    };
    let rests = waits_for_events.then(|| StrandWait::of(WaitKind::Idle, "the event loop waits for events"));
    strand.wait = rests.or(notified);
    strand.frames = walk.frames;
    strand.cut = walk.cut;
    strand
}

#[cfg(test)]
mod tests;
