//! What attaching to an ASP.NET Core server and detaching from it do: when the first sample is there, and what requests see meanwhile.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use biopsy_testkit::{Answered, Askers, DotNetServer, Privilege, Signal, require, send_signal, temp_dir};

use super::options::Options;
use super::statistics::median;
use super::table::{Column, Table};
use crate::run::{Outcome, output_of};

const RUNTIME: &str = "net10.0";
/// Before each recording, and between its attaching and its end.
const CALM_FOR: Duration = Duration::from_secs(2);
/// What counts as attaching, and as detaching: a second, or as long as ending takes.
const WINDOW: Duration = Duration::from_secs(1);
/// Connections: nearly 1,000 requests a second with waits.
const CONNECTIONS: u32 = 4;

/// One recording.
struct Run {
    first_sample_ms: f64,
    native_ms: f64,
    quiet_ms: f64,
    attach_ms: f64,
    detach_ms: f64,
    rate: f64,
}

/// Attaches and detaches some times, and compares.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    if !require(Privilege::DotNetTargets) {
        println!("note: without the .NET targets");
        return Ok(());
    }
    let server = DotNetServer::start(RUNTIME, &[]);
    drop(server.load(RUNTIME, "/api/releases/1", CONNECTIONS, 8).finish());
    let mut runs = Vec::new();
    for round in 0..options.rounds() {
        let run = one_run(biopsy, &server)?;
        println!(
            "attach, round {}: first sample {:.0} ms, of a native program {:.0} ms; p99 {:.1} ms, attaching {:+.1}, detaching {:+.1}",
            round + 1,
            run.first_sample_ms,
            run.native_ms,
            run.quiet_ms,
            run.attach_ms - run.quiet_ms,
            run.detach_ms - run.quiet_ms,
        );
        runs.push(run);
    }
    server.stop();
    let of = |value: &dyn Fn(&Run) -> Option<f64>| median(&runs.iter().filter_map(value).collect::<Vec<_>>());
    let attach = of(&|run| Some(run.attach_ms - run.quiet_ms));
    let detach = of(&|run| Some(run.detach_ms - run.quiet_ms));
    // The slower of the two, in each round.
    table.judge("N6a", of(&|run| Some(run.first_sample_ms.max(run.native_ms))));
    table.judge("N6b", attach);
    table.judge("N6c", detach);
    let mut column = Column::new("biopsy capture");
    column.set("first sample after the command, ms", of(&|run| Some(run.first_sample_ms)));
    column.set("the same of a native program, ms", of(&|run| Some(run.native_ms)));
    column.set("requests, /s", of(&|run| Some(run.rate)));
    column.set("p99 before, ms", of(&|run| Some(run.quiet_ms)));
    column.set("p99 change while attaching, ms", attach);
    column.set("p99 change while detaching, ms", detach);
    table.add_column("N attach", column);
    Ok(())
}

fn one_run(biopsy: &Path, server: &DotNetServer) -> Outcome<Run> {
    let folder = temp_dir("bench-attach");
    let recording = folder.path().join("recording.zip");
    let askers = Askers::start(server.port(), "/api/releases/1", CONNECTIONS, true);
    // The first moments of new connections are not what is compared.
    std::thread::sleep(Duration::from_millis(300));
    let calm = Instant::now();
    std::thread::sleep(CALM_FOR);
    let attached = Instant::now();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let mut command = Command::new(biopsy);
    command
        .args(["capture", &server.pid().to_string(), "--for", "1h", "--quiet", "--output"])
        .arg(&recording);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = command.spawn().map_err(|error| format!("cannot run biopsy: {error}"))?;
    std::thread::sleep(WINDOW + CALM_FOR);
    let detached = Instant::now();
    send_signal(recorder.id(), Signal::INT);
    let status = recorder.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("biopsy ended with {status}"));
    }
    let gone = detached.elapsed().max(WINDOW);
    std::thread::sleep(WINDOW.saturating_sub(detached.elapsed()));
    let answered = askers.stop();
    let p99 = |from: Instant, length: Duration| percentile(&answered, from, length);
    #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
    let before = answered.iter().filter(|(at, _)| *at >= calm && *at < attached).count() as f64;
    Ok(Run {
        first_sample_ms: first_sample(biopsy, &recording)? - wall.as_secs_f64() * 1000.0,
        native_ms: native_first_sample(biopsy)?,
        quiet_ms: p99(calm, attached - calm).ok_or("no answers before")?,
        attach_ms: p99(attached, WINDOW).ok_or("no answers while attaching")?,
        detach_ms: p99(detached, gone).ok_or("no answers while detaching")?,
        rate: before / (attached - calm).as_secs_f64(),
    })
}

/// The 99th percentile of the requests that were answered in this time, ms.
fn percentile(answered: &[Answered], from: Instant, length: Duration) -> Option<f64> {
    let within = answered.iter().filter(|(at, _)| *at >= from && *at < from + length);
    let mut took: Vec<Duration> = within.map(|(_, took)| *took).collect();
    took.sort_unstable();
    took.get((took.len() * 99).div_ceil(100).checked_sub(1)?).map(|took| took.as_secs_f64() * 1000.0)
}

/// Wall-clock time of the first CPU sample, in ms since 1970: from the export for the Firefox Profiler, which is compressed and whose
/// times are since its own start time.
fn first_sample(biopsy: &Path, recording: &Path) -> Outcome<f64> {
    let profile = recording.with_extension("firefox.json.gz");
    let mut export = Command::new(biopsy);
    export.args(["export", "--to", "firefox", "--output"]).arg(&profile).arg(recording);
    output_of(&mut export)?;
    let text = output_of(Command::new("gzip").arg("-dc").arg(&profile))?;
    let profile: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("the profile: {error}"))?;
    let start =
        profile.pointer("/meta/startTime").and_then(serde_json::Value::as_f64).ok_or("no start time")?;
    let threads = profile.get("threads").and_then(serde_json::Value::as_array).ok_or("no threads")?;
    let firsts = threads.iter().filter_map(|thread| thread.pointer("/samples/timeDeltas/0")?.as_f64());
    firsts.min_by(f64::total_cmp).map(|first| start + first).ok_or_else(|| "no sample".to_owned())
}

/// Milliseconds from the start of `biopsy trace` to the first sample of a program that is always busy.
fn native_first_sample(biopsy: &Path) -> Outcome<f64> {
    let folder = temp_dir("bench-attach");
    let recording = folder.path().join("recording.zip");
    let mut busy = Command::new("sha256sum")
        .arg("/dev/zero")
        .spawn()
        .map_err(|error| format!("cannot run sha256sum: {error}"))?;
    std::thread::sleep(Duration::from_millis(300));
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string());
    let mut command = Command::new(biopsy);
    command.args(["trace", &busy.id().to_string(), "--for", "1s", "--quiet", "--output"]).arg(&recording);
    let recorded = output_of(&mut command);
    let _ = busy.kill();
    let _ = busy.wait();
    recorded?;
    Ok(first_sample(biopsy, &recording)? - wall?.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_window() {
        let start = Instant::now();
        let answered: Vec<Answered> = (0..200_u64)
            .map(|at| (start + Duration::from_millis(at), Duration::from_millis(at + 1)))
            .collect();
        assert_eq!(percentile(&answered, start, Duration::from_millis(100)), Some(99.0));
        assert_eq!(percentile(&answered, start + Duration::from_secs(1), WINDOW), None);
    }
}
