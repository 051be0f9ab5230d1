//! Questions over all cases, and copies of all of it. The log says who asked, and which tables are read, before there is an answer; never what was asked for: a
//! question may have the signature of a case in it that is deleted later, and the log is kept.

use std::path::Path;

use biopsy_cases::{Answer, Cases, Table, export};

use crate::audit::{self, Entry};
use crate::derived::segments::{files, storage};
use crate::derived::{EXPORTED, QUERIED};
use crate::error::LabError;
use crate::place::Lab;

/// Asks in SQL.
///
/// # Errors
/// The question is no `SELECT` or not understood, a file cannot be read, or the key of one is gone.
pub async fn ask(lab: &Lab, sql: &str, who: &str) -> Result<Answer, LabError> {
    let cases = Cases::of(&storage(lab), &files(lab, None).await?)?;
    let question = cases.question(sql)?;
    let read: Vec<&str> = question.tables.iter().map(|table| table.name()).collect();
    if !read.is_empty() {
        let entry = Entry { who, what: QUERIED, of: "", detail: &read.join(", ") };
        audit::note(&lab.store, entry).await?;
    }
    Ok(cases.answer(question).await?)
}

/// Writes all tables into a new folder, in clear; gives the number of rows of each.
///
/// # Errors
/// The folder is there, a file cannot be read or written, or the key of one is gone.
pub async fn copy(lab: &Lab, folder: &Path, who: &str) -> Result<Vec<(Table, u64)>, LabError> {
    let files = files(lab, None).await?;
    audit::note(&lab.store, Entry { who, what: EXPORTED, of: "", detail: "all tables, in clear" }).await?;
    Ok(export::to(folder, &storage(lab), &files).await?)
}
