//! Workload V7: questions over a million made-up cases: the whole command, from its start to its end.

use std::path::Path;
use std::process::Command;

use biopsy_testkit::temp_dir;

use super::delivery::lab_program;
use super::heap::timed;
use super::options::Options;
use super::statistics::median;
use super::table::{Column, Table};
use crate::run::{Outcome, cargo, output_of};

/// Made-up cases of a whole run.
const CASES: usize = 1_000_000;
/// Of a quick one.
const FEW: usize = 20_000;

/// What is asked, and the name of its row.
const QUESTIONS: &[(&str, &str)] = &[
    (
        "one crash of 10,007, s",
        "SELECT count(DISTINCT case_id), min(analysed_at) FROM signatures WHERE kind = 'crash'
         AND text = 'raise | abort | shop::ledger::settle_4711 | shop::orders::Service::place | shop::http::answer'",
    ),
    (
        "the crash of a tenth of all, s",
        "SELECT count(DISTINCT case_id), min(analysed_at) FROM signatures WHERE kind = 'crash'
         AND text = 'raise | abort | shop::ledger::settle_0 | shop::orders::Service::place | shop::http::answer'",
    ),
    (
        "the ten most frequent causes, s",
        "SELECT text, count(DISTINCT case_id) AS cases FROM signatures WHERE kind = 'cause' GROUP BY text ORDER BY cases DESC LIMIT 10",
    ),
    (
        "where one function is the hottest, s",
        "SELECT count(*), avg(cpu_self_ns) FROM functions WHERE name = 'shop::module_55::function_1993' AND rank = 1",
    ),
];

/// Measures all rows.
pub(crate) fn measure(options: &Options, table: &mut Table) -> Outcome {
    let lab = options.lab.clone().map_or_else(lab_program, Ok)?;
    let folder = temp_dir("bench-cases");
    let count = if options.quick { FEW } else { CASES };
    let mut fill =
        cargo(&["run", "--release", "--quiet", "-p", "biopsy-lab", "--example", "all_cases", "--"]);
    println!("{}", output_of(fill.arg(folder.path().join("lab")).arg(count.to_string()))?.trim_end());
    let mut column = Column::new("biopsy-lab query");
    let (mut worst, mut most) = (0f64, 0f64);
    for (at, (name, sql)) in QUESTIONS.iter().enumerate() {
        let (mut seconds, mut memory) = (Vec::new(), 0f64);
        for _ in 0..options.rounds() {
            let run = timed(&mut asking(&lab, folder.path(), sql), &folder.path().join("said"))?;
            seconds.push(run.seconds);
            memory = memory.max(run.memory_mb);
        }
        let middle = median(&seconds);
        println!("{name}: {middle:?}, most memory {memory:.0} MB");
        column.set(name, middle);
        // The bar is of searches for a signature.
        if at < 2 {
            worst = worst.max(middle.unwrap_or(f64::INFINITY));
        }
        most = most.max(memory);
    }
    column.set("most memory, MB", Some(most));
    let mut delete = Command::new(&lab);
    delete.args(["case", "delete", "case-0000042", "--output"]).arg(folder.path().join("certificate"));
    delete.arg("--data").arg(folder.path().join("lab"));
    let run = timed(&mut delete, &folder.path().join("said"))?;
    column.set("one case is deleted, s", Some(run.seconds));
    table.judge("V7a", (!options.quick).then_some(worst));
    table.judge("V7b", (!options.quick).then_some(most));
    table.add_column("V7", column);
    Ok(())
}

fn asking(lab: &Path, folder: &Path, sql: &str) -> Command {
    let mut command = Command::new(lab);
    command.args(["query", "--json", sql, "--data"]).arg(folder.join("lab"));
    command
}
