//! Who is logged in: a word in a cookie, whose digest alone is kept.

use biopsy_deliver::{decode, encode, random};
use sha2::{Digest, Sha256};
use sqlx::{Any, Transaction};

use super::role::Roles;
use crate::error::LabError;
use crate::place::{Lab, now};

/// Seconds after which one has to log in again, whatever one does.
const LONGEST: i64 = 12 * 3600;
/// Seconds after which one has to, where nothing was done.
const IDLE: i64 = 2 * 3600;
/// How often it is written down that something was done.
const TOUCH: i64 = 60;

/// Begins one; gives its word.
pub(super) async fn begin(within: &mut Transaction<'static, Any>, person: &str) -> Result<String, LabError> {
    let word: [u8; 32] = random();
    sqlx::query("DELETE FROM sessions WHERE begun < $1").bind(now() - LONGEST).execute(&mut **within).await?;
    sqlx::query("INSERT INTO sessions (digest, person, begun, touched) VALUES ($1, $2, $3, $4)")
        .bind(Sha256::digest(word).as_slice())
        .bind(person)
        .bind(now())
        .bind(now())
        .execute(&mut **within)
        .await?;
    Ok(encode(word))
}

/// Whose it is, and what he may do now.
///
/// # Errors
/// The database refuses.
pub async fn of(lab: &Lab, word: &str) -> Result<Option<(String, Roles)>, LabError> {
    let Some(word) = decode::<32>(word) else { return Ok(None) };
    let digest = Sha256::digest(word).to_vec();
    let row: Option<(String, String, i64)> = sqlx::query_as(
        "SELECT p.name, p.roles, s.touched FROM sessions s JOIN people p ON p.name = s.person
         WHERE s.digest = $1 AND s.begun > $2 AND s.touched > $3",
    )
    .bind(&digest)
    .bind(now() - LONGEST)
    .bind(now() - IDLE)
    .fetch_optional(lab.store.pool())
    .await?;
    let Some((name, roles, touched)) = row else { return Ok(None) };
    if touched < now() - TOUCH {
        sqlx::query("UPDATE sessions SET touched = $1 WHERE digest = $2")
            .bind(now())
            .bind(&digest)
            .execute(lab.store.pool())
            .await?;
    }
    Ok(Some((name, Roles::kept(&roles))))
}

/// Ends one.
///
/// # Errors
/// The database refuses.
pub async fn end(lab: &Lab, word: &str) -> Result<(), LabError> {
    let Some(word) = decode::<32>(word) else { return Ok(()) };
    sqlx::query("DELETE FROM sessions WHERE digest = $1")
        .bind(Sha256::digest(word).to_vec())
        .execute(lab.store.pool())
        .await?;
    Ok(())
}
