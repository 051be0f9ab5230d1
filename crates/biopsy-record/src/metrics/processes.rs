//! The `processes` table, and the list of processes that the `threads` table walks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use biopsy_model::loss::Warning;
use biopsy_model::{MonoNanos, Nanos, Pid};

use super::parse::{Stat, name_values, parse_io, parse_stat};
use super::procfile::{ProcFile, says_that_there_is_none};
use super::rate::Counter;
use super::reading::{FileBudget, Reading};
use super::sink::{Emitter, Row};
use super::tables::PROCESSES;
use super::threads::Threads;

/// Reading PSS makes the kernel walk the page tables while nobody in the process can map or unmap memory: 10 ms
/// for each GiB of small pages (measured on Linux 6.18). Larger processes are left alone.
pub(crate) const LARGEST_FOR_PSS: u64 = 1 << 30;

/// A reading of PSS that took more CPU time than this is the last one of its process.
const SLOWEST_PSS: Duration = Duration::from_millis(20);

/// PSS may take this share of one core at most: the pause after a reading is the reading's time times this.
const PSS_PAUSE: u64 = 500;

/// Counting descriptors by listing them (kernels before 6.2) is done this rarely above [`MANY_DESCRIPTORS`].
const RARELY: u64 = 10;
const MANY_DESCRIPTORS: usize = 1_000;

/// Files of one process that stay open.
const FILES: usize = 4;

/// One process of the tree.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    kept: bool,
    folder: PathBuf,
    start: Option<u64>,
    name: String,
    stat: ProcFile,
    status: ProcFile,
    io: ProcFile,
    oom_score: ProcFile,
    counters: Counters,
    pss: Pss,
    descriptors_due: u64,
    threads: Threads,
}

#[derive(Debug, Default)]
struct Counters {
    user: Counter,
    system: Counter,
    minor_faults: Counter,
    major_faults: Counter,
    io: [Counter; 6],
}

#[derive(Debug, Default)]
struct Pss {
    next: MonoNanos,
    given_up: bool,
}

/// What the progress display wants to know of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessReading {
    pub(crate) cpu: Option<f64>,
    pub(crate) resident: Option<u64>,
    pub(crate) threads: u64,
}

impl Process {
    pub(crate) fn new(proc_root: &Path, pid: Pid, files: &mut FileBudget) -> Process {
        let folder = proc_root.join(pid.to_string());
        let kept = files.take(FILES);
        let open = |name: &str| ProcFile::new(folder.join(name), kept);
        Process {
            pid,
            kept,
            start: None,
            name: String::new(),
            stat: open("stat"),
            status: open("status"),
            io: open("io"),
            oom_score: open("oom_score"),
            counters: Counters::default(),
            pss: Pss::default(),
            descriptors_due: 0,
            threads: Threads::new(folder.join("task")),
            folder,
        }
    }

    /// Reads the process and its threads. `None`: it is gone.
    pub(crate) fn read(
        &mut self,
        reading: &mut Reading<'_>,
        out: &mut Emitter<'_>,
    ) -> Option<ProcessReading> {
        let text = self.stat.read_single(reading.buffer).ok()?;
        let stat = parse_stat(text)?;
        if self.start.is_some_and(|start| start != stat.start) {
            return None;
        }
        self.start = Some(stat.start);
        self.name.clone_from(&stat.name);

        let mut row = Row::new(&PROCESSES);
        let cpu = self.set_stat(&stat, reading, &mut row);
        self.set_memory(reading, &mut row);
        self.set_io(reading, &mut row);
        self.set_pss(&stat, reading, &mut row);
        self.set_descriptors(reading, &mut row);
        let score = self.oom_score.read_single(reading.buffer).ok();
        row.set_count("oom.score", score.map(<[u8]>::trim_ascii).and_then(super::parse::number));

        let switches = self.threads.read(self.pid, stat.threads, reading);
        row.set("switches.voluntary", switches.map(|(voluntary, _)| voluntary));
        row.set("switches.involuntary", switches.map(|(_, involuntary)| involuntary));
        out.emit(reading.time, &[&self.pid.to_string(), &self.name], &row);
        Some(ProcessReading {
            cpu,
            resident: stat.resident_pages.checked_mul(reading.machine.page_size),
            threads: stat.threads,
        })
    }

    /// Gives back its open files and those of its threads.
    pub(crate) fn close(self, files: &mut FileBudget) {
        if self.kept {
            files.give_back(FILES);
        }
        self.threads.close(files);
    }

    fn set_stat(&mut self, stat: &Stat, reading: &Reading<'_>, row: &mut Row) -> Option<f64> {
        let (time, counters) = (reading.time, &mut self.counters);
        let cores = |rate: f64| rate / reading.machine.ticks_per_second;
        let user = counters.user.rate(Some(stat.user), time).map(cores);
        let system = counters.system.rate(Some(stat.system), time).map(cores);
        row.set("cpu.user", user);
        row.set("cpu.system", system);
        row.set("faults.minor", counters.minor_faults.rate(Some(stat.minor_faults), time));
        row.set("faults.major", counters.major_faults.rate(Some(stat.major_faults), time));
        row.set_count("threads", Some(stat.threads));
        row.set_count("memory.virtual", Some(stat.virtual_size));
        row.set_count("memory.rss", stat.resident_pages.checked_mul(reading.machine.page_size));
        user.zip(system).map(|(user, system)| user + system)
    }

