//! The end of an upload: its checksum is known or all of it is read once more, and then receipt, job and notice are there at once, or
//! none of them is.

use std::fs::File;

use biopsy_deliver::state::{digest, hexadecimal};
use biopsy_deliver::{Receipt, Request, Signed};

use sha2::Digest as _;

use crate::audit::{self, Entry};
use crate::cases;
use crate::error::{LabError, in_words};
use crate::notices;
use crate::place::{Lab, now};
use crate::sealed;

/// Ends an upload whose last byte is there, beside whatever else goes on.
pub fn begin(lab: &Lab, id: String) {
    let lab = lab.clone();
    tokio::spawn(async move {
        if let Err(error) = complete(&lab, &id).await {
            // It is tried again in some minutes.
            biopsy_terminal::out::say(format!("upload {id}: {}", in_words(&error)));
        }
    });
}

/// Ends all uploads that have been whole for so many seconds, and are not ended: the lab was stopped, or had trouble.
///
/// # Errors
/// The database refuses.
pub async fn begin_left_over(lab: &Lab, seconds: i64) -> Result<(), LabError> {
    let whole: Vec<(String,)> =
        sqlx::query_as("SELECT id FROM uploads WHERE state = 'open' AND at = length AND touched <= $1")
            .bind(now() - seconds)
            .fetch_all(lab.store.pool())
            .await?;
    whole.into_iter().for_each(|(id,)| begin(lab, id));
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Whole {
    request_id: String,
    case_id: String,
    object: String,
    length: i64,
    sha256: Option<String>,
    document: String,
}

/// Holds it against the checksum of the whole, and gives the receipt.
pub(super) async fn complete(lab: &Lab, id: &str) -> Result<(), LabError> {
    let whole: Option<Whole> = sqlx::query_as(
        "SELECT u.request_id, u.case_id, u.object, u.length, u.sha256, r.document FROM uploads u JOIN requests r ON r.id = u.request_id
         WHERE u.id = $1 AND u.state = 'open' AND u.at = u.length",
    )
    .bind(id)
    .fetch_optional(lab.store.pool())
    .await?;
    let Some(whole) = whole else { return Ok(()) };
    let path = lab.storage.place(&whole.object);
    let length = whole.length.unsigned_abs();
    let (bytes, sha256) = match lab.running.take(id, length) {
        Some(known) => (length, known.finalize().into()),
        None => {
            let reading = path.clone();
            let read = tokio::task::spawn_blocking(move || digest(&mut File::open(reading)?)).await;
            read.map_err(|_| LabError::Damaged { what: "an upload" })?.map_err(LabError::io("read", &path))?
        }
    };
    let sha256 = hexadecimal(&sha256);
    let is_right = bytes == length && whole.sha256.is_none_or(|wanted| wanted == sha256);
    let of_case = cases::find(lab, &whole.case_id).await?;
    // What the lab cannot read it seals once more, so that a deletion ends it.
    let covered = match is_right && of_case.is_sealed() {
        true => Some(sealed::cover(lab, &of_case, &whole.object).await?),
        false => None,
    };
    if is_right && covered.is_none() {
        // Before anybody is told that it is kept.
        lab.storage.keep(&whole.object).await?;
    }
    let (object, kept_bytes) = covered.clone().unwrap_or_else(|| (whole.object.clone(), whole.length));
    let mut within = lab.store.begin().await?;
    let case = whole.case_id.as_str();
    let state = if is_right { "received" } else { "refused" };
    // It may have been completed or deleted meanwhile; and the request may be revoked, until this moment.
    let ended = sqlx::query(
        "UPDATE uploads SET state = $1 WHERE id = $2 AND state = 'open' AND EXISTS (SELECT 1 FROM requests r JOIN cases c ON c.id = r.case_id
         WHERE r.id = uploads.request_id AND r.state = 'open' AND c.state <> 'deleted')",
    )
    .bind(state)
    .bind(id)
    .execute(&mut *within)
    .await?;
    if ended.rows_affected() == 0 {
        let now: Option<(String,)> = sqlx::query_as("SELECT state FROM uploads WHERE id = $1")
            .bind(id)
            .fetch_optional(&mut *within)
            .await?;
        // Deleted while it was being put away.
        if now.is_none_or(|(state,)| state == "deleted") {
            lab.storage.remove(&whole.object).await?;
            lab.storage.remove(&object).await?;
        }
        return Ok(());
    }
    if !is_right {
        audit::write(
            &mut within,
            Entry { who: "customer", what: "refused", of: case, detail: "another checksum" },
        )
        .await?;
        within.commit().await?;
        return std::fs::remove_file(&path).map_err(LabError::io("remove", &path));
    }
    let detail = format!("{bytes} bytes, sha256 {sha256}");
    let log_head =
        audit::write(&mut within, Entry { who: "customer", what: "sent", of: case, detail: &detail }).await?;
    let receipt = Receipt {
        request: whole.request_id,
        case: case.to_owned(),
        bytes,
        sha256,
        received: now(),
        log_head,
    };
    let receipt = Signed::new(&receipt, &lab.signer)?.to_text();
    sqlx::query("UPDATE uploads SET receipt = $1 WHERE id = $2")
        .bind(receipt)
        .bind(id)
        .execute(&mut *within)
        .await?;
    sqlx::query(
        "INSERT INTO objects (name, case_id, upload_id, kind, bytes) VALUES ($1, $2, $3, 'sent', $4)",
    )
    .bind(&object)
    .bind(case)
    .bind(id)
    .bind(kept_bytes)
    .execute(&mut *within)
    .await?;
    match covered.is_some() {
        true => sealed::put(&mut within, id, &whole.object, &object).await?,
        false => {
            sqlx::query(
                "INSERT INTO jobs (upload_id, case_id, state, tries, not_before) VALUES ($1, $2, 'waiting', 0, 0)",
            )
            .bind(id)
            .bind(case)
            .execute(&mut *within)
            .await?;
        }
    }
    let days = Signed::<Request>::parse(whole.document.as_bytes())?.verify()?.0.kept_days;
    sqlx::query(
        "UPDATE cases SET state = 'received', kept_until = CASE WHEN kept_until > $1 THEN kept_until ELSE $2 END WHERE id = $3",
    )
    .bind(now() + i64::from(days) * 24 * 3600)
    .bind(now() + i64::from(days) * 24 * 3600)
    .bind(case)
    .execute(&mut *within)
    .await?;
    notices::put(&mut within, "upload.completed", case, whole.length).await?;
    within.commit().await?;
    if covered.is_some() {
        // Nobody names it any more; where this is cut off, it is removed within a minute.
        lab.storage.remove(&whole.object).await?;
    }
    lab.storage.let_go(&object)
}
