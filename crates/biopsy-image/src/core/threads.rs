//! Threads of a core, the crashed one first.

use std::collections::HashMap;

use biopsy_model::Tid;
use biopsy_model::loss::Warning;

use super::dialect::Writer;
use super::header::Machine;
use super::notes::{Notes, RawThread};
use crate::{Thread, ThreadSignal};

/// SIGSTOP: how gdb stops what it writes a core of.
const SIGSTOP: i32 = 19;

/// Makes threads of the notes and empties them there.
///
/// The kernel writes the thread that died first, and its signal into `pr_cursig` of *all* threads; NT_SIGINFO follows only
/// the first. gdb writes NT_SIGINFO for each thread, with the signal that gdb itself stopped it with. So a signal is
/// that of NT_SIGINFO behind the thread, else `pr_cursig` of the first thread only.
pub(super) fn build(
    notes: &mut Notes,
    writer: Writer,
    machine: Machine,
    warnings: &mut Vec<Warning>,
) -> Vec<Thread> {
    let raw = std::mem::take(&mut notes.threads);
    let mut threads = Vec::with_capacity(raw.len());
    for (index, thread) in raw.into_iter().enumerate() {
        if index == 0 && notes.process.is_none() {
            // Enough to say which process it was.
            notes.process = Some(super::notes::ProcessNote {
                user: 0,
                group_id: 0,
                pid: thread.tid,
                parent: thread.parent,
                group: thread.group,
                session: thread.session,
                name: Vec::new(),
                arguments: Vec::new(),
            });
        }
        threads.push(to_thread(thread, index == 0, writer));
    }
    add_what_we_say(&mut threads, notes);
    if machine == Machine::Aarch64 && !threads.is_empty() {
        warnings.push(Warning::new(
            "dump.no-registers",
            "the core is of an AArch64 machine: its threads are listed without registers, so without stacks",
        ));
    }
    if writer == Writer::Biopsy {
        return threads; // They are in this order already.
    }
    let main = notes.process.as_ref().map(|process| process.pid);
    let first = threads
        .iter()
        .position(|thread| thread.signal.is_some())
        .or_else(|| threads.iter().position(|thread| Some(thread.tid.0) == main));
    if let Some(first) = first {
        threads[..=first].rotate_right(1);
    }
    threads
}

fn to_thread(thread: RawThread, first: bool, writer: Writer) -> Thread {
    let of_dump = ThreadSignal { number: thread.signal_of_dump, ..ThreadSignal::default() };
    let signal = match thread.signal {
        Some(signal) => Some(signal).filter(|signal| signal.number != SIGSTOP),
        None if writer == Writer::Biopsy || first && writer.first_thread_has_the_signal() => {
            Some(of_dump).filter(|signal| signal.number != 0 && signal.number != SIGSTOP)
        }
        None => None,
    };
    // NT_FPREGSET is the beginning of NT_X86_XSTATE.
    let extended = if thread.extended.is_empty() { thread.floating } else { thread.extended };
    Thread {
        tid: Tid(thread.tid),
        name: None,
        registers: thread.registers,
        extended,
        signal,
        blocked_signals: writer.knows_blocked_signals().then_some(thread.blocked),
    }
}

/// Names, and threads that have no registers, from our own note. A zero mask of signals is written where it was not known.
fn add_what_we_say(threads: &mut Vec<Thread>, notes: &mut Notes) {
    let index: HashMap<u32, usize> =
        threads.iter().enumerate().map(|(index, thread)| (thread.tid.0, index)).collect();
    for named in std::mem::take(&mut notes.named) {
        match index.get(&named.tid.0).and_then(|&index| threads.get_mut(index)) {
            Some(thread) => {
                thread.name = named.name;
                if !named.has_registers {
                    thread.registers = None;
                }
            }
            None => threads.push(Thread { tid: named.tid, name: named.name, ..Thread::default() }),
        }
    }
}
