//! The `threads` table.
//!
//! A thread that did not run has nothing new to tell. Its `schedstat` (two microseconds to read) says so,
//! and neither its other files are read nor a row is written: a server with 5,000 threads, of which 20 work,
//! costs little more than one with 20. So that lines drawn through the rows do not lie, a thread that
//! stops running gets one row of zeros, and one more at the reading before it runs again.

use std::path::PathBuf;

use biopsy_model::{MonoNanos, Pid, Tid};

use super::parse::{SchedStat, name_values, number, parse_io, parse_schedstat, parse_stat};
use super::procfile::ProcFile;
use super::rate::Counter;
use super::reading::{FileBudget, Reading};
use super::sink::Row;
use super::tables::THREADS;

/// Files of one thread that stay open.
const FILES: usize = 4;

/// A list of threads this long is read anew only when the number of threads changed, or this rarely.
const LONG_LIST: usize = 500;
const RELIST_EVERY: u64 = 5;

/// The state of a thread that does not run is looked at this rarely, in readings.
const STATE_EVERY: u64 = 10;

/// Threads of one process beyond this many are never looked at: five times what the issue asks for.
const MOST_LISTED: usize = 25_000;

/// The states of a thread as numbers of the column `state`; 0: any other.
const STATES: [u8; 7] = *b"RSDTtZI";

/// The threads of one process.
#[derive(Debug)]
pub(crate) struct Threads {
    folder: PathBuf,
    /// In the order of ids.
    list: Vec<Thread>,
    /// Where the next reading goes on among the threads that rest, when not all can be read.
    cursor: usize,
    relist_at: u64,
}

#[derive(Debug)]
struct Thread {
    tid: Tid,
    name: String,
    kept: bool,
    stat: ProcFile,
    status: ProcFile,
    io: ProcFile,
    sched: ProcFile,
    counters: Counters,
    state: u8,
    /// Whether it ran in the interval before its last reading.
    ran: bool,
    /// Number of the last reading, and of the one of its last row; `None`: not yet.
    read_at: Option<u64>,
    row_at: Option<u64>,
    /// Which columns had a value in the last row: the others stay empty in a row of zeros.
    known: u32,
}

#[derive(Debug, Default)]
struct Counters {
    run: Counter,
    ready: Counter,
    turns: Counter,
    user: Counter,
    system: Counter,
    disk: Counter,
    major_faults: Counter,
    voluntary: Counter,
    involuntary: Counter,
    read: Counter,
    write: Counter,
}

impl Threads {
    pub(crate) fn new(folder: PathBuf) -> Threads {
        Threads { folder, list: Vec::new(), cursor: 0, relist_at: 0 }
    }

    /// Gives back the open files.
    pub(crate) fn close(self, files: &mut FileBudget) {
        files.give_back(self.list.iter().filter(|thread| thread.kept).count() * FILES);
    }

    /// Reads the threads as far as the budget allows. Returns voluntary and involuntary switches per second
    /// of all threads together, where all were read.
    pub(crate) fn read(&mut self, pid: Pid, count: u64, reading: &mut Reading<'_>) -> Option<(f64, f64)> {
        if self.list.len() <= LONG_LIST || self.list.len() as u64 != count || reading.tick >= self.relist_at {
            self.relist(reading);
            self.relist_at = reading.tick + RELIST_EVERY;
        }
        let detail = reading.tick.is_multiple_of(reading.effort.detail_every());
        let order = self.order(reading.threads_left);
        let all = order.len() == self.list.len();
        reading.threads_skipped += (self.list.len() - order.len()) as u64;
        reading.threads_left -= order.len();

        let mut sums = (0.0, 0.0);
        let mut ended = Vec::new();
        let pid_text = pid.to_string();
        for index in order {
            let Some(thread) = self.list.get_mut(index) else { continue };
            match thread.read(&pid_text, detail, reading) {
                Some((voluntary, involuntary)) => {
                    sums.0 += voluntary;
                    sums.1 += involuntary;
                }
                None => ended.push(thread.tid),
            }
        }
        if !ended.is_empty() {
            self.remove(|thread| ended.binary_search(&thread.tid).is_ok(), reading.files);
            self.relist_at = 0;
        }
        (all && detail && reading.effort.detail_every() == 1).then_some(sums)
    }

