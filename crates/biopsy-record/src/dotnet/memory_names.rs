//! Names of the code in stacks of events, read from the memory of the process while it is there.
//!
//! Events tell of methods that are compiled while they are recorded; most of what a server runs was compiled before, or is
//! precompiled. The runtime in memory names both (.NET 8 and later). Asked at once, not in the end: the process may be gone
//! by then.

use std::time::{Duration, Instant};

use biopsy_dotnet::methods::NameAddresses;
use biopsy_dotnet::runtime::{Options, Runtime, find_runtimes};
use biopsy_dotnet::stack::ManagedUnwind;
use biopsy_model::symbol::Function;
use biopsy_model::{Avma, Pid};
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

/// Addresses that are kept. A busy server's stacks have some thousand.
const MOST: usize = 200_000;
/// Addresses that are named at once.
const AT_ONCE: usize = 2_000;
/// Between two rounds. A program that dies of an exception is gone some 100 ms after it was told of.
const EVERY: Duration = Duration::from_millis(100);
/// A runtime that cannot be opened may be starting: it is tried so often in a row, and then each time what was not named is asked again.
const TRIES: u32 = 10;
/// What has no name is asked again, so often at most and once at the end: the runtime may have been about to enter it into its tables.
const AGAIN: u32 = 5;
const AGAIN_EVERY: Duration = Duration::from_secs(1);
/// Pages of the process that are kept, and the same where the recorder stands by for days.
const CACHED_BYTES: usize = 8 << 20;
const CACHED_FOR_DAYS: usize = 1 << 20;

/// Names by address.
pub(crate) struct MemoryNames {
    pid: Pid,
    cached_bytes: usize,
    runtimes: Vec<Runtime<'static>>,
    tries: u32,
    /// `None`: it was asked for and is not known.
    names: FxHashMap<Avma, Option<Function>>,
    pending: Vec<Avma>,
    round: Instant,
    /// What was asked for and got no name.
    unnamed: Vec<Avma>,
    asked_again: u32,
}

impl MemoryNames {
    pub(crate) fn new(pid: Pid, for_days: bool) -> Self {
        Self {
            pid,
            cached_bytes: if for_days { CACHED_FOR_DAYS } else { CACHED_BYTES },
            runtimes: Vec::new(),
            tries: 0,
            names: FxHashMap::default(),
            pending: Vec::new(),
            round: Instant::now(),
            unnamed: Vec::new(),
            asked_again: 0,
        }
    }

    /// Takes the addresses of a stack, innermost first.
    pub(crate) fn see(&mut self, stack: &[Avma]) {
        for (depth, address) in stack.iter().enumerate() {
            // All but the innermost are return addresses: the call is before them.
            let address = Avma(address.0.saturating_sub(u64::from(depth > 0)));
            if self.names.len() < MOST && !self.names.contains_key(&address) {
                self.names.insert(address, None);
                self.pending.push(address);
            }
        }
    }

    /// Names what has come, now and then.
    pub(crate) fn tick(&mut self) {
        let since = self.round.elapsed();
        let is_done = self.pending.is_empty() || self.runtimes.is_empty() && self.tries >= TRIES;
        if is_done && self.asked_again < AGAIN && since >= AGAIN_EVERY {
            self.ask_again();
        }
        if !self.pending.is_empty() && since >= EVERY {
            self.round = Instant::now();
            self.name_some(AT_ONCE);
        }
    }

    /// Names what has come so far.
    pub(crate) fn catch_up(&mut self) {
        self.name_some(usize::MAX);
    }

    /// Names what is left, as far as the process is still there.
    pub(crate) fn finish(&mut self) {
        self.ask_again();
        self.name_some(usize::MAX);
    }

    fn ask_again(&mut self) {
        if !self.unnamed.is_empty() || !self.pending.is_empty() && self.runtimes.is_empty() {
            self.asked_again += 1;
            self.tries = self.tries.min(TRIES - 1);
            self.pending.append(&mut self.unnamed);
        }
    }

    fn name_some(&mut self, most: usize) {
        if self.pending.is_empty() || !self.open() {
            return;
        }
        // What was called for the first time since the last round is not in the tables as they were read then, and would be given the
        // name of its neighbour.
        self.runtimes.iter().for_each(Runtime::forget);
        let from = self.pending.len().saturating_sub(most);
        for address in self.pending.split_off(from) {
            match ManagedUnwind::new(self.runtimes.iter()).name(address) {
                Some(function) => _ = self.names.insert(address, Some(function)),
                None => self.unnamed.push(address),
            }
        }
    }

    /// Opens the runtimes of the process. One that cannot be read is told about by the trace, which reads it too.
    fn open(&mut self) -> bool {
        if !self.runtimes.is_empty() || self.tries >= TRIES || self.pending.is_empty() {
            return !self.runtimes.is_empty();
        }
        self.tries += 1;
        let Ok(image) = LiveImage::open(self.pid) else { return false };
        let mut options = Options::default();
        options.cached_bytes = self.cached_bytes;
        for found in find_runtimes(&image) {
            let Ok(image) = LiveImage::open(self.pid) else { break };
            match Runtime::open(Box::new(image), &found, &options) {
                Ok(runtime) => self.runtimes.push(runtime),
                Err(error) => tracing::debug!(%error, pid = self.pid.0, "the runtime's memory names nothing"),
            }
        }
        !self.runtimes.is_empty()
    }
}

impl NameAddresses for MemoryNames {
    fn name(&self, address: Avma) -> Option<Function> {
        self.names.get(&address)?.clone()
    }
}

impl std::fmt::Debug for MemoryNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryNames").field("names", &self.names.len()).finish_non_exhaustive()
    }
}
