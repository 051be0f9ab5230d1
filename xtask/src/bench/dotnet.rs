//! An ASP.NET Core server: what recording costs it when it is saturated, and when it waits most of the time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{DotNetServer, Privilege, Signal, dotnet_peer_command, require, send_signal, temp_dir};

use super::Options;
use super::proc_usage;
use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use crate::run::{Outcome, output_of};

const RUNTIME: &str = "net10.0";
/// Attaching is over then; its cost is another row.
const SETTLE: Duration = Duration::from_millis(1500);
const STOP_WITHIN: Duration = Duration::from_secs(120);
/// Connections: as many as saturate two CPUs beside the server, and so many that it waits most of the time.
const SATURATING: u32 = 16;
const CALM: u32 = 2;

/// Who records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Nobody,
    /// `biopsy trace --no-runtime-events`: samples, states, wake-ups, wait stacks.
    Trace,
    /// `biopsy capture`: the same with garbage collections, exceptions, contention, metrics.
    Capture,
    /// `biopsy capture --requests`.
    Requests,
    /// `dotnet-trace collect` with its defaults.
    DotNetTrace,
}

impl By {
    const ALL: [Self; 5] = [Self::Nobody, Self::Trace, Self::Capture, Self::Requests, Self::DotNetTrace];

    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "none",
            Self::Trace => "biopsy trace",
            Self::Capture => "biopsy capture",
            Self::Requests => "biopsy capture --requests",
            Self::DotNetTrace => "dotnet-trace",
        }
    }

    fn command(self, biopsy: &Path, pid: u32, folder: &Path) -> Option<Command> {
        let pid = pid.to_string();
        let own = |arguments: &[&str]| {
            let mut command = Command::new(biopsy);
            command.args(arguments).args([&*pid, "--for", "1h", "--quiet", "--output"]);
            command.arg(folder.join("recording.zip"));
            command
        };
        Some(match self {
            Self::Nobody => return None,
            Self::Trace => own(&["trace", "--no-runtime-events"]),
            Self::Capture => own(&["capture"]),
            Self::Requests => own(&["capture", "--requests"]),
            Self::DotNetTrace => {
                let mut command = dotnet_peer_command("dotnet-trace", &["collect", "-p", &pid, "-o"])?;
                command.arg(folder.join("trace.nettrace"));
                command
            }
        })
    }
}

/// One run.
struct Run {
    by: By,
    round: usize,
    per_second: f64,
    p99_ms: f64,
    cpu_per_request: f64,
    recorder_cores: f64,
    rooted: Option<f64>,
}

/// Measures both loads.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    if !require(Privilege::DotNetTargets) {
        println!("note: without the .NET targets");
        return Ok(());
    }
    let saturated = runs(biopsy, options, "/healthz", SATURATING)?;
    let rate = |by| paired(&saturated, by, |run| run.per_second);
    table.judge("N1a", rate(By::Capture));
    table.judge("N1b", rate(By::Capture).zip(rate(By::DotNetTrace)).map(|(own, peer)| own / peer));
    table.judge("N2", rate(By::Requests));
    table.judge("N4", median(&values(&saturated, By::Capture, |run| run.rooted)));
    add_columns("N saturated", &saturated, table);
    let calm = runs(biopsy, options, "/api/releases/1", CALM)?;
    let cpu = |by| paired(&calm, by, |run| run.cpu_per_request);
    table.judge("N3a", cpu(By::Capture));
    table.judge("N3b", cpu(By::Capture).zip(cpu(By::DotNetTrace)).map(|(own, peer)| own / peer));
    add_columns("N calm", &calm, table);
    Ok(())
}

fn runs(biopsy: &Path, options: &Options, path: &str, connections: u32) -> Outcome<Vec<Run>> {
    let server = DotNetServer::start(RUNTIME, &[]);
    // Compiles what is hot at its last tier.
    drop(server.load(RUNTIME, path, connections, 8).finish());
    let mut runs = Vec::new();
    for round in 0..options.rounds() {
        println!("{path}, round {} ...", round + 1);
        // Each round in another order, so that no recorder always comes after the same.
        for step in 0..By::ALL.len() {
            let by = By::ALL[(step + round) % By::ALL.len()];
            runs.push(one_run(biopsy, by, round, &server, path, connections, options.seconds())?);
        }
    }
    server.stop();
    Ok(runs)
}

