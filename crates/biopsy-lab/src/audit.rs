//! The log of who did what: each line holds the digest of all before it, so that none can be changed or taken away unseen by whoever knows
//! a later one. A customer knows one: it is in his receipt.

use biopsy_deliver::state::hexadecimal;
use sha2::{Digest, Sha256};
use sqlx::{Any, Transaction};

use crate::error::LabError;
use crate::place::now;
use crate::store::Store;

/// A line to be written.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Who.
    pub who: &'a str,
    /// What was done, as a word.
    pub what: &'a str,
    /// To which case or request.
    pub of: &'a str,
    /// Anything else; never content.
    pub detail: &'a str,
}

/// Writes a line, with what it is about; gives its digest.
///
/// # Errors
/// The database refuses.
pub async fn write(within: &mut Transaction<'static, Any>, entry: Entry<'_>) -> Result<String, LabError> {
    let last: Option<(i64, String)> =
        sqlx::query_as("SELECT number, hash FROM log ORDER BY number DESC LIMIT 1")
            .fetch_optional(&mut **within)
            .await?;
    let (number, before) = last.map_or((1, String::new()), |(number, hash)| (number + 1, hash));
    let time = now();
    let hash = chained(&before, number, time, entry);
    sqlx::query(
        "INSERT INTO log (number, time, who, what, of, detail, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(number)
    .bind(time)
    .bind(entry.who)
    .bind(entry.what)
    .bind(entry.of)
    .bind(entry.detail)
    .bind(&hash)
    .execute(&mut **within)
    .await?;
    Ok(hash)
}

/// Writes a line by itself.
///
/// # Errors
/// The database refuses.
pub async fn note(store: &Store, entry: Entry<'_>) -> Result<String, LabError> {
    let mut within = store.begin().await?;
    let hash = write(&mut within, entry).await?;
    within.commit().await?;
    Ok(hash)
}

/// The digest of a line: every field with its length, so that no two lines can be read as one another.
fn chained(before: &str, number: i64, time: i64, entry: Entry<'_>) -> String {
    let mut sha256 = Sha256::new();
    let (number, time) = (number.to_string(), time.to_string());
    for field in [before, &number, &time, entry.who, entry.what, entry.of, entry.detail] {
        sha256.update(format!("{}:{field},", field.len()));
    }
    hexadecimal(&sha256.finalize())
}

/// A line that was written.
#[derive(Clone, PartialEq, Eq, Debug, sqlx::FromRow)]
pub struct Line {
    /// Which, from 1.
    pub number: i64,
    /// When, in seconds since 1970.
    pub time: i64,
    /// Who.
    pub who: String,
    /// What was done.
    pub what: String,
    /// To what.
    pub of: String,
    /// Anything else.
    pub detail: String,
}

/// The newest lines, the newest first.
///
/// # Errors
/// The database refuses.
pub async fn newest(store: &Store, most: u32) -> Result<Vec<Line>, LabError> {
    let lines =
        sqlx::query_as("SELECT number, time, who, what, of, detail FROM log ORDER BY number DESC LIMIT $1");
    Ok(lines.bind(i64::from(most)).fetch_all(store.pool()).await?)
}

/// What was done to one case, the oldest first.
///
/// # Errors
/// The database refuses.
pub async fn of_case(store: &Store, case: &str) -> Result<Vec<Line>, LabError> {
    let lines =
        sqlx::query_as("SELECT number, time, who, what, of, detail FROM log WHERE of = $1 ORDER BY number");
    Ok(lines.bind(case).fetch_all(store.pool()).await?)
}

/// Goes through all of it: how many lines there are, or the number of the first that does not fit those before it.
///
/// # Errors
/// The database refuses.
pub async fn check(store: &Store) -> Result<Result<i64, i64>, LabError> {
    type Line = (i64, i64, String, String, String, String, String);
    let lines: Vec<Line> =
        sqlx::query_as("SELECT number, time, who, what, of, detail, hash FROM log ORDER BY number")
            .fetch_all(store.pool())
            .await?;
    let (mut before, mut count) = (String::new(), 0);
    for (number, time, who, what, of, detail, hash) in lines {
        let entry = Entry { who: &who, what: &what, of: &of, detail: &detail };
        count += 1;
        if number != count || chained(&before, number, time, entry) != hash {
            return Ok(Err(count));
        }
        before = hash;
    }
    Ok(Ok(count))
}
