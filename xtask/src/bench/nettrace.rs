//! Event streams of .NET: how fast 1,000 MiB are read, with how much memory, and whether the counts are those of the reference.

use std::path::Path;
use std::process::Command;

use biopsy_testkit::{dotnet_peer, temp_dir};
use serde_json::Value;

use super::heap::timed;
use super::options::Options;
use super::table::{Column, Table};
use crate::run::{Outcome, cargo, output_of};

/// Measures both rows.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let folder = temp_dir("bench-nettrace");
    let file = folder.path().join("large.nettrace");
    let mib = if options.quick { "50" } else { "1000" };
    let example =
        ["run", "--release", "--quiet", "-p", "biopsy-dotnet", "--features", "testing", "--example"];
    // The first time it also makes the file; what is judged is read from the disk's cache.
    let mut read = cargo(&example);
    read.arg("nettrace_bench").arg("--").arg(&file).arg(mib);
    output_of(&mut read)?;
    let said = output_of(&mut read)?;
    let mut own = Column::new("biopsy");
    let speed = number(&said, "read:", " MB/s");
    own.set("reading, MB/s", speed);
    own.set("reading in order of time, MB/s", number(&said, "in order of time:", " MB/s"));
    own.set("collecting, MB/s", number(&said, "collected:", " MB/s"));
    table.judge("N7a", speed);

    let mut analyze = Command::new(biopsy);
    analyze.args(["analyze", "--json"]).arg(&file);
    let run = timed(&mut analyze, &folder.path().join("said"))?;
    own.set("analyze, s", Some(run.seconds));
    own.set("analyze, most memory, MB", Some(run.memory_mb));
    table.judge("N7b", Some(run.memory_mb));
    table.add_column("N nettrace", own);

    let report: Value = serde_json::from_slice(&run.said).map_err(|error| error.to_string())?;
    let Some(output) = dotnet_peer("nettrace-check", &[&file.to_string_lossy(), "--no-stacks"]) else {
        println!("note: without nettrace-check");
        return Ok(());
    };
    let told: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let ours = &report["runtimes"][0];
    let requests = ours["requests"].as_array().map_or(&[][..], Vec::as_slice);
    let requests: u64 = requests.iter().filter_map(|group| group["count"].as_u64()).sum();
    let counts = [
        ("exceptions", ours["exceptions_total"].as_u64(), "/exceptions/count"),
        ("requests", Some(requests), "/http/serverStart"),
    ];
    let mut equal = true;
    for (what, own, peer) in counts {
        let peer = told.pointer(peer).and_then(Value::as_u64);
        println!("{what}: {own:?}, nettrace-check {peer:?}");
        equal &= own.is_some() && own == peer;
    }
    table.judge("N8", Some(f64::from(u8::from(equal))));
    Ok(())
}

/// The number before `unit` in the line that begins with `head`.
fn number(said: &str, head: &str, unit: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with(head))?;
    line.split(unit).next()?.rsplit(' ').next()?.parse().ok()
}
