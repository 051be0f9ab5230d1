//! What attaching to an ASP.NET Core server and detaching from it do: when the first sample is there, and what requests see meanwhile.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use biopsy_testkit::{DotNetServer, Privilege, Signal, require, send_signal, temp_dir};

use super::Options;
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

/// When a request was answered, and how long it took.
type Answered = (Instant, Duration);

/// One recording.
struct Run {
    first_sample_ms: Option<f64>,
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
            "attach, round {}: first sample {:.0} ms; p99 {:.1} ms, attaching {:+.1}, detaching {:+.1}",
            round + 1,
            run.first_sample_ms.unwrap_or(f64::NAN),
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
    table.judge("N6a", of(&|run| run.first_sample_ms));
    table.judge("N6b", attach);
    table.judge("N6c", detach);
    let mut column = Column::new("biopsy capture");
    column.set("first sample after the command, ms", of(&|run| run.first_sample_ms));
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
    let askers = Askers::start(server.port(), "/api/releases/1", CONNECTIONS);
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
        first_sample_ms: first_sample(biopsy, &recording).map(|at| at - wall.as_secs_f64() * 1000.0),
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

/// Wall-clock time of the first CPU sample, in ms since 1970: from the export for the Firefox Profiler, whose times are since its
/// own start time.
fn first_sample(biopsy: &Path, recording: &Path) -> Option<f64> {
    let mut export = Command::new(biopsy);
    export.args(["export", "--to", "firefox", "--output", "-"]).arg(recording);
    let profile: serde_json::Value = serde_json::from_str(&output_of(&mut export).ok()?).ok()?;
    let start = profile.pointer("/meta/startTime")?.as_f64()?;
    let threads = profile.get("threads")?.as_array()?;
    let firsts = threads.iter().filter_map(|thread| {
        let deltas = thread.pointer("/samples/timeDeltas/0").or_else(|| thread.pointer("/samples/time/0"));
        deltas?.as_f64()
    });
    firsts.min_by(f64::total_cmp).map(|first| start + first)
}

/// Threads that ask, each on a connection of its own, one request after the other.
struct Askers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Answered>>>,
}

impl Askers {
    fn start(port: u16, path: &str, connections: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let threads = (0..connections).map(|_| {
            let (stop, request) = (Arc::clone(&stop), request.clone());
            std::thread::spawn(move || ask(port, &request, &stop).unwrap_or_default())
        });
        Self { threads: threads.collect(), stop }
    }

    fn stop(self) -> Vec<Answered> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn ask(port: u16, request: &str, stop: &AtomicBool) -> std::io::Result<Vec<Answered>> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answered = Vec::new();
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        socket.write_all(request.as_bytes())?;
        answer.clear();
        while !is_whole(&answer) {
            match socket.read(&mut part)? {
                0 => return Ok(answered),
                count => answer.extend_from_slice(&part[..count]),
            }
        }
        answered.push((Instant::now(), asked.elapsed()));
    }
    Ok(answered)
}

/// Whether an answer has come to its end: as long as its head says, or to its last chunk.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) => body.len() >= length,
        None => body.ends_with("0\r\n\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_they_say() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"));
    }

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
