//! Runs fuzz targets with the stable compiler: libFuzzer is linked in, and coverage comes from LLVM's own pass.

mod table;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_testkit::{Program, Signal, proc_usage, send_signal};

use crate::run::{Outcome, cargo, root, succeed, target_folder as workspace_target};
use table::{Bar, Row, Table, code_of};

/// Coverage as cargo-fuzz asks for it, without the sanitizers that need a nightly compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// What to run and how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Targets; all of fuzz/fuzz_targets without any
    targets: Vec<String>,
    /// All of them; the same as naming none
    #[arg(long, conflicts_with = "targets")]
    all: bool,
    /// CPU seconds for each
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Executions for each, if they come first. The bar of a release: `--all --executions 10000000 --seconds 900`
    #[arg(long)]
    executions: Option<u64>,
    /// Add to what earlier runs of the same code have reached, as `target/fuzz/table.json` has it
    #[arg(long)]
    resume: bool,
    /// End after this many minutes, all together; `--resume` goes on from there
    #[arg(long)]
    minutes: Option<u64>,
    /// How many side by side
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// What the limits of the readers promise: no input of this size needs more.
const SECONDS_OF_AN_INPUT: f64 = 10.0;
/// How long a target may take to end after it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// What one run of a target gave.
struct Ran {
    cpu_seconds: f64,
    said: String,
    succeeded: bool,
}

/// Builds all targets once, and runs each until it has reached its bar, in the order in which they are named, also behind one that fails;
/// inputs that were interesting stay in fuzz/corpus, crashes in fuzz/artifacts. Prints a table, and keeps it.
pub(crate) fn run(options: &Options) -> Outcome {
    let folder = root().join("fuzz");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let build = target_folder();
    succeed(
        // With --target the flags do not reach build scripts, which would not link with them.
        cargo(&["build", "--release", "--bins", "--target", &target])
            .current_dir(&folder)
            .env("RUSTFLAGS", FLAGS)
            .env("CARGO_TARGET_DIR", &build),
    )?;
    let programs = build.join(&target).join("release");
    let names =
        if options.all || options.targets.is_empty() { all_targets()? } else { options.targets.clone() };
    let kept = workspace_target()?.join("fuzz/table.json");
    std::fs::create_dir_all(kept.parent().expect("it is in a folder"))
        .map_err(|error| format!("cannot make the folder of `{}`: {error}", kept.display()))?;
    let bar = Bar { cpu_seconds: options.seconds, executions: options.executions };
    let end = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let table = Mutex::new(Table::read(&kept)?);
    let left = Mutex::new(names.iter());
    let work = || -> Outcome {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(name) = next else { return Ok(()) };
            let program = programs.join(name);
            let code = code_of(&program)?;
            let mut row = match options.resume {
                true => table.lock().unwrap_or_else(PoisonError::into_inner).row(name, code),
                false => Row::of(code),
            };
            one(&folder, name, &program, bar, end, &mut row)?;
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            table.rows.insert(name.clone(), row);
            table.write(&kept)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let table = table.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("\n{}", table.show(&names, bar));
    let failed = |name: &&String| table.rows.get(*name).is_some_and(|row| row.failed);
    match names.iter().filter(failed).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} targets have findings", names.len())),
    }
}

