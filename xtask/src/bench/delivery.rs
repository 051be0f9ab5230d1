//! Workload V: sealed files on their way to a lab on this machine, and what the lab needs for it.

mod cutting;
mod flying;
mod lab;
mod opening;
mod sealing;
mod throughput;

use std::path::{Path, PathBuf};

use super::options::Options;
use super::table::{Column, Table};
use crate::run::{Outcome, target_folder};

/// Measures all parts, or those that `--recorders` names.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let wants = |part: &str| options.wants_named(part);
    let mut column = Column::new("biopsy and biopsy-lab");
    if wants("sealing") {
        sealing::measure(biopsy, options, table, &mut column)?;
    }
    if wants("opening") {
        opening::measure(biopsy, options, table, &mut column)?;
    }
    let parts = ["throughput", "cutting", "notices", "slow"];
    if parts.into_iter().any(wants) {
        let lab = options.lab.clone().map_or_else(lab_program, Ok)?;
        if wants("throughput") {
            throughput::measure(biopsy, &lab, options, table, &mut column)?;
        }
        if wants("cutting") {
            cutting::measure(biopsy, &lab, options, table, &mut column)?;
        }
        if wants("notices") {
            flying::notices(&lab, options, table, &mut column)?;
        }
        if wants("slow") {
            flying::slow(biopsy, &lab, options, table, &mut column)?;
        }
    }
    table.add_column("V", column);
    Ok(())
}

/// The lab's release program.
pub(super) fn lab_program() -> Outcome<PathBuf> {
    let program = target_folder()?.join("release/biopsy-lab");
    match program.is_file() {
        true => Ok(program),
        false => {
            Err(format!("`{}` is missing; run `cargo build --release -p biopsy-lab`", program.display()))
        }
    }
}
