//! Removes ended children from a process: one of its threads, and only that one, is led through `wait4`.
//!
//! The kernel keeps an ended child until its parent asks for it. The process does not know that it has this child, and since
//! the child sends no signal, it never asks.

use std::time::{Duration, Instant};

use biopsy_model::{Pid, Tid};
use biopsy_sys::boost::Boost;

use super::child::Child;
use super::choose;
use super::gadgets::Gadgets;
use super::inject::{Call, Injection, Progress};
use super::stop::{Scratch, Threads};
use super::{FreezeError, Stage};
use crate::address_space::{ProcessMemory, read_mappings};
use crate::process::proc_root::ProcRoot;

/// Threads that are tried. Most programs' first thread will do.
const MOST_THREADS: usize = 16;
/// For one thread to stop, and for each call. It waits for nothing but a CPU, and is held up by nothing until it has one.
const LIMIT: Duration = Duration::from_secs(5);
/// The kernel may still be busy handing the ended child over to its parent.
const TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// What became of it.
#[derive(Debug)]
pub(super) struct Reaped {
    /// The children that are gone.
    pub(super) gone: Vec<Child>,
    /// How long the thread stood still, all in all.
    pub(super) pause: Duration,
    /// Why some are left, if some are.
    pub(super) why: Option<String>,
    /// A thread that had not stopped when the time was up.
    pub(super) late: Option<Threads>,
}

/// Removes `children` from `pid`. `idle` is called again and again meanwhile.
pub(super) fn reap(
    pid: Pid,
    children: &[Child],
    memory: &ProcessMemory,
    gadgets: &Gadgets,
    at: &dyn Fn(Stage),
    idle: &mut dyn FnMut(),
) -> Reaped {
    let mut reaped = Reaped { gone: Vec::new(), pause: Duration::ZERO, why: None, late: None };
    let mut left = children.to_vec();
    if left.is_empty() {
        return reaped;
    }
    let mut scratch = Scratch::new();
    let tids =
        ProcRoot::live().process(pid).and_then(|process| process.tids(MOST_THREADS)).unwrap_or_default();
    for tid in tids {
        if left.is_empty() {
            break;
        }
        // Fresh each time: the process runs, and maps what it likes.
        let Ok(mappings) = read_mappings(memory.tid()) else { break };
        // On a busy machine the thread would wait for a CPU, stopped or on its way to be.
        let boost = if Boost::most() > 0 { Boost::prepare().ok() } else { None };
        let begin = Instant::now();
        let mut threads = match Threads::seize_one(pid, tid) {
            Ok(threads) => threads,
            Err(error) => {
                reaped.why = Some(error.to_string());
                continue;
            }
        };
        if let Some(boost) = &boost {
            boost.raise(tid);
        }
        let outcome = with_thread(
            &mut threads,
            tid,
            &mut left,
            |threads, idle| {
                threads.stop_known(begin + LIMIT, LIMIT, idle)?;
                threads.read_registers(&mut scratch);
                if !gadgets.are_there(memory) {
                    return Err(FreezeError::NoGadget { pid, why: "its code has changed".to_owned() });
                }
                let thread = threads.find(tid).ok_or(FreezeError::Ended { pid })?;
                let (room, _) = choose::suits(thread, &mappings, memory, gadgets.entry.syscall)
                    .map_err(|why| FreezeError::NoSafeThread { pid, why: format!("thread {tid}: {why}") })?;
                Ok((room, gadgets.entry))
            },
            at,
            idle,
        );
        match outcome {
            Ok(()) => reaped.why = None,
            Err(error) => reaped.why = Some(error.to_string()),
        }
        threads.release(None);
        if let Some(boost) = &boost {
            boost.lower();
        }
        if threads.release_late() > 0 {
            reaped.late = Some(threads);
            break;
        }
        reaped.pause += begin.elapsed();
    }
    if left.is_empty() {
        reaped.why = None;
    }
    reaped.gone = children.iter().copied().filter(|child| !left.contains(child)).collect();
    reaped
}

type Ready = (super::stack::Room, super::frame::Entry);

/// Leads the thread through one `wait4` for each child that is left.
fn with_thread(
    threads: &mut Threads,
    tid: Tid,
    left: &mut Vec<Child>,
    stopped: impl FnOnce(&mut Threads, &mut dyn FnMut()) -> Result<Ready, FreezeError>,
    at: &dyn Fn(Stage),
    idle: &mut dyn FnMut(),
) -> Result<(), FreezeError> {
    let pid = threads.pid();
    let (room, entry) = stopped(threads, idle)?;
    let mut failed = None;
    let mut tries = 0;
    while let Some(&child) = left.first() {
        let thread = threads.find(tid).ok_or(FreezeError::Ended { pid })?;
        let mut injection = Injection::new(pid, thread, room, entry, Call::Wait(child.inner))?;
        let result = drive(&mut injection, at, idle);
        if !injection.is_done() {
            // Whatever it stands at, its frame carries it back.
            threads.abandon(tid);
            return result.map(drop);
        }
        match result? {
            Some(gone) if gone == i64::from(child.inner) => {
                left.remove(0);
                tries = 0;
            }
            Some(0) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(BETWEEN_TRIES);
            }
            Some(error) if error == -i64::from(rustix::io::Errno::CHILD.raw_os_error()) => {
                // Somebody else removed it: a program that waits for children of every kind.
                left.remove(0);
            }
            other => {
                failed = Some(format!("`wait4` answered {other:?}"));
                break;
            }
        }
    }
    match failed {
        Some(why) => Err(FreezeError::Refused { pid, why }),
        None => Ok(()),
    }
}

fn drive(
    injection: &mut Injection,
    at: &dyn Fn(Stage),
    idle: &mut dyn FnMut(),
) -> Result<Option<i64>, FreezeError> {
    injection.start(at)?;
    let deadline = Instant::now() + LIMIT;
    loop {
        match injection.poll(at)? {
            Progress::Done(result) => return Ok(result),
            Progress::Copy(_) | Progress::Middle(_) | Progress::Pending => idle(),
        }
        if Instant::now() > deadline {
            return Err(FreezeError::TookTooLong {
                pid: injection.pid(),
                stage: Stage::Resumed,
                limit: LIMIT,
            });
        }
        std::thread::sleep(Duration::from_micros(15));
    }
}
