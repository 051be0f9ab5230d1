//! Workload D: a program that measures its own pauses is dumped by each tool in turn.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Program, TargetProcess, temp_dir};

use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use super::{Options, proc_usage};
use crate::run::Outcome;

/// Threads of the target besides its main one.
const THREADS: &str = "20";
/// A tool that takes longer is killed, and its run is an error.
const WITHIN: Duration = Duration::from_secs(300);
const REST: Duration = Duration::from_millis(700);

/// Who dumps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tool {
    /// Nobody: how long the machine itself keeps a program from running.
    Nobody,
    Gcore,
    /// The dumper of .NET, `-u` (full).
    CreateDump,
    /// `biopsy dump --raw`.
    Raw,
    /// `biopsy dump`, as it is by default.
    Biopsy,
    /// `biopsy dump --raw --collapse`.
    Collapsed,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "none",
            Self::Gcore => "gcore",
            Self::CreateDump => "createdump",
            Self::Raw => "biopsy --raw",
            Self::Biopsy => "biopsy",
            Self::Collapsed => "biopsy --collapse",
        }
    }
}

/// One dump.
#[derive(Debug)]
struct Run {
    tool: Tool,
    /// Longest gap that the target saw.
    gap_ms: f64,
    /// Calls of the target that were broken off.
    broken_off: f64,
    seconds: f64,
    megabytes: f64,
    memory_mb: f64,
    /// What biopsy itself measured and had predicted.
    said_pause_ms: Option<f64>,
    predicted_ms: Option<f64>,
}

/// 1 GiB in small and in huge pages.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let createdump = find_createdump();
    if createdump.is_none() {
        println!("note: without createdump");
    }
    let megabytes = if options.quick { "128" } else { "1024" };
    let mut tools = vec![Tool::Nobody, Tool::Gcore, Tool::Raw, Tool::Biopsy];
    tools.extend(createdump.is_some().then_some(Tool::CreateDump));
    let mut predictions = Vec::new();
    for (workload, pages) in [("D small pages", "small"), ("D huge pages", "huge")] {
        let mut target = TargetProcess::start(Program::PauseProbe, &[megabytes, THREADS, pages]);
        let mut runs = Vec::new();
        for round in 0..options.rounds() {
            let mut order = tools.clone();
            if round % 2 == 1 {
                order.reverse();
            }
            for tool in order {
                let run = one_run(tool, biopsy, createdump.as_deref(), &mut target)?;
                println!(
                    "{workload} round {round}: {:<18} gap {:>8.2} ms, {:>6.2} s, {:>6.0} MB",
                    tool.name(),
                    run.gap_ms,
                    run.seconds,
                    run.megabytes
                );
                predictions.extend(ratio_of_prediction(&run));
                runs.push(run);
            }
        }
        if pages == "small" {
            judge_small(&runs, table);
            judge_compression(biopsy, &mut target, &runs, table)?;
            // Last, because the pages stay huge.
            let collapsed = one_run(Tool::Collapsed, biopsy, None, &mut target)?;
            table.judge("D2d", Some(collapsed.gap_ms));
            runs.push(collapsed);
        } else {
            judge_huge(&runs, table);
        }
        for tool in tools.iter().chain((pages == "small").then_some(&Tool::Collapsed)) {
            table.add_column(workload, column(*tool, &runs));
        }
        target.stop();
    }
    table.judge("D3c", predictions.into_iter().reduce(f64::max));
    Ok(())
}

