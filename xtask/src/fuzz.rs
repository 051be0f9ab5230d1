//! Runs fuzz targets with the stable compiler: libFuzzer is linked in, and coverage comes from LLVM's own pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use biopsy_testkit::Program;

use crate::run::{Outcome, cargo, root, succeed};

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
    /// Seconds for each
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Executions for each, if they come first. The bar of a release: `--all --executions 10000000 --seconds 900`
    #[arg(long)]
    executions: Option<u64>,
}

/// What came of one target.
struct Row {
    name: String,
    executions: u64,
    seconds: u64,
    inputs: usize,
    failed: bool,
}

/// Builds all targets once, and runs each for its time, also behind one that fails; inputs that were interesting stay in
/// fuzz/corpus, crashes in fuzz/artifacts. Prints a table.
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
    let targets =
        if options.all || options.targets.is_empty() { all_targets()? } else { options.targets.clone() };
    let mut rows = Vec::new();
    for name in &targets {
        rows.push(one(options, &folder, name, &build.join(&target).join("release").join(name))?);
    }
    println!(
        "\n| target | executions | seconds | inputs kept | findings |\n| --- | ---: | ---: | ---: | --- |"
    );
    for Row { name, executions, seconds, inputs, failed } in &rows {
        let found = if *failed { "see fuzz/artifacts" } else { "none" };
        println!("| `{name}` | {executions} | {seconds} | {inputs} | {found} |");
    }
    match rows.iter().filter(|row| row.failed).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} targets have findings", rows.len())),
    }
}

/// Runs one target; its output goes to our terminal, and into `fuzz/artifacts/NAME/log`.
fn one(options: &Options, folder: &Path, name: &str, program: &Path) -> Outcome<Row> {
    let corpus = folder.join("corpus").join(name);
    let artifacts = folder.join("artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    }
    seed(name, &corpus)?;
    let log = artifacts.join("log");
    let output =
        std::fs::File::create(&log).map_err(|error| format!("cannot make `{}`: {error}", log.display()))?;
    let mut fuzz = Command::new(program);
    fuzz.arg(&corpus);
    fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzz.arg(format!("-max_total_time={}", options.seconds));
    if let Some(executions) = options.executions {
        fuzz.arg(format!("-runs={executions}"));
    }
    // What the limits of the readers promise: no input of this size needs more.
    fuzz.args(["-rss_limit_mb=2048", "-timeout=10", "-max_len=262144", "-print_final_stats=1"]);
    println!("$ {name}: {} s at most", options.seconds);
    let begin = Instant::now();
    let status = fuzz
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(output)
        .status()
        .map_err(|error| format!("cannot run `{}`: {error}", program.display()))?;
    let said = std::fs::read(&log).map_err(|error| format!("cannot read `{}`: {error}", log.display()))?;
    let said = String::from_utf8_lossy(&said);
    if !status.success() {
        let last: Vec<&str> = said.lines().rev().take(30).collect();
        println!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    Ok(Row {
        name: name.to_owned(),
        executions: executions(&said),
        seconds: begin.elapsed().as_secs(),
        inputs: std::fs::read_dir(&corpus).map_or(0, Iterator::count),
        failed: !status.success(),
    })
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
    let entries = std::fs::read_dir(fixed)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>());
    for (number, path) in seeds.into_iter().chain(entries.unwrap_or_default()).enumerate() {
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
    std::fs::read_dir(root().join(folder))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
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
