//! `perf.data` as `perf record` writes it, also cut short by `kill -9`, and in pipe mode.
//!
//! | recorded with | gives |
//! | --- | --- |
//! | any cpu-clock, task-clock, cycles or instructions event | CPU samples |
//! | `-g` (frame pointers), `--call-graph dwarf` (copied stacks, unwound here) | stacks |
//! | `--switch-events`, or `-e sched:sched_switch -a` | thread states and waits |
//! | `-e sched:sched_switch -g` with one of these | stacks of waits |
//! | `-z` | the same, unpacked |
//! | `-e sched:sched_waking` | ready time and who woke whom |
//!
//! Names come from files on this machine with the build id (or inode) that was recorded, and from perf's own build-id
//! cache; kernel names only when this machine still runs the very boot that was recorded.
//!
//! The format is read here and not through the crate `linux-perf-data`, whose reader trusts its input: a section size
//! in a hostile file becomes an allocation of that size, and a build id of more than 20 bytes a panic. The tests
//! compare with it on files that perf wrote.

mod attr;
mod compressed;
mod files;
mod header;
mod ingest;
mod names;
mod options;
mod record;
mod spaces;
mod stacks;
mod states;

use crate::{ImportError, Limits};
use biopsy_model::capture::{Capture, CaptureHeader, EndedBy, HostInfo};
use biopsy_model::loss::Warning;
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind};
use biopsy_model::{BootId, ClockPair, MonoNanos, Nanos, Pid, ProcessKey};
use header::{Container, feature};
use ingest::Ingest;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use biopsy_stacks::symbols::FileSources;
use std::time::UNIX_EPOCH;

pub use header::is_perf_data;
pub use options::Options;

/// Reads a perf.data file, with names from files of `sources` where they are certain to be right.
///
/// # Errors
/// When the file cannot be read, is something else, or too little of it can be understood.
pub fn read(path: impl AsRef<Path>, sources: &FileSources, limits: &Limits) -> Result<Capture, ImportError> {
    let path = path.as_ref();
    let io = |source| ImportError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    let too_large = |size| ImportError::TooLarge { path: path.to_owned(), size, limit: limits.file };
    if metadata.len() > limits.file {
        return Err(too_large(metadata.len()));
    }
    let mut start = [0; 8];
    let got = read_start(&mut file, &mut start).map_err(io)?;
    let start = start.get(..got).unwrap_or(&[]);
    if !is_perf_data(start) {
        return Err(ImportError::NotPerfData { found: start.to_vec() });
    }
    let mut bytes = start.to_vec();
    // The file may grow while it is read, or be a pipe: the limit counts what comes.
    file.take(limits.file.saturating_add(1).saturating_sub(got as u64))
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() as u64 > limits.file {
        return Err(too_large(bytes.len() as u64));
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let options = Options {
        sources: sources.clone(),
        build_id_cache: std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".debug")),
        modified_unix_nanos: modified.and_then(|time| i128::try_from(time.as_nanos()).ok()),
    };
    read_bytes(&bytes, &options, limits)
}

fn read_start(file: &mut File, start: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = start.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            count => got += count,
        }
    }
    Ok(got)
}

