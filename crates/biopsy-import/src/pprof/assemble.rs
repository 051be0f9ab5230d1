//! From a profile's sums to a capture.

use std::collections::BTreeMap;

use biopsy_model::capture::{Capture, CaptureHeader, EndedBy, HostInfo};
use biopsy_model::loss::Warning;
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind, ThreadInfo};
use biopsy_model::timeline::{
    Allocation, AllocationWatch, Release, Sample, SamplingEvent, ThreadLife, Timeline, TraceMethod,
    TraceSettings, WaitSample, WaitState,
};
use biopsy_model::{Avma, BootId, ClockPair, MonoNanos, Nanos, Pid, ProcessKey, Tid};

use super::error::PprofError;
use super::kinds::{self, Kinds};
use super::limits::Limits;
use super::places::Places;
use super::profile::Profile;
use super::spread::{each, spread};
use super::unpack::Cut;
use super::wire::{Fields, Value};

/// Numbers of a sample that are looked at.
const VALUES: usize = 64;
/// Threads that are told apart (count).
const THREADS: usize = 65_536;
/// Longest time that a profile is believed to be of: a year.
const LONGEST: u64 = 366 * 86_400 * 1_000_000_000;

/// One row, without its texts.
#[derive(Default)]
struct Row {
    locations: Vec<u64>,
    values: Vec<i64>,
    thread: Option<i64>,
    thread_name: Option<i64>,
    process: Option<i64>,
}

impl Row {
    fn read(row: &[u8], depth: usize) -> Self {
        let mut found = Self::default();
        for (number, value) in Fields::of(row).flatten() {
            match number {
                // One more than is kept shows that it is cut off.
                1 => {
                    let room = depth.saturating_add(1).saturating_sub(found.locations.len());
                    found.locations.extend(value.numbers().take(room));
                }
                2 => {
                    let room = VALUES.saturating_sub(found.values.len());
                    found.values.extend(value.numbers().take(room).map(u64::cast_signed));
                }
                _ => (),
            }
        }
        found
    }

    fn labels(&mut self, row: &[u8], profile: &Profile<'_>) {
        for (_, label) in Fields::of(row).flatten().filter(|(number, _)| *number == 3) {
            let (mut key, mut text, mut number) = (0, 0, 0);
            for (field, value) in Fields::of(label.bytes()).flatten() {
                match (field, value) {
                    (1, Value::Number(_)) => key = value.signed(),
                    (2, Value::Number(_)) => text = value.signed(),
                    (3, Value::Number(_)) => number = value.signed(),
                    _ => (),
                }
            }
            let said = || {
                let text = std::str::from_utf8(profile.string(text)?).ok()?;
                text.parse::<i64>().ok()
            };
            let id = if number == 0 { said() } else { Some(number) };
            match profile.string(key).unwrap_or_default() {
                b"tid" | b"thread_id" | b"thread id" => self.thread = id,
                b"thread" | b"thread_name" | b"thread name" => self.thread_name = Some(text),
                b"pid" | b"process_id" | b"process id" => self.process = id,
                _ => (),
            }
        }
    }

    /// A number; nothing that is below zero, which is a difference of two profiles.
    fn value(&self, at: usize) -> i64 {
        self.values.get(at).copied().unwrap_or(0)
    }

    fn positive(&self, at: usize) -> u64 {
        u64::try_from(self.value(at)).unwrap_or(0)
    }
}

/// What is counted on the way.
#[derive(Default)]
struct Told {
    negative: u64,
    no_numbers: u64,
    threads: BTreeMap<(Pid, Tid), String>,
    by_name: BTreeMap<String, Tid>,
    addresses: u64,
    allocated: u64,
    calls: u64,
}

