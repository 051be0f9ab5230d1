//! An ASP.NET Core server: what recording costs it when it is saturated, and when it waits most of the time.
//!
//! It is saturated twice: by clients that need as much CPU for a request as an `HttpClient` does, like the load generator of the targets
//! (28,000 requests a second on two CPUs), and by clients that need next to nothing, so that more than twice as many are answered, and a
//! recorder costs accordingly more.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{
    Askers, DotNetServer, Privilege, Signal, Window, dotnet_peer_command, proc_usage, require, send_signal,
    temp_dir,
};

use super::options::Options;
use super::statistics::{median, quantile};
use super::table::{Column, Table};
use crate::run::{Outcome, output_of};

const RUNTIME: &str = "net10.0";
/// Attaching is over then; its cost is another row.
const SETTLE: Duration = Duration::from_millis(1500);
/// The same of one that records for days.
const SETTLE_FOR_DAYS: Duration = Duration::from_secs(6);
const STOP_WITHIN: Duration = Duration::from_secs(120);
/// Between the end of a recording and the next window without one.
const REST: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(15);
/// Windows of the calm server are this many times as many: one request uses little, and what it uses varies.
const CALM_ROUNDS: usize = 3;
/// Connections of the clients that work, and what they do for a request.
const WORKING: u32 = 4;
const WORK: Duration = Duration::from_micros(35);
/// Connections: as many as saturate two CPUs beside the server, and so many that it waits most of the time.
const SATURATING: u32 = 16;
const CALM: u32 = 5;

/// Who records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// `biopsy trace --no-runtime-events`: samples, states, wake-ups, wait stacks.
    Trace,
    /// `biopsy capture`: the same with garbage collections, exceptions, contention, metrics.
    Capture,
    /// `biopsy capture --requests`.
    Requests,
    /// `biopsy capture --log-level Debug`.
    Debug,
    /// `biopsy recent`: what keeps the last minutes.
    Recent,
    /// `dotnet-trace collect` with its defaults.
    DotNetTrace,
}

impl By {
    const ALL: [Self; 6] =
        [Self::Trace, Self::Capture, Self::Requests, Self::Debug, Self::Recent, Self::DotNetTrace];

    /// Its word for `--recorders`.
    fn key(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Capture => "capture",
            Self::Requests => "requests",
            Self::Debug => "debug",
            Self::Recent => "recent",
            Self::DotNetTrace => "dotnet-trace",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Trace => "biopsy trace",
            Self::Capture => "biopsy capture",
            Self::Requests => "biopsy capture --requests",
            Self::Debug => "biopsy capture --log-level Debug",
            Self::Recent => "biopsy, last minutes",
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
            Self::Trace => own(&["trace", "--no-runtime-events"]),
            Self::Capture => own(&["capture"]),
            Self::Requests => own(&["capture", "--requests"]),
            Self::Debug => own(&["capture", "--log-level", "Debug"]),
            Self::Recent => {
                let mut command = Command::new(biopsy);
                command
                    .args(["recent", "10m", &pid, "--quiet", "--output"])
                    .arg(folder.join("recording.zip"));
                command.env("XDG_STATE_HOME", folder);
                command
            }
            Self::DotNetTrace => {
                let mut command = dotnet_peer_command("dotnet-trace", &["collect", "-p", &pid, "-o"])?;
                command.arg(folder.join("trace.nettrace"));
                command
            }
        })
    }
}

/// A window with a recorder, as ratios to the windows without before and behind it.
struct Run {
    by: By,
    with: Window,
    rate: f64,
    cpu: f64,
    /// What is answered for a second of CPU of server, clients and recorder together.
    per_cpu: f64,
    recorder_cores: f64,
    rooted: Option<f64>,
}

/// Measures both loads.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    if !require(Privilege::DotNetTargets) {
        println!("note: without the .NET targets");
        return Ok(());
    }
    let server = DotNetServer::with_server_collector(RUNTIME);
    let askers = Askers::start_working(server.port(), "/healthz", WORKING, WORK);
    let saturated = runs(biopsy, options, server, askers, "saturated", options.rounds())?;
    let rate = |by| of(&saturated, by, |run| Some(run.rate));
    table.judge("N1a", rate(By::Capture));
    table.judge("N1b", rate(By::Capture).zip(rate(By::DotNetTrace)).map(|(own, peer)| own / peer));
    table.judge("N2", rate(By::Requests));
    // Windows differ by ten times of what it costs, wherever anybody else has work.
    table.judge("W10c", of(&saturated, By::Recent, |run| Some(run.per_cpu)));
    table.judge("N4", of(&saturated, By::Capture, |run| run.rooted));
    add_columns("N saturated", &saturated, table);
    let server = DotNetServer::start(RUNTIME, &[]);
    let askers = Askers::start(server.port(), "/healthz", SATURATING, false);
    let light = runs(biopsy, options, server, askers, "saturated by a light load", options.rounds())?;
    add_columns("N saturated by a light load", &light, table);
    let server = DotNetServer::start(RUNTIME, &[]);
    let askers = Askers::start(server.port(), "/api/releases/1", CALM, false);
    let calm = runs(biopsy, options, server, askers, "calm", options.rounds() * CALM_ROUNDS)?;
    let cpu = |by| of(&calm, by, |run| Some(run.cpu));
    table.judge("N3a", cpu(By::Capture));
    table.judge("N3b", cpu(By::Capture).zip(cpu(By::DotNetTrace)).map(|(own, peer)| own / peer));
    add_columns("N calm", &calm, table);
    Ok(())
}

