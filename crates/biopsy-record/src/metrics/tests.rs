//! Readings of made-up `/proc` folders and of this process.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use biopsy_model::metric::MetricTable;
use biopsy_model::{MonoNanos, Pid};

use super::sampler::{Config, Sampler};
use super::{MemorySink, Recorder, TableSchema, TableSink, tables};

const SECOND: u64 = 1_000_000_000;

/// A folder that looks like `/proc` and `/sys`.
struct FakeProc {
    folder: tempfile::TempDir,
}

impl FakeProc {
    fn new() -> FakeProc {
        FakeProc { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
        fs::write(path, text).expect("write");
        self
    }

    fn remove(&self, name: &str) {
        fs::remove_dir_all(self.folder.path().join(name)).expect("remove");
    }

    fn sampler(&self, pids: &[u32]) -> Sampler {
        let pids: Vec<Pid> = pids.iter().copied().map(Pid).collect();
        let mut config = Config::new(Arc::new(move || pids.clone()));
        config.proc_root = self.folder.path().join("proc");
        config.sys_root = self.folder.path().join("sys");
        Sampler::new(config)
    }

    /// A process with one thread.
    fn process(&self, pid: u32, name: &[u8], user: u64, start: u64, run: u64) -> &Self {
        let stat = [format!("{pid} (").as_bytes(), name, stat_tail(user, start).as_bytes()].concat();
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/status"), "VmRSS:\t 40 kB\nRssAnon:\t 30 kB\nVmSwap:\t 0 kB\n");
        self.write(&format!("proc/{pid}/task/{pid}/stat"), &stat);
        self.write(
            &format!("proc/{pid}/task/{pid}/schedstat"),
            format!("{run} {} {}\n", run / 2, run / 1000),
        );
        self.write(
            &format!("proc/{pid}/task/{pid}/status"),
            format!("voluntary_ctxt_switches:\t{user}\nnonvoluntary_ctxt_switches:\t0\n"),
        )
    }
}

fn stat_tail(user: u64, start: u64) -> String {
    format!(") R 1 1 1 0 -1 4 10 0 5 0 {user} 50 0 0 20 0 1 0 {start} 8192 10\n")
}

fn read(sampler: &mut Sampler, sink: &mut MemorySink, second: u64) {
    sampler.read(MonoNanos(second * SECOND), sink).expect("memory takes every row");
}

/// Value of a column in the last row with this first key.
fn value(sink: &MemorySink, table: &str, key: &str, column: &str) -> Option<f64> {
    let table = sink.table(table)?;
    let row =
        table.rows.iter().rev().find(|row| key.is_empty() || row.keys.first().is_some_and(|k| k == key))?;
    value_of(table, row, column)
}

fn value_of(table: &MetricTable, row: &biopsy_model::metric::MetricRow, column: &str) -> Option<f64> {
    let index = table.columns.iter().position(|own| own.name == column).expect("a column of the table");
    row.values[index]
}

#[test]
fn tables_are_well_formed() {
    for table in tables::ALL {
        let mut names: Vec<_> = table.columns.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a column of `{}` is there twice", table.name);
        for name in names {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b)));
        }
    }
    assert!(tables::THREADS.columns.len() <= 32, "rows of zeros keep a bit for each column");
}

#[test]
fn the_guide_lists_every_column() {
    let guide = include_str!("../../../../docs/guide/metrics.md");
    for table in tables::ALL {
        let start = guide.find(&format!("### `{}`", table.name)).expect("a section for the table");
        let section = &guide[start + 4..];
        let section = &section[..section.find("\n##").expect("another section follows")];
        for (column, _) in table.columns {
            assert!(section.contains(&format!("`{column}`")), "`{column}` of `{}`", table.name);
        }
    }
}

