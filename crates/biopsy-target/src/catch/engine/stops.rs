//! What happens at each stop of a traced thread.

use std::time::Instant;

use biopsy_image::GeneralRegisters;
use biopsy_model::{Pid, Tid};
use biopsy_sys::ptrace;
use biopsy_sys::ptrace::registers;
use biopsy_sys::ptrace::wait::{self, Stop};

use super::collect::{FAULTS, read_signal};
use super::{Engine, Process, Stage, Traced, Why};
use crate::catch::inspector::ancestors;
use crate::catch::launch::is_tracer;
use crate::catch::signals::{Disposition, disposition};
use crate::find;
use crate::freeze::restarted;
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::seen::Seen;
use crate::process::status::Status;

/// `exit` and `exit_group` of `asm/unistd_64.h`.
const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;
/// SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU: they interrupt system calls without a tracer, too.
const JOB_CONTROL: [i32; 5] = [18, 19, 20, 21, 22];

impl Engine {
    pub(super) fn stopped(&mut self, tid: Tid, stop: Stop) {
        let Some(pid) = self.threads.get(&tid).map(|one| one.process).or_else(|| self.adopt(tid)) else {
            // A child that nobody asked for: clone without SIGCHLD, which is no thread.
            let _ = ptrace::detach(tid, signal_of(stop));
            return;
        };
        let stage = self.processes.get(&pid).map(|process| process.stage.clone());
        match (stage, stop) {
            (None | Some(Stage::Leaving), _) => self.let_go(tid, stop),
            (Some(Stage::Collecting { .. } | Stage::Waiting { .. } | Stage::Held { .. }), stop) => {
                self.stopped_while_collecting(pid, tid, stop);
            }
            // It was asked because its exec did not come: the call has failed, it is no new program.
            (Some(Stage::Starting { asked: true, .. }), Stop::Interrupted) => self.leave_from(pid, tid, stop),
            (Some(_), Stop::Event(wait::EVENT_EXEC)) => self.executed(tid),
            (Some(_), Stop::Event(wait::EVENT_EXIT)) => self.ending(pid, tid),
            (Some(_), Stop::Event(wait::EVENT_FORK | wait::EVENT_VFORK | wait::EVENT_CLONE)) => {
                self.multiplied(tid);
                self.go_on(tid, 0);
            }
            (Some(Stage::Following { .. }), Stop::Signal(signal)) => self.signalled(pid, tid, signal),
            (Some(_), Stop::Signal(signal)) => self.pass(tid, signal, disposition(pid, tid, signal)),
            (Some(_), Stop::Group(_)) => {
                if ptrace::listen(tid).is_err() {
                    self.go_on(tid, 0);
                }
            }
            (Some(_), Stop::Interrupted | Stop::Syscall | Stop::Event(_)) => self.go_on(tid, 0),
        }
    }

