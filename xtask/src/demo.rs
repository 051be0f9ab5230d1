//! `./x demo`: a real server under load, captured by the release program.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use biopsy_testkit::MariaDb;

use crate::run::{Outcome, release_program, root};

/// What of the demo can be changed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long to record
    #[arg(long = "for", value_name = "TIME", default_value = "15s")]
    duration: String,
    /// Where to put the recording
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Starts the server and its load, captures, and ends what it started.
pub(crate) fn run(options: &Options) -> Outcome {
    let biopsy = release_program()?;
    let output = match &options.output {
        Some(path) => path.clone(),
        None => fresh_output()?,
    };
    // Ctrl-C belongs to the recorder, which stops and keeps what there is; we then end the server as usual.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)))
        .map_err(|error| format!("cannot handle Ctrl-C: {error}"))?;

    println!("starting a private MariaDB ...");
    let server = MariaDb::start()?;
    server.prepare_load()?;
    let load = server.load(3600)?;
    println!("MariaDB is process {}, and sysbench loads it with 8 connections", server.pid());

    let mut capture = as_root_where_possible(&biopsy);
    capture.arg("capture").arg(server.pid().to_string());
    capture.args(["--for", &options.duration]).arg("--output").arg(&output);
    println!("$ biopsy capture {} --for {} --output {}\n", server.pid(), options.duration, output.display());
    let status = capture.status().map_err(|error| format!("cannot run `{}`: {error}", biopsy.display()))?;
    drop(load.stop());
    drop(server);
    // Code 3: there is a result, but less than asked for, such as without privileges or after Ctrl-C.
    if !matches!(status.code(), Some(0 | 3)) {
        return Err(format!("`biopsy capture` ended with {status}"));
    }
    let page = output.with_extension("html");
    let mut analyze = as_root_where_possible(&biopsy);
    analyze.arg("analyze").arg(&output).arg("--html").arg(&page).stdout(Stdio::null());
    let status = analyze.status().map_err(|error| format!("cannot run `{}`: {error}", biopsy.display()))?;
    if !status.success() {
        return Err(format!("`biopsy analyze` ended with {status}"));
    }
    println!("\nThe recording:  {}\nIts report:     {}", output.display(), page.display());
    println!("Open the report in any browser; it is one file and loads nothing.");
    Ok(())
}

/// Recording everything needs root; a user who cannot become root sees what is possible without.
fn as_root_where_possible(program: &PathBuf) -> Command {
    let is_root =
        std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t"));
    let sudo = Command::new("sudo").arg("--version").output().is_ok_and(|output| output.status.success());
    if is_root || !sudo {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}

/// A name in the current folder's `target` that does not exist yet: the program refuses to overwrite.
fn fresh_output() -> Outcome<PathBuf> {
    let folder = crate::run::target_folder()?.join("demo");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let free = (1..).map(|number| folder.join(format!("mariadb-{number}.zip"))).find(|path| !path.exists());
    let path = free.ok_or("no free name")?;
    // Relative where it can be, because it is printed to be typed again.
    Ok(path.strip_prefix(root()).map(PathBuf::from).unwrap_or(path))
}