/// The capture of a profile.
pub(super) fn capture(
    profile: &Profile<'_>,
    cut: Option<Cut>,
    limits: &Limits,
) -> Result<Capture, PprofError> {
    let named = kinds::kinds(profile);
    if !named.any || profile.samples.is_empty() {
        // Without samples there is still what it would have been of; without names there is nothing.
        if !named.any || cut.is_some() || profile.damage.is_some() {
            return Err(PprofError::Empty);
        }
    }
    let kinds = named.kinds;
    if kinds.cpu.is_none() && kinds.wait.is_none() && kinds.in_use.is_none() {
        return Err(PprofError::OtherKinds { kinds: named.others.join(", ") });
    }
    let time = Time::of(profile);
    let mut places = Places::new(profile, limits);
    let mut told = Told::default();
    let every = each(samples(profile, &kinds, limits), limits.samples);
    for message in &profile.samples {
        let mut row = Row::read(message, limits.depth);
        row.labels(message, profile);
        add(&row, &kinds, &time, every, &mut places, &mut told);
    }
    let mut warnings = warnings(profile, cut.as_ref(), &named, &places, &told);
    let partial = cut.is_some() || profile.damage.is_some();
    if every > 1 {
        let message = format!("samples were thinned out: every {every}th is kept, and stands for as many");
        warnings.push(Warning::new("import.thinned", message));
    }
    let name = profile.first_mapping.and_then(|id| profile.mappings.get(&id)).map(|mapping| mapping.file);
    let name = name.map(|file| places.text(file)).unwrap_or_default();
    let timeline = finish(places.timeline, profile, &kinds, &time, &told);
    Ok(Capture {
        header: header(&timeline, &time, &told, &name, partial),
        processes: processes(&timeline, &told, &name),
        timeline: Some(timeline),
        warnings,
        ..Capture::default()
    })
}

/// First and last moment, on a clock of its own: the wall clock, since no other is known.
struct Time {
    from: MonoNanos,
    to: MonoNanos,
    wall: bool,
}

impl Time {
    fn of(profile: &Profile<'_>) -> Self {
        let start = u64::try_from(profile.time_nanos).unwrap_or(0);
        let length = u64::try_from(profile.duration_nanos).unwrap_or(0).min(LONGEST);
        // Zero means that there is no clock.
        let from = MonoNanos(start.max(1));
        Self { from, to: from + Nanos(length), wall: start > 0 }
    }

    fn span(&self) -> (MonoNanos, MonoNanos) {
        (self.from, self.to)
    }

    fn is_known(&self) -> bool {
        self.to > self.from
    }
}

/// How many samples all rows are.
fn samples(profile: &Profile<'_>, kinds: &Kinds, limits: &Limits) -> u64 {
    let Some(at) = kinds.count else { return profile.samples.len() as u64 };
    let counts = profile.samples.iter().map(|row| Row::read(row, limits.depth).positive(at).max(1));
    counts.fold(0, u64::saturating_add)
}

fn add(row: &Row, kinds: &Kinds, time: &Time, every: u64, places: &mut Places<'_, '_>, told: &mut Told) {
    let (stack, end) = places.stack(&row.locations);
    told.no_numbers += u64::from(row.values.is_empty());
    told.negative += u64::from(row.values.iter().any(|value| *value < 0));
    let (pid, tid) = told.thread(row, places);
    let count = kinds.count.map_or(1, |at| row.positive(at)).div_ceil(every);
    let scaled = |slot: Option<(usize, u64)>| {
        slot.map(|(at, unit)| row.positive(at).saturating_mul(unit)).filter(|weight| *weight > 0)
    };
    if let Some(weight) = scaled(kinds.cpu) {
        for (time, weight) in spread(time.span(), count, weight) {
            places.timeline.samples.push(Sample { time, tid, cpu: 0, stack, end, weight });
        }
    }
    if let Some(weight) = scaled(kinds.wait) {
        // One event with the time of all: the format has no single waits.
        for (time, weight) in spread(time.span(), 1, weight) {
            places.timeline.wait_samples.push(WaitSample {
                time,
                tid,
                stack,
                end,
                weight,
                syscall: None,
                state: WaitState::Other,
            });
        }
    }
    if let Some(at) = kinds.in_use {
        let in_use = row.positive(at);
        let allocated = kinds.allocated.map_or(in_use, |at| row.positive(at)).max(in_use);
        told.calls = told.calls.saturating_add(kinds.allocations.map_or(0, |at| row.positive(at)));
        told.allocated = told.allocated.saturating_add(allocated);
        for (weight, kept) in [(in_use, true), (allocated - in_use, false)] {
            if weight == 0 {
                continue;
            }
            told.addresses += 1;
            let address = Avma(told.addresses);
            let at = time.from;
            let one = Allocation { time: at, pid, tid, stack, end, address, size: weight, weight };
            places.timeline.allocations.push(one);
            if !kept {
                places.timeline.releases.push(Release { time: time.to, pid, address });
            }
        }
    }
}

