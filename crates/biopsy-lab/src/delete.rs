//! Deleting a case: first nobody can read it, back-ups included; then it is removed.
//!
//! 0. What is kept over all cases is written again without it, where rows of it are; nothing uses that yet.
//! 1. In one transaction: the wrap of its key is dropped, and those of the files with rows of it; the keys of all others are wrapped with a new
//!    wrapping key, the certificate is written down.
//! 2. The old wrapping key is destroyed. From here on the case is gone: its key was wrapped with that one, wherever a copy of the database is.
//! 3. Its files are removed, and the database's journal is emptied.

use biopsy_deliver::certificate::{Certificate, LIMITS, LIMITS_SEALED, Read, Removed, Sent};
use biopsy_deliver::{Receipt, Signed};
use sqlx::{Any, Transaction};

use crate::audit::{self, Entry};
use crate::cases;
use crate::derived::deletion::{self, Rewritten};
use crate::derived::{EXPORTED, QUERIED, segments};
use crate::error::LabError;
use crate::notices;
use crate::place::{Lab, now};
use crate::signatures;

/// Deletes a case; gives the signed certificate. One that was deleted gives the same again.
///
/// # Errors
/// [`LabError`]. Where it was cut off behind the first step, the same call goes on.
pub async fn case(lab: &Lab, id: &str, who: &str, reason: &str) -> Result<String, LabError> {
    let case = cases::find(lab, id).await?;
    if let Some(certificate) = case.certificate {
        finish(lab, id).await?;
        return Ok(certificate);
    }
    let is_sealed = case.readers.is_some();
    let (mut within, rewritten) = rewritten(lab, id).await?;
    let sent: Vec<(Option<String>,)> = sqlx::query_as(
        "SELECT receipt FROM uploads WHERE case_id = $1 AND receipt IS NOT NULL ORDER BY touched, id",
    )
    .bind(id)
    .fetch_all(&mut *within)
    .await?;
    let mut received = Vec::new();
    for (receipt,) in sent {
        let receipt = Signed::<Receipt>::parse(receipt.unwrap_or_default().as_bytes())?.verify()?.0;
        received.push(Sent { request: receipt.request, bytes: receipt.bytes, sha256: receipt.sha256 });
    }
    let objects: Vec<(String, String)> = sqlx::query_as(
        "SELECT name, kind FROM objects WHERE case_id = $1 UNION SELECT object, 'sent in part' FROM uploads
         WHERE case_id = $2 AND object NOT IN (SELECT name FROM objects)",
    )
    .bind(id)
    .bind(id)
    .fetch_all(&mut *within)
    .await?;
    let mut places: Vec<Removed> = objects
        .into_iter()
        .map(|(name, kind)| Removed {
            name: format!("objects/{name}"),
            kind,
            result: "unreadable, and removed".to_owned(),
        })
        .collect();
    places.extend(rewritten.objects().iter().map(|name| Removed {
        name: format!("objects/{name}"),
        kind: "rows of reports, of this case and of others".to_owned(),
        result: "written again without this case under another key; unreadable, and removed".to_owned(),
    }));
    places.extend(exports(&mut within, id).await?);
    places.push(Removed {
        name: "the database".to_owned(),
        kind: "the wrapped key of the case, in it and in each back-up of it".to_owned(),
        result: "dropped; where a copy holds it, the key that it is wrapped with is destroyed".to_owned(),
    });
    let mut reads: Vec<(i64, String, String)> =
        sqlx::query_as("SELECT time, who, detail FROM log WHERE what = 'read' AND of = $1 ORDER BY number")
            .bind(id)
            .fetch_all(&mut *within)
            .await?;
    reads.extend(queries(&mut within, id).await?);

    sqlx::query("UPDATE cases SET wrap = NULL, state = 'deleted' WHERE id = $1")
        .bind(id)
        .execute(&mut *within)
        .await?;
    sqlx::query("UPDATE requests SET state = 'over', document = '' WHERE case_id = $1")
        .bind(id)
        .execute(&mut *within)
        .await?;
    sqlx::query("UPDATE uploads SET state = 'deleted', consent = NULL WHERE case_id = $1")
        .bind(id)
        .execute(&mut *within)
        .await?;
    sqlx::query("DELETE FROM jobs WHERE case_id = $1").bind(id).execute(&mut *within).await?;
    sqlx::query("DELETE FROM senders WHERE case_id = $1").bind(id).execute(&mut *within).await?;
    signatures::forget(&mut within, id).await?;
    let change = lab.keys.change(&mut within).await?;
    let log_head = audit::write(&mut within, Entry { who, what: "deleted", of: id, detail: reason }).await?;
    let certificate = Certificate {
        case: id.to_owned(),
        received,
        case_key: case.key,
        sealed_to: case.readers.iter().flat_map(|all| all.split(',')).map(str::to_owned).collect(),
        destroyed_key: change.old().to_owned(),
        places,
        reads: reads.into_iter().map(|(when, who, what)| Read { when, who, what }).collect(),
        deleted: now(),
        by: who.to_owned(),
        reason: reason.to_owned(),
        log_head,
        limits: if is_sealed { LIMITS_SEALED } else { LIMITS }.to_owned(),
    };
    let certificate = Signed::new(&certificate, &lab.signer)?.to_text();
    sqlx::query("UPDATE cases SET certificate = $1 WHERE id = $2")
        .bind(&certificate)
        .bind(id)
        .execute(&mut *within)
        .await?;
    notices::put(&mut within, "case.deleted", id, 0).await?;
    within.commit().await?;
    change.destroy_old()?;
    finish(lab, id).await?;
    Ok(certificate)
}