/// 4 and 16 GiB, where the machine has room for the target and for what it might write while it is dumped.
pub(crate) fn measure_large(biopsy: &Path, table: &mut Table) -> Outcome {
    for (row, workload, gigabytes) in [("D3a", "D 4 GiB", 4_u64), ("D3b", "D 16 GiB", 16)] {
        if available_gigabytes() < gigabytes + 3 {
            println!("note: not enough memory for {gigabytes} GiB");
            continue;
        }
        let megabytes = (gigabytes * 1024).to_string();
        let mut target = TargetProcess::start(Program::PauseProbe, &[&megabytes, THREADS, "small"]);
        let mut runs = Vec::new();
        for _ in 0..3 {
            let run = one_run(Tool::Biopsy, biopsy, None, &mut target)?;
            println!("{workload}: gap {:.1} ms, {:.1} s", run.gap_ms, run.seconds);
            runs.push(run);
        }
        #[expect(clippy::cast_precision_loss, reason = "some millions")]
        let pages = (gigabytes << 18) as f64;
        let pause = median(&values(&runs, Tool::Biopsy, |run| run.gap_ms));
        table.judge(row, pause.map(|milliseconds| milliseconds * 1e6 / pages));
        table.add_column(workload, column(Tool::Biopsy, &runs));
        target.stop();
    }
    Ok(())
}

fn judge_small(runs: &[Run], table: &mut Table) {
    let gaps = |tool| values(runs, tool, |run| run.gap_ms);
    table.judge("D1a", paired_ratio(&gaps(Tool::Biopsy), &gaps(Tool::Gcore)));
    table.judge("D1b", paired_ratio(&gaps(Tool::Biopsy), &gaps(Tool::CreateDump)));
    table.judge("D1c", median(&gaps(Tool::Biopsy)));
    let seconds = |tool| values(runs, tool, |run| run.seconds);
    table.judge("D4", paired_ratio(&seconds(Tool::Raw), &seconds(Tool::Gcore)));
    let sizes = |tool| values(runs, tool, |run| run.megabytes);
    table.judge("D6", paired_ratio(&sizes(Tool::Biopsy), &sizes(Tool::Gcore)));
    table.judge("D7", values(runs, Tool::Biopsy, |run| run.memory_mb).into_iter().reduce(f64::max));
}

fn judge_huge(runs: &[Run], table: &mut Table) {
    let gaps = |tool| values(runs, tool, |run| run.gap_ms);
    table.judge("D2a", paired_ratio(&gaps(Tool::Biopsy), &gaps(Tool::Gcore)));
    table.judge("D2b", paired_ratio(&gaps(Tool::Biopsy), &gaps(Tool::CreateDump)));
    table.judge("D2c", median(&gaps(Tool::Biopsy)));
}

/// What the same bytes take zstd at the same level on all cores, from memory to nowhere.
fn judge_compression(biopsy: &Path, target: &mut TargetProcess, runs: &[Run], table: &mut Table) -> Outcome {
    let folder = temp_dir("bench-d");
    let core = folder.path().join("plain.core");
    let mut command = Command::new(biopsy);
    command.args(["dump", &target.pid().to_string(), "--raw", "--quiet", "--output"]).arg(&core);
    crate::run::output_of(&mut command)?;
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let mut zstd = Command::new("zstd");
        zstd.args(["-1", "-T0", "-q", "-f", "-o", "/dev/null"]).arg(&core);
        crate::run::output_of(&mut zstd)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    let ours = median(&values(runs, Tool::Biopsy, |run| run.seconds));
    table.judge("D5", ours.zip(median(&seconds)).map(|(ours, zstd)| ours / zstd));
    Ok(())
}