impl Told {
    /// Whose a row is. What no label says is of thread 0, which is no thread: all of them together.
    fn thread(&mut self, row: &Row, places: &mut Places<'_, '_>) -> (Pid, Tid) {
        let number = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
        let pid = Pid(number(row.process).unwrap_or(0));
        let name = row.thread_name.map(|name| places.text(name)).unwrap_or_default();
        let tid = match number(row.thread) {
            Some(tid) => Tid(tid),
            None if name.is_empty() => Tid(0),
            // Named, but without a number: numbered as they come.
            None => {
                let next = Tid(u32::try_from(self.by_name.len() + 1).unwrap_or(u32::MAX));
                if self.by_name.len() >= THREADS {
                    Tid(0)
                } else {
                    *self.by_name.entry(name.clone()).or_insert(next)
                }
            }
        };
        if self.threads.len() < THREADS || self.threads.contains_key(&(pid, tid)) {
            self.threads.entry((pid, tid)).or_insert(name);
        }
        (pid, tid)
    }
}

fn finish(
    mut timeline: Timeline,
    profile: &Profile<'_>,
    kinds: &Kinds,
    time: &Time,
    told: &Told,
) -> Timeline {
    timeline.samples.sort_by_key(|sample| sample.time);
    timeline.wait_samples.sort_by_key(|sample| sample.time);
    let threads = told.threads.iter().map(|((pid, tid), name)| ThreadLife {
        info: ThreadInfo {
            tid: *tid,
            pid: *pid,
            name: if *tid == Tid(0) && name.is_empty() { "all threads".to_owned() } else { name.clone() },
        },
        start: time.from,
        born: false,
        by: None,
        exit: None,
    });
    timeline.threads = threads.collect();
    if kinds.in_use.is_some() {
        timeline.allocation_watches.push(AllocationWatch {
            from: time.from,
            to: time.to,
            released_to: time.to,
            calls: told.calls,
            bytes: told.allocated,
            interval: u64::try_from(profile.period).unwrap_or(0),
        });
    }
    let period = kinds.cpu.and_then(|_| u64::try_from(profile.period).ok()).filter(|period| *period > 0);
    let frequency = period.map_or(0, |period| u32::try_from(1_000_000_000 / period).unwrap_or(0));
    timeline.settings = TraceSettings {
        frequency_hz: frequency,
        // Without a length of time nothing can be said of CPUs that were used.
        sampling_event: if kinds.cpu.is_some() && time.is_known() {
            SamplingEvent::CpuClock
        } else {
            SamplingEvent::Unknown
        },
        method: TraceMethod::Imported,
        ..TraceSettings::default()
    };
    timeline.span = Some(time.span());
    timeline
}

/// The file does not say which boot; an empty boot id is equal to no real one.
fn key(pid: Pid) -> ProcessKey {
    ProcessKey { boot_id: BootId::default(), pid, start_ticks: 0 }
}

