//! Workload M: MariaDB under sysbench.

use std::time::{Duration, Instant};

use biopsy_testkit::{MariaDb, Sysbench, proc_usage};

use super::options::{Options, kinds};
use super::recorder::{self, Kind, Record, Tools};
use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use super::weather::{Weather, Window};
use crate::run::{Outcome, output_of};

/// From the start of a recorder to the start of the measured time: attach and warm-up are not throughput.
const SETTLE: Duration = Duration::from_millis(1000);
/// The same of one that records for days: reading the symbols of all modules takes it 0.3 s of CPU once, which in rounds of ten seconds
/// would look like 1.5 % of two processors.
const SETTLE_FOR_DAYS: Duration = Duration::from_secs(6);
/// From the end of a recorder to the next one.
const REST: Duration = Duration::from_millis(1500);

/// One run of one recorder.
#[derive(Debug)]
struct Run {
    kind: Kind,
    round: usize,
    attached: Instant,
    ended: Instant,
    per_second: f64,
    per_cpu_second: f64,
    recorder_cores: f64,
    record: Option<Record>,
    reaching_root: Option<f64>,
    /// What the machine was like meanwhile.
    window: Window,
}

/// All recorders in rounds of alternating order.
pub(crate) fn measure(tools: &Tools, options: &Options, table: &mut Table) -> Outcome {
    let kinds = kinds(tools, options);
    let (server, load) = start_loaded()?;
    let mut runs = Vec::new();
    for round in 0..options.rounds() {
        let mut order = kinds.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        for kind in order {
            let run = one_run(tools, kind, round, &server, options.seconds())?;
            println!(
                "M round {round}: {:<24} {:>9.0} statements/s; {}",
                kind.name(),
                run.per_second,
                run.window
            );
            runs.push(run);
        }
    }
    let latencies = load.stop();
    drop(server);
    for kind in &kinds {
        table.add_column("M", column(*kind, &runs, &latencies));
    }
    table.judge("1", table.value("M", Kind::States.name(), "throughput, paired"));
    table.judge("3", table.value("M", Kind::WaitStacks.name(), "throughput, paired"));
    for (row, peer) in [("2a", Kind::Perf), ("2b", Kind::Samply)] {
        let both = (per_second(&runs, Kind::States), per_second(&runs, peer));
        table.judge(row, paired_ratio(&both.0, &both.1));
    }
    table.judge("W1", table.value("M", Kind::Recent.name(), "throughput, paired"));
    table.judge("W2", table.value("M", Kind::Recent.name(), "memory, MB"));
    table.judge("5", table.value("M", Kind::WaitStacks.name(), "recorder CPU, cores"));
    table.judge("6", table.value("M", Kind::WaitStacks.name(), "output, KB/s").map(|kb| kb / 1000.0));
    table.judge("8", table.value("M", Kind::WaitStacks.name(), "stop to result, s"));
    table.judge("10", table.value("M", Kind::WaitStacks.name(), "stacks to root, %"));
    table.judge("12", table.value("M", Kind::WaitStacks.name(), "p99 change at attach, ms"));
    Ok(())
}

/// Five minutes with biopsy alone: what grows with time.
pub(crate) fn measure_long(tools: &Tools, table: &mut Table) -> Outcome {
    println!("M for five minutes ...");
    let (server, load) = start_loaded()?;
    let run = one_run(tools, Kind::WaitStacks, 0, &server, 300.0)?;
    drop(load.stop());
    drop(server);
    let record = run.record.clone().unwrap_or_default();
    table.judge("9", Some(record.stop_seconds));
    table.judge("11", Some(record.memory_mb));
    table.add_column("M, 5 min", column(Kind::WaitStacks, &[run], &[]));
    Ok(())
}

fn start_loaded() -> Outcome<(MariaDb, Sysbench)> {
    let server = MariaDb::start()?;
    server.prepare_load()?;
    let load = server.load(4 * 3600)?;
    // The first seconds fill caches.
    std::thread::sleep(Duration::from_secs(5));
    Ok((server, load))
}

fn one_run(tools: &Tools, kind: Kind, round: usize, server: &MariaDb, seconds: f64) -> Outcome<Run> {
    let folder = biopsy_testkit::temp_dir("bench");
    let attached = Instant::now();
    let recorder = recorder::start(tools, kind, server.pid(), folder.path())?;
    std::thread::sleep(if kind == Kind::Recent { SETTLE_FOR_DAYS } else { SETTLE });
    let recorder_cpu = || recorder.as_ref().map_or(0.0, recorder::Running::cpu_seconds);

    let before = Weather::now();
    let (began, questions, cpu, own) =
        (Instant::now(), server.questions()?, proc_usage::cpu_seconds(server.pid()), recorder_cpu());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (answered, own) = (server.questions()? - questions, recorder_cpu() - own);
    let (cpu, elapsed) = (proc_usage::cpu_seconds(server.pid()) - cpu, began.elapsed().as_secs_f64());

    // The load beside the server is part of the measurement, and is told apart from strangers by what remains the same in all runs.
    let window = Weather::now().since(&before, cpu + own);
    let ended = Instant::now();
    let record = recorder.map(recorder::Running::stop).transpose()?;
    let reaching_root = record.as_ref().filter(|_| matches!(kind, Kind::States | Kind::WaitStacks));
    let reaching_root = reaching_root.and_then(|record| share_reaching_root(&record.output));
    std::thread::sleep(REST);
    #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
    let answered = answered as f64;
    Ok(Run {
        kind,
        round,
        attached,
        ended,
        per_second: answered / elapsed,
        per_cpu_second: answered / cpu,
        recorder_cores: own / elapsed,
        record,
        reaching_root,
        window,
    })
}

