//! All threads of one process at their stops, and what is read of them there.

use std::time::Instant;

use biopsy_image::{GeneralRegisters, Thread, ThreadSignal};
use biopsy_model::{Pid, Tid};
use biopsy_sys::ptrace;
use biopsy_sys::ptrace::registers;
use biopsy_sys::ptrace::wait::{self, Stop};

use super::{COLLECT_WITHIN, Engine, Report, Stage, Why};
use crate::catch::caught::Catch;
use crate::process::proc_root::{ProcRoot, SMALL};

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
                Some(stop) => threads.push(read_thread(pid, tid, stop, why)),
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

fn read_thread(pid: Pid, tid: Tid, stop: Stop, why: Why) -> Thread {
    let general = registers::general(tid).ok().map(|words| GeneralRegisters::from_words(&words));
    let mut extended = vec![0; EXTENDED];
    let length = registers::extended(tid, &mut extended).unwrap_or(0);
    extended.truncate(length);
    extended.shrink_to_fit();
    let name =
        ProcRoot::live().process(pid).and_then(|folder| folder.read(&format!("task/{tid}/comm"), SMALL));
    let signal = match (stop, why) {
        (Stop::Signal(number), _) => Some(signal(tid, number)),
        (_, Why::End(status)) if status & 0x7f != 0 => {
            Some(ThreadSignal { number: status & 0x7f, ..ThreadSignal::default() })
        }
        _ => None,
    };
    Thread {
        tid,
        name: name.ok().map(|name| name.strip_suffix(b"\n").unwrap_or(&name).to_vec()),
        registers: general,
        extended,
        signal,
        blocked_signals: registers::signal_mask(tid).ok(),
    }
}

/// The signal that a thread stands at, from its `siginfo_t`: number, errno, code, and 16 bytes in, the address.
fn signal(tid: Tid, number: i32) -> ThreadSignal {
    /// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
    const FAULTS: [i32; 5] = [4, 5, 7, 8, 11];
    let Ok(info) = registers::signal_info(tid) else {
        return ThreadSignal { number, ..ThreadSignal::default() };
    };
    let code = info.get(8..12).and_then(|four| four.try_into().ok()).map(i32::from_ne_bytes);
    let address = info.get(16..24).and_then(|eight| eight.try_into().ok()).map(u64::from_ne_bytes);
    // A code above 0 comes from the kernel; a signal that somebody sent has a sender where the address would be.
    let address = address.filter(|_| FAULTS.contains(&number) && code.is_some_and(|code| code > 0));
    ThreadSignal { number, code, address, info: Some(info.to_vec()) }
}
