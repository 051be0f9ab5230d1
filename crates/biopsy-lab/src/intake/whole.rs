//! A sealed file in one call, as `curl -T` sends it: for machines without biopsy. It is all of it or nothing, since a caller without a key of
//! his own cannot be told from another who has the link.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use biopsy_deliver::{Secret, Signer};
use sha2::Sha256;

use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::requests::Caller;

use super::answer::Refusal;
use super::body::Hashes;
use super::caller::header;
use super::state::Intake;
use super::uploads::{self, Beginning};
use super::{body, complete};

/// How every file sealed by age begins.
const SEALED: &[u8] = b"age-encryption.org/v1\n";

/// `PUT /api/requests/ID/file`, with the secret of the link as a bearer's token. Answers with the receipt.
pub(super) async fn put(
    State(intake): State<Intake>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let secret: Option<Secret> = header(&headers, "authorization")
        .and_then(|text| text.strip_prefix("Bearer "))
        .and_then(|text| text.parse().ok());
    // The key is of this call alone: the link is bound to it, and nobody else has it.
    let caller = Caller { secret: secret.ok_or(Refusal::Nothing)?, key: Signer::generate().key() };
    let program = uploads::program(None, &headers);
    let length = header(&headers, "content-length").and_then(|length| length.parse().ok());
    // In a task of its own: where the connection is cut, the server drops what answers it.
    let taking = tokio::spawn(async move {
        let length = length.unwrap_or_default();
        let beginning = Beginning { length, sha256: None, consent: None, contact: None, program };
        let place = uploads::begin(&intake, &id, &caller, &beginning).await?;
        let taken = take(&intake, &place, &caller, body).await;
        if taken.is_err() {
            let_go(&intake, &place, &caller).await?;
        }
        taken
    });
    let receipt = taking.await.map_err(|_| LabError::Damaged { what: "a file" })??;
    Ok((StatusCode::CREATED, [("content-type", "application/json")], receipt).into_response())
}

/// Takes all of it, and waits for the receipt.
async fn take(intake: &Intake, place: &str, caller: &Caller, body: Body) -> Result<String, Refusal> {
    let writer = intake.locks.take(place).await.ok_or(Refusal::Locked)?;
    let upload = uploads::find(intake, place, caller).await?;
    let path = intake.lab.storage.place(&upload.object);
    let most = upload.length.unsigned_abs();
    let nothing = Hashes { all: Sha256::default(), piece: None };
    let taken = body::take(&path, 0, most, body, &writer, intake.silence, nothing).await?;
    if taken.cut || taken.bytes != most {
        return Err(Refusal::Cut);
    }
    if !begins_sealed(&path).map_err(LabError::io("read", &path))? {
        return Err(Refusal::Senseless("it is not sealed by age: what is in clear is not taken"));
    }
    uploads::note_place(intake, place, 0, upload.length).await?;
    intake.lab.running.put(place, most, taken.hashes.all);
    drop(writer);
    complete::complete(&intake.lab, place).await?;
    uploads::find(intake, place, caller).await?.receipt.ok_or(Refusal::Nothing)
}

fn begins_sealed(path: &std::path::Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(SEALED.len() as u64).read_to_end(&mut start)?;
    Ok(start == SEALED)
}

/// What was sent in part is removed, and the link is as if it had not been used.
async fn let_go(intake: &Intake, place: &str, caller: &Caller) -> Result<(), LabError> {
    let lab = &intake.lab;
    let mut within = lab.store.begin().await?;
    let removed: Option<(String, String, String)> = sqlx::query_as(
        "DELETE FROM uploads WHERE id = $1 AND state = 'open' AND at < length RETURNING object, request_id, case_id",
    )
    .bind(place)
    .fetch_optional(&mut *within)
    .await?;
    // Deleted, or whole and completed by and by.
    let Some((object, request, case)) = removed else { return Ok(()) };
    sqlx::query("UPDATE requests SET redeemer = NULL WHERE id = $1 AND redeemer = $2")
        .bind(&request)
        .bind(caller.key.to_string())
        .execute(&mut *within)
        .await?;
    let detail = format!("request {request}: in part, and not kept");
    audit::write(&mut within, Entry { who: "customer", what: "broke off", of: &case, detail: &detail })
        .await?;
    within.commit().await?;
    lab.storage.remove(&object).await
}