/// Rows of the case are written again without it, outside of the transaction, and put in their place at its beginning.
async fn rewritten(lab: &Lab, id: &str) -> Result<(Transaction<'static, Any>, Rewritten), LabError> {
    /// Somebody else may put segments together meanwhile; not so often.
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        let rewritten = deletion::rewrite(lab, id).await?;
        let mut within = lab.store.begin().await?;
        if rewritten.put(lab, &mut within, id).await? {
            return Ok((within, rewritten));
        }
        within.rollback().await?;
    }
    Err(LabError::Usage(format!(
        "what is kept over all cases changes too fast to take case `{id}` out of it; try again"
    )))
}

/// When the first report of the case was analysed, by the log.
const SINCE: &str = "SELECT MIN(number) FROM log WHERE what = 'analysed' AND of = $1";

/// Who asked over all cases while it was among them: the last time, and how often.
async fn queries(
    within: &mut Transaction<'static, Any>,
    id: &str,
) -> Result<Vec<(i64, String, String)>, LabError> {
    let (since,): (Option<i64>,) = sqlx::query_as(SINCE).bind(id).fetch_one(&mut **within).await?;
    let asked: Vec<(i64, String, i64)> = sqlx::query_as(
        "SELECT MAX(time), who, COUNT(*) FROM log WHERE what = $1 AND number > $2 GROUP BY who ORDER BY who",
    )
    .bind(QUERIED)
    .bind(since.unwrap_or(i64::MAX))
    .fetch_all(&mut **within)
    .await?;
    let asked = asked.into_iter();
    Ok(asked
        .map(|(when, who, times)| {
            (when, who, format!("queries over all cases, this one among them: {times}"))
        })
        .collect())
}

/// Copies in clear that were made while it was among them: they are out of reach, which the certificate does not hide.
async fn exports(within: &mut Transaction<'static, Any>, id: &str) -> Result<Vec<Removed>, LabError> {
    let (since,): (Option<i64>,) = sqlx::query_as(SINCE).bind(id).fetch_one(&mut **within).await?;
    let made: Vec<(i64, String)> =
        sqlx::query_as("SELECT time, who FROM log WHERE what = $1 AND number > $2 ORDER BY number")
            .bind(EXPORTED)
            .bind(since.unwrap_or(i64::MAX))
            .fetch_all(&mut **within)
            .await?;
    let copies = made.into_iter().map(|(time, who)| {
        let time = jiff::Timestamp::from_second(time).map(|time| time.to_string()).unwrap_or_default();
        Removed {
            name: format!("a copy made by {who} at {time}"),
            kind: "rows of reports, of this case and of others, in clear".to_owned(),
            result: "out of the lab's reach: whoever has it has to delete it".to_owned(),
        }
    });
    Ok(copies.collect())
}

/// Removes the files of a case that nobody can read any more.
async fn finish(lab: &Lab, id: &str) -> Result<(), LabError> {
    let names: Vec<(String,)> = sqlx::query_as(
        "SELECT name FROM objects WHERE case_id = $1 UNION SELECT object FROM uploads WHERE case_id = $2",
    )
    .bind(id)
    .bind(id)
    .fetch_all(lab.store.pool())
    .await?;
    for (name,) in names {
        lab.storage.remove(&name).await?;
    }
    sqlx::query("DELETE FROM objects WHERE case_id = $1").bind(id).execute(lab.store.pool()).await?;
    segments::sweep(lab).await?;
    lab.store.forget().await
}

/// Deletes the cases whose time is up; and goes on with deletions that were cut off.
///
/// # Errors
/// The database refuses.
pub async fn those_whose_time_is_up(lab: &Lab) -> Result<(), LabError> {
    let due: Vec<(String,)> = sqlx::query_as(
        "SELECT id FROM cases WHERE state <> 'deleted' AND kept_until IS NOT NULL AND kept_until <= $1",
    )
    .bind(now())
    .fetch_all(lab.store.pool())
    .await?;
    for (id,) in due {
        case(lab, &id, "lab", "its time is up").await?;
    }
    let left: Vec<(String,)> = sqlx::query_as(
        "SELECT DISTINCT c.id FROM cases c JOIN objects o ON o.case_id = c.id WHERE c.state = 'deleted'",
    )
    .fetch_all(lab.store.pool())
    .await?;
    for (id,) in left {
        finish(lab, &id).await?;
    }
    Ok(())
}
