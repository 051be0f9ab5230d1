//! Workload S: a program that handles a thousand signals a second is followed by `biopsy dump --on crash`, through whose hands
//! each of them goes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Program, Signal, TargetProcess, proc_usage, send_signal, temp_dir};

use super::options::Options;
use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use crate::run::Outcome;

/// Attaching and letting go take no longer.
const WITHIN: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(10);

/// What the target did meanwhile.
#[derive(Debug)]
struct Run {
    followed: bool,
    rounds_per_second: f64,
    signals_per_second: f64,
    /// Share of the timer's signals that came while the one before was not handled yet.
    joined: f64,
    follower_cores: f64,
}

/// Without signals, and with a thousand a second.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    for (workload, signals, row) in [("S none", "0", "D12a"), ("S 1000/s", "1000", "D12b")] {
        let mut target = TargetProcess::start(Program::SignalStorm, &[signals]);
        let mut runs = Vec::new();
        for round in 0..options.rounds() {
            for followed in [round % 2 == 0, round % 2 == 1] {
                let run = one_run(biopsy, options, followed, &mut target)?;
                println!(
                    "{workload} round {round}: {:<8} {:>9.0} rounds/s, {:>6.0} signals/s",
                    if followed { "followed" } else { "alone" },
                    run.rounds_per_second,
                    run.signals_per_second
                );
                runs.push(run);
            }
        }
        let of = |followed: bool, value: fn(&Run) -> f64| -> Vec<f64> {
            runs.iter().filter(|run| run.followed == followed).map(value).collect()
        };
        let work = |run: &Run| run.rounds_per_second;
        table.judge(row, paired_ratio(&of(true, work), &of(false, work)));
        for (head, followed) in [("alone", false), ("followed", true)] {
            let mut column = Column::new(head);
            column.set("work, rounds/s", median(&of(followed, work)));
            column.set("signals/s", median(&of(followed, |run| run.signals_per_second)));
            column.set("signals that fell into another, share", median(&of(followed, |run| run.joined)));
            if followed {
                column.set("CPU of biopsy, cores", median(&of(true, |run| run.follower_cores)));
            }
            table.add_column(workload, column);
        }
        target.stop();
    }
    Ok(())
}

fn one_run(biopsy: &Path, options: &Options, followed: bool, target: &mut TargetProcess) -> Outcome<Run> {
    let folder = temp_dir("bench-s");
    let follower = if followed { Some(follow(biopsy, target.pid(), folder.path())?) } else { None };
    did(target)?;
    let began = Instant::now();
    let cpu = follower.as_ref().map_or(0.0, |one| proc_usage::cpu_seconds(one.id()));
    std::thread::sleep(Duration::from_secs_f64(options.seconds() / 2.0));
    let seconds = began.elapsed().as_secs_f64();
    let cpu = follower.as_ref().map_or(0.0, |one| proc_usage::cpu_seconds(one.id())) - cpu;
    let [rounds, signals, joined] = did(target)?;
    if let Some(mut follower) = follower {
        send_signal(follower.id(), Signal::INT);
        wait_until("biopsy does not end", || follower.try_wait().ok().flatten().is_some())?;
        wait_until("the target is still traced", || tracer(target.pid()) == Some(0))?;
    }
    Ok(Run {
        followed,
        rounds_per_second: rounds / seconds,
        signals_per_second: signals / seconds,
        joined: if signals > 0.0 { joined / (signals + joined) } else { 0.0 },
        follower_cores: cpu / seconds,
    })
}

fn follow(biopsy: &Path, pid: u32, folder: &Path) -> Outcome<Child> {
    let child = Command::new(biopsy)
        .args(["dump", &pid.to_string(), "--on", "crash", "--quiet", "--output"])
        .arg(folder.join("dump"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run biopsy: {error}"))?;
    wait_until("biopsy does not follow the target", || tracer(pid) == Some(child.id()))?;
    Ok(child)
}

fn wait_until(what_not: &str, is: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + WITHIN;
    let mut is = is;
    while !is() {
        if Instant::now() > deadline {
            return Err(what_not.to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Who traces the process; 0: nobody. A tracer is named by its thread: what counts is the process of that.
fn tracer(pid: u32) -> Option<u32> {
    let of = |pid: u32, key: &str| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
    };
    let tracer = of(pid, "TracerPid:")?;
    if tracer == 0 { Some(0) } else { of(tracer, "Tgid:") }
}

/// What the target did since it was asked last: rounds of work, signals, signals that fell into another one.
fn did(target: &mut TargetProcess) -> Outcome<[f64; 3]> {
    let line = target.ask("did", "DID", ANSWER).ok_or("the target does not answer")?;
    let mut numbers = line.split_ascii_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let mut next = || numbers.next().ok_or("the target answers in another way");
    Ok([next()?, next()?, next()?])
}