fn one_run(tool: Tool, biopsy: &Path, createdump: Option<&Path>, target: &mut TargetProcess) -> Outcome<Run> {
    let folder = temp_dir("bench-d");
    let output = folder.path().join("dump");
    let pid = target.pid().to_string();
    let mut command = match tool {
        Tool::Nobody => {
            let mut command = Command::new("sleep");
            command.arg("1");
            command
        }
        Tool::Gcore => {
            let mut command = Command::new("gcore");
            command.arg("-o").arg(&output).arg(&pid);
            command
        }
        Tool::CreateDump => {
            let mut command = Command::new(createdump.ok_or("createdump is missing")?);
            command.arg("-u").arg("-f").arg(&output).arg(&pid);
            command
        }
        Tool::Raw | Tool::Biopsy | Tool::Collapsed => {
            let mut command = Command::new(biopsy);
            command.args(["dump", &pid, "--quiet", "--json", "--output"]);
            command.arg(output.with_extension(if tool == Tool::Biopsy { "core.zst" } else { "core" }));
            command.args((tool != Tool::Biopsy).then_some("--raw"));
            command.args((tool == Tool::Collapsed).then_some("--collapse"));
            command
        }
    };
    gap(target)?;
    let log = folder.path().join("said");
    let file = std::fs::File::create(&log).map_err(|error| error.to_string())?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", tool.name()))?;
    let mut memory_mb = 0.0_f64;
    while !proc_usage::is_zombie(child.id()) {
        memory_mb = memory_mb.max(proc_usage::peak_memory_mb(child.id()));
        if started.elapsed() > WITHIN {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    let seconds = started.elapsed().as_secs_f64();
    let status = child.wait().map_err(|error| error.to_string())?;
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    if !status.success() {
        return Err(format!("{} ended with {status}: {said}", tool.name()));
    }
    let (gap_ms, broken_off) = gap(target)?;
    let _ = std::fs::remove_file(&log);
    #[expect(clippy::cast_precision_loss, reason = "some gigabytes")]
    let megabytes = proc_usage::bytes_on_disk(folder.path()) as f64 / 1e6;
    let document: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    drop(folder);
    std::thread::sleep(REST);
    Ok(Run {
        tool,
        gap_ms,
        broken_off,
        seconds,
        megabytes,
        memory_mb,
        said_pause_ms: document["pause_ms"].as_f64(),
        predicted_ms: document["predicted_pause_ms"].as_f64(),
    })
}

/// The target's longest gap since it was asked last, in milliseconds, and its calls that were broken off.
fn gap(target: &mut TargetProcess) -> Outcome<(f64, f64)> {
    let line = target.ask("gap", "GAP", Duration::from_secs(30)).ok_or("the target does not answer")?;
    let mut words = line.split_ascii_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let nanos = words.next().ok_or("the target answers in another way")?;
    Ok((nanos / 1e6, words.next().unwrap_or(0.0)))
}

fn values(runs: &[Run], tool: Tool, value: impl Fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().filter(|run| run.tool == tool).map(value).collect()
}

fn column(tool: Tool, runs: &[Run]) -> Column {
    let mut column = Column::new(tool.name());
    let of = |value: fn(&Run) -> f64| values(runs, tool, value);
    column.set("pause in the target, ms", median(&of(|run| run.gap_ms)));
    column.set("longest, ms", of(|run| run.gap_ms).into_iter().reduce(f64::max));
    column.set("calls broken off", median(&of(|run| run.broken_off)));
    let own = runs.iter().filter(|run| run.tool == tool);
    let said: Vec<f64> = own.clone().filter_map(|run| run.said_pause_ms).collect();
    column.set("pause it says, ms", median(&said));
    let predicted: Vec<f64> = own.filter_map(|run| run.predicted_ms).collect();
    column.set("pause it predicted, ms", median(&predicted));
    if tool != Tool::Nobody {
        column.set("time, s", median(&of(|run| run.seconds)));
        column.set("size, MB", median(&of(|run| run.megabytes)));
        column.set("memory, MB", of(|run| run.memory_mb).into_iter().reduce(f64::max));
    }
    column
}

/// By how much a prediction was wrong, above 1 either way.
fn ratio_of_prediction(run: &Run) -> Option<f64> {
    let (said, predicted) = run.said_pause_ms.zip(run.predicted_ms)?;
    Some((said / predicted).max(predicted / said))
}

/// createdump of a .NET runtime on this machine.
fn find_createdump() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    let roots = ["/usr/share/dotnet".into(), "/usr/lib/dotnet".into(), cache.join("biopsy-targets/dotnet")];
    let mut found: Vec<PathBuf> = roots
        .iter()
        .map(|root: &PathBuf| root.join("shared/Microsoft.NETCore.App"))
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|versions| versions.flatten().map(|version| version.path().join("createdump")))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop()
}

fn available_gigabytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    kib >> 20
}
