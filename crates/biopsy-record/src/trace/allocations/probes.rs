//! Probes at the functions of processes: set for a while, and taken away behind the back of whoever reads.

use std::io;
use std::thread::JoinHandle;

use biopsy_model::Pid;
use biopsy_sys::bpf::{At, Link, Program};

use super::super::kernel::allocations::{AllocationPrograms, Kind};
use super::functions::Function;

/// Links that are ended at the same time: for each the kernel waits a tenth of a second, when its breakpoints are gone.
const AT_ONCE: usize = 32;

/// The probes of a watch.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// At what hands out memory, and behind it.
    allocating: Vec<Link>,
    /// At what takes it back.
    releasing: Vec<Link>,
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
            for file in of.chunk_by(|one, next| one.path == next.path) {
                let Some(path) = file.first().map(|one| one.path.as_path()) else { continue };
                let set = |is_one: &dyn Fn(Kind) -> bool, program: &Program, at| {
                    let offsets: Vec<u64> =
                        file.iter().filter(|one| is_one(one.kind)).map(|one| one.offset).collect();
                    let link =
                        (!offsets.is_empty()).then(|| program.attach_functions(path, &offsets, at, *pid));
                    link.transpose()
                };
                let release = programs.enter(Kind::Free);
                self.releasing.extend(set(&|kind| kind == Kind::Free, release, At::Entry)?);
                self.allocating.extend(set(&Kind::allocates, programs.leave(), At::Return)?);
                for one in Kind::ALLOCATING {
                    self.allocating.extend(set(&|kind| kind == one, programs.enter(one), At::Entry)?);
                }
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
    fn remove(&mut self, probes: Vec<Link>) {
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