#[test]
fn the_machine() {
    let fake = FakeProc::new();
    fake.write("proc/stat", "cpu 100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1\nctxt 1000\nprocesses 7\nprocs_running 3\n")
        .write("proc/loadavg", "0.50 1.25 2.00 1/99 4\n")
        .write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\nCached: 10 kB\nBuffers: 5 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\n")
        .write("proc/vmstat", "pgfault 100\npswpin 0\n")
        .write("proc/pressure/memory", "some avg10=1.00 total=0\nfull avg10=0.50 total=0\n");
    let (mut sampler, mut sink) = (fake.sampler(&[]), MemorySink::default());
    read(&mut sampler, &mut sink, 10);
    assert_eq!(value(&sink, "system", "", "cpu.user"), None, "one reading is no rate");
    assert_eq!(value(&sink, "system", "", "memory.total"), Some(1_024_000.0));
    fake.write("proc/stat", "cpu 200 0 150 850 0 0 0 0 0 0\nctxt 3000\nprocesses 9\nprocs_running 3\n")
        .write("proc/vmstat", "pgfault 90\npswpin 2\n")
        .write("proc/pressure/memory", "some avg10=1.00 total=500000\nfull avg10=0.50 total=0\n");
    read(&mut sampler, &mut sink, 12);
    let system = |column: &str| value(&sink, "system", "", column);
    assert_eq!(system("cpu.user"), Some(0.5));
    assert_eq!(system("cpu.busy"), Some(0.75));
    assert_eq!(system("switches"), Some(1000.0));
    assert_eq!(system("forks"), Some(1.0));
    assert_eq!(system("load.5"), Some(1.25));
    assert_eq!(system("memory.cached"), Some(15.0 * 1024.0));
    assert_eq!(system("swap.used"), Some(40.0 * 1024.0));
    assert_eq!(system("swap.in"), Some(rustix::param::page_size() as f64));
    assert_eq!(system("faults"), None, "the counter went back");
    assert_eq!(system("pressure.memory.some"), Some(0.25));
    assert_eq!(system("pressure.memory.full.avg10"), Some(0.005));
    assert_eq!(system("pressure.cpu.some"), None, "there is no such file");
    assert_eq!(system("tcp.retransmits"), None);
}

#[test]
fn disks_leave_out_partitions_and_unused_ones() {
    let fake = FakeProc::new();
    fs::create_dir_all(fake.folder.path().join("sys/block/vda")).expect("folder");
    let lines = |reads: u64, ms: u64| {
        format!(
            " 254 0 vda {reads} 0 {} {ms} 10 0 80 5 2 1000 2000 0 0 0 0 3 3\n 254 1 vda1 5 5 5 5\n   7 0 loop0 0 0 0 0\n",
            reads * 8
        )
    };
    let (mut sampler, mut sink) = (fake.sampler(&[]), MemorySink::default());
    fake.write("proc/diskstats", lines(100, 50));
    read(&mut sampler, &mut sink, 1);
    fake.write("proc/diskstats", lines(110, 75));
    read(&mut sampler, &mut sink, 2);
    let disks = sink.table("disks").expect("there was a device");
    assert!(disks.rows.iter().all(|row| row.keys == ["vda"]));
    assert_eq!(value(&sink, "disks", "vda", "read.iops"), Some(10.0));
    assert_eq!(value(&sink, "disks", "vda", "read.throughput"), Some(10.0 * 8.0 * 512.0));
    assert_eq!(value(&sink, "disks", "vda", "read.latency"), Some(2.5));
    assert_eq!(value(&sink, "disks", "vda", "write.latency"), None, "none ended");
    assert_eq!(value(&sink, "disks", "vda", "in-flight"), Some(2.0));
}

#[test]
fn a_process_with_an_odd_name_and_no_permission_for_its_io() {
    let fake = FakeProc::new();
    let (mut sampler, mut sink) = (fake.sampler(&[7]), MemorySink::default());
    fake.process(7, b"a) (b\n", 100, 55, 1_000_000);
    read(&mut sampler, &mut sink, 1);
    fake.process(7, b"a) (b\n", 150, 55, 500_001_000_000);
    read(&mut sampler, &mut sink, 2);
    let table = sink.table("processes").expect("there was a process");
    assert_eq!(table.rows[1].keys, ["7", "a) (b\n"]);
    assert_eq!(value(&sink, "processes", "7", "cpu.user"), Some(0.5));
    assert_eq!(value(&sink, "processes", "7", "cpu.system"), Some(0.0));
    assert_eq!(value(&sink, "processes", "7", "memory.anon"), Some(30.0 * 1024.0));
    assert_eq!(value(&sink, "processes", "7", "read.throughput"), None, "never a made-up zero");
    assert_eq!(value(&sink, "processes", "7", "switches.voluntary"), Some(50.0));
}

