//! Runs fuzz targets with the stable compiler: libFuzzer is linked in, and coverage comes from LLVM's own pass.

use std::path::{Path, PathBuf};

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
    /// Seconds for each
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Builds all targets once, and runs each for its time; inputs that were interesting stay in fuzz/corpus, crashes in
/// fuzz/artifacts.
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
    let targets = if options.targets.is_empty() { all_targets()? } else { options.targets.clone() };
    for name in &targets {
        let corpus = folder.join("corpus").join(name);
        let artifacts = folder.join("artifacts").join(name);
        for folder in [&corpus, &artifacts] {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
        }
        let mut fuzz = std::process::Command::new(build.join(&target).join("release").join(name));
        fuzz.arg(&corpus);
        seed(name, &corpus)?;
        fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
        fuzz.arg(format!("-max_total_time={}", options.seconds));
        // What the limits of the readers promise: no input of this size needs more.
        fuzz.args(["-rss_limit_mb=2048", "-timeout=10", "-max_len=262144", "-print_final_stats=1"]);
        succeed(fuzz.current_dir(&folder))?;
    }
    println!("{} targets ran {} s each without a crash", targets.len(), options.seconds);
    Ok(())
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
