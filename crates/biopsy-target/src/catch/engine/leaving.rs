//! Letting go: one process, or all when nothing more is wanted.

use biopsy_model::{Pid, Tid};
use biopsy_sys::ptrace;
use biopsy_sys::ptrace::wait::Stop;

use super::{Engine, Process, Stage};

impl Engine {
    pub(super) fn close(&mut self) {
        if self.closing {
            return;
        }
        self.closing = true;
        if let Some(gate) = self.gate.take() {
            gate.pending.close();
        }
        self.follows_children = false;
        self.deferred.clear();
        let running = |process: &&Process| matches!(process.stage, Stage::Following { .. });
        let running = self.processes.values().filter(running).count();
        if running > 0 {
            self.note(format!("{running} processes ran on when nothing more was to be caught"));
        }
        self.leave_all(|stage| {
            matches!(stage, Stage::Starting { .. } | Stage::Passing | Stage::Following { .. })
        });
    }

    pub(super) fn finish(&mut self) {
        if self.finishing {
            return;
        }
        self.close();
        self.finishing = true;
        self.queue.clear();
        self.leave_all(|stage| !matches!(stage, Stage::Held { .. }));
    }

    pub(super) fn leave_all(&mut self, which: impl Fn(&Stage) -> bool) {
        let found = self.processes.iter().filter(|(_, process)| which(&process.stage));
        let leaving: Vec<Pid> = found.map(|(pid, _)| *pid).collect();
        for pid in leaving {
            self.leave(pid);
        }
    }

    /// Lets a process go: threads that stand at once, the others when they stop.
    pub(super) fn leave(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.stage = Stage::Leaving;
        let tids: Vec<Tid> = process.threads.iter().copied().collect();
        // The one at a fatal signal last: it takes the others with it, and those must not find us in their way.
        let (signalled, others): (Vec<Tid>, Vec<Tid>) = tids.into_iter().partition(|tid| {
            self.threads.get(tid).is_some_and(|one| matches!(one.kept, Some(Stop::Signal(_))))
        });
        for tid in others.into_iter().chain(signalled) {
            match self.threads.get(&tid).and_then(|one| one.kept) {
                Some(stop) => self.let_go(tid, stop),
                None => {
                    if ptrace::interrupt(tid).is_err() {
                        self.thread_gone(tid, None);
                    }
                }
            }
        }
    }

    pub(super) fn release(&mut self, wanted: u64) {
        let found = self.processes.iter().find_map(|(pid, process)| match process.stage {
            Stage::Held { id, .. } | Stage::Waiting { id, .. } if id == wanted => Some(*pid),
            _ => None,
        });
        if let Some(pid) = found {
            self.leave(pid);
        }
    }
}
