//! How far each fuzz target has come, over several runs of this command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::run::{Outcome, output_of};

/// What a target has to reach, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) cpu_seconds: u64,
    pub(crate) executions: Option<u64>,
}

/// What came of one target, in all runs of the same code.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Stands for the machine code that was run ([`code_of`]).
    pub(crate) code: String,
    pub(crate) executions: u64,
    /// Of the processor, not of the clock: a machine may be shared.
    pub(crate) cpu_seconds: f64,
    /// Inputs in the corpus.
    pub(crate) inputs: usize,
    pub(crate) failed: bool,
}

/// The rows by the names of their targets.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<String, Row>,
}

impl Row {
    /// Nothing has been run of this code.
    pub(crate) fn of(code: String) -> Self {
        Self { code, ..Self::default() }
    }

    pub(crate) fn has_reached(&self, bar: Bar) -> bool {
        let enough = bar.executions.is_some_and(|executions| self.executions >= executions);
        !self.failed && (enough || self.seconds_left(bar) <= 0.0)
    }

    pub(crate) fn seconds_left(&self, bar: Bar) -> f64 {
        Self::seconds(bar) - self.cpu_seconds
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds that somebody typed")]
    fn seconds(bar: Bar) -> f64 {
        bar.cpu_seconds as f64
    }
}

impl Table {
    /// What was kept; nothing where there is no file.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        match std::fs::read(path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| format!("`{}`: {error}", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
        }
    }

    /// Keeps it: whole, or as it was before.
    pub(crate) fn write(&self, path: &Path) -> Outcome {
        let text = serde_json::to_string_pretty(self).expect("rows are strings and numbers");
        let beside = path.with_extension("new");
        std::fs::write(&beside, text + "\n")
            .and_then(|()| std::fs::rename(&beside, path))
            .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    }

    /// The row of a target, begun again where it was of other code.
    pub(crate) fn row(&self, name: &str, code: String) -> Row {
        match self.rows.get(name) {
            Some(row) if row.code == code => row.clone(),
            _ => Row::of(code),
        }
    }

    /// The rows of these targets, as Markdown.
    pub(crate) fn show(&self, names: &[String], bar: Bar) -> String {
        let mut text = "| target | executions | CPU seconds | inputs kept | findings | bar |\n\
                        | --- | ---: | ---: | ---: | --- | --- |\n"
            .to_owned();
        for name in names {
            let row = self.rows.get(name).cloned().unwrap_or_default();
            let found = if row.failed { "see fuzz/artifacts" } else { "none" };
            let reached = if row.has_reached(bar) { "reached" } else { "not reached" };
            let Row { executions, cpu_seconds, inputs, .. } = row;
            let _ = writeln!(
                text,
                "| `{name}` | {executions} | {cpu_seconds:.0} | {inputs} | {found} | {reached} |"
            );
        }
        text
    }
}

/// A number that stands for the instructions of a program: those of another one are other code, whatever file they come from.
/// Comments, lines and what a target does not reach leave it as it is.
pub(crate) fn code_of(program: &Path) -> Outcome<String> {
    let text = program.with_extension("text");
    output_of(
        Command::new("objcopy").args(["-O", "binary", "--only-section=.text"]).arg(program).arg(&text),
    )?;
    let bytes = std::fs::read(&text).map_err(|error| format!("cannot read `{}`: {error}", text.display()))?;
    let _ = std::fs::remove_file(&text);
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::{Bar, Row, Table};

    const BAR: Bar = Bar { cpu_seconds: 900, executions: Some(10_000_000) };

    fn row(executions: u64, cpu_seconds: f64, failed: bool) -> Row {
        Row { code: "1".to_owned(), executions, cpu_seconds, inputs: 1, failed }
    }

    #[test]
    fn either_half_of_the_bar_is_enough() {
        for (row, reached) in [
            (row(10_000_000, 3.0, false), true),
            (row(9_999_999, 899.9, false), false),
            (row(5, 900.0, false), true),
            (row(10_000_000, 900.0, true), false),
        ] {
            assert_eq!(row.has_reached(BAR), reached, "{row:?}");
        }
        let no_count = Bar { executions: None, ..BAR };
        assert!(!row(u64::MAX, 3.0, false).has_reached(no_count));
    }

    #[test]
    fn what_was_run_of_other_code_does_not_count() {
        let mut table = Table::default();
        table.rows.insert("elf".to_owned(), row(7, 3.0, false));
        assert_eq!(table.row("elf", "1".to_owned()).executions, 7);
        assert_eq!(table.row("elf", "2".to_owned()), Row::of("2".to_owned()));
        assert_eq!(table.row("core", "1".to_owned()), Row::of("1".to_owned()));
    }

    #[test]
    fn a_table_is_kept_from_run_to_run() {
        let folder = biopsy_testkit::temp_dir("table");
        let path = folder.path().join("table.json");
        assert_eq!(Table::read(&path), Ok(Table::default()));
        let mut table = Table::default();
        table.rows.insert("elf".to_owned(), row(7, 3.5, false));
        table.write(&path).expect("it is written");
        assert_eq!(Table::read(&path), Ok(table.clone()));
        let shown = table.show(&["core".to_owned(), "elf".to_owned()], BAR);
        assert!(shown.contains("| `elf` | 7 | 4 | 1 | none | not reached |"), "{shown}");
        assert!(shown.contains("| `core` | 0 |"), "{shown}");
    }
}
