//! The `cgroups` table: limits, use and throttling of the control groups of the tree and their parents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use biopsy_model::loss::Warning;
use biopsy_model::{MonoNanos, Pid};

use super::cgroup_paths::{ControllerFolder, GroupFiles, Groups, Mounts, find_groups};
use super::parse::{lines, name_values, number, parse_pressure, words};
use super::procfile::{Buffer, ProcFile};
use super::rate::Counter;
use super::reading::Reading;
use super::sink::{Emitter, Row};
use super::system::stall_share;
use super::tables::CGROUPS;

/// Files of one group that stay open, at most.
const FILES: usize = 18;

/// Groups beyond this many are not read.
const MOST_GROUPS: usize = 64;

/// Processes move between groups rarely: looked at this often, in readings, and when the tree changes.
const LOOK_EVERY: u64 = 10;

/// Version 1 writes "no limit" as the largest page-aligned number; nobody has an exbibyte.
const NO_LIMIT: u64 = 1 << 60;

/// Collector of the `cgroups` table.
#[derive(Debug)]
pub(crate) struct Cgroups {
    proc_root: PathBuf,
    mounts: Mounts,
    /// Why it is not known where groups are mounted.
    unreadable: Option<std::io::Error>,
    tree: Vec<Pid>,
    groups: BTreeMap<String, Group>,
    /// The tree was throttled in the last interval.
    pub(crate) throttled: bool,
}

