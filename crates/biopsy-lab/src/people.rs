//! The people of the lab: who they are, and what they may do.
//!
//! A person is invited by a link that is good once, chooses a password, and has a second factor; or a provider of the company vouches for him. What a person may do is the sum of his
//! roles; whoever runs the program on the lab's own machine has its keys, and is asked for nothing.

pub mod invite;
pub mod login;
pub mod password;
pub mod provider;
pub mod role;
pub mod second_factor;
pub mod session;
pub mod token;

use sqlx::{Any, Transaction};

pub use role::{Right, Role, Roles};

use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::place::Lab;

/// Somebody who may log in, or was invited to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Person {
    /// The name that is typed at login, and is in the log.
    pub name: String,
    /// What the person may do.
    pub roles: Roles,
    /// The invitation was accepted, or a provider vouches for the person.
    pub has_accepted: bool,
    /// A provider vouches for the person: name and roles are of the last time that he logged in.
    pub is_vouched_for: bool,
}

/// All of them, by name.
///
/// # Errors
/// The database refuses.
pub async fn all(lab: &Lab) -> Result<Vec<Person>, LabError> {
    let rows: Vec<(String, String, i64, i64)> = sqlx::query_as(
        "SELECT name, roles, CASE WHEN password IS NULL THEN 0 ELSE 1 END,
         CASE WHEN EXISTS (SELECT 1 FROM identities WHERE person = people.name) THEN 1 ELSE 0 END FROM people ORDER BY name",
    )
    .fetch_all(lab.store.pool())
    .await?;
    let person = |(name, roles, accepted, vouched): (String, String, i64, i64)| Person {
        name,
        roles: Roles::kept(&roles),
        has_accepted: accepted != 0 || vouched != 0,
        is_vouched_for: vouched != 0,
    };
    Ok(rows.into_iter().map(person).collect())
}

/// Takes a person's rights away, and ends what he has open.
///
/// # Errors
/// There is no such person, or nobody would be left who can invite others.
pub async fn remove(lab: &Lab, name: &str, who: &str) -> Result<(), LabError> {
    let mut within = lab.store.begin().await?;
    let was_there = has_administrator(&mut within).await?;
    let gone = sqlx::query("DELETE FROM people WHERE name = $1").bind(name).execute(&mut *within).await?;
    if gone.rows_affected() == 0 {
        return Err(LabError::Usage(format!("there is no person `{name}`")));
    }
    for statement in [
        "DELETE FROM sessions WHERE person = $1",
        "DELETE FROM invitations WHERE person = $1",
        "DELETE FROM identities WHERE person = $1",
    ] {
        sqlx::query(statement).bind(name).execute(&mut *within).await?;
    }
    if was_there && !has_administrator(&mut within).await? {
        let why = format!("`{name}` is the last administrator: nobody could let others in");
        return Err(LabError::Usage(why));
    }
    audit::write(&mut within, Entry { who, what: "removed", of: name, detail: "" }).await?;
    Ok(within.commit().await?)
}

/// Whether there is somebody who can invite others, whatever a provider says or does not say.
async fn has_administrator(within: &mut Transaction<'static, Any>) -> Result<bool, LabError> {
    const OURS: &str =
        "SELECT roles FROM people WHERE NOT EXISTS (SELECT 1 FROM identities WHERE person = people.name)";
    let all: Vec<(String,)> = sqlx::query_as(OURS).fetch_all(&mut **within).await?;
    Ok(all.iter().any(|(roles,)| Roles::kept(roles).may(Right::Invite)))
}
