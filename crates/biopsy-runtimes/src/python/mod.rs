//! Threads and tasks of CPython 3.8 to 3.13, and who has which lock.
//!
//! ```text
//! version (_PyRuntime) ─► layout ─► threads ─► frames ─► code, lines
//!                                      ├─► waits ─► registers, locks ─► owners (with blocks)
//!                                      ├─► pools (concurrent.futures)
//!                                      └─► tasks (asyncio)
//! ```

mod attributes;
mod code;
mod exceptions;
mod frames;
pub(crate) mod layout;
mod lines;
mod locks;
mod objects;
mod owners;
mod pools;
mod reading;
mod registers;
mod sampled;
mod task_locks;
mod tasks;
mod threads;
mod variables;
mod version;
mod waits;

use biopsy_model::Avma;
use code::Codes;
use frames::PythonFrame;
use layout::Layout;
use objects::Objects;
use owners::Held;
use pools::Pools;
use reading::Reading;
pub use sampled::{Call, FoundPython, FrameWalk, RawFrame, RawStack, Run, SampledPython, find};
use threads::SystemThreads;
pub use variables::{Variable, Variables, variables};
pub(crate) use version::Found as Version;

use crate::{
    InterpreterLock, Limits, Memory, Module, RuntimeKind, RuntimeStrands, Strand, StrandId, StrandKind,
    WaitKind,
};

/// What runs an event loop: without it in any stack there are no tasks to look for.
const EVENT_LOOP: &str = "/asyncio/base_events.py";

/// The Python runtime in this module with its threads and tasks; `None` when there is none.
#[must_use]
pub fn read(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<RuntimeStrands> {
    read_version(memory, module, limits, version::find(memory, module)?)
}

/// The runtime of which this is known.
pub(crate) fn read_version(
    memory: &Memory<'_>,
    module: &Module<'_>,
    limits: &Limits,
    version: Version,
) -> Option<RuntimeStrands> {
    let mut found = RuntimeStrands::new(RuntimeKind::Python, &module.module.path, module.module.start);
    found.version = Some(version.text.clone()).filter(|text| !text.is_empty());
    let known = layout::KNOWN;
    let Some(layout) = version.minor.and_then(Layout::of) else {
        found.warn(format!(
            "threads are read of Python 3.{} to 3.{}; the version of this one is {}",
            known.start(),
            known.end(),
            found.version.as_deref().unwrap_or("not known")
        ));
        return Some(found);
    };
    if version.free_threaded {
        found.warn("threads of a Python without the interpreter's lock (free-threaded) are not read");
        return Some(found);
    }
    let reading = Reading { objects: Objects::new(memory, layout, limits), codes: Codes::default(), limits };
    match threads::first_interpreter(&reading, version.runtime) {
        None => {
            let why = match memory.u64(version.runtime.saturating_add(layout.runtime_interpreters)) {
                // A library that nobody initialised has none.
                Some(0) => return None,
                Some(_) => "the interpreter's data is not where it should be: its threads are not read",
                None => "the interpreter's data is not in the image: its threads are not read",
            };
            found.warn(why);
            Some(found)
        }
        Some((offset, first)) => {
            // What lies behind in the same structure has moved with it.
            let moved = offset.wrapping_sub(layout.runtime_interpreters);
            let runtime = version.runtime.wrapping_add(moved);
            read_interpreters(&reading, runtime, first, &mut found);
            Some(found)
        }
    }
}

fn read_interpreters(reading: &Reading<'_, '_, '_>, runtime: u64, first: u64, found: &mut RuntimeStrands) {
    let system = SystemThreads::of(reading.objects.memory.image());
    let mut frames = reading.limits.frames;
    for interpreter in threads::interpreters(reading, first) {
        let most = reading.limits.strands.saturating_sub(found.strands.len());
        let (threads, cut) = threads::read(reading, &system, interpreter, &mut frames, most);
        if cut {
            found.warn("the list of threads is not whole");
        }
        let gil = waits::gil(reading, runtime, interpreter, &threads);
        if gil.is_none() {
            found.warn("the lock of the interpreter was not found: who has it is not known");
        }
        let held = Held::of(reading, &threads);
        let pools = Pools::of(reading, &threads);
        for (number, thread) in threads.iter().enumerate() {
            let mut strand = Strand::new(StrandId(thread.at), StrandKind::Thread);
            strand.tid = thread.tid;
            strand.name.clone_from(&thread.name);
            strand.frames = thread.frames.iter().map(PythonFrame::strand_frame).collect();
            strand.cut = thread.cut;
            (strand.state, strand.wait) = waits::state(reading, &threads, &held, gil.as_ref(), number);
            strand.pool = pools.of_thread(number);
            let condition = strand.wait.as_mut().filter(|wait| wait.kind == WaitKind::Condition);
            if let Some((wait, (future, pool))) = condition.zip(pools.waited_for(reading, thread)) {
                (wait.kind, wait.address, wait.queued_in) = (WaitKind::Future, Some(Avma(future)), pool);
                wait.reason = "concurrent.futures.Future.result".to_owned();
                wait.object = Some("concurrent.futures.Future".to_owned());
            }
            found.strands.push(strand);
        }
        if found.interpreter_lock.is_none() {
            found.interpreter_lock = gil.map(|gil| InterpreterLock {
                address: Avma(gil.address),
                locked: gil.locked,
                holder: gil.locked.then_some(StrandId(gil.holder)),
            });
        }
        let loops = threads
            .iter()
            .flat_map(|thread| &thread.frames)
            .any(|frame| frame.code.file.ends_with(EVENT_LOOP));
        if loops {
            let most = reading.limits.strands.saturating_sub(found.strands.len());
            let (tasks, cut) = tasks::find(reading, runtime, interpreter, &mut frames, most);
            if cut {
                found.warn("not all objects were looked through for tasks");
            }
            found.strands.extend(tasks);
        }
    }
    found.total = found.strands.len() as u64;
}