#[test]
fn a_reused_pid_starts_anew() {
    let fake = FakeProc::new();
    let (mut sampler, mut sink) = (fake.sampler(&[7]), MemorySink::default());
    fake.process(7, b"old", 100, 55, 1_000_000);
    read(&mut sampler, &mut sink, 1);
    // `/proc` answers for another process by the same id: the start time tells.
    fake.process(7, b"new", 900, 99, 2_000_000);
    read(&mut sampler, &mut sink, 2);
    read(&mut sampler, &mut sink, 3);
    fake.process(7, b"new", 910, 99, 2_000_000);
    read(&mut sampler, &mut sink, 4);
    let rows = &sink.table("processes").expect("there were processes").rows;
    let names: Vec<&str> = rows.iter().map(|row| row.keys[1].as_str()).collect();
    assert_eq!(names, ["old", "new", "new"]);
    assert_eq!(value(&sink, "processes", "7", "cpu.user"), Some(0.1), "no rate across the two");
}

#[test]
fn a_vanished_process_is_left_out_and_others_go_on() {
    let fake = FakeProc::new();
    let (mut sampler, mut sink) = (fake.sampler(&[7, 8]), MemorySink::default());
    fake.process(7, b"a", 1, 1, 1).process(8, b"b", 1, 1, 1);
    read(&mut sampler, &mut sink, 1);
    fake.remove("proc/7");
    fs::write(fake.folder.path().join("proc/8/stat"), "garbage").expect("write");
    read(&mut sampler, &mut sink, 2);
    fake.process(8, b"b", 1, 1, 1);
    read(&mut sampler, &mut sink, 3);
    let rows = &sink.table("processes").expect("there were processes").rows;
    assert_eq!(rows.last().map(|row| row.keys[0].as_str()), Some("8"));
}

#[test]
fn threads_that_rest_have_no_rows_but_lines_through_the_rows_are_true() {
    let fake = FakeProc::new();
    let (mut sampler, mut sink) = (fake.sampler(&[7]), MemorySink::default());
    let run = |millis: u64| fake.process(7, b"a", millis / 10, 1, millis * 1_000_000);
    for (second, millis) in [(1, 5), (2, 505), (3, 505), (4, 505), (5, 505), (6, 755), (7, 755)] {
        run(millis);
        read(&mut sampler, &mut sink, second);
    }
    sampler.finish(MonoNanos(8 * SECOND), &mut sink).expect("memory takes every row");
    let table = sink.table("threads").expect("there was a thread");
    let cpu: Vec<(u64, Option<f64>)> =
        table.rows.iter().map(|row| (row.time.0 / SECOND, value_of(table, row, "cpu"))).collect();
    assert_eq!(
        cpu,
        [(1, None), (2, Some(0.5)), (3, Some(0.0)), (5, Some(0.0)), (6, Some(0.25)), (7, Some(0.0))],
        "zero when it stops, zero again right before it goes on"
    );
    assert!(table.rows.iter().map(|row| row.time).is_sorted());
}

