//! To whom new cases are sealed: a setting of the lab.

use biopsy_seal::Recipient;
use sqlx::{Any, Transaction};

use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::place::Lab;

/// Readers at most: each is a line of what the customer is shown.
const MOST_READERS: usize = 20;

/// Says to which keys new cases are sealed from now on; to none: to a key pair of each case that the lab has. Cases that are there stay as they are.
///
/// # Errors
/// There are too many, or the database refuses.
pub async fn set(lab: &Lab, readers: &[Recipient], who: &str) -> Result<(), LabError> {
    if readers.len() > MOST_READERS {
        return Err(LabError::Usage(format!("a case has {MOST_READERS} readers at most")));
    }
    let text = joined(readers);
    let mut within = lab.store.begin().await?;
    sqlx::query("DELETE FROM lab WHERE name = 'sealed_to'").execute(&mut *within).await?;
    if !readers.is_empty() {
        sqlx::query("INSERT INTO lab (name, value) VALUES ('sealed_to', $1)")
            .bind(&text)
            .execute(&mut *within)
            .await?;
    }
    let detail = if readers.is_empty() { "keys that the lab has".to_owned() } else { text.replace(',', " ") };
    audit::write(&mut within, Entry { who, what: "seals new cases to", of: "lab", detail: &detail }).await?;
    Ok(within.commit().await?)
}

/// To which keys new cases are sealed; none: the lab has them.
///
/// # Errors
/// The database refuses.
pub async fn readers_of_new(lab: &Lab) -> Result<Vec<Recipient>, LabError> {
    let mut within = lab.store.begin().await?;
    setting(&mut within).await
}

pub(crate) async fn setting(within: &mut Transaction<'static, Any>) -> Result<Vec<Recipient>, LabError> {
    let value: Option<(String,)> = sqlx::query_as("SELECT value FROM lab WHERE name = 'sealed_to'")
        .fetch_optional(&mut **within)
        .await?;
    split(&value.map(|(value,)| value).unwrap_or_default())
}

pub(crate) fn joined(readers: &[Recipient]) -> String {
    readers.iter().map(Recipient::to_string).collect::<Vec<_>>().join(",")
}

pub(crate) fn split(text: &str) -> Result<Vec<Recipient>, LabError> {
    let damaged = |_| LabError::Damaged { what: "the keys that cases are sealed to" };
    text.split(',').filter(|key| !key.is_empty()).map(|key| key.parse().map_err(damaged)).collect()
}
