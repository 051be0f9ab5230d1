//! One reading of everything, without any timing: tests drive it reading by reading.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use biopsy_model::loss::Warning;
use biopsy_model::{MonoNanos, Nanos, Pid};

use super::cgroups::Cgroups;
use super::disks::Disks;
use super::network::Network;
use super::parse::{number, words};
use super::processes::{Processes, TreeReading};
use super::procfile::Buffer;
use super::reading::{Effort, FileBudget, Machine, Reading, Warnings};
use super::sink::{Emitter, TableSink};
use super::system::System;
use super::thread_rows::ThreadRows;

/// What to read, and how often.
#[derive(Clone)]
pub struct Config {
    /// Time between readings; kept within 100 ms and one minute.
    pub interval: Duration,
    /// The processes to read, the target first; asked before each reading.
    pub processes: Arc<dyn Fn() -> Vec<Pid> + Send + Sync>,
    /// Processes read at most.
    pub max_processes: usize,
    /// Threads read at most in one reading; beyond that, those that rest take turns.
    pub max_threads: usize,
    /// Time between readings of a process's PSS, which makes the kernel walk its page tables.
    pub pss_interval: Duration,
    /// `/proc`, or a copy of it.
    pub proc_root: PathBuf,
    /// `/sys`, or a copy of it.
    pub sys_root: PathBuf,
}

impl Config {
    /// The usual settings for these processes.
    #[must_use]
    pub fn new(processes: Arc<dyn Fn() -> Vec<Pid> + Send + Sync>) -> Config {
        Config {
            interval: Duration::from_secs(1),
            processes,
            max_processes: 256,
            max_threads: 1_000,
            pss_interval: Duration::from_secs(10),
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
        }
    }

    /// The interval, within its bounds.
    pub(crate) fn bounded_interval(&self) -> Duration {
        self.interval.clamp(Duration::from_millis(100), Duration::from_secs(60))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// The newest reading in short, for a progress display.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Latest {
    /// When it was taken.
    pub time: MonoNanos,
    /// Share of the machine's CPU time in use, 0 to 1.
    pub machine_busy: Option<f64>,
    /// Bytes of memory that the machine can still give without swapping.
    pub memory_available: Option<u64>,
    /// Processes of the tree that were read.
    pub processes: usize,
    /// Their threads.
    pub threads: u64,
    /// Their use of CPU, in cores.
    pub cpu: Option<f64>,
    /// Their resident memory in bytes, shared pages counted in each.
    pub resident: Option<u64>,
    /// A control group of the tree was throttled in the last interval.
    pub throttled: bool,
    /// Rows written so far.
    pub rows: u64,
}

/// The collectors.
pub(crate) struct Sampler {
    config: Config,
    machine: Machine,
    buffer: Buffer,
    files: FileBudget,
    effort: Effort,
    system: System,
    disks: Disks,
    network: Network,
    processes: Processes,
    cgroups: Cgroups,
    thread_rows: ThreadRows,
    pub(crate) warnings: Warnings,
    tick: u64,
    rows: u64,
}

impl Sampler {
    pub(crate) fn new(config: Config) -> Sampler {
        let root = &config.proc_root;
        let ticks = rustix::param::clock_ticks_per_second();
        let page_size = rustix::param::page_size() as u64;
        let first = (config.processes)().first().copied();
        Sampler {
            machine: Machine {
                ticks_per_second: float(ticks),
                page_size,
                delay_accounting: delay_accounting(root),
            },
            buffer: Buffer::default(),
            files: FileBudget::new(open_files(root)),
            effort: Effort::default(),
            system: System::new(root, ticks, page_size),
            disks: Disks::new(root, &config.sys_root),
            network: Network::new(root, first),
            processes: Processes::default(),
            cgroups: Cgroups::new(root),
            thread_rows: ThreadRows::default(),
            warnings: Warnings::default(),
            tick: 0,
            rows: 0,
            config,
        }
    }

