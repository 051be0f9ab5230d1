//! Results: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::bars::BARS;
use super::facts::Facts;

/// What was measured of one recorder on one workload.
#[derive(Debug)]
pub(crate) struct Column {
    head: &'static str,
    values: Vec<(&'static str, f64)>,
}

impl Column {
    /// An empty one.
    pub(crate) fn new(head: &'static str) -> Self {
        Self { head, values: Vec::new() }
    }

    /// Adds a value; nothing where there is none.
    pub(crate) fn set(&mut self, name: &'static str, value: Option<f64>) {
        self.values.extend(value.map(|value| (name, value)));
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(one, _)| *one == name).map(|(_, value)| *value)
    }
}

/// Everything measured in one run.
#[derive(Debug)]
pub(crate) struct Table {
    facts: Facts,
    workloads: BTreeMap<&'static str, Vec<Column>>,
    judged: Vec<(&'static str, f64)>,
}

impl Table {
    /// An empty one of this machine.
    pub(crate) fn new(facts: Facts) -> Self {
        Self { facts, workloads: BTreeMap::new(), judged: Vec::new() }
    }

    /// The machine.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Adds what was measured of one recorder.
    pub(crate) fn add_column(&mut self, workload: &'static str, column: Column) {
        self.workloads.entry(workload).or_default().push(column);
    }

    /// One value that was added.
    pub(crate) fn value(&self, workload: &str, head: &str, name: &str) -> Option<f64> {
        self.workloads.get(workload)?.iter().find(|column| column.head == head)?.get(name)
    }

    /// Compares a value with the bar of a row; nothing where it could not be measured.
    pub(crate) fn judge(&mut self, row: &'static str, value: Option<f64>) {
        self.judged.extend(value.map(|value| (row, value)));
    }

    /// Both tables, as Markdown.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for (workload, columns) in &self.workloads {
            let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
            let _ = writeln!(
                text,
                "\n| {workload} | {} |\n| --- |{}",
                heads.join(" | "),
                " --- |".repeat(heads.len())
            );
            for name in names(columns) {
                let cells: Vec<String> =
                    columns.iter().map(|column| column.get(name).map_or_else(String::new, number)).collect();
                let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
            }
        }
        let _ = writeln!(text, "\n| row | what | bar | measured | |\n| --- | --- | --- | --- | --- |");
        for bar in BARS {
            let sign = if bar.least { "≥" } else { "≤" };
            let measured = self.judged.iter().find(|(row, _)| *row == bar.row).map(|(_, value)| *value);
            let (value, verdict) = match measured {
                None => (String::new(), "not measured"),
                Some(value) if (value >= bar.value) == bar.least || value == bar.value => {
                    (number(value), "met")
                }
                Some(value) => (number(value), "MISSED"),
            };
            let _ =
                writeln!(text, "| {} | {} | {sign} {} | {value} | {verdict} |", bar.row, bar.what, bar.value);
        }
        text
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> String {
        let workloads: serde_json::Map<String, serde_json::Value> = self
            .workloads
            .iter()
            .map(|(workload, columns)| {
                let columns: serde_json::Map<String, serde_json::Value> = columns
                    .iter()
                    .map(|column| {
                        let values: BTreeMap<&str, f64> = column.values.iter().copied().collect();
                        (column.head.to_owned(), serde_json::json!(values))
                    })
                    .collect();
                ((*workload).to_owned(), serde_json::Value::Object(columns))
            })
            .collect();
        let judged: BTreeMap<&str, f64> = self.judged.iter().copied().collect();
        let all = serde_json::json!({ "machine": self.facts, "workloads": workloads, "rows": judged });
        format!("{all:#}\n")
    }
}

/// Names of the rows in the order in which they were added first.
fn names(columns: &[Column]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, _) in columns.iter().flat_map(|column| &column.values) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
