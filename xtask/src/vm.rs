//! `cargo xtask vm`: what biopsy does on other kernels and processors, in emulated machines (QEMU without KVM).
//!
//! Each machine has its own kernel of Debian, number of processors, processor model and kind of control groups; in each the same
//! things are done ([`CHECKS`]) and a line says how each went. Emulated code runs some ten times slower: this shows what happens,
//! not how fast.

mod cell;
mod kernel;
mod root;

use std::path::PathBuf;
use std::process::Command;

use biopsy_testkit::Program;

use crate::run::{Outcome, release_program, succeed, target_folder};
pub(crate) use kernel::debian_archive;

use cell::{Cell, Model, Result as CellResult};

/// What is done in a machine, in this order; see `vm/checks.sh`.
const CHECKS: [&str; 16] = [
    "doctor",
    "capture",
    "bpf",
    "per-cpu",
    "per-task",
    "user-only",
    "cost",
    "dump",
    "tree",
    "crash",
    "stacks",
    "kills",
    "memory-group",
    "net8.0",
    "net10.0",
    "kernel",
];

/// What the machines' programs are made of.
const PACKAGES: [(&str, &str); 3] =
    [("qemu-system-x86", "qemu-system-x86_64"), ("busybox-static", "busybox"), ("cpio", "cpio")];

/// Which machines.
#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Kernels of Debian
    #[arg(long, value_delimiter = ',', default_value = "5.10,6.1,6.12")]
    kernels: Vec<String>,
    /// Numbers of processors
    #[arg(long, value_delimiter = ',', default_value = "2")]
    cpus: Vec<u32>,
    /// Processor models: `new` (what QEMU can emulate), `old` (without XSAVE and AVX)
    #[arg(long, value_delimiter = ',', default_value = "new,old")]
    models: Vec<Model>,
    /// Versions of control groups
    #[arg(long, value_delimiter = ',', default_value = "2,1")]
    groups: Vec<u32>,
    /// The whole matrix: 2, 16 and 64 processors
    #[arg(long)]
    all: bool,
    /// Only these things, of: doctor, capture, bpf, per-cpu, per-task, user-only, cost, dump, tree, crash, stacks, kills,
    /// memory-group, net8.0, net10.0, kernel (warnings of the kernel)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Kills at random moments in each machine
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// Seconds after which a machine is given up
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// A biopsy; without it, the release program of this repository
    #[arg(long)]
    biopsy: Option<PathBuf>,
    /// Run this shell command in the machines instead, and show what it prints
    #[arg(long)]
    command: Option<String>,
}

impl Options {
    fn cells(&self) -> Vec<Cell> {
        let cpus: &[u32] = if self.all { &[2, 16, 64] } else { &self.cpus };
        let mut cells = Vec::new();
        for kernel in &self.kernels {
            for &cpus in cpus {
                for &model in &self.models {
                    for &groups in &self.groups {
                        cells.push(Cell { kernel: kernel.clone(), cpus, model, groups });
                    }
                }
            }
        }
        cells
    }

    fn checks(&self) -> Vec<&'static str> {
        CHECKS
            .into_iter()
            .filter(|check| self.only.is_empty() || self.only.iter().any(|one| one == check))
            .collect()
    }
}

/// Runs the machines one after the other, prints a table, and fails where anything failed.
pub(crate) fn run(options: &Options) -> Outcome {
    if let Some(unknown) = options.only.iter().find(|only| !CHECKS.contains(&only.as_str())) {
        return Err(format!("there is no `{unknown}`; there are {}", CHECKS.join(", ")));
    }
    let folder = target_folder()?.join("vm");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    need_packages()?;
    let biopsy = match &options.biopsy {
        Some(path) => path.clone(),
        None => release_program()?,
    };
    let programs = [
        Program::Deadlock,
        Program::Registers,
        Program::BusyLoop,
        Program::SwitchStorm,
        Program::ForkChildren,
        Program::Crashes,
        Program::WriteHeavy,
    ];
    let programs: Vec<PathBuf> = programs.into_iter().map(Program::path).collect();
    let checks = options.checks();
    let commands = match &options.command {
        Some(command) => command.clone(),
        None => format!(
            "kills={}\nchecks='{}'\n{}",
            options.kills,
            checks.join(" "),
            include_str!("vm/checks.sh")
        ),
    };
    let runtimes: Vec<&str> = checks.iter().copied().filter(|check| check.starts_with("net")).collect();
    let image = root::make(&folder, &biopsy, &programs, &runtimes, &commands)?;
    let mut results = Vec::new();
    for cell in options.cells() {
        let kernel = kernel::image(&folder, &cell.kernel)?;
        println!("{} ...", cell.name());
        let result = cell::run(&cell, &kernel, &image, &folder, options.limit)?;
        for line in &result.lines {
            println!("  {line}");
        }
        results.push((cell, result));
    }
    if options.command.is_some() {
        return Ok(());
    }
    println!("{}", table(&results, &checks));
    match results.iter().map(|(_, result)| result.failures(&checks)).sum::<usize>() {
        0 => Ok(()),
        failures => {
            Err(format!("{failures} things failed; the machines' output is in `{}`", folder.display()))
        }
    }
}

fn need_packages() -> Outcome {
    let missing: Vec<&str> = PACKAGES
        .into_iter()
        .filter(|(_, program)| {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            !found.is_ok_and(|output| output.status.success())
        })
        .map(|(package, _)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args([
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
    ]);
    succeed(install.args(missing))
}

/// As Markdown: a row for each thing, a column for each machine.
fn table(results: &[(Cell, CellResult)], checks: &[&str]) -> String {
    let names: Vec<String> = results.iter().map(|(cell, _)| cell.name()).collect();
    let mut text = format!("\n| | {} |\n| --- |{}\n", names.join(" | "), " --- |".repeat(names.len()));
    for check in checks {
        let cells: Vec<&str> = results.iter().map(|(_, result)| result.of(check)).collect();
        text.push_str(&format!("| {check} | {} |\n", cells.join(" | ")));
    }
    text
}