    /// Takes one reading; the time of all its rows is `time`.
    ///
    /// # Errors
    /// When the sink refuses a row; what it took stays.
    pub(crate) fn read(
        &mut self,
        time: MonoNanos,
        sink: &mut (dyn TableSink + Send),
    ) -> std::io::Result<Latest> {
        let mut out = Emitter::new(sink);
        let tree = (self.config.processes)();
        let tcp = self.network.read(time, tree.first().copied(), &mut self.buffer, &mut out);
        self.system.read(time, tcp.as_ref(), &mut self.buffer, &mut out);
        self.disks.read(time, &mut self.buffer, &mut out);

        let mut reading = Reading {
            time,
            tick: self.tick,
            machine: self.machine,
            buffer: &mut self.buffer,
            files: &mut self.files,
            threads_left: self.effort.threads(self.config.max_threads),
            effort: &self.effort,
            thread_rows: &mut self.thread_rows,
            threads_skipped: 0,
            pss_pause: Nanos(u64::try_from(self.config.pss_interval.as_nanos()).unwrap_or(u64::MAX)),
            warnings: &mut self.warnings,
        };
        let most = self.config.max_processes;
        let sums = self.processes.read(&self.config.proc_root, &tree, most, &mut reading, &mut out);
        self.cgroups.read(&tree, &mut reading, &mut out);
        for message in std::mem::take(&mut reading.buffer.failed) {
            reading.warn(Warning::new("metrics.not-read", message));
        }
        if reading.threads_skipped > 0 {
            let message = format!(
                "{} threads could not be read at one reading: those that do not run take turns",
                reading.threads_skipped
            );
            reading.warnings.add_once(time, Warning::new("metrics.many-threads", message));
        }
        self.thread_rows.turn(time, &mut out);
        out.flush();
        self.tick += 1;
        self.rows += out.rows;
        match out.error.take() {
            Some(error) => Err(error),
            None => Ok(self.latest(time, sums)),
        }
    }

    /// Writes the rows that were held for the next reading.
    ///
    /// # Errors
    /// When the sink refuses a row.
    pub(crate) fn finish(
        &mut self,
        time: MonoNanos,
        sink: &mut (dyn TableSink + Send),
    ) -> std::io::Result<()> {
        let mut out = Emitter::new(sink);
        self.thread_rows.turn(time, &mut out);
        out.flush();
        self.rows += out.rows;
        out.error.take().map_or(Ok(()), Err)
    }

    /// Learns what the last reading cost, to stay cheap.
    pub(crate) fn learn(&mut self, time: MonoNanos, cpu: Nanos, interval: Nanos) {
        // The first readings open everything, which says nothing about the later ones.
        if self.tick > 2 && self.effort.learn(cpu, interval) {
            let message = format!(
                "readings took {:.1} ms of CPU time each: details of threads are read less often",
                cpu.as_secs_f64() * 1e3
            );
            self.warnings.add_once(time, Warning::new("metrics.thinned", message));
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    fn latest(&self, time: MonoNanos, sums: TreeReading) -> Latest {
        Latest {
            time,
            machine_busy: self.system.busy,
            memory_available: self.system.available,
            processes: sums.processes,
            threads: sums.threads,
            cpu: sums.cpu,
            resident: sums.resident,
            throttled: self.cgroups.throttled,
            rows: self.rows,
        }
    }
}

/// Files that may stay open: half of what this process may open, and not more than 4,096.
fn open_files(proc_root: &Path) -> usize {
    let text = biopsy_files::read_kernels(proc_root.join("self/limits")).unwrap_or_default();
    let line = super::parse::lines(&text).find_map(|line| line.strip_prefix(b"Max open files"));
    let soft = line.and_then(|line| words(line).next()).and_then(number).unwrap_or(1024);
    usize::try_from(soft / 2).map_or(4_096, |half| half.min(4_096))
}

/// Kernels before 5.14 have no such setting; whether they account is then not known, which counts as no.
fn delay_accounting(proc_root: &Path) -> bool {
    let text = biopsy_files::read_kernels(proc_root.join("sys/kernel/task_delayacct")).unwrap_or_default();
    number(text.trim_ascii()).is_some_and(|value| value != 0)
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn float(value: u64) -> f64 {
    value.max(1) as f64
}
