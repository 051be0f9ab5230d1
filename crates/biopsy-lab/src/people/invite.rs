//! Inviting a person: a link that is good once, behind which a password is chosen.

use biopsy_deliver::{decode, encode, random};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::role::Roles;
use super::second_factor::SecondFactor;
use super::{has_administrator, password, session};
use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::place::{Lab, now};

/// How long it may be accepted, in seconds.
const GOOD_FOR: i64 = 3 * 24 * 3600;
/// Longest name.
const LONGEST: usize = 64;

/// Whether it may be somebody's name: it is in the log and on terminals.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Invites a person, or one again who has lost password or phone; gives the word for the link. What the person had open ends.
///
/// # Errors
/// It is no name, or there is no role, or nobody would be left who can invite others.
pub async fn invite(lab: &Lab, name: &str, roles: &Roles, who: &str) -> Result<String, LabError> {
    if !is_name(name) {
        let what = "a person has a name of letters, digits, `-`, `_`, `.`, `@` and `+`, at most 64";
        return Err(LabError::Usage(what.to_owned()));
    }
    if roles.0.is_empty() {
        return Err(LabError::Usage("a person without a role may do nothing".to_owned()));
    }
    let word: [u8; 32] = random();
    let mut within = lab.store.begin().await?;
    let was_there = has_administrator(&mut within).await?;
    sqlx::query(
        "INSERT INTO people (name, roles, created, failed, not_before, step) VALUES ($1, $2, $3, 0, 0, 0)
         ON CONFLICT (name) DO UPDATE SET roles = excluded.roles, password = NULL, second = NULL, failed = 0, not_before = 0",
    )
    .bind(name)
    .bind(roles.to_string())
    .bind(now())
    .execute(&mut *within)
    .await?;
    if was_there && !has_administrator(&mut within).await? {
        return Err(LabError::Usage(format!("`{name}` is the last administrator, and has to stay one")));
    }
    for statement in ["DELETE FROM sessions WHERE person = $1", "DELETE FROM invitations WHERE person = $1"] {
        sqlx::query(statement).bind(name).execute(&mut *within).await?;
    }
    sqlx::query("INSERT INTO invitations (digest, person, second, expires) VALUES ($1, $2, $3, $4)")
        .bind(Sha256::digest(word).as_slice())
        .bind(name)
        .bind(random::<16>().as_slice())
        .bind(now() + GOOD_FOR)
        .execute(&mut *within)
        .await?;
    let detail = roles.to_string();
    audit::write(&mut within, Entry { who, what: "invited", of: name, detail: &detail }).await?;
    within.commit().await?;
    Ok(encode(word))
}

/// An invitation that may be accepted.
#[derive(Debug)]
pub struct Invitation {
    /// Who is invited.
    pub person: String,
    /// What the authenticator app is to know.
    pub second: SecondFactor,
    digest: Vec<u8>,
    salt: Vec<u8>,
}

/// Finds an invitation by the word of its link.
///
/// # Errors
/// The database refuses.
pub async fn find(lab: &Lab, word: &str) -> Result<Option<Invitation>, LabError> {
    let Some(word) = decode::<32>(word) else { return Ok(None) };
    let digest = Sha256::digest(word).to_vec();
    let row: Option<(String, Vec<u8>)> =
        sqlx::query_as("SELECT person, second FROM invitations WHERE digest = $1 AND expires > $2")
            .bind(&digest)
            .bind(now())
            .fetch_optional(lab.store.pool())
            .await?;
    let Some((person, salt)) = row else { return Ok(None) };
    let second = SecondFactor::of(lab, &salt, &person)?;
    Ok(Some(Invitation { person, second, digest, salt }))
}

/// Accepts an invitation; gives the word of the first session. `Err` in the result: why not, in words; it may be tried again.
///
/// # Errors
/// The database refuses.
pub async fn accept(
    lab: &Lab,
    invitation: &Invitation,
    chosen: Zeroizing<String>,
    code: &str,
) -> Result<Result<String, &'static str>, LabError> {
    if let Some(why) = password::refuses(&chosen, &invitation.person) {
        return Ok(Err(why));
    }
    let Some(step) = invitation.second.step_of(code, now(), 0) else {
        return Ok(Err("the six digits are not those of the app; is its clock right?"));
    };
    let hash = password::hash(chosen).await?;
    let mut within = lab.store.begin().await?;
    let gone = sqlx::query("DELETE FROM invitations WHERE digest = $1 AND expires > $2")
        .bind(&invitation.digest)
        .bind(now())
        .execute(&mut *within)
        .await?;
    if gone.rows_affected() == 0 {
        return Ok(Err("the invitation was accepted meanwhile"));
    }
    sqlx::query("UPDATE people SET password = $1, second = $2, step = $3 WHERE name = $4")
        .bind(hash)
        .bind(&invitation.salt)
        .bind(step)
        .bind(&invitation.person)
        .execute(&mut *within)
        .await?;
    let person = &invitation.person;
    audit::write(&mut within, Entry { who: person, what: "accepted", of: person, detail: "" }).await?;
    let word = session::begin(&mut within, person).await?;
    within.commit().await?;
    Ok(Ok(word))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_plain() {
        for (name, is) in [
            ("alice", true),
            ("a.b+c@example.org", true),
            ("", false),
            ("two words", false),
            ("x\u{1b}[2J", false),
            ("ä", false),
        ] {
            assert_eq!(is_name(name), is, "{name:?}");
        }
        assert!(!is_name(&"a".repeat(65)));
    }
}