    /// Which threads to read: all, or those that ran lately and as many of the others as there is room for,
    /// taking turns.
    fn order(&mut self, room: usize) -> Vec<usize> {
        let length = self.list.len();
        if length <= room {
            return (0..length).collect();
        }
        let busy = self.list.iter().enumerate().filter(|(_, thread)| thread.ran).map(|(index, _)| index);
        // A quarter is left to the others, so that those that wake up are found.
        let mut order: Vec<usize> = busy.take(room - room / 4).collect();
        let from = self.cursor;
        for step in 0..length {
            if order.len() >= room {
                break;
            }
            let index = (from + step) % length;
            if self.list.get(index).is_some_and(|thread| !thread.ran) {
                order.push(index);
            }
            self.cursor = (index + 1) % length;
        }
        order.sort_unstable();
        order
    }

    fn relist(&mut self, reading: &mut Reading<'_>) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let named =
            |name: &std::ffi::OsStr| number(name.as_encoded_bytes()).and_then(|tid| u32::try_from(tid).ok());
        let listed: std::io::Result<Vec<Tid>> = entries
            .filter_map(|entry| entry.map(|entry| named(&entry.file_name()).map(Tid)).transpose())
            .take(MOST_LISTED)
            .collect();
        // Those that a broken list lacks have not ended: they stay until the next one.
        let Ok(mut tids) = listed else { return };
        tids.sort_unstable();
        if tids.iter().copied().eq(self.list.iter().map(|thread| thread.tid)) {
            return;
        }
        self.remove(|thread| tids.binary_search(&thread.tid).is_err(), reading.files);
        for tid in tids {
            if let Err(place) = self.list.binary_search_by_key(&tid, |thread| thread.tid) {
                let kept = reading.files.take(FILES);
                self.list.insert(place, Thread::new(&self.folder.join(tid.to_string()), tid, kept));
            }
        }
    }

    fn remove(&mut self, gone: impl Fn(&Thread) -> bool, files: &mut FileBudget) {
        self.list.retain(|thread| {
            let gone = gone(thread);
            if gone && thread.kept {
                files.give_back(FILES);
            }
            !gone
        });
    }
}

impl Thread {
    fn new(folder: &std::path::Path, tid: Tid, kept: bool) -> Thread {
        let open = |name: &str| ProcFile::new(folder.join(name), kept);
        Thread {
            tid,
            name: String::new(),
            kept,
            stat: open("stat"),
            status: open("status"),
            io: open("io"),
            sched: open("schedstat"),
            counters: Counters::default(),
            state: 0,
            ran: false,
            read_at: None,
            row_at: None,
            known: 0,
        }
    }

