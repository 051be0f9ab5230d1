//! The calls of programs.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use biopsy_deliver::{Kind, Receipt, Recipe};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::{Problem, Program, Refused};
use crate::audit;
use crate::cases::{self, Case};
use crate::error::LabError;
use crate::people::Right;
use crate::place::Lab;
use crate::requests::{self, NewRequest};

/// A time, as programs read it.
fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

/// A case.
#[derive(Serialize, ToSchema)]
pub(super) struct CaseShown {
    case: String,
    /// `asked`, `received`, `analysed`, `failed` or `deleted`.
    state: String,
    /// RFC 3339.
    created: String,
    /// When it deletes itself; RFC 3339.
    kept_until: Option<String>,
    /// Keys that it is sealed to and that the lab does not have; none, where the lab reads it.
    sealed_to: Vec<String>,
}

impl From<Case> for CaseShown {
    fn from(case: Case) -> Self {
        let Case { id, state, created, kept_until, readers, .. } = case;
        let sealed_to = readers.iter().flat_map(|all| all.split(',')).map(str::to_owned).collect();
        Self { case: id, state, created: time(created), kept_until: kept_until.map(time), sealed_to }
    }
}

/// All cases, the newest first.
#[utoipa::path(get, path = "/lab/v1/cases", security(("token" = [])), responses(
    (status = 200, body = Vec<CaseShown>), (status = 401, body = Problem)))]
pub(super) async fn cases(State(lab): State<Lab>, _: Program) -> Result<Json<Vec<CaseShown>>, Refused> {
    Ok(Json(cases::all(&lab).await?.into_iter().map(CaseShown::from).collect()))
}

/// What the storage holds.
#[derive(Serialize, ToSchema)]
pub(super) struct ObjectShown {
    /// `sent`, `report.html`, `report.json` or `report.md`.
    kind: String,
    /// Sealed.
    bytes: i64,
}

/// A case, and what is held of it.
#[derive(Serialize, ToSchema)]
pub(super) struct OneCase {
    #[serde(flatten)]
    case: CaseShown,
    objects: Vec<ObjectShown>,
    received: Vec<Received>,
}

/// Something that was received, by its receipt, which the lab has signed.
#[derive(Serialize, ToSchema)]
pub(super) struct Received {
    request: String,
    /// RFC 3339.
    received: String,
    /// As it was sent.
    bytes: u64,
    /// As it was sent.
    sha256: String,
    /// The program that sent it, as it says itself.
    program: Option<String>,
}

/// A case, and what is held of it.
#[utoipa::path(get, path = "/lab/v1/cases/{case}", security(("token" = [])), params(("case" = String, Path)), responses(
    (status = 200, body = OneCase), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn case(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    _: Program,
) -> Result<Json<OneCase>, Refused> {
    let case = cases::find(&lab, &id).await?.into();
    let mut received = Vec::new();
    for (upload, receipt) in cases::receipts(&lab, &id).await? {
        let program = cases::program(&lab, &upload).await?;
        let Receipt { request, bytes, sha256, .. } = receipt;
        received.push(Received { request, received: time(receipt.received), bytes, sha256, program });
    }
    let objects = cases::objects(&lab, &id).await?;
    let objects = objects.into_iter().map(|object| ObjectShown { kind: object.kind, bytes: object.bytes });
    Ok(Json(OneCase { case, objects: objects.collect(), received }))
}

/// Why.
#[derive(Deserialize, ToSchema)]
pub(super) struct Removal {
    /// For the certificate.
    reason: String,
}

/// Deletes a case, so that no back-up holds it either; gives the signed certificate.
#[utoipa::path(delete, path = "/lab/v1/cases/{case}", security(("token" = [])), params(("case" = String, Path)), request_body = Removal, responses(
    (status = 200, description = "the certificate", content_type = "application/json"), (status = 400, body = Problem),
    (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn delete(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    program: Program,
    reason: Result<Json<Removal>, JsonRejection>,
) -> Result<Response, Refused> {
    program.must(Right::Delete)?;
    let Json(Removal { reason }) = reason?;
    let reason: String = reason.chars().take(200).collect();
    let text = crate::delete::case(&lab, &id, &program.name, &reason).await?;
    Ok(([("content-type", "application/json")], text).into_response())
}

/// In which form.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Form {
    /// `json` (default), `md` or `html`
    form: Option<String>,
}

/// The newest report of a case. The log, and the certificate, say that it was read.
#[utoipa::path(get, path = "/lab/v1/cases/{case}/report", security(("token" = [])), params(("case" = String, Path), Form), responses(
    (status = 200, description = "the report"), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
    (status = 404, body = Problem), (status = 410, body = Problem)))]
pub(super) async fn report(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    program: Program,
    form: Result<Query<Form>, QueryRejection>,
) -> Result<Response, Refused> {
    program.must(Right::Read)?;
    let Query(Form { form }) = form?;
    let (kind, content) = match form.as_deref() {
        None | Some("json") => ("report.json", "application/json"),
        Some("md") => ("report.md", "text/markdown; charset=utf-8"),
        // To be kept, not to be shown: the page of a case shows it in a frame that may do nothing.
        Some("html") => ("report.html", "application/octet-stream"),
        Some(other) => return Err(Refused::Senseless(format!("there is no form `{other}`"))),
    };
    let bytes = cases::report(&lab, &id, kind, &program.name).await?;
    let headers =
        [("content-type", content), ("cache-control", "no-store"), ("x-content-type-options", "nosniff")];
    Ok((headers, bytes).into_response())
}

