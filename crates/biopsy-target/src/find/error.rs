//! Why no process was found, in words that say what to type instead.

use std::fmt;

use biopsy_model::Pid;

use crate::preflight::namespace::View;
use crate::printable::{printable, shorten};
use crate::process::seen::Seen;
use crate::process::usage::up_time_text;
use crate::process::users::Users;

/// Longest command line shown of a candidate, in characters.
const COMMAND: usize = 80;
/// Most candidates written into a message.
const SHOWN: usize = 20;

/// A process that may have been meant.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Its pid.
    pub pid: Pid,
    /// Name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Seconds since its start.
    pub up_seconds: f64,
    /// Command line without folders, shortened, safe to print.
    pub command: String,
}

impl Eq for Candidate {}

impl Candidate {
    pub(crate) fn new(seen: &Seen, users: &Users) -> Self {
        Self {
            pid: seen.pid,
            name: printable(&seen.name()),
            user: users.name(seen.uid()),
            up_seconds: crate::process::identity::seconds_since(seen.stat.start_ticks),
            command: shorten(&printable(&seen.short_command()), COMMAND),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up = up_time_text(self.up_seconds);
        write!(f, "{:>7}  {:<10} up {up:<12} {}", self.pid.0, self.user, self.command)
    }
}

/// Why no process was found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FindError {
    /// Nothing has this name.
    #[error("no process matches `{selector}`")]
    NotFound {
        /// What was asked for.
        selector: String,
        /// Similar names, and a process that has each.
        near: Vec<(String, Candidate)>,
        /// Which processes we see at all.
        view: View,
    },
    /// No process has this pid.
    #[error("there is no process {pid}")]
    NoSuchPid {
        /// The pid.
        pid: Pid,
        /// Processes that have this pid inside their own namespace.
        inside: Vec<Candidate>,
        /// Which processes we see at all.
        view: View,
    },
    /// There is one, but `/proc` does not show it to us.
    #[error("process {pid} exists, but `/proc` does not show it to this user")]
    Hidden {
        /// The pid.
        pid: Pid,
    },
    /// Several match, and they are not one tree.
    #[error("{} processes match `{selector}`{}", candidates.len(), Lines(candidates))]
    Ambiguous {
        /// What was asked for.
        selector: String,
        /// Those that match.
        candidates: Vec<Candidate>,
    },
    /// The number is of a thread.
    #[error("{tid} is a thread of process {pid} (`{}`), not a process", printable(name))]
    IsThread {
        /// The number.
        tid: Pid,
        /// The process it belongs to.
        pid: Pid,
        /// Name of the thread.
        name: String,
    },
    /// It is a part of the kernel.
    #[error(
        "process {pid} (`{}`) is a kernel thread: it has no program of its own to record",
        printable(name)
    )]
    KernelThread {
        /// Its pid.
        pid: Pid,
        /// Its name.
        name: String,
    },
    /// It has ended, and its parent has not taken notice yet; or its main thread has.
    #[error("process {pid} (`{}`) {}", printable(name), ended(*living_threads))]
    Zombie {
        /// Its pid.
        pid: Pid,
        /// Its name.
        name: String,
        /// The process that should have taken notice.
        parent: Pid,
        /// Threads that go on although the main thread has ended.
        living_threads: u64,
    },
    /// A 32-bit program.
    #[error("process {pid} (`{}`) is a 32-bit program; only 64-bit ones are supported", printable(name))]
    Not64Bit {
        /// Its pid.
        pid: Pid,
        /// Its name.
        name: String,
    },
    /// It is us.
    #[error("process {pid} is this biopsy itself")]
    Myself {
        /// Our pid.
        pid: Pid,
    },
    /// Who is there is not known.
    #[error("the processes cannot be listed: {why}")]
    NotListed {
        /// What the kernel said.
        why: String,
    },
    /// `/proc` is missing, or shows another pid namespace than the one we run in: pids mean nothing then.
    #[error("`/proc` does not show the pid namespace that biopsy runs in")]
    ForeignProc,
}

fn ended(living_threads: u64) -> String {
    match living_threads {
        0 => "has ended already (zombie)".to_owned(),
        threads => {
            format!("has lost its main thread; its other threads ({threads}) go on, which is not supported")
        }
    }
}

/// Candidates, one a line below the message.
struct Lines<'a>(&'a [Candidate]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for candidate in self.0.iter().take(SHOWN) {
            write!(f, "\n{candidate}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n        and {more} more"),
        }
    }
}

impl FindError {
    /// What the reader can do; only what was found to be so.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { near, view, .. } => Some(not_found_hint(near, *view)),
            Self::NoSuchPid { pid, inside, view } => Some(match inside.as_slice() {
                [] => view_hint(*view),
                inside => {
                    let names: Vec<_> = inside.iter().map(|c| format!("{} (`{}`)", c.pid, c.name)).collect();
                    format!(
                        "{pid} is the number inside its container of: {}; name it by the number outside",
                        names.join(", ")
                    )
                }
            }),
            Self::Hidden { .. } => Some("`/proc` is mounted with `hidepid`; run as root".to_owned()),
            Self::Ambiguous { .. } => Some("name one of them by its pid".to_owned()),
            Self::IsThread { pid, .. } => Some(format!("name the process: {pid}")),
            Self::Zombie { parent, living_threads: 0, .. } => Some(format!(
                "its parent, process {parent}, has not collected it; there is nothing left to record"
            )),
            Self::ForeignProc => {
                Some("mount it anew in this namespace: `mount -t proc proc /proc`".to_owned())
            }
            Self::KernelThread { .. }
            | Self::Zombie { .. }
            | Self::Not64Bit { .. }
            | Self::Myself { .. }
            | Self::NotListed { .. } => None,
        }
    }
}

const PS: &str = "`biopsy ps` lists the processes";

fn view_hint(view: View) -> String {
    match view {
        View::All => PS,
        View::OwnPidNamespace => {
            "biopsy runs in a pid namespace of its own (a container?) and sees the processes of that one only; run it \
             on the host to see all"
        }
        View::OwnUser => "`/proc` hides processes of other users (`hidepid`); run as root to see all",
    }
    .to_owned()
}

fn not_found_hint(near: &[(String, Candidate)], view: View) -> String {
    if near.is_empty() {
        return view_hint(view);
    }
    let names: Vec<_> =
        near.iter().map(|(name, c)| format!("`{}` (pid {})", printable(name), c.pid)).collect();
    format!("similar names: {}", names.join(", "))
}