#[test]
fn more_threads_than_may_be_read_take_turns() {
    let fake = FakeProc::new();
    fake.process(7, b"a", 1, 1, 1_000_000);
    for tid in 100..200 {
        fake.write(&format!("proc/7/task/{tid}/stat"), format!("{tid} (t{}", stat_tail(1, 1)));
        fake.write(&format!("proc/7/task/{tid}/schedstat"), "1 1 1\n");
    }
    let (mut sampler, mut sink) = (fake.sampler(&[7]), MemorySink::default());
    sampler = {
        drop(sampler);
        let mut config = Config::new(Arc::new(|| vec![Pid(7)]));
        config.proc_root = fake.folder.path().join("proc");
        config.max_threads = 20;
        Sampler::new(config)
    };
    for second in 1..40 {
        read(&mut sampler, &mut sink, second);
    }
    let rows = &sink.table("threads").expect("there were threads").rows;
    let seen: std::collections::BTreeSet<_> = rows.iter().map(|row| row.keys[1].clone()).collect();
    assert_eq!(seen.len(), 101, "each had its turn");
    let warning =
        sampler.warnings.list.iter().find(|w| w.code == "metrics.many-threads").expect("it is said");
    assert_eq!(
        warning.message,
        "81 threads could not be read at one reading: those that do not run take turns"
    );
}

