//! The calls of customers.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use biopsy_deliver::{encode, random};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::notices;
use crate::place::now;
use crate::requests::{self, Caller, Purpose};
use crate::storage;

use super::answer::Refusal;
use super::body::Hashes;
use super::caller::{header, is_patch};
use super::state::Intake;
use super::{body, complete, running};

const EXTENSIONS: &str = "creation,expiration,checksum";
/// Of a piece; and of all of the upload up to the end of a piece.
const CHECKSUMS: &str = "sha256,sha256-prefix";
/// An upload that nobody went on with for so long is removed.
const KEPT_SECONDS: i64 = 7 * 24 * 3600;
/// Room that stays on the lab's disk.
const RESERVE: u64 = 512 << 20;
/// Most bytes of what was consented to, which is a few lines.
const MOST_CONSENT: usize = 16 << 10;

/// Longest name of a program that sends.
const MOST_PROGRAM: usize = 100;

/// An upload.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Upload {
    request_id: String,
    pub(super) object: String,
    pub(super) length: i64,
    at: i64,
    state: String,
    pub(super) receipt: Option<String>,
    expires: i64,
}

/// What is known of an upload when it begins.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) length: i64,
    pub(super) sha256: Option<String>,
    pub(super) consent: Option<String>,
    pub(super) contact: Option<String>,
    /// What sends it, as it says itself.
    pub(super) program: Option<String>,
}

/// `?request=ID`
#[derive(Debug, Deserialize)]
pub(super) struct OfRequest {
    request: String,
}

