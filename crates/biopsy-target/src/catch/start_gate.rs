//! Programs that wait before their first instruction until somebody records them.
//!
//! Each execution waits until it is known whether somebody wants it ([`super::gate`]: 100 ms at most, whatever hangs). One that is wanted
//! is handed out as [`Arriving`] and goes on when that is dropped, at the latest after [`HOLD`]. It stands in its call of execve
//! meanwhile: still what called it, not traced, not stopped. What attaches to its pid now sees all of the program that comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::BootId;
use rustix::event::EventfdFlags;

use super::CatchStatistics;
use super::catcher::{gate_is_possible, own_capabilities};
use super::gate::LaunchGate;
use super::inspector::{Inspect, Unreadable, Verdict};
use super::launch::Launch;
use super::marks::Marks;
use super::pending::{Job, PendingRequests, RequestId};
use crate::glance::{Glance, Program, entry};
use crate::process::command::base_name;
use crate::process::proc_root::ProcRoot;

/// Longest time that a program is held which somebody wants: on a loaded machine a recorder takes seconds to begin.
const HOLD: Duration = Duration::from_secs(5);
/// Longest name of a process, as the kernel keeps it.
const COMM: usize = 15;

/// Says whether somebody records a program that is about to start. Asked for each execution of the machine, on several threads: it must
/// not wait for anything.
pub trait Wanted: Send + Sync {
    /// Whether it may be, by what is read for each execution. Nearly all programs end here.
    fn may_be(&self, program: &Program) -> bool;

    /// Whether it is.
    fn is(&self, glance: &Glance) -> bool;
}

/// Programs that are wanted, before their first instruction. While it lives, each execution on the marked file systems takes some
/// tenths of a millisecond longer. Dropping it lets all go on; so does any end of this process.
#[derive(Debug)]
pub struct StartGate {
    gate: LaunchGate,
    arrivals: Receiver<Arriving>,
    bell: Arc<OwnedFd>,
    statistics: Arc<Mutex<CatchStatistics>>,
    limits: Vec<String>,
}

/// A program that is about to start. It goes on when this is dropped.
#[derive(Debug)]
pub struct Arriving {
    /// Who it will be: name, executable and arguments are those of the program that comes, the rest is of the process that executes it.
    pub glance: Glance,
    request: RequestId,
    pending: Arc<PendingRequests>,
}

impl Arriving {
    /// Whether it still waits.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.pending.holds(self.request)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // It may have gone on by itself.
        let _ = self.pending.allow(self.request);
    }
}

impl StartGate {
    /// From when this returns, programs wait for the answer of `wanted`.
    ///
    /// # Errors
    /// Why that cannot be, in words: privileges, the kernel, or no file system that can be marked.
    pub fn open(wanted: Arc<dyn Wanted>) -> Result<Self, String> {
        gate_is_possible(own_capabilities())?;
        let refused = |error: io::Error| format!("permission events are refused: {error}");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(rustix::event::eventfd(0, flags).map_err(|error| refused(error.into()))?);
        let (sender, arrivals) = channel();
        let statistics = Arc::<Mutex<CatchStatistics>>::default();
        let boot = ProcRoot::live().boot_id();
        let porter = Porter { wanted, boot, arrivals: sender, bell: Arc::clone(&bell) };
        let gate = LaunchGate::start(porter, Arc::clone(&statistics)).map_err(refused)?;
        let marks = Marks::first(gate.pending(), None)?;
        let limits = marks.refused.clone();
        marks.watch(gate.pending(), None).map_err(refused)?;
        Ok(Self { gate, arrivals, bell, statistics, limits })
    }

    /// What it does not see, in words.
    #[must_use]
    pub fn limits(&self) -> &[String] {
        &self.limits
    }

    /// The next that waits, if there is one.
    pub fn next(&self) -> Option<Arriving> {
        // It counts rings; none is no error.
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        self.arrivals.try_recv().ok()
    }

    /// Why nobody waits any more, if something has closed it.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let pending = self.gate.pending();
        let why = || pending.failure().map_or_else(|| "it was closed".to_owned(), |error| error.to_string());
        pending.is_closed().then(why)
    }

    /// What it has cost and missed so far.
    #[must_use]
    pub fn statistics(&self) -> CatchStatistics {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl AsFd for StartGate {
    /// Readable when there is somebody.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[derive(Clone)]
struct Porter {
    wanted: Arc<dyn Wanted>,
    boot: BootId,
    arrivals: Sender<Arriving>,
    bell: Arc<OwnedFd>,
}

impl Inspect for Porter {
    type Found = (RequestId, Glance);

    fn consider(&self, job: Job) -> Result<Verdict<Self::Found>, Unreadable> {
        let Job { request, pid, file } = job;
        // In a pid namespace that we do not see, or ours.
        if pid.0 == 0 {
            return Ok(Verdict::Passes);
        }
        let exe = std::fs::read_link(&file).map(|path| path.to_string_lossy().into_owned());
        let exe = exe.unwrap_or_default();
        if is_linker(&exe) {
            // Half of all requests are about it.
            return Ok(Verdict::PassesAlways);
        }
        let launch = Launch::read(pid).ok_or(Unreadable)?;
        // An interpreter or a dynamic linker is opened later in the same call, when the kernel holds a lock that attaching needs.
        if !launch.names(&file) {
            return Ok(Verdict::Passes);
        }
        let arguments = launch.arguments().to_vec();
        let entry = entry(&exe, &arguments);
        let program = Program { name: cut(launch.name()), exe, entry, arguments };
        if !self.wanted.may_be(&program) {
            return Ok(Verdict::Passes);
        }
        let glance = Glance::take(&ProcRoot::live(), &self.boot, pid).map_err(|_| Unreadable)?;
        let Some(glance) = glance else { return Ok(Verdict::Passes) };
        let glance = glance.before(program);
        Ok(if self.wanted.is(&glance) { Verdict::Concerns((request, glance)) } else { Verdict::Passes })
    }

    fn hand_on(&self, pending: &Arc<PendingRequests>, (request, glance): Self::Found) -> bool {
        pending.extend(request, Instant::now() + HOLD);
        let arriving = Arriving { glance, request, pending: Arc::clone(pending) };
        let handed_on = self.arrivals.send(arriving).is_ok();
        // A full counter has rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        handed_on
    }
}

/// Whether a file is the dynamic linker, which the kernel opens for nearly each program, after the program itself.
fn is_linker(path: &str) -> bool {
    let name = base_name(path);
    ["ld-linux", "ld-musl", "ld64.so", "ld-2."].iter().any(|linker| name.starts_with(linker))
}

/// A name as the kernel will keep it.
fn cut(name: &str) -> String {
    let end = (0..=COMM.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    name.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}