fn header(timeline: &Timeline, time: &Time, told: &Told, path: &str, partial: bool) -> CaptureHeader {
    let clock = |mono: MonoNanos| ClockPair {
        mono,
        wall_unix_nanos: if time.wall { i128::from(mono.0) } else { 0 },
        utc_offset_seconds: 0,
        zone: "UTC".to_owned(),
    };
    let (from, to) = timeline.span.unwrap_or_default();
    let pid = told.threads.keys().map(|(pid, _)| *pid).find(|pid| *pid != Pid(0));
    CaptureHeader {
        tool: "a profiler (format of pprof)".to_owned(),
        start: clock(from),
        end: (!partial).then(|| clock(to)),
        target: pid.map(key),
        target_name: base_name(path).to_owned(),
        host: HostInfo::default(),
        ended_by: EndedBy::Unknown,
        ..CaptureHeader::default()
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn processes(timeline: &Timeline, told: &Told, path: &str) -> Vec<ProcessInfo> {
    let names = timeline.symbols.iter().flatten().flat_map(|symbols| &symbols.functions);
    let is_go = names.into_iter().any(|function| {
        ["runtime.goexit", "runtime.main", "runtime.mcall"].contains(&function.name.as_str())
    });
    let kind = if is_go { RuntimeKind::Go } else { RuntimeKind::Unknown };
    let mut pids: Vec<Pid> = told.threads.keys().map(|(pid, _)| *pid).collect();
    pids.dedup();
    let process = |pid| ProcessInfo {
        key: key(pid),
        parent: Pid(0),
        name: base_name(path).to_owned(),
        exe: path.to_owned(),
        exe_deleted: false,
        command_line: Vec::new(),
        uid: 0,
        runtime: Runtime { kind, version: None, entry: None },
        ns_pid: None,
        cgroup: String::new(),
        container_id: None,
        unit: None,
    };
    pids.into_iter().map(process).collect()
}

fn warnings(
    profile: &Profile<'_>,
    cut: Option<&Cut>,
    named: &kinds::Named,
    places: &Places<'_, '_>,
    told: &Told,
) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |code: &str, message: String| all.push(Warning::new(code, message));
    match cut {
        Some(Cut::Packed(error)) => {
            warn("import.cut-short", format!("the profile is cut short or damaged: {error}"))
        }
        Some(Cut::Limit(limit)) => {
            warn(
                "import.over-limit",
                format!("the profile unpacks to more than {limit} bytes; the rest was not read"),
            );
        }
        None => (),
    }
    if let Some(error) = &profile.damage {
        warn(
            "import.damaged",
            format!("the profile is damaged or cut short, and the rest was not read: {error}"),
        );
    }
    if profile.left_out > 0 || places.over_limit {
        let message = "the profile has more rows, names or deeper stacks than the limits allow; what is above was left out";
        warn("import.over-limit", message.to_owned());
    }
    let broken = places.dangling.saturating_add(told.no_numbers);
    if broken > 0 {
        warn(
            "import.damaged",
            format!("{broken} places in the profile refer to rows or numbers that are not there"),
        );
    }
    if told.negative > 0 {
        let message = format!(
            "{} rows have numbers below zero: it is a difference of two profiles, and what became less is not shown",
            told.negative
        );
        warn("import.difference", message);
    }
    if !named.others.is_empty() {
        warn("import.not-read", format!("not read of the profile: {}", named.others.join(", ")));
    }
    let kinds = &named.kinds;
    if kinds.cpu.is_some() || kinds.wait.is_some() {
        let message = "a pprof profile has sums, not when what happened: over time the averages are shown";
        warn("import.no-times", message.to_owned());
    }
    if kinds.is_wall {
        let message = "threads were sampled by the clock, whether they ran or waited: these are times of the clock, not of CPUs";
        warn("import.wall-clock", message.to_owned());
    }
    if is_of_unlocks(&places.timeline) {
        let message = "the profile is of locks at the moment in which they were given back: its stacks are those of threads for which others \
                       waited, not of those that waited";
        warn("import.holders", message.to_owned());
    }
    if kinds.in_use.is_some() {
        let message = "allocations of a profile are estimates from samples, from the start of the process on, and what is in use is not a leak \
                       by that alone";
        warn("import.heap-profile", message.to_owned());
    }
    all
}

/// Go's profile of mutexes: most of the waiting is at functions that give locks back.
fn is_of_unlocks(timeline: &Timeline) -> bool {
    let is_unlock = |sample: &&WaitSample| {
        let leaf = timeline.frames_of(sample.stack).next();
        let symbols = leaf.and_then(|leaf| timeline.symbols.get(leaf.0 as usize)?.as_ref());
        symbols.is_some_and(|symbols| symbols.functions.iter().any(|function| is_unlock_name(&function.name)))
    };
    let all = timeline.wait_samples.iter().map(|sample| u128::from(sample.weight.0)).sum::<u128>();
    let of_unlocks = timeline
        .wait_samples
        .iter()
        .filter(is_unlock)
        .map(|sample| u128::from(sample.weight.0))
        .sum::<u128>();
    of_unlocks > all / 2
}

fn is_unlock_name(name: &str) -> bool {
    let method = name.rsplit('.').next().unwrap_or(name);
    let package = name.starts_with("sync.") || name.starts_with("runtime.") || name.starts_with("internal/");
    package
        && ["Unlock", "RUnlock", "unlock", "unlockSlow", "unlock2", "_LostContendedRuntimeLock"]
            .contains(&method)
}
