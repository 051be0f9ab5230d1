//! All threads of one process at their stops, and what is read of them there.

use std::time::Instant;

use biopsy_image::{GeneralRegisters, Thread, ThreadSignal};
use biopsy_model::{Avma, Pid, Tid};
use biopsy_sys::ptrace;
use biopsy_sys::ptrace::registers;
use biopsy_sys::ptrace::wait::{self, Stop};

use super::{COLLECT_WITHIN, Engine, Report, Stage, Why};
use crate::catch::caught::Catch;
use crate::process::proc_root::{ProcRoot, SMALL, is_gone};

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
pub(super) const FAULTS: [i32; 5] = [4, 5, 7, 8, 11];
/// Longest extended state: AMX has some 11 KiB.
const EXTENDED: usize = 16 << 10;

impl Engine {
    /// Begins to collect. `first` is the thread that it is about.
    pub(super) fn collect(&mut self, pid: Pid, first: Tid, why: Why) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.stage = Stage::Collecting { why, first, until: Instant::now() + COLLECT_WITHIN };
        if !matches!(why, Why::End(_)) {
            // At the end of a process the threads come by themselves.
            for &tid in process.threads.iter().filter(|&&tid| tid != first || why == Why::Time) {
                let _ = ptrace::interrupt(tid);
            }
        }
        self.collected_if_complete(pid);
    }

    pub(super) fn stopped_while_collecting(&mut self, pid: Pid, tid: Tid, stop: Stop) {
        if let Stop::Event(wait::EVENT_FORK | wait::EVENT_VFORK | wait::EVENT_CLONE) = stop {
            let new = ptrace::event_message(tid).ok().and_then(|message| u32::try_from(message).ok());
            let known = new.map(Tid).is_none_or(|new| self.threads.contains_key(&new));
            if !known && let Some(process) = self.processes.get_mut(&pid) {
                // A child rather than a thread is found to be one when its registers are asked for.
                let new = Tid(new.unwrap_or(0));
                let is_thread = ProcRoot::live()
                    .process(pid)
                    .is_ok_and(|folder| folder.read(&format!("task/{new}/stat"), SMALL).is_ok());
                if is_thread {
                    process.threads.insert(new);
                    self.threads.insert(new, super::Traced { process: pid, kept: None });
                }
            }
        }
        // Somebody killed it while it was collected: what is there is the end now.
        if let Stop::Event(wait::EVENT_EXIT) = stop
            && let Some(process) = self.processes.get_mut(&pid)
            && let Stage::Collecting { why: why @ (Why::Signal(_) | Why::Time), first, until } = process.stage
            && let Some(message) = ptrace::event_message(tid).ok()
            && let Ok(status) = i32::try_from(message)
            && status & 0x7f == 9
        {
            let _ = why;
            process.stage = Stage::Collecting { why: Why::End(status), first, until };
        }
        // A process that was held at a signal and is killed from elsewhere must not be kept from ending.
        let stage = self.processes.get(&pid).map(|process| process.stage.clone());
        if matches!(stage, Some(Stage::Held { .. } | Stage::Waiting { .. })) {
            // It dies of a fault that was passed on to a handler before all stood: what is held is that end.
            if self.dies_of_fault(pid, tid, stop) {
                self.keep(tid, stop);
                return;
            }
            if matches!(stage, Some(Stage::Waiting { .. })) {
                self.miss(format!("process {pid} was killed while it waited to be inspected"));
            }
            self.queue.retain(|catch| catch.key.pid != pid);
            self.leave_from(pid, tid, stop);
            return;
        }
        self.keep(tid, stop);
        self.collected_if_complete(pid);
    }

    /// The thread is at its end, by the signal of a fault that one of the process's threads stood at.
    fn dies_of_fault(&self, pid: Pid, tid: Tid, stop: Stop) -> bool {
        let fault = self.processes.get(&pid).and_then(|process| process.fault.as_ref());
        let at_end = stop == Stop::Event(wait::EVENT_EXIT);
        let status = ptrace::event_message(tid).ok().filter(|_| at_end);
        fault.zip(status).is_some_and(|((_, fault), status)| u64::try_from(fault.number) == Ok(status & 0x7f))
    }

    pub(super) fn collected_if_complete(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        let complete =
            process.threads.iter().all(|tid| self.threads.get(tid).is_some_and(|one| one.kept.is_some()));
        if complete {
            self.collected(pid);
        }
    }

    /// Reads the threads that stand, and puts the process into the queue.
    pub(super) fn collected(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        let Stage::Collecting { why, first, .. } = process.stage else { return };
        let waiting = self.queue.len();
        if waiting >= self.settings.max_waiting {
            self.miss(format!("process {pid} was let go: {waiting} wait already"));
            self.leave(pid);
            return;
        }
        let now = Instant::now();
        let mut threads = Vec::new();
        let mut missing = Vec::new();
        let mut rest: Vec<Tid> = process.threads.iter().copied().filter(|&tid| tid != first).collect();
        rest.insert(0, first);
        for tid in rest {
            match self.threads.get(&tid).and_then(|one| one.kept) {
                Some(stop) => {
                    threads.push(read_thread(pid, tid, signal_at(tid, stop, why, process.fault.as_ref())))
                }
                None => missing.push(tid),
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        let catch = Catch {
            key: process.key.clone(),
            id,
            why,
            threads,
            missing,
            ended_threads: process.ended_threads,
            since: now,
        };
        if let Some(process) = self.processes.get_mut(&pid) {
            process.stage = Stage::Waiting { id, since: now };
        }
        self.queue.push_back(Box::new(catch));
    }

    /// Hands out what waits, as long as there are places.
    pub(super) fn hand_out(&mut self) {
        while self.held().len() < self.settings.max_held.max(1) {
            let Some(catch) = self.queue.pop_front() else { return };
            let Some(process) = self.processes.get_mut(&catch.key.pid) else { continue };
            process.stage = Stage::Held { id: catch.id, since: catch.since };
            self.statistics.lock().unwrap_or_else(std::sync::PoisonError::into_inner).caught += 1;
            let pid = catch.key.pid;
            if self.reports.send(Report::Caught(catch)).is_err() {
                self.leave(pid);
            }
        }
    }
}

/// The signal that a thread stands at, or at which it stood before another thread's end took it along.
///
/// Where several threads fault at once, and the first of them changes how the signal is handled (as the handlers of Rust and of sanitizers
/// do), what was passed on to a handler ends the process all the same: the thread that stood at a fault is told by that fault then.
fn signal_at(tid: Tid, stop: Stop, why: Why, fault: Option<&(Tid, ThreadSignal)>) -> Option<ThreadSignal> {
    if let Stop::Signal(number) = stop
        && let Some(signal) = read_signal(tid, number)
    {
        return Some(signal);
    }
    let ends_it = match (stop, why) {
        (_, Why::Signal(number)) => number,
        (_, Why::End(status)) => status & 0x7f,
        (_, Why::Time) => 0,
    };
    match fault.filter(|(_, signal)| signal.number == ends_it) {
        Some((at, signal)) => (*at == tid).then(|| signal.clone()),
        None if matches!(why, Why::End(_)) && ends_it != 0 => {
            Some(ThreadSignal { number: ends_it, ..ThreadSignal::default() })
        }
        None => None,
    }
}

fn read_thread(pid: Pid, tid: Tid, signal: Option<ThreadSignal>) -> Thread {
    let general = registers::general(tid).ok().map(|words| GeneralRegisters::from_words(&words));
    let mut extended = vec![0; EXTENDED];
    let length = registers::extended(tid, &mut extended).unwrap_or(0);
    extended.truncate(length);
    extended.shrink_to_fit();
    let name =
        ProcRoot::live().process(pid).and_then(|folder| folder.read(&format!("task/{tid}/comm"), SMALL));
    Thread {
        tid,
        name: name.ok().map(|name| name.strip_suffix(b"\n").unwrap_or(&name).to_vec()),
        registers: general,
        extended,
        signal,
        blocked_signals: registers::signal_mask(tid).ok(),
    }
}

/// The signal that a thread stands at, from its `siginfo_t`: number, errno, code, and 16 bytes in, the address. `None`: it does not stand
/// there any more, the end of its process has taken it on. What cannot be read leaves the number, which the stop has told.
pub(super) fn read_signal(tid: Tid, number: i32) -> Option<ThreadSignal> {
    let info = match registers::signal_info(tid) {
        Ok(info) => info,
        Err(error) if is_gone(&error) => return None,
        Err(_) => return Some(ThreadSignal { number, ..ThreadSignal::default() }),
    };
    let word = |at: usize| info.get(at..at + 4).and_then(|four| four.try_into().ok()).map(i32::from_ne_bytes);
    if word(0) != Some(number) {
        return None;
    }
    let code = word(8);
    let address =
        info.get(16..24).and_then(|eight| eight.try_into().ok()).map(|eight| Avma(u64::from_ne_bytes(eight)));
    // A code above 0 comes from the kernel; a signal that somebody sent has a sender where the address would be.
    let address = address.filter(|_| FAULTS.contains(&number) && code.is_some_and(|code| code > 0));
    Some(ThreadSignal { number, code, address, info: Some(info.to_vec()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(tid: u32) -> (Tid, ThreadSignal) {
        (Tid(tid), ThreadSignal { number: 11, code: Some(1), address: Some(Avma(0x10)), info: None })
    }

    #[test]
    fn a_fault_is_known_of_a_thread_that_the_end_took_along() {
        let at_end = Stop::Event(wait::EVENT_EXIT);
        for why in [Why::Signal(11), Why::End(11), Why::End(11 | 0x80)] {
            assert_eq!(signal_at(Tid(7), at_end, why, Some(&fault(7))), Some(fault(7).1), "{why:?}");
            assert_eq!(signal_at(Tid(8), at_end, why, Some(&fault(7))), None, "{why:?}");
        }
    }

    #[test]
    fn a_fault_that_was_handled_is_not_what_ended_it() {
        let at_end = Stop::Event(wait::EVENT_EXIT);
        assert_eq!(signal_at(Tid(7), at_end, Why::End(3 << 8), Some(&fault(7))), None);
        assert_eq!(signal_at(Tid(7), Stop::Interrupted, Why::Time, Some(&fault(7))), None);
        assert_eq!(signal_at(Tid(7), Stop::Interrupted, Why::Signal(6), Some(&fault(7))), None);
        let killed = signal_at(Tid(7), at_end, Why::End(9), Some(&fault(7)));
        assert_eq!(killed, Some(ThreadSignal { number: 9, ..ThreadSignal::default() }));
        let unseen = signal_at(Tid(7), at_end, Why::End(11), None);
        assert_eq!(unseen, Some(ThreadSignal { number: 11, ..ThreadSignal::default() }));
    }
}
