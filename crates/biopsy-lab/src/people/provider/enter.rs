//! From who somebody is to a session of his. Who has no role gets no account; who had one and has none any more loses what he has open.

use biopsy_deliver::state::hexadecimal;
use sha2::{Digest as _, Sha256};
use sqlx::{Any, Transaction};

use super::Identity;
use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::people::session;
use crate::place::{Lab, now};

/// What names of people begin with whom a provider vouches for. No name that somebody was invited by has a colon.
const PREFIX: &str = "oidc:";

/// Logs somebody in; gives the word of the session. `None`: none of his groups has a role here.
///
/// # Errors
/// The database refuses.
pub async fn enter(lab: &Lab, identity: &Identity) -> Result<Option<String>, LabError> {
    let digest = digest(identity);
    let mut within = lab.store.begin().await?;
    let there: Option<(String,)> = sqlx::query_as("SELECT person FROM identities WHERE digest = $1")
        .bind(&digest)
        .fetch_optional(&mut *within)
        .await?;
    let there = there.map(|(person,)| person);
    if identity.roles.0.is_empty() {
        let who = match &there {
            Some(person) => {
                forget(&mut within, person).await?;
                person.clone()
            }
            None => name(&identity.label, &digest),
        };
        let detail = "none of the groups has a role";
        audit::write(&mut within, Entry { who: &who, what: "was refused at login", of: &who, detail })
            .await?;
        within.commit().await?;
        return Ok(None);
    }
    let person = match there {
        Some(person) => person,
        None => make(&mut within, identity, &digest).await?,
    };
    sqlx::query("UPDATE people SET roles = $1 WHERE name = $2")
        .bind(identity.roles.to_string())
        .bind(&person)
        .execute(&mut *within)
        .await?;
    let word = session::begin(&mut within, &person).await?;
    let detail = format!("by {}, as {}", identity.issuer, identity.roles);
    audit::write(&mut within, Entry { who: &person, what: "logged in", of: &person, detail: &detail })
        .await?;
    within.commit().await?;
    Ok(Some(word))
}

async fn make(
    within: &mut Transaction<'static, Any>,
    identity: &Identity,
    digest: &[u8],
) -> Result<String, LabError> {
    let short = name(&identity.label, digest);
    // People of one provider may have one label: the log tells them apart.
    let long = format!("{short}~{}", &hexadecimal(digest)[..8]);
    for name in [short, long] {
        let made = sqlx::query(
            "INSERT INTO people (name, roles, created, failed, not_before, step) VALUES ($1, '', $2, 0, 0, 0) ON CONFLICT (name) DO NOTHING",
        )
        .bind(&name)
        .bind(now())
        .execute(&mut **within)
        .await?;
        if made.rows_affected() == 1 {
            sqlx::query("INSERT INTO identities (digest, person) VALUES ($1, $2)")
                .bind(digest)
                .bind(&name)
                .execute(&mut **within)
                .await?;
            return Ok(name);
        }
    }
    Err(LabError::Damaged { what: "the names of people" })
}

/// Ends what a person has, account included.
async fn forget(within: &mut Transaction<'static, Any>, person: &str) -> Result<(), LabError> {
    for statement in [
        "DELETE FROM sessions WHERE person = $1",
        "DELETE FROM identities WHERE person = $1",
        "DELETE FROM people WHERE name = $1",
    ] {
        sqlx::query(statement).bind(person).execute(&mut **within).await?;
    }
    Ok(())
}

/// Of provider and subject, each with its length. The label is none of it: people may change theirs, and be given another's.
fn digest(identity: &Identity) -> Vec<u8> {
    let mut sha256 = Sha256::new();
    for field in [&identity.issuer, &identity.subject] {
        sha256.update(format!("{}:{field},", field.len()));
    }
    sha256.finalize().to_vec()
}

/// For the log and the page of people, where it stays one word.
fn name(label: &str, digest: &[u8]) -> String {
    let is_plain = |one: &char| one.is_ascii_alphanumeric() || "-_.@+".contains(*one);
    let plain: String = label.chars().filter(is_plain).take(48).collect();
    match plain.is_empty() {
        true => format!("{PREFIX}{}", &hexadecimal(digest)[..16]),
        false => format!("{PREFIX}{plain}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_nobody_elses() {
        assert_eq!(name("ada@vendor.example", &[0; 32]), "oidc:ada@vendor.example");
        assert_eq!(name("<b>ada\u{1b}[2J", &[0; 32]), "oidc:bada2J");
        assert_eq!(name("Ωμ", &[0xab; 32]), "oidc:abababababababab");
    }
}
