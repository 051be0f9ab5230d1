//! Pages for the vendor: the cases, one case with its report, and its deletion. Few and plain; no script of ours runs but the report's own,
//! in a frame that may do nothing else.

use axum::Router;
use axum::extract::{Form, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use crate::cases::{self, Case};
use crate::delete;
use crate::error::{LabError, in_words};
use crate::place::Lab;

const COOKIE: &str = "biopsy-lab";
/// No script, nothing from elsewhere, in no frame of others.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The report has its script inside; it may draw, and reach nothing.
const POLICY_OF_REPORT: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                                img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The pages.
pub fn router(lab: Lab) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/login", get(login))
        .route("/r/{id}", get(link))
        .route("/case/{id}", get(one))
        .route("/case/{id}/report", get(report))
        .route("/case/{id}/delete", post(remove))
        .route("/case/{id}/certificate", get(certificate))
        .with_state(lab)
}

/// What a customer sees who opens the link in a browser. It says nothing of the request, not even whether there is one.
async fn link() -> Response {
    page(
        "biopsy",
        "<h1>This is a request for evidence</h1><p>Run this where the server is, with the whole link in quotes:</p>\
         <pre>biopsy send --request 'LINK'</pre><p>It shows who asks, for what, and who will be able to read it, before anything is \
         recorded or sent.</p>",
    )
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// `GET /login?token=...`: for whoever started the lab.
async fn login(State(lab): State<Lab>, Query(Token { token }): Query<Token>) -> Result<Response, Denied> {
    if !is_token(&lab, &token)? {
        return Err(Denied::Nobody);
    }
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

async fn list(State(lab): State<Lab>, headers: HeaderMap) -> Result<Response, Denied> {
    admit(&lab, &headers)?;
    let mut rows = String::new();
    for case in cases::all(&lab).await? {
        let id = escape(&case.id);
        rows.push_str(&format!(
            "<tr><td><a href=\"/case/{id}\">{id}</a></td><td>{}</td><td>{}</td></tr>",
            escape(&case.state),
            when(case.created)
        ));
    }
    let body =
        format!("<h1>Cases</h1><table><tr><th>case</th><th>state</th><th>asked</th></tr>{rows}</table>");
    Ok(page("cases", &body))
}

async fn one(State(lab): State<Lab>, Path(id): Path<String>, headers: HeaderMap) -> Result<Response, Denied> {
    admit(&lab, &headers)?;
    let case = cases::find(&lab, &id).await?;
    let objects = cases::objects(&lab, &id).await?;
    let shown = escape(&case.id);
    let held: String = objects
        .iter()
        .map(|object| format!("<li>{}: {} bytes, sealed</li>", escape(&object.kind), object.bytes))
        .collect();
    let until =
        case.kept_until.map(|until| format!(" It deletes itself on {}.", when(until))).unwrap_or_default();
    let middle = if case.state == "deleted" {
        format!("<p><a href=\"/case/{shown}/certificate\">The certificate of its deletion</a></p>")
    } else {
        let report = if objects.iter().any(|object| object.kind == "report.html") {
            format!(
                "<iframe sandbox=\"allow-scripts\" title=\"report\" src=\"/case/{shown}/report\"></iframe>"
            )
        } else {
            String::new()
        };
        format!(
            "<ul>{held}</ul>{report}<form method=\"post\" action=\"/case/{shown}/delete\"><label>Why: <input name=\"reason\" required \
             maxlength=\"200\"></label> <label>Its name, once more: <input name=\"name\" required></label> <button>Delete it for ever</button></form>"
        )
    };
    let body = format!(
        "<p><a href=\"/\">Cases</a></p><h1>Case {shown}</h1><p>It is {}.{until}</p>{middle}",
        escape(&case.state)
    );
    Ok(page(&case.id, &body))
}

async fn report(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    admit(&lab, &headers)?;
    let html = cases::report(&lab, &id, "report.html", "web").await?;
    Ok((
        [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CONTENT_SECURITY_POLICY, POLICY_OF_REPORT),
        ],
        html,
    )
        .into_response())
}

async fn certificate(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    admit(&lab, &headers)?;
    let Case { certificate, .. } = cases::find(&lab, &id).await?;
    let text = certificate.ok_or(LabError::Damaged { what: "the certificate: the case is not deleted" })?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CONTENT_DISPOSITION, "attachment; filename=certificate.json"),
    ];
    Ok((headers, text).into_response())
}

#[derive(Deserialize)]
struct Removal {
    reason: String,
    name: String,
}

async fn remove(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Form(Removal { reason, name }): Form<Removal>,
) -> Result<Response, Denied> {
    admit(&lab, &headers)?;
    // The cookie goes with no call of another site; browsers that do not keep to that say where the call comes from.
    let is_ours = headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin");
    if !is_ours || name != id {
        return Err(Denied::Nobody);
    }
    delete::case(&lab, &id, "web", &reason.chars().take(200).collect::<String>()).await?;
    Ok(Redirect::to(&format!("/case/{id}")).into_response())
}

/// Why a page is not shown.
#[derive(Debug)]
enum Denied {
    Nobody,
    Trouble(LabError),
}

impl From<LabError> for Denied {
    fn from(error: LabError) -> Self {
        Self::Trouble(error)
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let (status, words) = match self {
            Self::Nobody => {
                (StatusCode::FORBIDDEN, "Open the link that the lab printed when it was started.".to_owned())
            }
            Self::Trouble(error) => (StatusCode::NOT_FOUND, in_words(&error)),
        };
        (status, page("biopsy", &format!("<p>{}</p>", escape(&words)))).into_response()
    }
}

/// Whoever has the cookie is an operator.
fn admit(lab: &Lab, headers: &HeaderMap) -> Result<(), Denied> {
    let cookies = headers.get(header::COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut ours = cookies.split(';').filter_map(|one| one.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    match ours.next() {
        Some(token) if is_token(lab, token)? => Ok(()),
        _ => Err(Denied::Nobody),
    }
}

fn is_token(lab: &Lab, given: &str) -> Result<bool, LabError> {
    let wanted = lab.web_token()?;
    let differ = wanted.bytes().zip(given.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    Ok(wanted.len() == given.len() && differ == 0)
}

fn page(title: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{}</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}}td,th{{text-align:left;padding:.2rem \
         1rem .2rem 0}}iframe{{width:100%;height:70vh;border:1px solid #999}}pre{{background:#eee;padding:1rem;color:#111}}</style>{body}</html>",
        escape(title)
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Html(text)).into_response()
}

fn when(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

/// Text for a page: it stays text.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