#[test]
fn cgroups_of_version_2() {
    let fake = FakeProc::new();
    let point = fake.folder.path().join("cg");
    fake.process(7, b"a", 1, 1, 1)
        .write("proc/self/mountinfo", format!("1 2 0:3 / {} rw - cgroup2 cgroup2 rw\n", point.display()))
        .write("proc/7/cgroup", "0::/app.slice/x\n")
        .write("cg/app.slice/x/cpu.max", "50000 100000\n")
        .write("cg/app.slice/x/cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
        .write("cg/app.slice/x/memory.max", "max\n")
        .write("cg/app.slice/x/memory.current", "4096\n")
        .write("cg/app.slice/memory.max", "8192\n");
    let (mut sampler, mut sink) = (fake.sampler(&[7]), MemorySink::default());
    read(&mut sampler, &mut sink, 1);
    fake.write(
        "cg/app.slice/x/cpu.stat",
        "usage_usec 500000\nnr_periods 10\nnr_throttled 9\nthrottled_usec 450000\n",
    );
    let latest = sampler.read(MonoNanos(2 * SECOND), &mut sink).expect("memory takes every row");
    assert!(latest.throttled);
    let group = |column: &str| value(&sink, "cgroups", "/app.slice/x", column);
    assert_eq!(group("cpu.quota"), Some(0.5));
    assert_eq!(group("cpu.usage"), Some(0.5));
    assert_eq!(group("throttled.ratio"), Some(0.9));
    assert_eq!(group("throttled.time"), Some(0.45));
    assert_eq!(group("memory.current"), Some(4096.0));
    assert_eq!(group("memory.limit"), None, "no limit is not a number");
    assert_eq!(
        value(&sink, "cgroups", "/app.slice", "memory.limit"),
        Some(8192.0),
        "limits of parents count too"
    );
    assert_eq!(value(&sink, "cgroups", "/", "cpu.quota"), None);
}

#[test]
fn cgroups_of_version_1() {
    let fake = FakeProc::new();
    let root = fake.folder.path().join("cg");
    let mount = |name: &str| format!("1 2 0:3 / {}/{name} rw - cgroup cgroup rw,{name}\n", root.display());
    fake.process(7, b"a", 1, 1, 1)
        .write("proc/self/mountinfo", mount("cpu") + &mount("memory") + &mount("cpuacct"))
        .write("proc/7/cgroup", "4:memory:/box\n2:cpuacct:/\n1:cpu:/box\n0::/\n")
        .write("cg/cpu/box/cpu.cfs_quota_us", "150000\n")
        .write("cg/cpu/box/cpu.cfs_period_us", "100000\n")
        .write("cg/cpu/box/cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n")
        .write("cg/memory/box/memory.limit_in_bytes", "9223372036854771712\n")
        .write("cg/memory/box/memory.failcnt", "3\n");
    let (mut sampler, mut sink) = (fake.sampler(&[7]), MemorySink::default());
    read(&mut sampler, &mut sink, 1);
    fake.write("cg/cpu/box/cpu.stat", "nr_periods 11\nnr_throttled 5\nthrottled_time 500000000\n")
        .write("cg/memory/box/memory.failcnt", "5\n");
    read(&mut sampler, &mut sink, 2);
    let group = |column: &str| value(&sink, "cgroups", "/box", column);
    assert_eq!(group("cpu.quota"), Some(1.5));
    assert_eq!(group("throttled.ratio"), Some(0.5));
    assert_eq!(group("throttled.time"), Some(0.5));
    assert_eq!(group("memory.limit"), None);
    assert_eq!(group("memory.events.max"), Some(2.0));
}

#[test]
fn the_real_proc_and_a_thread_that_works() {
    let stop = Arc::new(AtomicBool::new(false));
    let worker = {
        let stop = Arc::clone(&stop);
        let body = move || {
            let mut sum = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
        };
        std::thread::Builder::new().name("metrics worker)".to_owned()).spawn(body).expect("a thread")
    };
    let own = Pid(std::process::id());
    let mut sampler = Sampler::new(Config::new(Arc::new(move || vec![own])));
    let mut sink = MemorySink::default();
    let before = biopsy_sys::clock::monotonic_nanos();
    let mut readings = 0;
    // Until the worker was seen working: a busy machine may need a while.
    let seen = loop {
        let time = MonoNanos(biopsy_sys::clock::monotonic_nanos());
        let latest = sampler.read(time, &mut sink).expect("memory takes every row");
        assert_eq!(latest.processes, 1);
        assert!(latest.threads >= 2 && latest.resident.is_some_and(|bytes| bytes > 100_000));
        readings += 1;
        let table = sink.table("threads");
        let worked = table.is_some_and(|table| {
            table.rows.iter().any(|row| {
                row.keys[2] == "metrics worker)" && value_of(table, row, "cpu").is_some_and(|cpu| cpu > 0.05)
            })
        });
        if worked || time.0 - before > 60 * SECOND {
            break worked;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    stop.store(true, Ordering::Relaxed);
    worker.join().expect("it ends");
    assert!(seen, "the working thread was never seen to work in {readings} readings");
    assert_eq!(sink.table("system").expect("always").rows.len(), readings);
    assert!(value(&sink, "processes", "", "fds").is_some_and(|fds| fds >= 3.0));
    assert!(value(&sink, "system", "", "memory.total").is_some_and(|bytes| bytes > 1e6));
    let pss = sink.table("processes").map(|table| value_of(table, &table.rows[0], "memory.pss"));
    let rollup = Path::new("/proc/self/smaps_rollup").exists();
    assert_eq!(pss.flatten().is_some_and(|bytes| bytes > 10_000.0), rollup);
}

/// Takes a number of rows, then the disk is full.
struct FullDisk(u32);

impl TableSink for FullDisk {
    fn row(
        &mut self,
        _: &'static TableSchema,
        _: MonoNanos,
        _: &[&str],
        _: &[Option<f64>],
    ) -> std::io::Result<()> {
        match self.0.checked_sub(1) {
            Some(left) => self.0 = left,
            None => return Err(std::io::Error::from(std::io::ErrorKind::StorageFull)),
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_is_handed_up() {
    let own = Pid(std::process::id());
    let mut config = Config::new(Arc::new(move || vec![own]));
    config.interval = Duration::ZERO;
    let handle = Recorder::start(config, Box::new(FullDisk(3))).expect("a thread");
    while !handle.has_failed() {
        std::thread::yield_now();
    }
    let summary = handle.stop();
    assert_eq!(summary.rows, 3);
    assert_eq!(summary.error.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
}

#[test]
fn stopping_takes_a_last_reading() {
    let own = Pid(std::process::id());
    let mut config = Config::new(Arc::new(move || vec![own]));
    config.interval = Duration::from_secs(60);
    let handle = Recorder::start(config, Box::new(MemorySink::default())).expect("a thread");
    let first = loop {
        match handle.latest() {
            Some(latest) => break latest,
            None => std::thread::yield_now(),
        }
    };
    while biopsy_sys::clock::monotonic_nanos() < first.time.0 + SECOND / 5 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let summary = handle.stop();
    assert_eq!(summary.readings, 2, "one at the start and one at the end");
    assert!(summary.error.is_none() && summary.rows > 4 && summary.cpu.0 > 0);
    assert_eq!(summary.losses, []);
}
