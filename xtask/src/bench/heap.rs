//! The graph of a .NET heap of 10^7 objects: `biopsy snapshot` beside dotnet-gcdump on the same process, and the table of types of
//! its core beside dotnet-dump.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{
    DotNetServer, Privilege, dotnet_peer, dotnet_peer_command, dotnet_target,
    proc_usage::{is_zombie, peak_memory_mb},
    require, temp_dir,
};
use serde_json::Value;

use super::options::Options;
use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use crate::run::{Outcome, output_of};

const RUNTIME: &str = "net10.0";

/// One command.
pub(super) struct Run {
    pub(super) seconds: f64,
    pub(super) memory_mb: f64,
    /// How long the target stood still.
    pause_ms: f64,
    pub(super) said: Vec<u8>,
}

/// Measures all rows.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    if !require(Privilege::DotNetTargets) {
        println!("note: without the .NET targets");
        return Ok(());
    }
    let objects = if options.quick { "200000" } else { "10000000" };
    let count: f64 = objects.parse().map_err(|_| "a number")?;
    let target = dotnet_target(RUNTIME, "holder", &["--objects", objects]);
    let pid = target.pid().to_string();
    // The first one leaves metadata of event sources behind, which the next ones find.
    let _ = gcdump(&pid)?;
    let (mut own, mut peers) = (Vec::new(), Vec::new());
    for round in 0..options.rounds().min(4) {
        println!("{objects} objects, round {} ...", round + 1);
        own.push(snapshot(biopsy, &pid)?);
        peers.push(gcdump(&pid)?);
    }
    let of = |runs: &[Run], value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
    let ratio = |value: fn(&Run) -> f64| paired_ratio(&of(&own, value), &of(&peers, value));
    table.judge("H1", ratio(|run| run.pause_ms));
    table.judge("H2", ratio(|run| run.seconds));
    let memory = of(&own, |run| run.memory_mb).into_iter().reduce(f64::max);
    table.judge("H3", memory.map(|megabytes| megabytes * 1024.0 * 1024.0 / count));
    for (name, runs) in [("biopsy snapshot", &own), ("dotnet-gcdump", &peers)] {
        let mut column = Column::new(name);
        column.set("pause, ms", median(&of(runs, |run| run.pause_ms)));
        column.set("whole command, s", median(&of(runs, |run| run.seconds)));
        column.set("memory, MB", of(runs, |run| run.memory_mb).into_iter().reduce(f64::max));
        table.add_column("H", column);
    }
    core(biopsy, &pid, options, table)?;
    drop(target);
    stacks(biopsy, options, table)
}