    /// A thread or child whose first stop comes before its creator's.
    fn adopt(&mut self, tid: Tid) -> Option<Pid> {
        let text = ProcRoot::live().process(Pid(tid.0)).ok()?.read("status", SMALL).ok()?;
        let pid = Pid(Status::parse(&text).tgid?);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.insert(tid);
        } else if self.follows_children && pid.0 == tid.0 {
            let key = identity::key_of(&ProcRoot::live(), pid)?;
            let threads = [tid].into();
            let process = Process { key, stage: Stage::Passing, threads, ended_threads: 0, fault: None };
            self.processes.insert(pid, process);
        } else {
            return None;
        }
        self.threads.insert(tid, Traced { process: pid, kept: None });
        Some(pid)
    }

    /// A thread has made another one, or a child.
    fn multiplied(&mut self, tid: Tid) {
        let new = ptrace::event_message(tid).ok().and_then(|message| u32::try_from(message).ok());
        if let Some(new) = new.map(Tid).filter(|new| !self.threads.contains_key(new)) {
            // What is not adopted is detached at its first stop.
            let _ = self.adopt(new);
        }
    }

    /// The thread executes another program; all other threads of its process are gone, and it has the process's id.
    fn executed(&mut self, tid: Tid) {
        let pid = Pid(tid.0);
        let Some(process) = self.processes.get_mut(&pid) else { return self.let_go(tid, Stop::Interrupted) };
        for other in std::mem::replace(&mut process.threads, [tid].into()) {
            self.threads.remove(&other);
        }
        self.threads.insert(tid, Traced { process: pid, kept: None });
        let Some(name) = self.settings.name.as_deref() else { return self.go_on(tid, 0) };
        let seen = Seen::read(&ProcRoot::live(), pid);
        let is_wanted = seen.as_ref().is_some_and(|seen| find::answers_to(seen, name));
        match process.stage {
            Stage::Starting { .. } | Stage::Passing if is_wanted => {
                process.stage = Stage::Following { since: Instant::now() };
                self.statistics.lock().unwrap_or_else(std::sync::PoisonError::into_inner).followed += 1;
            }
            Stage::Starting { .. } => return self.leave_from(pid, tid, Stop::Interrupted),
            Stage::Passing if seen.is_some_and(|seen| is_tracer(&seen.name())) => {
                self.let_victims_go(pid);
                return self.leave_from(pid, tid, Stop::Interrupted);
            }
            _ => {}
        }
        self.go_on(tid, 0);
    }

    /// A debugger starts below a process that is followed: its victim must be free.
    fn let_victims_go(&mut self, debugger: Pid) {
        for victim in ancestors(debugger, None).unwrap_or_default() {
            let following = |process: &Process| matches!(process.stage, Stage::Following { .. });
            if self.processes.get(&victim).is_some_and(following) {
                self.note(format!("process {victim} is let go: it starts a program that traces it"));
                self.leave(victim);
                return;
            }
        }
    }

    /// The thread is at its end. Is it the end of the process too?
    fn ending(&mut self, pid: Pid, tid: Tid) {
        let Some(process) = self.processes.get(&pid) else { return self.let_go(tid, Stop::Interrupted) };
        let call = registers::general(tid).ok().map(|words| words[15]);
        let others = process.threads.iter().any(|&other| other != tid);
        let status =
            ptrace::event_message(tid).ok().and_then(|message| i32::try_from(message).ok()).unwrap_or(0);
        let one_thread = others
            && (call == Some(EXIT)
                || call != Some(EXIT_GROUP) && status == 0 && self.another_executes(pid, tid));
        if one_thread {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.ended_threads += 1;
            }
            self.let_go(tid, Stop::Interrupted);
            return;
        }
        let on = self.settings.on;
        let is_wanted = on.exit || on.failure && status != 0 || on.fatal_signal && status & 0x7f != 0;
        self.last_end = Some(status);
        if !is_wanted || !matches!(process.stage, Stage::Following { .. }) {
            self.leave_from(pid, tid, Stop::Interrupted);
            return;
        }
        self.keep(tid, Stop::Event(wait::EVENT_EXIT));
        self.collect(pid, tid, Why::End(status));
    }

    /// Whether another thread is in execve: that ends all others of its process, which looks like the end of it.
    fn another_executes(&self, pid: Pid, tid: Tid) -> bool {
        let Ok(folder) = ProcRoot::live().process(pid) else { return false };
        let Some(process) = self.processes.get(&pid) else { return false };
        process.threads.iter().filter(|&&other| other != tid).any(|other| {
            let call = folder.read(&format!("task/{other}/syscall"), SMALL).unwrap_or_default();
            call.starts_with(b"59 ") || call.starts_with(b"322 ")
        })
    }

    fn signalled(&mut self, pid: Pid, tid: Tid, signal: i32) {
        let disposition = disposition(pid, tid, signal);
        if (FAULTS.contains(&signal) || disposition == Disposition::Fatal)
            && let Some(process) = self.processes.get_mut(&pid)
            && let Some(signal) = read_signal(tid, signal)
        {
            process.fault = Some((tid, signal));
        }
        if self.settings.on.fatal_signal && disposition == Disposition::Fatal {
            self.keep(tid, Stop::Signal(signal));
            self.collect(pid, tid, Why::Signal(signal));
        } else {
            self.pass(tid, signal, disposition);
        }
    }

    /// Passes a signal on as it came.
    ///
    /// Without a tracer, a signal that is ignored does not even wake the thread. With one it does, for the time it takes
    /// us to pass it on; most system calls are taken up again by the kernel, and the others (epoll_wait) by us.
    fn pass(&mut self, tid: Tid, signal: i32, disposition: Disposition) {
        self.statistics.lock().unwrap_or_else(std::sync::PoisonError::into_inner).signals_passed += 1;
        if disposition == Disposition::Harmless
            && !JOB_CONTROL.contains(&signal)
            && let Ok(words) = registers::general(tid)
            && let Some(restarted) = restarted(&GeneralRegisters::from_words(&words))
        {
            let _ = registers::set_general(tid, &restarted.to_words());
        }
        self.go_on(tid, signal);
    }

    pub(super) fn go_on(&mut self, tid: Tid, signal: i32) {
        // When it was killed meanwhile it is not there to go on; its end comes as another stop.
        let _ = ptrace::cont(tid, signal);
    }

    /// Keeps a thread where it stands. A stop at a signal is not taken: see the module.
    pub(super) fn keep(&mut self, tid: Tid, stop: Stop) {
        if !matches!(stop, Stop::Signal(_)) {
            let _ = wait::take(tid);
        }
        if let Some(one) = self.threads.get_mut(&tid) {
            one.kept = Some(stop);
        }
    }

    /// Detaches from a stopped thread; it goes on as if it had never been traced.
    pub(super) fn let_go(&mut self, tid: Tid, stop: Stop) {
        match ptrace::detach(tid, signal_of(stop)) {
            Ok(()) => self.thread_gone(tid, None),
            // Killed meanwhile, and on its way to the stop at its end: it is let go there.
            Err(_) => {
                if let Some(one) = self.threads.get_mut(&tid) {
                    one.kept = None;
                }
            }
        }
    }

    /// Lets the process go, beginning with the thread that stands here.
    pub(super) fn leave_from(&mut self, pid: Pid, tid: Tid, stop: Stop) {
        self.let_go(tid, stop);
        self.leave(pid);
    }

    pub(super) fn thread_gone(&mut self, tid: Tid, status: Option<i32>) {
        let Some(one) = self.threads.remove(&tid) else { return };
        let Some(process) = self.processes.get_mut(&one.process) else { return };
        process.threads.remove(&tid);
        if !process.threads.is_empty() {
            if matches!(process.stage, Stage::Collecting { .. }) {
                self.collected_if_complete(one.process);
            }
            return;
        }
        let stage = process.stage.clone();
        self.processes.remove(&one.process);
        if status.is_some() {
            self.last_end = status;
        }
        match stage {
            // Killed at a moment when the kernel makes no stop of it.
            Stage::Following { .. } | Stage::Collecting { .. } => {
                self.miss(format!("process {} was gone before it could be held", one.process));
            }
            Stage::Waiting { .. } => {
                self.queue.retain(|catch| catch.key.pid != one.process);
                self.miss(format!("process {} was killed while it waited to be inspected", one.process));
            }
            Stage::Starting { .. } | Stage::Passing | Stage::Held { .. } | Stage::Leaving => {}
        }
    }
}

/// The signal a thread goes on with.
fn signal_of(stop: Stop) -> i32 {
    match stop {
        Stop::Signal(signal) => signal,
        Stop::Interrupted | Stop::Group(_) | Stop::Syscall | Stop::Event(_) => 0,
    }
}
