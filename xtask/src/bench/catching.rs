//! Workload L: 200 launches of a program that lives for a millisecond, beside two busy loops; each is to be caught and dumped at
//! its end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Program, TargetProcess, temp_dir};

use super::options::Options;
use super::table::{Column, Table};
use crate::run::Outcome;

const LAUNCHES: u32 = 200;
const QUICK_LAUNCHES: u32 = 10;
const WITHIN: Duration = Duration::from_secs(150);

/// Launches them one after the other.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let launches = if options.quick { QUICK_LAUNCHES } else { LAUNCHES };
    let folder = temp_dir("bench-l");
    let mut load = TargetProcess::start(Program::BusyLoop, &["2"]);
    let mut parent = TargetProcess::start(Program::Launcher, &[]);
    let mut child = Command::new(biopsy)
        .args(["dump", &parent.pid().to_string(), "--wait-for", "short-lived", "--on", "exit", "--json"])
        .args(["--count", &launches.to_string(), "--kind", "stacks", "--for", "140s", "--output"])
        .arg(folder.path().join("dump"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run biopsy: {error}"))?;
    let mut said = BufReader::new(child.stderr.take().ok_or("no pipe")?);
    let mut line = String::new();
    while !line.contains("waiting for") {
        line.clear();
        if said.read_line(&mut line).unwrap_or(0) == 0 {
            return Err("biopsy ended before it waited".to_owned());
        }
    }
    // It must not wait for us to read.
    let drain = std::thread::spawn(move || said.lines().map_while(Result::ok).count());
    let began = Instant::now();
    parent.say(&format!("{launches} 2000 0 {} 0", Program::ShortLived.path().display()));
    let done = parent.line_starting_with("DONE", WITHIN).ok_or("the launches do not end")?;
    let seconds = began.elapsed().as_secs_f64();
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let _ = drain.join();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let caught = document["dumps"].as_array().map_or(0, Vec::len);
    println!("L: {caught} of {launches} caught in {seconds:.1} s; the launcher: {done}");
    let caught = f64::from(u32::try_from(caught).unwrap_or(0));
    table.judge("D11", Some(caught / f64::from(launches)));
    let mut column = Column::new("biopsy --wait-for");
    column.set("launches", Some(f64::from(launches)));
    column.set("dumped", Some(caught));
    column.set("time, s", Some(seconds));
    table.add_column("L", column);
    parent.stop();
    load.stop();
    Ok(())
}