    /// Returns its voluntary and involuntary switches per second; `None`: it ended.
    fn read(&mut self, pid: &str, detail: bool, reading: &mut Reading<'_>) -> Option<(f64, f64)> {
        let sched = self.sched.read_single(reading.buffer).ok().and_then(parse_schedstat);
        let rested = sched.is_some_and(|now| {
            self.counters.run.value() == Some(now.run)
                && self.counters.turns.value() == Some(now.turns)
                && self.counters.ready.value() == Some(now.ready)
        });
        // Spread over the readings, so that they cost alike.
        let look = (reading.tick + u64::from(self.tid.0)).is_multiple_of(STATE_EVERY);
        if rested && !self.ran && !look {
            self.counters.rest(sched, reading.time);
            self.read_at = Some(reading.tick);
            return Some((0.0, 0.0));
        }
        let text = self.stat.read_single(reading.buffer).ok()?;
        let stat = parse_stat(text)?;
        let state_changed = state_number(stat.state) != self.state;
        if rested && !self.ran && !state_changed {
            self.counters.rest(sched, reading.time);
            self.read_at = Some(reading.tick);
            return Some((0.0, 0.0));
        }
        self.write_zeros_before(pid, reading);
        self.state = state_number(stat.state);
        self.name.clone_from(&stat.name);

        let (time, counters) = (reading.time, &mut self.counters);
        let cores = |rate: f64| rate / reading.machine.ticks_per_second;
        let nanos = |rate: f64| rate / 1e9;
        let mut row = Row::new(&THREADS);
        let user = counters.user.rate(Some(stat.user), time).map(cores);
        let system = counters.system.rate(Some(stat.system), time).map(cores);
        row.set("cpu.user", user);
        row.set("cpu.system", system);
        let run = counters.run.rate(sched.map(|now| now.run), time).map(nanos);
        row.set("cpu", run.or_else(|| user.zip(system).map(|(user, system)| user + system)));
        let ready = counters.ready.rate(sched.map(|now| now.ready), time).map(nanos);
        row.set("ready", ready.map(|share| share.min(1.0)));
        row.set("switches", counters.turns.rate(sched.map(|now| now.turns), time));
        row.set("faults.major", counters.major_faults.rate(Some(stat.major_faults), time));
        let disk = stat.disk_delay.filter(|_| reading.machine.delay_accounting);
        row.set("disk-wait", counters.disk.rate(disk, time).map(cores).map(|share| share.min(1.0)));
        row.set("state", Some(f64::from(self.state)));
        let switches =
            if detail || self.read_at.is_none() { self.read_detail(reading, &mut row) } else { (0.0, 0.0) };

        self.known = row.known();
        self.ran = match sched {
            Some(_) => !rested,
            None => user.zip(system).is_none_or(|(user, system)| user + system > 0.0),
        };
        (self.read_at, self.row_at) = (Some(reading.tick), Some(reading.tick));
        reading.thread_rows.next.push((self.keys(pid), row));
        Some(switches)
    }

    /// Switches by kind, and I/O.
    fn read_detail(&mut self, reading: &mut Reading<'_>, row: &mut Row) -> (f64, f64) {
        let (mut voluntary, mut involuntary) = (None, None);
        let text = self.status.read_single(reading.buffer).unwrap_or_default();
        name_values(text, |name, value| match name {
            b"voluntary_ctxt_switches" => voluntary = Some(value),
            b"nonvoluntary_ctxt_switches" => involuntary = Some(value),
            _ => {}
        });
        let voluntary = self.counters.voluntary.rate(voluntary, reading.time);
        let involuntary = self.counters.involuntary.rate(involuntary, reading.time);
        row.set("switches.voluntary", voluntary);
        row.set("switches.involuntary", involuntary);
        let io = self.io.read_single(reading.buffer).ok().map(parse_io).unwrap_or_default();
        row.set("read.throughput", self.counters.read.rate(io.read_bytes, reading.time));
        row.set("write.throughput", self.counters.write.rate(io.write_bytes, reading.time));
        (voluntary.unwrap_or(0.0), involuntary.unwrap_or(0.0))
    }

    /// A row of zeros at the reading before this one, if it was read then and rested.
    fn write_zeros_before(&mut self, pid: &str, reading: &mut Reading<'_>) {
        let before = reading.tick.checked_sub(1);
        if before.is_none() || self.read_at != before || self.row_at == before {
            return;
        }
        let mut row = Row::zeros(&THREADS, self.known);
        row.set("state", Some(f64::from(self.state)));
        reading.thread_rows.held.push((self.keys(pid), row));
    }

    fn keys(&self, pid: &str) -> [String; 3] {
        [pid.to_owned(), self.tid.to_string(), self.name.clone()]
    }
}

impl Counters {
    /// It did not run since its last reading: what could not grow is known to be as it was.
    fn rest(&mut self, sched: Option<SchedStat>, time: MonoNanos) {
        self.run.rate(sched.map(|now| now.run), time);
        self.ready.rate(sched.map(|now| now.ready), time);
        self.turns.rate(sched.map(|now| now.turns), time);
        for counter in [
            &mut self.user,
            &mut self.system,
            &mut self.disk,
            &mut self.major_faults,
            &mut self.voluntary,
            &mut self.involuntary,
            &mut self.read,
            &mut self.write,
        ] {
            counter.rest(time);
        }
    }
}

fn state_number(letter: u8) -> u8 {
    let place = STATES.iter().position(|state| *state == letter);
    place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or(0)
}