    fn set_memory(&mut self, reading: &mut Reading<'_>, row: &mut Row) {
        let text = self.status.read_single(reading.buffer).unwrap_or_default();
        name_values(text, |name, kibibytes| {
            let bytes = kibibytes.checked_mul(1024);
            match name {
                // More exact than `stat`, which on kernels before 6.2 lags by up to 64 pages a thread.
                b"VmRSS" => row.set_count("memory.rss", bytes),
                b"RssAnon" => row.set_count("memory.anon", bytes),
                b"RssFile" => row.set_count("memory.file", bytes),
                b"RssShmem" => row.set_count("memory.shared", bytes),
                b"VmSwap" => row.set_count("memory.swap", bytes),
                _ => {}
            }
        });
    }

    fn set_io(&mut self, reading: &mut Reading<'_>, row: &mut Row) {
        // Not permitted for other users' processes: stays `None`.
        let Ok(text) = self.io.read_single(reading.buffer) else { return };
        let io = parse_io(text);
        let values = [
            ("read.throughput", io.read_bytes),
            ("write.throughput", io.write_bytes),
            ("read.calls", io.read_calls),
            ("write.calls", io.write_calls),
            ("read.requested", io.read_requested),
            ("write.requested", io.write_requested),
        ];
        for ((name, value), counter) in values.into_iter().zip(&mut self.counters.io) {
            row.set(name, counter.rate(value, reading.time));
        }
    }

    fn set_pss(&mut self, stat: &Stat, reading: &mut Reading<'_>, row: &mut Row) {
        if self.pss.given_up || reading.time < self.pss.next {
            return;
        }
        let resident = stat.resident_pages.saturating_mul(reading.machine.page_size);
        if resident > LARGEST_FOR_PSS {
            self.pss.given_up = true;
            let message = format!("PSS of process {} is not read: it has {} MiB", self.pid, resident >> 20);
            reading.warn(Warning::new("metrics.pss-skipped", message));
            return;
        }
        let before = biopsy_sys::clock::thread_cpu_nanos();
        // Opened anew each time: the open file would go on describing the memory from before an exec.
        let mut file = ProcFile::new(self.folder.join("smaps_rollup"), false);
        let text = match file.read(reading.buffer) {
            Ok(text) => text,
            Err(error) => {
                // No permission (needs that to trace), no kernel support: will not change. ESRCH is also what a process says that is
                // just executing another program, as one does that was launched.
                let executes = error.raw_os_error() == Some(libc::ESRCH);
                self.pss.given_up = !executes && says_that_there_is_none(&error);
                return;
            }
        };
        name_values(text, |name, kibibytes| {
            if name == b"Pss" {
                row.set_count("memory.pss", kibibytes.checked_mul(1024));
            }
        });
        let took = biopsy_sys::clock::thread_cpu_nanos().saturating_sub(before);
        let pause = took.saturating_mul(PSS_PAUSE).max(reading.pss_pause.0);
        self.pss.next = reading.time + Nanos(pause);
        if Duration::from_nanos(took) > SLOWEST_PSS {
            self.pss.given_up = true;
            let message = format!(
                "PSS of process {} is not read any more: one reading took {} ms",
                self.pid,
                took / 1_000_000
            );
            reading.warn(Warning::new("metrics.pss-skipped", message));
        }
    }

    fn set_descriptors(&mut self, reading: &Reading<'_>, row: &mut Row) {
        if reading.tick >= self.descriptors_due {
            let folder = self.folder.join("fd");
            // Since Linux 6.2 the size of the folder is the number of descriptors.
            let quick = std::fs::metadata(&folder).ok().map(|folder| folder.len()).filter(|count| *count > 0);
            let count = quick.or_else(|| {
                let entries = std::fs::read_dir(&folder).ok()?;
                // A list that breaks off counts nothing.
                entries.map(|entry| entry.ok().map(|_| 1)).sum::<Option<u64>>()
            });
            let slow = quick.is_none() && count.is_some_and(|count| count > MANY_DESCRIPTORS as u64);
            self.descriptors_due = reading.tick + if slow { RARELY } else { 1 };
            row.set_count("fds", count);
        }
    }
}

/// The processes of the tree, as they come and go.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    list: Vec<Process>,
}

/// Sums over the tree.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct TreeReading {
    pub(crate) processes: usize,
    pub(crate) threads: u64,
    pub(crate) cpu: Option<f64>,
    pub(crate) resident: Option<u64>,
}

impl Processes {
    pub(crate) fn read(
        &mut self,
        proc_root: &Path,
        tree: &[Pid],
        most: usize,
        reading: &mut Reading<'_>,
        out: &mut Emitter<'_>,
    ) -> TreeReading {
        if tree.len() > most {
            let message = format!("the tree has {} processes: only the first {most} are read", tree.len());
            reading.warn(Warning::new("metrics.many-processes", message));
        }
        let tree = tree.get(..most).unwrap_or(tree);
        for pid in tree {
            if !self.list.iter().any(|process| process.pid == *pid) {
                self.list.push(Process::new(proc_root, *pid, reading.files));
            }
        }
        let mut sums = TreeReading::default();
        let mut index = 0;
        while let Some(process) = self.list.get_mut(index) {
            let read = if tree.contains(&process.pid) { process.read(reading, out) } else { None };
            let Some(read) = read else {
                // Gone. If its pid was given to another process of the tree, that one starts anew next time.
                self.list.swap_remove(index).close(reading.files);
                continue;
            };
            index += 1;
            sums.processes += 1;
            sums.threads += read.threads;
            sums.cpu = add(sums.cpu, read.cpu);
            sums.resident = match (sums.resident, read.resident) {
                (Some(sum), Some(value)) => Some(sum.saturating_add(value)),
                (sum, value) => sum.or(value),
            };
        }
        sums
    }
}

fn add(sum: Option<f64>, value: Option<f64>) -> Option<f64> {
    match (sum, value) {
        (Some(sum), Some(value)) => Some(sum + value),
        (sum, value) => sum.or(value),
    }
}
