//! Probes at the functions of processes: set for a while, and taken away behind the back of whoever reads.

use std::io;
use std::thread::JoinHandle;

use biopsy_model::Pid;
use biopsy_sys::perf::{Probe, ProbeAt};

use super::super::kernel::allocations::{AllocationPrograms, Kind};
use super::functions::Function;

/// Probes that are taken away at the same time: for each the kernel waits a tenth of a second.
const AT_ONCE: usize = 32;

/// The probes of a watch.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// At what hands out memory, and behind it.
    allocating: Vec<Probe>,
    /// At what takes it back.
    releasing: Vec<Probe>,
    /// Those that are just being taken away.
    going: Vec<JoinHandle<()>>,
}

impl Probes {
    /// Sets them. What takes memory back comes first, so that nothing that was handed out is released unseen.
    pub(super) fn set(
        &mut self,
        programs: &AllocationPrograms,
        functions: &[(Pid, Vec<Function>)],
    ) -> io::Result<()> {
        let result = self.set_all(programs, functions);
        if result.is_err() {
            self.remove_allocating();
            self.remove_releasing();
        }
        result
    }

    fn set_all(
        &mut self,
        programs: &AllocationPrograms,
        functions: &[(Pid, Vec<Function>)],
    ) -> io::Result<()> {
        for (pid, of) in functions {
            let set = |function: &Function, program, at| {
                Probe::set(program, &function.path, function.offset, at, *pid)
            };
            for function in of.iter().filter(|one| one.kind == Kind::Free) {
                self.releasing.push(set(function, programs.enter(Kind::Free), ProbeAt::Entry)?);
            }
            for function in of.iter().filter(|one| one.kind.allocates()) {
                self.allocating.push(set(function, programs.leave(), ProbeAt::Return)?);
                self.allocating.push(set(function, programs.enter(function.kind), ProbeAt::Entry)?);
            }
        }
        Ok(())
    }

    /// From now on nothing that is handed out is seen.
    pub(super) fn remove_allocating(&mut self) {
        let probes = std::mem::take(&mut self.allocating);
        self.remove(probes);
    }

    /// From now on nothing that is given back is seen.
    pub(super) fn remove_releasing(&mut self) {
        let probes = std::mem::take(&mut self.releasing);
        self.remove(probes);
    }

    /// Each by a thread of its own: the breakpoint goes at once, the rest of it takes its time.
    fn remove(&mut self, probes: Vec<Probe>) {
        self.going.retain(|thread| !thread.is_finished());
        for probe in probes {
            if self.going.len() >= AT_ONCE {
                self.wait();
            }
            let name = "biopsy-probes".to_owned();
            // Where there is no thread to be had, the closure goes, and the probe with it.
            if let Ok(thread) = std::thread::Builder::new().name(name).spawn(move || drop(probe)) {
                self.going.push(thread);
            }
        }
    }

    /// Until none is left.
    fn wait(&mut self) {
        for thread in self.going.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.remove_allocating();
        self.remove_releasing();
        self.wait();
    }
}
