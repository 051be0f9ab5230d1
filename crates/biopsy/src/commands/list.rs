//! `biopsy list`: what `biopsy watch` has recorded, the newest first.

use biopsy_cli::ListArgs;
use std::path::{Path, PathBuf};

use anstyle::Style;
use biopsy_capture::Failure;
use biopsy_capture::words::size;
use biopsy_model::printable::printable;
use biopsy_standby::journal::JournalFolder;
use biopsy_standby::{results, settings};
use serde::Serialize;

use biopsy_cli::standing::check;
use biopsy_foreground::{Code, out};
use biopsy_terminal::table::{Align, Cell, Column};
use biopsy_terminal::terminal::Terminal;

/// A result, as programs read it.
#[derive(Serialize)]
struct Listed {
    /// When its recording began, in local time.
    begun: String,
    rule: String,
    name: String,
    pid: u32,
    bytes: u64,
    /// Titles of its findings, the first is the most important; none: it has no report.
    findings: Vec<String>,
    /// A file `NAME.keep` lies beside it: it is never removed.
    is_kept: bool,
    /// It is a recording that was not finished; `biopsy analyze` reads it.
    is_partial: bool,
    path: PathBuf,
}

#[derive(Serialize)]
struct Document {
    folder: PathBuf,
    results: Vec<Listed>,
}

const COLUMNS: &[Column] = &[
    Column { title: "BEGUN", align: Align::Left, expendable: 0 },
    Column { title: "RULE", align: Align::Left, expendable: 1 },
    Column { title: "PROCESS", align: Align::Left, expendable: 0 },
    Column { title: "SIZE", align: Align::Right, expendable: 3 },
    Column { title: "FILE", align: Align::Left, expendable: 0 },
    Column { title: "FIRST FINDING", align: Align::Left, expendable: 2 },
];

/// Runs `biopsy list`.
pub(crate) fn run(args: &ListArgs, terminal: Terminal) -> Result<Code, Failure> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => results::folder(&settings::load(None, &check)?.settings, &JournalFolder::usual()?),
    };
    let mut found = results::all(&folder);
    found.retain(|result| args.rule.as_ref().is_none_or(|rule| *rule == result.kept.rule));
    found.sort_by(|a, b| b.stem.begun.cmp(&a.stem.begun).then_with(|| a.path.cmp(&b.path)));
    let results: Vec<Listed> = found.into_iter().map(listed).collect();
    if args.json {
        return out::line(&Document { folder, results });
    }
    if results.is_empty() {
        let text = printable(&format!("nothing was recorded in {}", folder.display()));
        return out::text(&format!("{text}\n"), false);
    }
    let rows: Vec<Vec<Cell>> = results.iter().map(|result| row(result, &folder)).collect();
    out::table(terminal, COLUMNS, &rows)?;
    let bytes: u64 = results.iter().map(|result| result.bytes).fold(0, u64::saturating_add);
    let count = results.len();
    let folder = printable(&folder.display().to_string());
    out::text(&format!("\n{count} in {folder}, {}\n", size(bytes)), false)
}

fn listed(result: results::Result) -> Listed {
    Listed {
        findings: result.findings(),
        is_partial: result.is_partial(),
        begun: result.stem.begun.to_string(),
        rule: result.kept.rule,
        name: result.stem.title,
        pid: result.stem.pid.0,
        bytes: result.kept.bytes,
        is_kept: result.kept.is_marked,
        path: result.path,
    }
}

fn row(result: &Listed, folder: &Path) -> Vec<Cell> {
    let finding = match (result.findings.first(), result.is_partial) {
        (Some(finding), _) => finding.clone(),
        (None, true) => "not finished; `biopsy analyze` reads it".to_owned(),
        (None, false) => String::new(),
    };
    let file = result.path.strip_prefix(folder).unwrap_or(&result.path);
    vec![
        Cell::new(result.begun.replace('T', " ")),
        Cell::new(&*result.rule),
        Cell::styled(format!("{} ({})", result.name, result.pid), Style::new().bold()),
        Cell::new(format!("{}{}", size(result.bytes), if result.is_kept { ", kept" } else { "" })),
        Cell::new(file.display().to_string()),
        Cell::new(finding),
    ]
}