fn one_run(
    biopsy: &Path,
    by: By,
    round: usize,
    server: &DotNetServer,
    path: &str,
    connections: u32,
    seconds: f64,
) -> Outcome<Run> {
    let folder = temp_dir("bench-dotnet");
    let recorder = by.command(biopsy, server.pid(), folder.path()).map(|command| start(command, by));
    let recorder = recorder.transpose()?;
    std::thread::sleep(SETTLE);
    let own = || recorder.as_ref().map_or(0.0, |recorder| proc_usage::cpu_seconds(recorder.id()));
    let (began, cpu, own_before) = (Instant::now(), proc_usage::cpu_seconds(server.pid()), own());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
    let load = server.load(RUNTIME, path, connections, seconds.ceil() as u32).finish();
    let cpu = proc_usage::cpu_seconds(server.pid()) - cpu;
    let recorder_cores = (own() - own_before) / began.elapsed().as_secs_f64();
    let load: serde_json::Value = serde_json::from_str(load.trim())
        .map_err(|error| format!("the load generator said `{load}`: {error}"))?;
    let number = |name: &str| load.get(name).and_then(serde_json::Value::as_f64);
    let per_second = number("requestsPerSecond").ok_or_else(|| format!("no rate in {load}"))?;
    let requests = number("requests").ok_or_else(|| format!("no count in {load}"))?;
    let p99_ms = load.pointer("/latencyMs/p99").and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    if let Some(recorder) = recorder {
        stop(recorder, by)?;
    }
    let rooted = matches!(by, By::Trace | By::Capture | By::Requests)
        .then(|| share_reaching_root(&folder.path().join("recording.zip")))
        .flatten();
    Ok(Run { by, round, per_second, p99_ms, cpu_per_request: cpu / requests, recorder_cores, rooted })
}

fn start(mut command: Command, by: By) -> Outcome<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| format!("cannot run {}: {error}", by.name()))
}

fn stop(mut recorder: Child, by: By) -> Outcome {
    send_signal(recorder.id(), Signal::INT);
    let asked = Instant::now();
    loop {
        match recorder.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{} ended with {status}", by.name())),
            Ok(None) if asked.elapsed() < STOP_WITHIN => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = recorder.kill();
                let _ = recorder.wait();
                return Err(format!("{} did not stop", by.name()));
            }
        }
    }
}

/// What the recording says of its own stacks, in per cent.
fn share_reaching_root(recording: &Path) -> Option<f64> {
    let mut unzip = Command::new("unzip");
    unzip.arg("-p").arg(recording).arg("report.json");
    let report: serde_json::Value = serde_json::from_str(&output_of(&mut unzip).ok()?).ok()?;
    report.pointer("/completeness/reaching_root")?.as_f64().map(|share| share * 100.0)
}

fn values(runs: &[Run], by: By, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    let mut own: Vec<&Run> = runs.iter().filter(|run| run.by == by).collect();
    own.sort_by_key(|run| run.round);
    own.into_iter().filter_map(value).collect()
}

/// Median of the ratios to the unrecorded run of the same round.
fn paired(runs: &[Run], by: By, value: impl Fn(&Run) -> f64) -> Option<f64> {
    let of = |by| values(runs, by, |run| Some(value(run)));
    paired_ratio(&of(by), &of(By::Nobody))
}

fn add_columns(workload: &'static str, runs: &[Run], table: &mut Table) {
    for by in By::ALL {
        let of = |value: &dyn Fn(&Run) -> Option<f64>| median(&values(runs, by, value));
        let mut column = Column::new(by.name());
        column.set("requests, /s", of(&|run| Some(run.per_second)));
        column.set("requests, paired", paired(runs, by, |run| run.per_second));
        column.set("CPU per request, us", of(&|run| Some(run.cpu_per_request * 1e6)));
        column.set("CPU per request, paired", paired(runs, by, |run| run.cpu_per_request));
        column.set("p99, ms", of(&|run| Some(run.p99_ms)));
        if by != By::Nobody {
            column.set("recorder CPU, cores", of(&|run| Some(run.recorder_cores)));
            column.set("stacks to root, %", of(&|run| run.rooted));
        }
        table.add_column(workload, column);
    }
}