/// Runs one target until it has reached its bar, has a finding, or the time is over.
fn one(folder: &Path, name: &str, program: &Path, bar: Bar, end: Option<Instant>, row: &mut Row) -> Outcome {
    let corpus = folder.join("corpus").join(name);
    let artifacts = folder.join("artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    }
    seed(name, &corpus)?;
    // A finding is looked for again: it may be mended by what does not change the code of this target.
    row.failed = false;
    while !row.failed && !row.has_reached(bar) && end.is_none_or(|end| Instant::now() < end) {
        let runs = bar.executions.map(|all| all.saturating_sub(row.executions));
        println!("$ {name}: {:.0} CPU s at most", row.seconds_left(bar));
        let before = files(&artifacts);
        let mut fuzz = Command::new(program);
        fuzz.arg(&corpus);
        fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
        fuzz.args(runs.map(|runs| format!("-runs={runs}")));
        fuzz.args(["-rss_limit_mb=2048", "-timeout=30", "-max_len=262144", "-print_final_stats=1"]);
        let ran = watch(fuzz.current_dir(folder), &artifacts.join("log"), row.seconds_left(bar), end)?;
        row.executions += executions(&ran.said);
        row.cpu_seconds += ran.cpu_seconds;
        row.inputs = files(&corpus).len();
        if !ran.succeeded {
            let new: Vec<PathBuf> =
                files(&artifacts).into_iter().filter(|path| !before.contains(path)).collect();
            if was_only_slow(program, &artifacts, &new)? {
                println!("{name}: an input took long by the clock, not of the processor");
                continue;
            }
            row.failed = true;
            let last: Vec<&str> = ran.said.lines().rev().take(30).collect();
            println!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
    println!("{name}: {} executions, {:.0} CPU s", row.executions, row.cpu_seconds);
    Ok(())
}

/// libFuzzer's limit for an input is one of the clock, which a machine under load reaches by itself.
fn was_only_slow(program: &Path, artifacts: &Path, new: &[PathBuf]) -> Outcome<bool> {
    let timeouts =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("timeout-"));
    let [input] = new else { return Ok(false) };
    if !timeouts(input) {
        return Ok(false);
    }
    let mut again = Command::new(program);
    again.arg(input).arg("-timeout=600");
    let ran = watch(&mut again, &artifacts.join("again"), SECONDS_OF_AN_INPUT * 2.0, None)?;
    let slow = ran.succeeded && ran.cpu_seconds < SECONDS_OF_AN_INPUT;
    if slow {
        std::fs::remove_file(input)
            .map_err(|error| format!("cannot remove `{}`: {error}", input.display()))?;
    }
    Ok(slow)
}

/// Runs it until it ends, has used this much of the processor, or the time is over. What it says goes to `log`.
fn watch(command: &mut Command, log: &Path, cpu_seconds: f64, end: Option<Instant>) -> Outcome<Ran> {
    let output =
        std::fs::File::create(log).map_err(|error| format!("cannot make `{}`: {error}", log.display()))?;
    let mut child: Child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .map_err(|error| format!("cannot run a fuzz target: {error}"))?;
    let mut used: f64 = 0.0;
    let mut asked: Option<Instant> = None;
    let status = loop {
        // Before it is waited for: then nothing can be read of it any more.
        used = used.max(proc_usage::cpu_seconds(child.id()));
        if let Some(status) = child.try_wait().map_err(|error| format!("cannot wait: {error}"))? {
            break status;
        }
        let over = used >= cpu_seconds || end.is_some_and(|end| Instant::now() >= end);
        match asked {
            // libFuzzer ends in order with this one, and says how far it came.
            None if over => {
                send_signal(child.id(), Signal::USR1);
                asked = Some(Instant::now());
            }
            Some(asked) if asked.elapsed() > ENDS_WITHIN => drop(child.kill()),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let said = std::fs::read(log).map_err(|error| format!("cannot read `{}`: {error}", log.display()))?;
    Ok(Ran {
        cpu_seconds: used,
        said: String::from_utf8_lossy(&said).into_owned(),
        // libFuzzer ends by a code where it found something; a signal then was ours.
        succeeded: status.success() || (asked.is_some() && status.code().is_none()),
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

/// The executions that libFuzzer tells at its end; before a crash it does not, and the last line with a number counts.
fn executions(said: &str) -> u64 {
    let at_end = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let on_the_way =
        said.lines().rev().find_map(|line| line.strip_prefix('#')?.split_ascii_whitespace().next());
    at_end.or(on_the_way).and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Real inputs to begin with: mutation alone does not find its way into an ELF file.
fn seed(name: &str, corpus: &Path) -> Outcome {
    let seeds = match name {
        "elf" => vec![Program::HotFunction.path(), Program::Stripped.path()],
        "bundle" => files_in("fixtures/recordings"),
        "perf_data" => files_in("fixtures/perf-data"),
        "dump_report" => [files_in("fuzz/seeds/core"), files_in("fuzz/seeds/minidump")].concat(),
        _ => Vec::new(),
    };
    let fixed = root().join("fuzz/seeds").join(name);
    for (number, path) in seeds.into_iter().chain(files(&fixed)).enumerate() {
        std::fs::copy(&path, corpus.join(format!("seed-{number}")))
            .map_err(|error| format!("cannot copy `{}`: {error}", path.display()))?;
    }
    if name == "timeline" {
        for (number, recording) in files_in("fixtures/recordings").iter().enumerate() {
            let mut unzip = std::process::Command::new("unzip");
            unzip.arg("-p").arg(recording).arg("trace/timeline.bin");
            let output = unzip.output().map_err(|error| format!("cannot run unzip: {error}"))?;
            std::fs::write(corpus.join(format!("recorded-{number}")), output.stdout)
                .map_err(|error| format!("cannot write a seed: {error}"))?;
        }
    }
    Ok(())
}

fn files_in(folder: &str) -> Vec<PathBuf> {
    files(&root().join(folder))
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("fuzz/target"), |own| PathBuf::from(own).join("fuzz"))
}

fn all_targets() -> Outcome<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries =
        std::fs::read_dir(&folder).map_err(|error| format!("cannot read `{}`: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::executions;

    #[test]
    fn executions_are_told_at_the_end_or_on_the_way() {
        assert_eq!(executions("#2\tINITED\nDone 7 runs\nstat::number_of_executed_units: 4711\n"), 4711);
        assert_eq!(
            executions("#2\tINITED cov: 3\n#1024\tNEW cov: 4\n==1== ERROR: libFuzzer: deadly signal\n"),
            1024
        );
        assert_eq!(executions(""), 0);
    }
}