/// One server and one load that goes on: what the machine does otherwise changes slowly, and hits neighbouring windows alike.
fn runs(
    biopsy: &Path,
    options: &Options,
    server: DotNetServer,
    askers: Askers,
    name: &str,
    rounds: usize,
) -> Outcome<Vec<Run>> {
    // Compiles what is hot at its last tier.
    std::thread::sleep(WARM_UP);
    let seconds = Duration::from_secs_f64(options.seconds());
    let recorders: Vec<By> = By::ALL.into_iter().filter(|by| options.wants_named(by.key())).collect();
    let mut runs = Vec::new();
    let mut before = askers.window(server.pid(), seconds);
    for round in 0..rounds {
        println!("{name}, round {} ...", round + 1);
        // Each round in another order, so that no recorder always comes after the same.
        for step in 0..recorders.len() {
            let by = recorders[(step + round) % recorders.len()];
            let folder = temp_dir("bench-dotnet");
            let Some(command) = by.command(biopsy, server.pid(), folder.path()) else { continue };
            let recorder = start(command, by)?;
            std::thread::sleep(if by == By::Recent { SETTLE_FOR_DAYS } else { SETTLE });
            let (began, own) = (Instant::now(), proc_usage::cpu_seconds(recorder.id()));
            let with = askers.window(server.pid(), seconds);
            let own = (proc_usage::cpu_seconds(recorder.id()) - own) / began.elapsed().as_secs_f64();
            stop(recorder, by)?;
            std::thread::sleep(REST);
            let after = askers.window(server.pid(), seconds);
            let ratio = |of: fn(&Window) -> f64| of(&with) * 2.0 / (of(&before) + of(&after));
            let rooted = (!matches!(by, By::Recent | By::DotNetTrace))
                .then(|| share_reaching_root(&folder.path().join("recording.zip")))
                .flatten();
            let (rate, cpu) = (ratio(|window| window.per_second), ratio(|window| window.cpu_per_request));
            let without = (before.all_cpu_per_request + after.all_cpu_per_request) / 2.0;
            let per_cpu = without / (with.all_cpu_per_request + own / with.per_second);
            println!(
                "    {}: {rate:.3} of the requests, {cpu:.3} times the CPU per request; {per_cpu:.4} of the requests for a second of all CPU",
                by.name()
            );
            runs.push(Run { by, with, rate, cpu, per_cpu, recorder_cores: own, rooted });
            before = after;
        }
    }
    drop(askers.stop());
    server.stop();
    Ok(runs)
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
            // Who keeps the last minutes leaves nothing when it is asked to end.
            Ok(Some(status)) if status.success() || by == By::Recent => return Ok(()),
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
    runs.iter().filter(|run| run.by == by).filter_map(value).collect()
}

fn of(runs: &[Run], by: By, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    median(&values(runs, by, value))
}

fn add_columns(workload: &'static str, runs: &[Run], table: &mut Table) {
    for by in By::ALL {
        let of = |value: &dyn Fn(&Run) -> Option<f64>| of(runs, by, value);
        let at = |share: f64, value: &dyn Fn(&Run) -> f64| {
            quantile(&values(runs, by, |run| Some(value(run))), share)
        };
        let mut column = Column::new(by.name());
        column.set("requests, /s", of(&|run| Some(run.with.per_second)));
        column.set("requests, share of unrecorded", of(&|run| Some(run.rate)));
        column.set("requests, lower quartile", at(0.25, &|run| run.rate));
        column.set("requests, upper quartile", at(0.75, &|run| run.rate));
        column.set("requests per second of all CPU, share of unrecorded", of(&|run| Some(run.per_cpu)));
        column.set("the same, lower quartile", at(0.25, &|run| run.per_cpu));
        column.set("the same, upper quartile", at(0.75, &|run| run.per_cpu));
        column.set("CPU per request, us", of(&|run| Some(run.with.cpu_per_request * 1e6)));
        column.set("CPU per request, times unrecorded", of(&|run| Some(run.cpu)));
        column.set("CPU per request, lower quartile", at(0.25, &|run| run.cpu));
        column.set("CPU per request, upper quartile", at(0.75, &|run| run.cpu));
        column.set("recorder CPU, cores", of(&|run| Some(run.recorder_cores)));
        column.set("stacks to root, %", of(&|run| run.rooted));
        table.add_column(workload, column);
    }
}
