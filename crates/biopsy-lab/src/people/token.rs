//! Tokens: with them programs of the vendor use the lab. A token has roles like a person, an end, and no password; its digest alone is kept.

use biopsy_deliver::{decode, encode, random};
use sha2::{Digest, Sha256};

use super::invite::is_name;
use super::role::{Right, Roles};
use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::place::{Lab, now};

/// What a token begins with, so that scanners for secrets find one that was left somewhere.
const PREFIX: &str = "biopsylab_";
/// How often it is written down that one was used, in seconds.
const TOUCH: i64 = 60;
/// Longest life, in seconds.
const LONGEST: i64 = 366 * 24 * 3600;

/// A token, without what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is for; in the log as `token:NAME`.
    pub name: String,
    /// What it may do.
    pub roles: Roles,
    /// Until when it is good.
    pub expires: i64,
    /// When it was used last.
    pub used: Option<i64>,
}

/// Makes a token; gives what is to be sent with each call, which is shown once.
///
/// # Errors
/// It is no name, or one that is there; there is no role, or one that invites people.
pub async fn make(lab: &Lab, name: &str, roles: &Roles, seconds: i64, who: &str) -> Result<String, LabError> {
    let refuse = |why: &str| Err(LabError::Usage(why.to_owned()));
    if !is_name(name) {
        return refuse("a token has a name of letters, digits, `-`, `_`, `.`, `@` and `+`, at most 64");
    }
    if roles.0.is_empty() {
        return refuse("a token without a role may do nothing");
    }
    if roles.may(Right::Invite) {
        return refuse("people are invited by people: a token cannot be `administrator`");
    }
    if !(1..=LONGEST).contains(&seconds) {
        return refuse("a token is good for a year at most");
    }
    let word: [u8; 32] = random();
    let mut within = lab.store.begin().await?;
    sqlx::query("DELETE FROM tokens WHERE expires <= $1").bind(now()).execute(&mut *within).await?;
    let made = sqlx::query(
        "INSERT INTO tokens (digest, name, roles, created, expires) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING",
    )
    .bind(Sha256::digest(word).to_vec())
    .bind(name)
    .bind(roles.to_string())
    .bind(now())
    .bind(now() + seconds)
    .execute(&mut *within)
    .await?;
    if made.rows_affected() == 0 {
        return Err(LabError::Usage(format!("there is a token `{name}`; revoke it first")));
    }
    let detail = roles.to_string();
    audit::write(&mut within, Entry { who, what: "made a token", of: name, detail: &detail }).await?;
    within.commit().await?;
    Ok(format!("{PREFIX}{}", encode(word)))
}

/// Which token it is, and what it may do now.
///
/// # Errors
/// The database refuses.
pub async fn of(lab: &Lab, text: &str) -> Result<Option<(String, Roles)>, LabError> {
    let Some(word) = text.strip_prefix(PREFIX).and_then(decode::<32>) else { return Ok(None) };
    let digest = Sha256::digest(word).to_vec();
    let row: Option<(String, String, Option<i64>)> =
        sqlx::query_as("SELECT name, roles, used FROM tokens WHERE digest = $1 AND expires > $2")
            .bind(&digest)
            .bind(now())
            .fetch_optional(lab.store.pool())
            .await?;
    let Some((name, roles, used)) = row else { return Ok(None) };
    if used.is_none_or(|used| used < now() - TOUCH) {
        sqlx::query("UPDATE tokens SET used = $1 WHERE digest = $2")
            .bind(now())
            .bind(&digest)
            .execute(lab.store.pool())
            .await?;
    }
    Ok(Some((format!("token:{name}"), Roles::kept(&roles))))
}

/// All of them, by name.
///
/// # Errors
/// The database refuses.
pub async fn all(lab: &Lab) -> Result<Vec<Token>, LabError> {
    let rows: Vec<(String, String, i64, Option<i64>)> =
        sqlx::query_as("SELECT name, roles, expires, used FROM tokens ORDER BY name")
            .fetch_all(lab.store.pool())
            .await?;
    let token = |(name, roles, expires, used): (String, String, i64, Option<i64>)| Token {
        name,
        roles: Roles::kept(&roles),
        expires,
        used,
    };
    Ok(rows.into_iter().map(token).collect())
}

/// Ends a token, at once.
///
/// # Errors
/// There is none of that name.
pub async fn revoke(lab: &Lab, name: &str, who: &str) -> Result<(), LabError> {
    let mut within = lab.store.begin().await?;
    let gone = sqlx::query("DELETE FROM tokens WHERE name = $1").bind(name).execute(&mut *within).await?;
    if gone.rows_affected() == 0 {
        return Err(LabError::Usage(format!("there is no token `{name}`")));
    }
    audit::write(&mut within, Entry { who, what: "revoked a token", of: name, detail: "" }).await?;
    Ok(within.commit().await?)
}