/// Reads the bytes of a perf.data file.
///
/// # Errors
/// When the bytes are something else, or too little of them can be understood.
pub fn read_bytes(bytes: &[u8], options: &Options, limits: &Limits) -> Result<Capture, ImportError> {
    let parsed = Container::parse(bytes, limits)?;
    let unpacked = compressed::unpack(parsed.data, limits);
    let mut container = parsed;
    if let Some(unpacked) = &unpacked {
        if let (0, Some(why)) = (unpacked.pieces, &unpacked.damaged) {
            return Err(ImportError::Compressed { why: why.clone() });
        }
        container.data = &unpacked.bytes;
    }
    let (records, scan) = record::scan(&mut container, limits)?;
    if container.events.is_empty() {
        return Err(ImportError::NoEvents);
    }
    let first = records.iter().map(|record| record.time).find(|time| *time > 0).unwrap_or(0);
    let last = records.last().map_or(0, |record| record.time);
    let length = Nanos(last.saturating_sub(first));
    let mut ingest = Ingest::new(&container, length, options, limits);
    for raw in &records {
        ingest.add(raw);
    }
    drop(records);
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, hint: Option<&str>| {
        warnings.push(Warning { hint: hint.map(str::to_owned), ..Warning::new(code, message) });
    };
    if container.cut_short || scan.cut_short {
        warn(
            "import.cut-short",
            "perf.data is cut short: perf did not finish, or the file was copied too early".to_owned(),
            None,
        );
    }
    if scan.over_limit {
        warn(
            "import.over-limit",
            format!("perf.data holds more than {} records; the rest was not read", limits.records),
            None,
        );
    }
    let damaged = unpacked.as_ref().and_then(|unpacked| unpacked.damaged.as_ref());
    if let Some(why) = damaged {
        warn(
            "import.damaged",
            format!("compressed records of perf.data are damaged, and those behind were not read: {why}"),
            None,
        );
    }
    if unpacked.as_ref().is_some_and(|unpacked| unpacked.over_limit) {
        warn(
            "import.over-limit",
            "compressed records of perf.data unpack to more than the limit; the rest was not read".to_owned(),
            None,
        );
    }
    let mut finished = ingest.finish();
    warnings.append(&mut finished.warnings);
    let lacks = |unpacked: &compressed::Unpacked| unpacked.damaged.is_some() || unpacked.over_limit;
    let partial =
        container.cut_short || scan.cut_short || scan.over_limit || unpacked.as_ref().is_some_and(lacks);
    let header = make_header(&container, options, limits, &finished.timeline, partial, &finished.target);
    Ok(Capture {
        processes: finished.processes.iter().map(|(pid, name)| process(*pid, name, &finished)).collect(),
        header,
        timeline: Some(finished.timeline),
        runtimes: Vec::new(),
        looks: Vec::new(),
        metrics: Vec::new(),
        logs: Vec::new(),
        context: Vec::new(),
        warnings,
        redactions: Vec::new(),
    })
}

/// perf does not write down which boot; an empty boot id is equal to no real one.
fn key(pid: Pid) -> ProcessKey {
    ProcessKey { boot_id: BootId::default(), pid, start_ticks: 0 }
}

fn process(pid: Pid, name: &str, finished: &ingest::Finished) -> ProcessInfo {
    ProcessInfo {
        key: key(pid),
        parent: finished.parents.get(&pid).copied().unwrap_or_default(),
        name: name.to_owned(),
        exe: String::new(),
        exe_deleted: false,
        command_line: Vec::new(),
        uid: 0,
        runtime: Runtime { kind: RuntimeKind::Unknown, version: None, entry: None },
        ns_pid: None,
        cgroup: String::new(),
        container_id: None,
        unit: None,
    }
}

fn make_header(
    container: &Container<'_>,
    options: &Options,
    limits: &Limits,
    timeline: &biopsy_model::timeline::Timeline,
    partial: bool,
    target: &ingest::Target,
) -> CaptureHeader {
    let text = |feature| container.text(feature, limits).unwrap_or_default();
    let (from, to) = timeline.span.unwrap_or_default();
    let wall = wall_clock(container, options, to);
    let clock = |mono: MonoNanos| ClockPair {
        mono,
        wall_unix_nanos: wall + i128::from(mono.0),
        utc_offset_seconds: 0,
        zone: "UTC".to_owned(),
    };
    let cpus =
        container.features.get(&feature::NRCPUS).and_then(|bytes| bytes.get(4..8)?.first_chunk().copied());
    CaptureHeader {
        tool: format!("perf {}", text(feature::VERSION)).trim_end().to_owned(),
        command: container.texts(feature::CMDLINE, limits),
        start: clock(from),
        end: (!partial).then(|| clock(to)),
        target: target.pid.map(key),
        target_name: target.name.clone(),
        host: HostInfo {
            hostname: text(feature::HOSTNAME),
            kernel: text(feature::OSRELEASE),
            os: String::new(),
            architecture: text(feature::ARCH),
            // `nr_cpus_available`, `nr_cpus_online`: the second.
            cpus: cpus.map_or(0, u32::from_le_bytes),
            memory: container.number(feature::TOTAL_MEM).unwrap_or(0).saturating_mul(1024),
            cpu_model: text(feature::CPUDESC),
        },
        ended_by: EndedBy::Unknown,
    }
}

/// Wall clock at zero of perf's clock: written down with `perf record -k`, else told from the file's age.
fn wall_clock(container: &Container<'_>, options: &Options, last: MonoNanos) -> i128 {
    let known = container.features.get(&feature::CLOCK_DATA).and_then(|bytes| {
        let mut cursor = biopsy_bytes::Cursor::new(bytes);
        cursor.skip("clock_data.version", 8).ok()?;
        let wall = cursor.u64("clock_data.wall_clock_ns").ok()?;
        let clock = cursor.u64("clock_data.clockid_time_ns").ok()?;
        Some(i128::from(wall) - i128::from(clock))
    });
    known.or(options.modified_unix_nanos.map(|end| end - i128::from(last.0))).unwrap_or(0)
}
