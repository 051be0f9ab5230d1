//! `biopsy-lab query`: SQL over all cases, as a table or as JSON, or all of it as files for other engines.

use std::path::PathBuf;

use biopsy_lab::derived::ask;
use biopsy_lab::{Lab, LabError};
use biopsy_terminal::{Align, ColorChoice, Terminal, out, write_fitted};
use clap::Args;
use serde_json::json;

/// Most rows of a table for people.
const MOST_SHOWN: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// The question, such as `SELECT text, count(*) FROM signatures GROUP BY text ORDER BY 2 DESC LIMIT 10`.
    #[arg(value_name = "SQL", required_unless_present = "export")]
    sql: Option<String>,
    /// Print JSON, with all rows.
    #[arg(long, conflicts_with = "export")]
    json: bool,
    /// Write all tables as plain Parquet into this new folder, for DuckDB, Spark and their like. Such copies are not encrypted, and no deletion
    /// reaches them.
    #[arg(long, value_name = "FOLDER", conflicts_with = "sql")]
    export: Option<PathBuf>,
}

pub(crate) async fn run(lab: &Lab, args: &QueryArgs, who: &str) -> Result<(), LabError> {
    if let Some(folder) = &args.export {
        return export(lab, folder, who).await;
    }
    let sql = args.sql.as_deref().unwrap_or_default();
    if args.json { as_json(lab, sql, who).await } else { as_table(lab, sql, who).await }
}

async fn as_table(lab: &Lab, sql: &str, who: &str) -> Result<(), LabError> {
    let mut answer = ask::ask(lab, sql, who).await?;
    let titles: Vec<(String, Align)> = answer
        .columns()
        .map(|(name, is_number)| (name.to_owned(), if is_number { Align::Right } else { Align::Left }))
        .collect();
    let mut rows = Vec::new();
    let mut is_cut = false;
    while let Some(batch) = answer.next().await? {
        rows.extend(batch.texts()?);
        if rows.len() > MOST_SHOWN {
            rows.truncate(MOST_SHOWN);
            is_cut = true;
            break;
        }
    }
    let terminal = Terminal::of_stdout(ColorChoice::Auto);
    let mut text = Vec::new();
    write_fitted(&mut text, terminal, &titles, &rows).map_err(LabError::io("write", "a table"))?;
    print(&String::from_utf8_lossy(&text), terminal.colour)?;
    if is_cut {
        out::say(format!("these are the first {MOST_SHOWN} rows; `--json` gives all"));
    }
    Ok(())
}

/// A row a line, written as they come: what is asked for need not fit memory.
async fn as_json(lab: &Lab, sql: &str, who: &str) -> Result<(), LabError> {
    let mut answer = ask::ask(lab, sql, who).await?;
    let columns: Vec<&str> = answer.columns().map(|(name, _)| name).collect();
    let head = json!({ "schema": "biopsy-cases-answer", "version": 1, "columns": columns });
    let head = head.to_string();
    let mut before = format!("{},\"rows\":[\n", head.trim_end_matches('}'));
    while let Some(batch) = answer.next().await? {
        let lines = batch.json_lines()?;
        let rows = lines.trim_end().replace('\n', ",\n");
        if !rows.is_empty() {
            give(std::mem::replace(&mut before, ",\n".to_owned()) + &rows)?;
        }
    }
    let before = if before == ",\n" { "\n" } else { before.as_str() };
    give(format!("{before}]}}\n"))
}

fn give(text: String) -> Result<(), LabError> {
    out::json(text).map_err(LabError::io("write", "standard output"))
}

async fn export(lab: &Lab, folder: &std::path::Path, who: &str) -> Result<(), LabError> {
    let mut text = String::new();
    for (table, rows) in ask::copy(lab, folder, who).await? {
        text.push_str(&format!(
            "{}: {rows} rows\n",
            folder.join(format!("{}.parquet", table.name())).display()
        ));
    }
    print(&text, false)?;
    out::say(
        "note: these files are in clear, and the lab does not know where they go: a case that is deleted stays in them. Certificates of \
         deletion say that they were made",
    );
    Ok(())
}

/// Nobody has to read all of it.
fn print(text: &str, colour: bool) -> Result<(), LabError> {
    match out::text(text, colour) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(LabError::io("write", "standard output")(error))
        }
        _ => Ok(()),
    }
}