/// Stacks of 200 threads: the server with threads that leak, and its pool blocked.
fn stacks(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    const THREADS: usize = 200;
    let server = DotNetServer::sick(RUNTIME, "thread-leak");
    let tasks = format!("/proc/{}/task", server.pid());
    let began = Instant::now();
    while std::fs::read_dir(&tasks).map_err(|error| error.to_string())?.count() < THREADS {
        if began.elapsed() > Duration::from_secs(60) {
            return Err("the server does not get 200 threads".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = server.pid().to_string();
    let (mut seconds, mut pauses) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds().max(5) {
        let folder = temp_dir("bench-stacks");
        let mut command = Command::new(biopsy);
        command.args(["stacks", &pid, "--json", "--max-pause", "5s"]);
        let run = timed(&mut command, &folder.path().join("said"))?;
        let said: Value = serde_json::from_slice(&run.said).map_err(|error| error.to_string())?;
        let pause = said["dumps"][0]["identity"]["pause_ns"].as_f64().ok_or("no pause")?;
        let threads = said["dumps"][0]["threads"].as_array().map_or(0, Vec::len);
        if threads < THREADS {
            return Err(format!("stacks of {threads} threads, not of {THREADS}"));
        }
        println!("stacks of {threads} threads: {:.2} s", run.seconds);
        seconds.push(run.seconds);
        pauses.push(pause / 1e6);
    }
    server.stop();
    table.judge("H6", median(&seconds));
    table.judge("H7", median(&pauses));
    Ok(())
}

/// The table of types of a core.
fn core(biopsy: &Path, pid: &str, options: &Options, table: &mut Table) -> Outcome {
    let folder = temp_dir("bench-heap");
    let core = folder.path().join("dump.core");
    let mut dump = Command::new(biopsy);
    dump.args(["dump", pid, "--kind", "full", "--raw", "--quiet", "--max-pause", "5s", "--output"])
        .arg(&core);
    output_of(&mut dump)?;
    let (mut own, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds().min(4) {
        let mut command = Command::new(biopsy);
        command.arg("analyze").arg(&core);
        own.push(timed(&mut command, &folder.path().join("own"))?.seconds);
        let Some(mut command) = dotnet_peer_command("dotnet-dump", &["analyze"]) else { return Ok(()) };
        command.arg(&core).args(["-c", "dumpheap -stat", "-c", "exit"]);
        peers.push(timed(&mut command, &folder.path().join("peer"))?.seconds);
    }
    table.judge("H4", paired_ratio(&own, &peers));
    for (name, seconds) in [("biopsy analyze", &own), ("dotnet-dump", &peers)] {
        let mut column = Column::new(name);
        column.set("core, s", median(seconds));
        table.add_column("H core", column);
    }
    Ok(())
}

fn snapshot(biopsy: &Path, pid: &str) -> Outcome<Run> {
    let folder = temp_dir("bench-heap");
    let mut command = Command::new(biopsy);
    command.args(["snapshot", pid, "--json", "--quiet", "--max-pause", "5s", "--output"]);
    command.arg(folder.path().join("recording"));
    let run = timed(&mut command, &folder.path().join("said"))?;
    let said: Value = serde_json::from_slice(&run.said).map_err(|error| error.to_string())?;
    let pause_ms = said["report"]["heaps"][0]["all_pauses_ms"].as_f64().ok_or("no pause")?;
    Ok(Run { pause_ms, ..run })
}

/// dotnet-gcdump, with the pause as a second session of events tells it.
fn gcdump(pid: &str) -> Outcome<Run> {
    let folder = temp_dir("bench-heap");
    let trace = folder.path().join("gc.nettrace");
    let mut watching = dotnet_peer_command("dotnet-trace", &["collect", "-p", pid])
        .ok_or("the reference tools are not there")?
        .args(["--providers", "Microsoft-Windows-DotNETRuntime:0x1:4", "--duration", "00:00:25", "-o"])
        .arg(&trace)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    // It needs a moment to begin.
    std::thread::sleep(Duration::from_secs(4));
    let mut command = dotnet_peer_command("dotnet-gcdump", &["collect", "-p", pid, "-o"])
        .ok_or("dotnet-gcdump is not there")?;
    command.arg(folder.path().join("heap.gcdump")).args(["-t", "120"]);
    let run = timed(&mut command, &folder.path().join("said"))?;
    watching.wait().map_err(|error| error.to_string())?;
    let output = dotnet_peer("nettrace-check", &[&trace.to_string_lossy(), "--no-stacks"])
        .ok_or("nettrace-check is not there")?;
    let said: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let pause_ms = said["gc"]["maxPauseMs"].as_f64().ok_or("nettrace-check tells no pause")?;
    Ok(Run { pause_ms, ..run })
}

/// Runs a command to its end with its most memory.
pub(super) fn timed(command: &mut Command, said: &Path) -> Outcome<Run> {
    let file = std::fs::File::create(said).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut child = command.stdout(file).spawn().map_err(|error| error.to_string())?;
    let mut memory_mb = 0f64;
    while !is_zombie(child.id()) {
        memory_mb = memory_mb.max(peak_memory_mb(child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    let seconds = began.elapsed().as_secs_f64();
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("{command:?} ended with {status}"));
    }
    let said = std::fs::read(said).map_err(|error| error.to_string())?;
    Ok(Run { seconds, memory_mb, pause_ms: 0.0, said })
}