impl Cgroups {
    pub(crate) fn new(proc_root: &Path) -> Cgroups {
        let (text, unreadable) = match biopsy_files::read_kernels(proc_root.join("self/mountinfo")) {
            Ok(text) => (text, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Cgroups {
            unreadable,
            proc_root: proc_root.to_owned(),
            mounts: Mounts::parse(&text),
            tree: Vec::new(),
            groups: BTreeMap::new(),
            throttled: false,
        }
    }

    pub(crate) fn read(&mut self, tree: &[Pid], reading: &mut Reading<'_>, out: &mut Emitter<'_>) {
        if self.tree != tree || reading.tick.is_multiple_of(LOOK_EVERY) {
            self.look(tree, reading);
        }
        self.throttled = false;
        for (path, group) in &mut self.groups {
            let mut row = Row::new(&CGROUPS);
            let limited = group.read(reading.time, reading.buffer, &mut row);
            self.throttled |= limited.throttled;
            // The root of the machine has no limits and repeats the `system` table; the root of a
            // container's namespace is the container and has them.
            if path != "/" || limited.has_limits {
                out.emit(reading.time, &[path], &row);
            }
        }
    }

    fn look(&mut self, tree: &[Pid], reading: &mut Reading<'_>) {
        tree.clone_into(&mut self.tree);
        let Groups { found, hidden, unreadable } =
            find_groups(&self.proc_root, &self.mounts, tree, MOST_GROUPS);
        if let Some(error) = self.unreadable.take().or(unreadable) {
            let message = format!("control groups of the target are not known: {error}");
            reading.warn(Warning::new("metrics.cgroups-unreadable", message));
        }
        if hidden > 0 {
            let message = "control groups of the target lie outside of what is mounted here: their limits and \
                           throttling are not recorded";
            reading.warn(Warning::new("metrics.cgroups-hidden", message.to_owned()));
        }
        if found.len() >= MOST_GROUPS {
            let message = format!("the tree is in many control groups: only {MOST_GROUPS} are read");
            reading.warn(Warning::new("metrics.many-cgroups", message));
        }
        self.groups.retain(|path, group| {
            let stays = found.get(path) == Some(&group.files);
            if !stays && group.kept {
                reading.files.give_back(FILES);
            }
            stays
        });
        for (path, files) in found {
            self.groups.entry(path).or_insert_with(|| Group::new(files, reading.files.take(FILES)));
        }
    }
}

/// What the caller wants to know of a reading.
#[derive(Clone, Copy, Default)]
struct Limited {
    throttled: bool,
    has_limits: bool,
}

#[derive(Debug)]
struct Group {
    files: GroupFiles,
    kept: bool,
    cpu: Option<Cpu>,
    accounting: Option<ProcFile>,
    memory: Option<Memory>,
    tasks: Option<[ProcFile; 2]>,
    disk: Option<(ProcFile, bool)>,
    pressure: Vec<(&'static str, ProcFile, Counter)>,
    usage: Counter,
    read: Counter,
    written: Counter,
}

#[derive(Debug)]
struct Cpu {
    version2: bool,
    stat: ProcFile,
    quota: ProcFile,
    period: ProcFile,
    user: Counter,
    system: Counter,
    periods: Counter,
    throttled: Counter,
    throttled_time: Counter,
}

#[derive(Debug)]
struct Memory {
    version2: bool,
    current: ProcFile,
    limit: ProcFile,
    high: ProcFile,
    stat: ProcFile,
    events: ProcFile,
    swap: ProcFile,
    high_events: Counter,
    max_events: Counter,
    kills: Counter,
}

impl Group {
    fn new(files: GroupFiles, kept: bool) -> Group {
        let [cpu, accounting, memory, tasks, disk] = &files.folders;
        let open = |folder: &ControllerFolder, name: &str| ProcFile::new(folder.path.join(name), kept);
        let version2 = |folder: &&ControllerFolder| folder.version2;
        let unified = [cpu, memory, disk].into_iter().flatten().find(version2);
        let pressure = unified.map(|folder| {
            let file = |name: &str| open(folder, &format!("{name}.pressure"));
            ["cpu", "memory", "io"].map(|name| (name, file(name), Counter::default())).into()
        });
        Group {
            cpu: cpu.as_ref().map(|folder| Cpu::new(folder, kept)),
            accounting: accounting
                .as_ref()
                .filter(|folder| !folder.version2)
                .map(|folder| open(folder, "cpuacct.usage")),
            memory: memory.as_ref().map(|folder| Memory::new(folder, kept)),
            tasks: tasks.as_ref().map(|folder| [open(folder, "pids.current"), open(folder, "pids.max")]),
            disk: disk.as_ref().map(|folder| match folder.version2 {
                true => (open(folder, "io.stat"), true),
                false => (open(folder, "blkio.throttle.io_service_bytes"), false),
            }),
            pressure: pressure.unwrap_or_default(),
            usage: Counter::default(),
            read: Counter::default(),
            written: Counter::default(),
            kept,
            files,
        }
    }

    fn read(&mut self, time: MonoNanos, buffer: &mut Buffer, row: &mut Row) -> Limited {
        let mut limited = Limited::default();
        if let Some(cpu) = &mut self.cpu {
            let usage = cpu.read(time, buffer, row, &mut limited);
            row.set("cpu.usage", self.usage.rate(usage, time).map(|micros| micros / 1e6));
        }
        if let Some(file) = &mut self.accounting {
            let nanos = file.read_ok(buffer).map(<[u8]>::trim_ascii).and_then(number);
            row.set("cpu.usage", self.usage.rate(nanos, time).map(|nanos| nanos / 1e9));
        }
        if let Some(memory) = &mut self.memory {
            memory.read(time, buffer, row, &mut limited);
        }
        if let Some([current, limit]) = &mut self.tasks {
            row.set_count("pids.current", single(current, buffer));
            let limit = single(limit, buffer);
            limited.has_limits |= limit.is_some();
            row.set_count("pids.limit", limit);
        }
        if let Some((file, version2)) = &mut self.disk {
            let (read, written) = match file.read_ok(buffer) {
                Some(text) if *version2 => io_of_version2(text),
                Some(text) => io_of_version1(text),
                None => (None, None),
            };
            row.set("read.throughput", self.read.rate(read, time));
            row.set("write.throughput", self.written.rate(written, time));
        }
        for (name, file, counter) in &mut self.pressure {
            let (some, _) = parse_pressure(file.read_ok(buffer).unwrap_or_default());
            row.set(&format!("pressure.{name}.some"), counter.rate(some.total, time).map(stall_share));
        }
        limited
    }
}

impl Cpu {
    fn new(folder: &ControllerFolder, kept: bool) -> Cpu {
        let open = |name: &str| ProcFile::new(folder.path.join(name), kept);
        let (quota, period) =
            if folder.version2 { ("cpu.max", "cpu.max") } else { ("cpu.cfs_quota_us", "cpu.cfs_period_us") };
        Cpu {
            version2: folder.version2,
            stat: open("cpu.stat"),
            quota: open(quota),
            period: open(period),
            user: Counter::default(),
            system: Counter::default(),
            periods: Counter::default(),
            throttled: Counter::default(),
            throttled_time: Counter::default(),
        }
    }

    /// Returns the use so far in microseconds (version 2 only).
    fn read(
        &mut self,
        time: MonoNanos,
        buffer: &mut Buffer,
        row: &mut Row,
        limited: &mut Limited,
    ) -> Option<u64> {
        let quota = self.quota(buffer);
        limited.has_limits |= quota.is_some();
        row.set("cpu.quota", quota);
        let (mut usage, mut user, mut system) = (None, None, None);
        let (mut periods, mut throttled, mut micros, mut nanos) = (None, None, None, None);
        let text = self.stat.read_ok(buffer).unwrap_or_default();
        name_values(text, |name, value| match name {
            b"usage_usec" => usage = Some(value),
            b"user_usec" => user = Some(value),
            b"system_usec" => system = Some(value),
            b"nr_periods" => periods = Some(value),
            b"nr_throttled" => throttled = Some(value),
            b"throttled_usec" => micros = Some(value),
            b"throttled_time" => nanos = Some(value),
            _ => {}
        });
        row.set("cpu.user", self.user.rate(user, time).map(|micros| micros / 1e6));
        row.set("cpu.system", self.system.rate(system, time).map(|micros| micros / 1e6));
        let periods = self.periods.rate(periods, time);
        let throttled = self.throttled.rate(throttled, time);
        limited.throttled |= throttled.is_some_and(|rate| rate > 0.0);
        row.set("throttled.periods", throttled);
        let share = throttled.zip(periods).filter(|(_, periods)| *periods > 0.0);
        row.set("throttled.ratio", share.map(|(throttled, periods)| (throttled / periods).min(1.0)));
        let waited = micros.and_then(|micros: u64| micros.checked_mul(1000)).or(nanos);
        row.set("throttled.time", self.throttled_time.rate(waited, time).map(|nanos| nanos / 1e9));
        usage
    }

    /// The limit in cores; none: no limit.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a period")]
    fn quota(&mut self, buffer: &mut Buffer) -> Option<f64> {
        // `max` and `-1` are no numbers, and no limit.
        let (quota, period) = {
            let mut numbers = words(self.quota.read_ok(buffer)?).map(number);
            (numbers.next()??, numbers.next().flatten())
        };
        let period = if self.version2 { period? } else { single(&mut self.period, buffer)? };
        (period > 0).then(|| quota as f64 / period as f64)
    }
}

impl Memory {
    fn new(folder: &ControllerFolder, kept: bool) -> Memory {
        let pick = |second: &str, first: &str| {
            ProcFile::new(folder.path.join(if folder.version2 { second } else { first }), kept)
        };
        Memory {
            version2: folder.version2,
            current: pick("memory.current", "memory.usage_in_bytes"),
            limit: pick("memory.max", "memory.limit_in_bytes"),
            high: pick("memory.high", "memory.soft_limit_in_bytes"),
            stat: pick("memory.stat", "memory.stat"),
            events: pick("memory.events", "memory.oom_control"),
            swap: pick("memory.swap.current", "memory.failcnt"),
            high_events: Counter::default(),
            max_events: Counter::default(),
            kills: Counter::default(),
        }
    }

    fn read(&mut self, time: MonoNanos, buffer: &mut Buffer, row: &mut Row, limited: &mut Limited) {
        row.set_count("memory.current", single(&mut self.current, buffer));
        let limit = single(&mut self.limit, buffer).filter(|bytes| *bytes < NO_LIMIT);
        limited.has_limits |= limit.is_some();
        row.set_count("memory.limit", limit);
        row.set_count("memory.high", single(&mut self.high, buffer).filter(|bytes| *bytes < NO_LIMIT));
        let (mut anon, mut file, mut swap) = (None, None, None);
        let text = self.stat.read_ok(buffer).unwrap_or_default();
        name_values(text, |name, value| match name {
            b"anon" | b"total_rss" => anon = Some(value),
            b"file" | b"total_cache" => file = Some(value),
            b"total_swap" => swap = Some(value),
            _ => {}
        });
        row.set_count("memory.anon", anon);
        row.set_count("memory.file", file);
        let (mut high, mut max, mut kills) = (None, None, None);
        let text = self.events.read_ok(buffer).unwrap_or_default();
        name_values(text, |name, value| match name {
            b"high" => high = Some(value),
            b"max" => max = Some(value),
            b"oom_kill" => kills = Some(value),
            _ => {}
        });
        let last = single(&mut self.swap, buffer);
        match self.version2 {
            true => swap = last,
            // `memory.failcnt` of version 1: how often the limit was hit.
            false => max = last,
        }
        row.set_count("swap.current", swap);
        row.set("memory.events.high", self.high_events.rate(high, time));
        row.set("memory.events.max", self.max_events.rate(max, time));
        row.set("memory.events.oom-kill", self.kills.rate(kills, time));
    }
}

/// The number that is the whole file; `max` is none.
fn single(file: &mut ProcFile, buffer: &mut Buffer) -> Option<u64> {
    file.read_ok(buffer).map(<[u8]>::trim_ascii).and_then(number)
}

/// Bytes read and written of all devices: `8:0 rbytes=1 wbytes=2 rios=3 ...`.
fn io_of_version2(text: &[u8]) -> (Option<u64>, Option<u64>) {
    let (mut read, mut written) = (0_u64, 0_u64);
    for word in words(text) {
        if let Some(value) = word.strip_prefix(b"rbytes=").and_then(number) {
            read = read.saturating_add(value);
        } else if let Some(value) = word.strip_prefix(b"wbytes=").and_then(number) {
            written = written.saturating_add(value);
        }
    }
    (Some(read), Some(written))
}

/// The same of version 1: lines `8:0 Read 1`, `8:0 Write 2`, and others.
fn io_of_version1(text: &[u8]) -> (Option<u64>, Option<u64>) {
    let (mut read, mut written) = (0_u64, 0_u64);
    for line in lines(text) {
        let mut words = words(line).skip(1);
        let (kind, value) = (words.next(), words.next().and_then(number).unwrap_or(0));
        match kind {
            Some(b"Read") => read = read.saturating_add(value),
            Some(b"Write") => written = written.saturating_add(value),
            _ => {}
        }
    }
    (Some(read), Some(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_of_both_versions() {
        let text = b"8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n253:0 rbytes=1 wbytes=2\n";
        assert_eq!(io_of_version2(text), (Some(11), Some(22)));
        let text = b"8:0 Read 10\n8:0 Write 20\n8:0 Sync 5\n8:16 Read 1\nTotal 36\n";
        assert_eq!(io_of_version1(text), (Some(11), Some(20)));
    }
}
