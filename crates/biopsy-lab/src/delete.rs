//! Deleting a case: first nobody can read it, back-ups included; then it is removed.
//!
//! 1. In one transaction: the wrap of its key is dropped, the keys of all other cases are wrapped with a new wrapping key, the certificate is
//!    written down.
//! 2. The old wrapping key is destroyed. From here on the case is gone: its key was wrapped with that one, wherever a copy of the database is.
//! 3. Its files are removed, and the database's journal is emptied.

use biopsy_deliver::certificate::{Certificate, LIMITS, Read, Removed, Sent};
use biopsy_deliver::{Receipt, Signed};

use crate::audit::{self, Entry};
use crate::cases;
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
    let mut within = lab.store.begin().await?;
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
    places.push(Removed {
        name: "the database".to_owned(),
        kind: "the wrapped key of the case, in it and in each back-up of it".to_owned(),
        result: "dropped; where a copy holds it, the key that it is wrapped with is destroyed".to_owned(),
    });
    let reads: Vec<(i64, String, String)> =
        sqlx::query_as("SELECT time, who, detail FROM log WHERE what = 'read' AND of = $1 ORDER BY number")
            .bind(id)
            .fetch_all(&mut *within)
            .await?;

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
    signatures::forget(&mut within, id).await?;
    let change = lab.keys.change(&mut within).await?;
    let log_head = audit::write(&mut within, Entry { who, what: "deleted", of: id, detail: reason }).await?;
    let certificate = Certificate {
        case: id.to_owned(),
        received,
        case_key: case.key,
        destroyed_key: change.old().to_owned(),
        places,
        reads: reads.into_iter().map(|(when, who, what)| Read { when, who, what }).collect(),
        deleted: now(),
        by: who.to_owned(),
        reason: reason.to_owned(),
        log_head,
        limits: LIMITS.to_owned(),
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