/// The certificate of a case that was deleted.
#[utoipa::path(get, path = "/lab/v1/cases/{case}/certificate", security(("token" = [])), params(("case" = String, Path)), responses(
    (status = 200, description = "the certificate", content_type = "application/json"), (status = 400, body = Problem),
    (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn certificate(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    _: Program,
) -> Result<Response, Refused> {
    let found = cases::find(&lab, &id).await?.certificate;
    let text = found.ok_or_else(|| LabError::Usage(format!("case `{id}` is not deleted")))?;
    Ok(([("content-type", "application/json")], text).into_response())
}

/// A request.
#[derive(Serialize, ToSchema)]
pub(super) struct RequestShown {
    id: String,
    case: String,
    /// `open`, `taken up`, `answered`, `over` or `revoked`.
    state: &'static str,
    /// RFC 3339.
    created: String,
    /// RFC 3339.
    expires: String,
}

/// All requests, the newest first.
#[utoipa::path(get, path = "/lab/v1/requests", security(("token" = [])), responses(
    (status = 200, body = Vec<RequestShown>), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub(super) async fn requests(
    State(lab): State<Lab>,
    program: Program,
) -> Result<Json<Vec<RequestShown>>, Refused> {
    program.must(Right::Ask)?;
    let shown = requests::all(&lab).await?.into_iter().map(|made| RequestShown {
        state: made.state_in_words(),
        created: time(made.created),
        expires: time(made.expires),
        id: made.id,
        case: made.case_id,
    });
    Ok(Json(shown.collect()))
}

/// What is to be asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    case: String,
    /// `slow`, `hang`, `file` or `report`.
    recipe: String,
    /// How long to record.
    seconds: Option<u64>,
    /// The process; without it the customer says which.
    target: Option<String>,
    /// Who asks, in words for the customer.
    asks: String,
    /// This lab, as customers reach it.
    address: String,
    /// How long the link is good. 72 without it.
    valid_hours: Option<u32>,
    /// Most megabytes that are taken. 4096 without it.
    max_megabytes: Option<u64>,
    /// For how many days it is kept at most. 30 without it.
    keep_days: Option<u32>,
}

/// A request that was made.
#[derive(Serialize, ToSchema)]
pub(super) struct Made {
    id: String,
    /// For the customer alone; it is not to be had again.
    link: String,
    /// What the customer runs.
    command: String,
}

/// Makes a request.
#[utoipa::path(post, path = "/lab/v1/requests", security(("token" = [])), request_body = Asked, responses(
    (status = 201, body = Made), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
    (status = 410, body = Problem)))]
pub(super) async fn ask(
    State(lab): State<Lab>,
    program: Program,
    asked: Result<Json<Asked>, JsonRejection>,
) -> Result<(StatusCode, Json<Made>), Refused> {
    program.must(Right::Ask)?;
    let Json(asked) = asked?;
    let no_recipe = |_| LabError::Usage("there is no such recipe".to_owned());
    let kind: Kind = asked.recipe.parse().map_err(no_recipe)?;
    let seconds = asked.seconds.filter(|_| kind.is_captured());
    let new = NewRequest {
        case: asked.case,
        lab_name: asked.asks,
        address: asked.address,
        recipe: Recipe { kind, seconds, target: asked.target },
        valid_seconds: i64::from(asked.valid_hours.unwrap_or(72)) * 3600,
        max_bytes: asked.max_megabytes.unwrap_or(4096).saturating_mul(1 << 20),
        kept_days: asked.keep_days.unwrap_or(30),
    };
    let link = requests::create(&lab, &new, &program.name).await?;
    let text = link.to_text();
    let made =
        Made { id: link.id.clone(), command: requests::command(kind, &text), link: text.as_str().to_owned() };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Ends a request: its link is worth nothing any more.
#[utoipa::path(delete, path = "/lab/v1/requests/{id}", security(("token" = [])), params(("id" = String, Path)), responses(
    (status = 204), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub(super) async fn revoke(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    program: Program,
) -> Result<StatusCode, Refused> {
    program.must(Right::Ask)?;
    requests::revoke(&lab, &id, &program.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How many.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Most {
    /// Most lines; 100 without it, 10000 at most.
    most: Option<u32>,
}

/// A line of the log.
#[derive(Serialize, ToSchema)]
pub(super) struct LineShown {
    number: i64,
    /// RFC 3339.
    time: String,
    who: String,
    what: String,
    of: String,
    detail: String,
}

/// The log, and whether all of it is as it was written.
#[derive(Serialize, ToSchema)]
pub(super) struct Log {
    /// The first line that is not as it was written.
    changed_at: Option<i64>,
    /// The newest, the newest first.
    lines: Vec<LineShown>,
}

/// The newest lines of the log.
#[utoipa::path(get, path = "/lab/v1/log", security(("token" = [])), params(Most), responses(
    (status = 200, body = Log), (status = 401, body = Problem), (status = 403, body = Problem)))]
pub(super) async fn log(
    State(lab): State<Lab>,
    program: Program,
    most: Result<Query<Most>, QueryRejection>,
) -> Result<Json<Log>, Refused> {
    program.must(Right::ReadLog)?;
    let most = most?.0.most.unwrap_or(100).min(10_000);
    let lines = audit::newest(&lab.store, most).await?.into_iter().map(|line| LineShown {
        number: line.number,
        time: time(line.time),
        who: line.who,
        what: line.what,
        of: line.of,
        detail: line.detail,
    });
    let changed_at = audit::check(&lab.store).await?.err();
    Ok(Json(Log { changed_at, lines: lines.collect() }))
}
