//! Logging in: name, password, six digits.

use sqlx::FromRow;
use zeroize::Zeroizing;

use super::second_factor::SecondFactor;
use super::{password, session};
use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::place::{Lab, now};

/// Failures without a wait.
const FREE: i64 = 5;
/// Longest wait, in seconds.
const LONGEST: i64 = 900;

/// What was typed.
#[derive(Debug)]
pub struct Typed {
    /// Who.
    pub name: String,
    /// The password.
    pub password: Zeroizing<String>,
    /// The six digits.
    pub code: String,
}

#[derive(Debug, FromRow)]
struct Kept {
    name: String,
    password: String,
    second: Vec<u8>,
    step: i64,
    failed: i64,
    not_before: i64,
}

/// How long nobody of this name is looked at after so many failures: 0 five times, then 2, 4, 8 seconds and so on.
fn wait_after(failed: i64) -> i64 {
    match u32::try_from(failed.saturating_sub(FREE)) {
        Err(_) if failed < FREE => 0,
        Ok(over) => 2_i64.saturating_pow(over.saturating_add(1)).min(LONGEST),
        Err(_) => LONGEST,
    }
}

/// Logs a person in; gives the word of the session. `None`: something of it was wrong, or it was tried too often; nobody is told
/// which, and each takes as long.
///
/// # Errors
/// The database refuses.
pub async fn login(lab: &Lab, typed: Typed) -> Result<Option<String>, LabError> {
    let kept: Option<Kept> = sqlx::query_as(
        "SELECT name, password, second, step, failed, not_before FROM people WHERE name = $1 AND password IS NOT NULL",
    )
    .bind(&typed.name)
    .fetch_optional(lab.store.pool())
    .await?;
    let is_right =
        password::is_right(typed.password, kept.as_ref().map(|kept| kept.password.clone())).await?;
    let Some(kept) = kept else {
        // Names that are not there are not written down: somebody may have typed his password there.
        return Ok(None);
    };
    let step = SecondFactor::of(lab, &kept.second, &kept.name)?.step_of(&typed.code, now(), kept.step);
    let who = &kept.name;
    let mut within = lab.store.begin().await?;
    let (Some(step), true, true) = (step, is_right, kept.not_before <= now()) else {
        // One that was not looked at does not make the wait longer: nobody can be locked out for ever by somebody else.
        if kept.not_before <= now() {
            let failed = kept.failed.saturating_add(1);
            sqlx::query("UPDATE people SET failed = $1, not_before = $2 WHERE name = $3")
                .bind(failed)
                .bind(now() + wait_after(failed))
                .bind(who)
                .execute(&mut *within)
                .await?;
            audit::write(&mut within, Entry { who, what: "was refused at login", of: who, detail: "" })
                .await?;
            within.commit().await?;
        }
        return Ok(None);
    };
    // Of two at once with one code, one is logged in.
    let used =
        sqlx::query("UPDATE people SET failed = 0, not_before = 0, step = $1 WHERE name = $2 AND step < $3")
            .bind(step)
            .bind(who)
            .bind(step)
            .execute(&mut *within)
            .await?;
    if used.rows_affected() == 0 {
        return Ok(None);
    }
    let word = session::begin(&mut within, who).await?;
    audit::write(&mut within, Entry { who, what: "logged in", of: who, detail: "" }).await?;
    within.commit().await?;
    Ok(Some(word))
}

#[cfg(test)]
mod tests {
    use super::wait_after;

    #[test]
    fn who_guesses_waits_longer_each_time() {
        let waits: Vec<i64> = [0, 4, 5, 6, 7, 13, 14, 40, i64::MAX].map(wait_after).into();
        assert_eq!(waits, [0, 0, 2, 4, 8, 512, 900, 900, 900]);
    }
}
