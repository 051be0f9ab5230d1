//! Metrics and context of real programs with a known cause.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use biopsy_model::metric::{MetricRow, MetricTable};
use biopsy_model::{MonoNanos, Pid};
use biopsy_record::context::{self, Moment};
use biopsy_record::logs::{self, LogWatch};
use biopsy_record::masking::Masking;
use biopsy_record::metrics::{Config, Handle, MemorySink, Recorder, Summary, TableSchema, TableSink};
use biopsy_recording::RecordingFolder;
use biopsy_redact::{Options, RedactionLog, Redactor};
use biopsy_testkit::{
    CpuLimit, Namespaces, Privilege, Program, Survival, TargetProcess, in_namespaces, require, temp_dir,
};

/// How long something that must come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sink that the test can look into while the recorder writes.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<MemorySink>>);

impl TableSink for Shared {
    fn row(
        &mut self,
        schema: &'static TableSchema,
        time: MonoNanos,
        keys: &[&str],
        values: &[Option<f64>],
    ) -> std::io::Result<()> {
        self.0.lock().expect("nobody panics while writing").row(schema, time, keys, values)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Whether some row of a table has a value that fits.
    fn has(&self, table: &str, column: &str, fits: impl Fn(&MetricRow, f64) -> bool) -> bool {
        let sink = self.0.lock().expect("nobody panics while writing");
        let Some(table) = sink.table(table) else { return false };
        let index = column_of(table, column);
        table.rows.iter().any(|row| row.values[index].is_some_and(|value| fits(row, value)))
    }

    fn rows(&self, table: &str) -> usize {
        self.0.lock().expect("nobody panics while writing").table(table).map_or(0, |table| table.rows.len())
    }

    /// Waits for such a row.
    #[track_caller]
    fn wait_for(&self, table: &str, column: &str, fits: impl Fn(&MetricRow, f64) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !self.has(table, column, &fits) {
            assert!(Instant::now() < until, "no such `{column}` of `{table}` in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn column_of(table: &MetricTable, name: &str) -> usize {
    table.columns.iter().position(|column| column.name == name).expect("a column of the table")
}

fn start(pids: &[u32]) -> (Handle, Shared) {
    let pids: Vec<Pid> = pids.iter().copied().map(Pid).collect();
    let mut config = Config::new(Arc::new(move || pids.clone()));
    config.interval = Duration::from_millis(200);
    let sink = Shared::default();
    let handle = Recorder::start(config, Box::new(sink.clone())).expect("a thread");
    (handle, sink)
}

fn stop(handle: Handle) -> Summary {
    let summary = handle.stop();
    assert!(summary.error.is_none(), "{summary:?}");
    summary
}

#[test]
fn a_hot_function_burns_one_cpu() {
    if !require(Privilege::Cc) {
        return;
    }
    let program = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(program.pid());
    let (handle, sink) = start(&[program.pid()]);
    let pid = program.pid().to_string();
    // Other tests may have the rest of the machine: a fifth of a CPU is more than any idle program uses.
    sink.wait_for("processes", "cpu.user", |row, cores| row.keys[0] == pid && cores > 0.2);
    sink.wait_for("threads", "cpu", |row, cores| row.keys[1] == pid && cores > 0.2 && cores < 1.5);
    stop(handle);
    survival.assert_unharmed();
}

#[test]
fn a_program_that_writes_and_waits_for_the_disk() {
    if !require(Privilege::Cc) {
        return;
    }
    // Beside the build, which is on a disk where `/tmp` may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let path = folder.path().to_str().expect("UTF-8");
    let program = TargetProcess::start(Program::DiskBound, &[path]);
    let (handle, sink) = start(&[program.pid()]);
    sink.wait_for("processes", "write.throughput", |_, bytes| bytes > 4096.0);
    sink.wait_for("processes", "write.calls", |_, calls| calls > 1.0);
    sink.wait_for("processes", "switches.voluntary", |_, switches| switches > 1.0);
    stop(handle);
}

#[test]
fn a_program_that_its_control_group_throttles() {
    if !require(Privilege::Cc) || !require(Privilege::Cgroup) {
        return;
    }
    let limit = CpuLimit::new(20).expect("the privilege says so");
    let program = TargetProcess::start(Program::BusyLoop, &["2"]);
    limit.add(program.pid()).expect("the privilege says so");
    let name = limit.folder().file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    let (handle, sink) = start(&[program.pid()]);
    let own = |row: &MetricRow| row.keys[0].ends_with(&name);
    sink.wait_for("cgroups", "cpu.quota", |row, cores| own(row) && (cores - 0.2).abs() < 0.001);
    sink.wait_for("cgroups", "throttled.ratio", |row, share| own(row) && share > 0.3);
    sink.wait_for("cgroups", "throttled.time", |row, cores| own(row) && cores > 0.1);
    assert!(handle.latest().is_some_and(|latest| latest.threads == 3 || latest.threads == 2));
    stop(handle);
    drop(program);
}

#[test]
fn five_thousand_threads() {
    if !require(Privilege::Cc) {
        return;
    }
    let program = TargetProcess::start(Program::ManyThreads, &["5000"]);
    let survival = Survival::before(program.pid());
    let (handle, sink) = start(&[program.pid()]);
    sink.wait_for("processes", "threads", |_, threads| threads > 5_000.0);
    let until = Instant::now() + PATIENCE;
    while sink.rows("threads") < 1_000 {
        assert!(Instant::now() < until, "{} rows of threads", sink.rows("threads"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let summary = stop(handle);
    assert!(summary.warnings.iter().any(|warning| warning.code == "metrics.many-threads"), "{summary:?}");

    let folder = temp_dir("context");
    let recording = RecordingFolder::create(folder.path().join("r")).expect("a new folder");
    let redactor = Redactor::new(Options::default()).expect("random bytes");
    let masking = Masking::new(Arc::new(redactor), Arc::new(RedactionLog::new()));
    let pids = [Pid(program.pid())];
    let config = context::Config::default();
    for moment in [Moment::Start, Moment::End] {
        let taken = context::collect(&config, moment, &pids, &recording, &masking).expect("there is room");
        assert_eq!(taken.warnings, []);
    }
    let member = folder.path().join(format!("r/target/{}/threads.txt", program.pid()));
    let threads = std::fs::read_to_string(member).expect("written");
    assert!(threads.starts_with("5001 threads\n\n"), "{}", threads.lines().next().unwrap_or_default());
    assert!(threads.ends_with("[... 3001 more]\n"));
    survival.assert_unharmed();
}

#[test]
fn a_process_that_ends_while_it_is_recorded() {
    if !require(Privilege::Cc) {
        return;
    }
    let mut program = TargetProcess::start(Program::Idle, &[]);
    let (handle, sink) = start(&[program.pid(), std::process::id()]);
    let (pid, own) = (program.pid().to_string(), std::process::id().to_string());
    sink.wait_for("processes", "threads", |row, _| row.keys[0] == pid);
    program.stop();
    let until = Instant::now() + PATIENCE;
    while handle.latest().is_none_or(|latest| latest.processes != 1) {
        assert!(Instant::now() < until, "{:?}", handle.latest());
        std::thread::sleep(Duration::from_millis(20));
    }
    let rows = sink.rows("network");
    let until = Instant::now() + PATIENCE;
    while sink.rows("network") <= rows {
        assert!(Instant::now() < until, "the network is not read any more");
        std::thread::sleep(Duration::from_millis(20));
    }
    stop(handle);
    assert!(sink.has("processes", "threads", |row, _| row.keys[0] == own));
}

#[test]
fn a_log_that_only_the_target_sees() {
    if !require(Privilege::Namespaces) {
        return;
    }
    let wall = context::clock_pair();
    let stamp = jiff::Timestamp::from_nanosecond(wall.wall_unix_nanos).expect("in range");
    // A file system of its own over an empty folder, as in a container; a link in it that would lead to the host's.
    let folder = temp_dir("inside");
    let path = folder.path().to_str().expect("UTF-8");
    let script = format!(
        "mount -t tmpfs none {path} && echo '{stamp} ERROR inside' > {path}/x.log && echo READY && exec cat > /dev/null"
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]);
    let program = TargetProcess::spawn(in_namespaces(Namespaces::Mount, &shell));

    let mut config = logs::Config::new(vec![format!("{path}/*.log")], Vec::new());
    config.inside = Some(Pid(program.pid()));
    let watch = LogWatch::begin(config);
    let recording_folder = temp_dir("recording");
    let recording = RecordingFolder::create(recording_folder.path().join("r")).expect("a new folder");
    let redactor = Redactor::new(Options::default()).expect("random bytes");
    let masking = Masking::new(Arc::new(redactor), Arc::new(RedactionLog::new()));
    let end = context::clock_pair();
    let summary = watch.collect(&wall, &end, &recording, &masking).expect("there is room");
    assert_eq!(summary.logs.len(), 1, "{summary:?}");
    assert_eq!(summary.logs[0].source, format!("/proc/{}/root{path}/x.log", program.pid()));
    assert_eq!(summary.logs[0].records, 1);
}