/// What the recording says of its own stacks, in per cent.
fn share_reaching_root(recording: &std::path::Path) -> Option<f64> {
    let mut unzip = std::process::Command::new("unzip");
    unzip.arg("-p").arg(recording).arg("report.json");
    let report: serde_json::Value = serde_json::from_str(&output_of(&mut unzip).ok()?).ok()?;
    report.pointer("/completeness/reaching_root")?.as_f64().map(|share| share * 100.0)
}

fn per_second(runs: &[Run], kind: Kind) -> Vec<f64> {
    values(runs, kind, |run| Some(run.per_second))
}

/// The values of one recorder in the order of the rounds, so that those of two recorders belong together by index.
fn values(runs: &[Run], kind: Kind, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    let mut own: Vec<&Run> = runs.iter().filter(|run| run.kind == kind).collect();
    own.sort_by_key(|run| run.round);
    own.into_iter().filter_map(value).collect()
}

fn column(kind: Kind, runs: &[Run], latencies: &[(Instant, f64)]) -> Column {
    let of = |value: &dyn Fn(&Run) -> Option<f64>| median(&values(runs, kind, value));
    let recorded = |value: fn(&Record) -> f64| of(&|run| run.record.as_ref().map(value));
    let mut column = Column::new(kind.name());
    column.set("throughput, /s", of(&|run| Some(run.per_second)));
    let (own, base) = (per_second(runs, kind), per_second(runs, Kind::None));
    if let (Some(own), Some(base)) = (median(&own), median(&base)) {
        column.set("throughput, ratio", Some(own / base));
    }
    column.set("throughput, paired", paired_ratio(&own, &base));
    let per_cpu = |kind| values(runs, kind, |run| Some(run.per_cpu_second));
    column.set("work per CPU-s, paired", paired_ratio(&per_cpu(kind), &per_cpu(Kind::None)));
    let window = |value: fn(&Window) -> Option<f64>| of(&|run| value(&run.window));
    column.set("steal, %", window(|one| Some(one.steal)));
    column.set("CPUs of others (sysbench too)", window(|one| Some(one.others)));
    column.set("idle, %", window(|one| Some(one.idle)));
    column.set("switches, /s", window(|one| Some(one.switches_per_second)));
    column.set("CPU pressure, %", window(|one| one.cpu_pressure));
    column.set("disk pressure, %", window(|one| one.io_pressure));
    column.set("MHz", window(|one| one.megahertz));
    column.set("runs spread, %", spread(&own));
    if kind != Kind::None {
        column.set("recorder CPU, cores", of(&|run| Some(run.recorder_cores)));
        #[expect(clippy::cast_precision_loss, reason = "sizes of files")]
        column.set("output, KB/s", recorded(|record| record.bytes as f64 / 1000.0 / record.seconds));
        column.set("stop to result, s", recorded(|record| record.stop_seconds));
        column.set("memory, MB", recorded(|record| record.memory_mb));
        column.set("stacks to root, %", of(&|run| run.reaching_root));
        column.set("p99 change at attach, ms", attach_latency(kind, runs, latencies));
    }
    column
}

/// How far the runs of one recorder lie apart: longest way from the median, in per cent of it.
fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    values.iter().map(|value| (value - middle).abs() * 100.0 / middle).max_by(f64::total_cmp)
}

/// For each run, the second of the attach against the median of the seconds of the unrecorded run of its round; the median of that.
fn attach_latency(kind: Kind, runs: &[Run], latencies: &[(Instant, f64)]) -> Option<f64> {
    let changes: Vec<f64> = runs
        .iter()
        .filter(|run| run.kind == kind)
        .filter_map(|run| {
            let quiet = runs.iter().find(|other| other.kind == Kind::None && other.round == run.round)?;
            let within = |at: &Instant| *at > quiet.attached + Duration::from_secs(1) && *at < quiet.ended;
            let before: Vec<f64> =
                latencies.iter().filter(|(at, _)| within(at)).map(|(_, p99)| *p99).collect();
            // A report covers the second before it.
            let (_, during) = latencies.iter().find(|(at, _)| *at >= run.attached)?;
            Some(during - median(&before)?)
        })
        .collect();
    median(&changes)
}