/// `GET /api/requests/ID`
pub(super) async fn request(
    State(intake): State<Intake>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Response, Refusal> {
    let found = requests::find(&intake.lab, &id, &caller, Purpose::Begin).await?.ok_or(Refusal::Nothing)?;
    Ok(([("content-type", "application/json"), ("cache-control", "no-store")], found.document)
        .into_response())
}

/// `OPTIONS /api/uploads`
pub(super) async fn options() -> Response {
    let headers = [
        ("tus-resumable", "1.0.0"),
        ("tus-version", "1.0.0"),
        ("tus-extension", EXTENSIONS),
        ("tus-checksum-algorithm", CHECKSUMS),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// `POST /api/uploads?request=ID`: the same sender gets the same place as often as he asks; nobody else gets one.
pub(super) async fn create(
    State(intake): State<Intake>,
    Query(OfRequest { request }): Query<OfRequest>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let metadata = metadata(header(&headers, "upload-metadata").unwrap_or_default())
        .ok_or(Refusal::Senseless("the metadata cannot be read"))?;
    let known = |name: &str| metadata.get(name).cloned();
    let is_digest = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let beginning = Beginning {
        length: header(&headers, "upload-length").and_then(|length| length.parse().ok()).unwrap_or_default(),
        sha256: known("sha256").filter(is_digest).map(|text| text.to_ascii_lowercase()),
        consent: known("consent").filter(|text| text.len() <= MOST_CONSENT),
        contact: known("contact"),
        program: program(known("program"), &headers),
    };
    let id = begin(&intake, &request, &caller, &beginning).await?;
    let headers = [("tus-resumable", "1.0.0".to_owned()), ("location", format!("/api/uploads/{id}"))];
    Ok((StatusCode::CREATED, headers).into_response())
}

/// Makes room for it, and binds the request to the caller's key; gives the upload's name.
pub(super) async fn begin(
    intake: &Intake,
    request: &str,
    caller: &Caller,
    beginning: &Beginning,
) -> Result<String, Refusal> {
    let found =
        requests::find(&intake.lab, request, caller, Purpose::Begin).await?.ok_or(Refusal::Nothing)?;
    let &Beginning { length, ref sha256, ref consent, ref contact, ref program } = beginning;
    if length <= 0 {
        return Err(Refusal::Senseless("an upload has a length"));
    }
    if length > found.max_bytes {
        return Err(Refusal::TooLarge { most: found.max_bytes });
    }
    if contact.as_ref().is_some_and(|text| !notices::mail::is_address(text)) {
        return Err(Refusal::Senseless("that is no address of mail"));
    }

    let lab = &intake.lab;
    let mut within = lab.store.begin().await?;
    let key = caller.key.to_string();
    // Who is first has it, and it is asked here once more: two may have come at once.
    let redeemed = sqlx::query(
        "UPDATE requests SET redeemer = $1 WHERE id = $2 AND state = 'open' AND (redeemer IS NULL OR redeemer = $3)",
    )
    .bind(&key)
    .bind(&found.id)
    .bind(&key)
    .execute(&mut *within)
    .await?;
    if redeemed.rows_affected() == 0 {
        return Err(Refusal::Nothing);
    }
    // One that was refused or expired holds nothing any more.
    sqlx::query("DELETE FROM uploads WHERE request_id = $1 AND state IN ('refused', 'expired')")
        .bind(&found.id)
        .execute(&mut *within)
        .await?;
    let there: Option<(String, i64)> = sqlx::query_as("SELECT id, length FROM uploads WHERE request_id = $1")
        .bind(&found.id)
        .fetch_optional(&mut *within)
        .await?;
    let id = match there {
        Some((id, there)) if there == length => id,
        Some(_) => return Err(Refusal::Senseless("something else is being sent for this request")),
        None => {
            let (id, object) = (encode(random::<16>()), encode(random::<16>()));
            let path = lab.storage.place(&object);
            // What was promised to others is not free any more, though nothing of it may be there yet.
            let (promised,): (i64,) = sqlx::query_as(
                "SELECT CAST(COALESCE(SUM(length - at), 0) AS BIGINT) FROM uploads WHERE state = 'open'",
            )
            .fetch_one(&mut *within)
            .await?;
            let wanted =
                length.unsigned_abs().saturating_add(promised.unsigned_abs()).saturating_add(RESERVE);
            let folder = path.parent().unwrap_or(&path);
            if free_bytes(folder).is_some_and(|free| free < wanted) {
                return Err(Refusal::NoRoom);
            }
            storage::make(&path).map_err(LabError::io("make", &path))?;
            sqlx::query(
                "INSERT INTO uploads (id, request_id, case_id, object, length, at, sha256, consent, state, touched, expires)
                 VALUES ($1, $2, $3, $4, $5, 0, $6, $7, 'open', $8, $9)",
            )
            .bind(&id)
            .bind(&found.id)
            .bind(&found.case_id)
            .bind(&object)
            .bind(length)
            .bind(sha256.as_deref())
            .bind(consent.as_deref())
            .bind(now())
            .bind(now() + KEPT_SECONDS)
            .execute(&mut *within)
            .await?;
            if let Some(contact) = contact {
                sqlx::query("INSERT INTO contacts (upload_id, case_id, mail) VALUES ($1, $2, $3)")
                    .bind(&id)
                    .bind(&found.case_id)
                    .bind(contact)
                    .execute(&mut *within)
                    .await?;
            }
            if let Some(program) = program {
                sqlx::query("INSERT INTO senders (upload_id, case_id, program) VALUES ($1, $2, $3)")
                    .bind(&id)
                    .bind(&found.case_id)
                    .bind(program)
                    .execute(&mut *within)
                    .await?;
            }
            let detail =
                format!("request {} of {length} bytes, by key {}", found.id, caller.key.fingerprint());
            audit::write(
                &mut within,
                Entry { who: "customer", what: "began", of: &found.case_id, detail: &detail },
            )
            .await?;
            notices::put(&mut within, "upload.started", &found.case_id, length).await?;
            id
        }
    };
    within.commit().await?;
    Ok(id)
}

/// `HEAD /api/uploads/ID`
pub(super) async fn head(
    State(intake): State<Intake>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Response, Refusal> {
    find(&intake, &id, &caller).await?;
    // Whoever writes it now is a connection that hangs: the sender would not ask.
    let writer = intake.locks.take(&id).await.ok_or(Refusal::Locked)?;
    let upload = find(&intake, &id, &caller).await?;
    drop(writer);
    let headers = [
        ("tus-resumable", "1.0.0".to_owned()),
        ("upload-offset", upload.at.to_string()),
        ("upload-length", upload.length.to_string()),
        ("tus-checksum-algorithm", CHECKSUMS.to_owned()),
        ("cache-control", "no-store".to_owned()),
    ];
    Ok((StatusCode::OK, headers).into_response())
}

/// `PATCH /api/uploads/ID`
pub(super) async fn patch(
    State(intake): State<Intake>,
    Path(id): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let wanted = checksum(header(&headers, "upload-checksum"))?;
    let offset: i64 = header(&headers, "upload-offset")
        .and_then(|at| at.parse().ok())
        .ok_or(Refusal::Senseless("a piece has an offset"))?;
    // In a task of its own: where the connection is cut, the server drops what answers it, and what was half done stays so.
    let taking = tokio::spawn(async move { take(&intake, &id, &caller, offset, wanted, body).await });
    let at = taking.await.map_err(|_| LabError::Damaged { what: "a piece" })??;
    let headers = [("tus-resumable", "1.0.0".to_owned()), ("upload-offset", at.to_string())];
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}

/// `POST /api/uploads/ID` with the header that says that it is a PATCH.
pub(super) async fn patch_by_post(
    intake: State<Intake>,
    id: Path<String>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    match is_patch(&headers) {
        true => patch(intake, id, caller, headers, body).await,
        false => Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
    }
}

async fn take(
    intake: &Intake,
    id: &str,
    caller: &Caller,
    offset: i64,
    wanted: Wanted,
    body: Body,
) -> Result<i64, Refusal> {
    find(intake, id, caller).await?;
    let writer = intake.locks.take(id).await.ok_or(Refusal::Locked)?;
    let upload = find(intake, id, caller).await?;
    if upload.at != offset || upload.state != "open" {
        return Err(Refusal::OtherPlace);
    }
    let path = intake.lab.storage.place(&upload.object);
    let left = (upload.length - upload.at).unsigned_abs();
    let all = hashed(intake, id, &path, upload.at.unsigned_abs()).await?;
    let piece = matches!(wanted, Wanted::OfPiece(_)).then(Sha256::default);
    let hashes = Hashes { all, piece };
    let taken = body::take(&path, offset.unsigned_abs(), left, body, &writer, intake.silence, hashes).await?;
    let (digest, sha256) = match (&wanted, &taken.hashes) {
        (Wanted::OfPiece(digest), Hashes { piece: Some(piece), .. }) => (Some(digest), piece),
        (Wanted::OfAll(digest), hashes) => (Some(digest), &hashes.all),
        (_, hashes) => (None, &hashes.all),
    };
    // Without its end nobody knows whether it is right; without a checksum, what came is what was sent.
    match digest {
        Some(_) if taken.cut => return Err(Refusal::Cut),
        Some(digest) if *digest != sha256.clone().finalize().as_slice() => return Err(Refusal::Checksum),
        _ => {}
    }
    let at = offset + i64::try_from(taken.bytes).unwrap_or(i64::MAX);
    note_place(intake, id, offset, at).await?;
    intake.lab.running.put(id, at.unsigned_abs(), taken.hashes.all);
    drop(writer);
    if at == upload.length {
        complete::begin(&intake.lab, id.to_owned());
    }
    if taken.cut { Err(Refusal::Cut) } else { Ok(at) }
}

/// The SHA-256 of what is there of an upload.
async fn hashed(intake: &Intake, id: &str, path: &std::path::Path, at: u64) -> Result<Sha256, Refusal> {
    if at == 0 {
        return Ok(Sha256::default());
    }
    if let Some(known) = intake.lab.running.of(id, at) {
        return Ok(known);
    }
    let reading = path.to_owned();
    let read = tokio::task::spawn_blocking(move || running::of_file(&reading, at)).await;
    let read =
        read.map_err(|_| LabError::Damaged { what: "an upload" })?.map_err(LabError::io("read", path))?;
    // Also where what comes now is refused: the same call again costs no reading.
    intake.lab.running.put(id, at, read.clone());
    Ok(read)
}

/// What a piece is held against.
enum Wanted {
    Nothing,
    /// The SHA-256 of its bytes.
    OfPiece(Vec<u8>),
    /// The SHA-256 of all of the upload up to its end: each side reads all of it once, for the pieces and for the whole.
    OfAll(Vec<u8>),
}

fn checksum(header: Option<&str>) -> Result<Wanted, Refusal> {
    let Some(header) = header else { return Ok(Wanted::Nothing) };
    let (name, digest) = header.split_once(' ').unwrap_or((header, ""));
    let digest = STANDARD.decode(digest).map_err(|_| Refusal::Senseless("the checksum cannot be read"))?;
    match name {
        "sha256" => Ok(Wanted::OfPiece(digest)),
        "sha256-prefix" => Ok(Wanted::OfAll(digest)),
        _ => Err(Refusal::Senseless("checksums are sha256")),
    }
}

/// The bytes are on the disk; the place is said only when it is, too. The case may have been deleted meanwhile.
pub(super) async fn note_place(intake: &Intake, id: &str, from: i64, to: i64) -> Result<(), Refusal> {
    let written = sqlx::query(
        "UPDATE uploads SET at = $1, touched = $2, expires = $3 WHERE id = $4 AND at = $5 AND state = 'open'",
    )
    .bind(to)
    .bind(now())
    .bind(now() + KEPT_SECONDS)
    .bind(id)
    .bind(from)
    .execute(intake.lab.store.pool())
    .await?;
    if written.rows_affected() == 0 { Err(Refusal::Nothing) } else { Ok(()) }
}

/// `GET /api/uploads/ID/receipt`
pub(super) async fn receipt(
    State(intake): State<Intake>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Response, Refusal> {
    let upload = find(&intake, &id, &caller).await?;
    match upload.receipt {
        Some(receipt) => Ok(([("content-type", "application/json")], receipt).into_response()),
        None => Ok((StatusCode::ACCEPTED, "not yet\n").into_response()),
    }
}

/// The upload of a caller, if it is his and neither refused nor expired: then he has to ask for a place anew.
pub(super) async fn find(intake: &Intake, id: &str, caller: &Caller) -> Result<Upload, Refusal> {
    let upload: Option<Upload> = sqlx::query_as(
        "SELECT request_id, object, length, at, state, receipt, expires FROM uploads WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(intake.lab.store.pool())
    .await?;
    let request = upload.as_ref().map_or("", |upload| upload.request_id.as_str());
    let found = requests::find(&intake.lab, request, caller, Purpose::GoOn).await?;
    match (upload, found) {
        (Some(upload), Some(_)) => match upload.state.as_str() {
            "received" => Ok(upload),
            "open" if upload.expires > now() => Ok(upload),
            _ => Err(Refusal::Nothing),
        },
        _ => Err(Refusal::Nothing),
    }
}

/// What sends: by its own word in the metadata, or by its header. One line, and short.
pub(super) fn program(said: Option<String>, headers: &HeaderMap) -> Option<String> {
    let said = said.or_else(|| header(headers, "user-agent").map(str::to_owned))?;
    let line: String = said.chars().filter(|one| !one.is_control()).take(MOST_PROGRAM).collect();
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

/// `name base64, name base64`; an empty header is what some clients send for none.
fn metadata(header: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for pair in header.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once(' ').unwrap_or((pair, ""));
        let value = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        if found.len() >= 32 || found.insert(name.to_owned(), value).is_some() {
            return None;
        }
    }
    Some(found)
}

fn free_bytes(folder: &std::path::Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_clients_write_it() {
        assert_eq!(metadata(""), Some(BTreeMap::new()));
        let both = metadata("sha256 YWI=,consent eWVz, empty").unwrap();
        assert_eq!(
            (both["sha256"].as_str(), both["consent"].as_str(), both["empty"].as_str()),
            ("ab", "yes", "")
        );
        for refused in ["a YWI=,a YWI=", "a !!", "a /w=="] {
            assert_eq!(metadata(refused), None, "{refused}");
        }
    }
}
