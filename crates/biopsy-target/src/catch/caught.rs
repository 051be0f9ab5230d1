//! A process that is held, as an image.

use std::ops::Range;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use biopsy_image::{
    Absence, CrashKind, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread, mapping,
};
use biopsy_model::{ProcessKey, Tid};
use biopsy_sys::stop_bell::BellHandle;

use super::command::{Command, Why};
use crate::address_space::{ProcessMemory, read_mappings};
use crate::freeze::read_process_facts;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::stat::Stat;

/// Most modules whose headers are read.
const MODULES: usize = 16 << 10;

/// Why a process is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// It is at its end, by itself.
    Exit {
        /// Exit code.
        code: i32,
    },
    /// It is at its end, by a signal that it could not be held at before (SIGKILL, for example).
    Killed {
        /// Number.
        signal: i32,
    },
    /// A signal is about to end it.
    Signal {
        /// Number.
        signal: i32,
    },
    /// It has run for the time that was asked for.
    Time,
}

impl Cause {
    fn of(why: Why) -> Self {
        match why {
            Why::End(status) if status & 0x7f != 0 => Self::Killed { signal: status & 0x7f },
            Why::End(status) => Self::Exit { code: (status >> 8) & 0xff },
            Why::Signal(signal) => Self::Signal { signal },
            Why::Time => Self::Time,
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Exit { code } => write!(f, "it ended with exit code {code}"),
            Self::Killed { signal } => write!(f, "it was ended by {}", CrashKind::signal_name(signal)),
            Self::Signal { signal } => write!(f, "{} is about to end it", CrashKind::signal_name(signal)),
            Self::Time => f.write_str("it has run for the time that was asked for"),
        }
    }
}

/// What the thread that holds a process has read of it.
#[derive(Debug)]
pub(super) struct Catch {
    pub(super) key: ProcessKey,
    pub(super) id: u64,
    pub(super) why: Why,
    pub(super) threads: Vec<Thread>,
    pub(super) missing: Vec<Tid>,
    pub(super) ended_threads: u64,
    pub(super) since: Instant,
}

/// What the hold has cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// How long the process was held, and with it everybody who waits for its end: its parent, usually.
    pub held: Duration,
}

/// A process that is held at its end, at a fatal signal, or after a time. All its memory is there. Dropping the value
/// lets it go: it ends then as it would have, with the same exit status for its parent.
#[derive(Debug)]
pub struct Caught {
    catch: Catch,
    mappings: Vec<Mapping>,
    memory: ProcessMemory,
    modules: Vec<ImageModule>,
    facts: ProcessFacts,
    warnings: Vec<String>,
    lifetime: Option<Duration>,
    hold: Hold,
}

/// The promise to let go.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) id: u64,
    pub(super) commands: Sender<Command>,
    pub(super) bell: BellHandle,
}

impl Drop for Hold {
    fn drop(&mut self) {
        // The thread is gone: then the process is free as well.
        let _ = self.commands.send(Command::Release(self.id));
        self.bell.ring();
    }
}

impl Caught {
    /// Reads what is to be known of a held process. On the caller's thread: the one that holds has others to look after.
    pub(super) fn read(catch: Catch, hold: Hold) -> std::io::Result<Self> {
        let pid = catch.key.pid;
        let mappings = read_mappings(pid)?;
        let memory = ProcessMemory::open(pid)?;
        let facts = read_process_facts(pid);
        let stat = ProcRoot::live().process(pid).and_then(|folder| folder.read("stat", SMALL)).ok();
        let started = stat.and_then(|line| Stat::parse(&line)).map(|stat| stat.start_ticks);
        let lifetime =
            started.map(|ticks| Duration::from_secs_f64(crate::process::identity::seconds_since(ticks)));
        let mut warnings = Vec::new();
        if !catch.missing.is_empty() {
            warnings.push(format!(
                "{} threads did not come to a stop in time and are without registers: {:?}",
                catch.missing.len(),
                catch.missing.iter().map(|tid| tid.0).collect::<Vec<u32>>()
            ));
        }
        if catch.ended_threads > 0 {
            warnings.push(format!("{} threads had ended before", catch.ended_threads));
        }
        let mut caught =
            Self { catch, mappings, memory, modules: Vec::new(), facts, warnings, lifetime, hold };
        caught.modules = biopsy_image::find_modules(&caught, &caught.mappings, &caught.facts, MODULES);
        Ok(caught)
    }

    /// Which process.
    #[must_use]
    pub fn key(&self) -> &ProcessKey {
        &self.catch.key
    }

    /// Why it is held.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause::of(self.catch.why)
    }

    /// Its exit code, when it ends by itself.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self.cause() {
            Cause::Exit { code } => Some(code),
            _ => None,
        }
    }

    /// The signal that ends it, if one does.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self.cause() {
            Cause::Killed { signal } | Cause::Signal { signal } => Some(signal),
            Cause::Exit { .. } | Cause::Time => None,
        }
    }

    /// How long it had lived when it was caught; to a hundredth of a second, which is what the kernel tells.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    /// How long it has been held by now. Its parent waits as long.
    #[must_use]
    pub fn held(&self) -> Duration {
        self.catch.since.elapsed()
    }

    /// Whether it is still there. It is not when it was held for longer than [`super::CatchOptions::hold_limit`], or when
    /// somebody killed it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.memory.is_there()
    }

    /// What is not as one would wish: threads without registers.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Lets it go.
    pub fn release(self) -> Release {
        let held = self.catch.since.elapsed();
        drop(self.hold);
        Release { held }
    }
}

impl Image for Caught {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.memory.read(address, buffer).map_err(|error| match error {
            ReadError::Missing { address, why: Absence::Unmapped }
                if mapping::find(&self.mappings, address).is_some() =>
            {
                ReadError::Missing { address, why: Absence::Unreadable }
            }
            error => error,
        })
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.catch.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &self.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let first = self.mappings.partition_point(|one| one.end <= range.start);
        for mapping in self.mappings.iter().skip(first).take_while(|one| one.start < range.end) {
            self.memory.written(mapping, range.clone(), runs)?;
        }
        Ok(())
    }
}
