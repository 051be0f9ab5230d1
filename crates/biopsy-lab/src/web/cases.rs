//! The cases, one case with its report, and its deletion.

use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::page::{address, escape, size, when};
use super::visitor::{Denied, Visitor};
use crate::audit;
use crate::cases::{self, Case};
use crate::delete;
use crate::error::LabError;
use crate::people::Right;
use crate::place::Lab;
use crate::signatures::{self, Same};

/// The report has its script inside; it may draw, and reach nothing.
const POLICY_OF_REPORT: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                                img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// `GET /`
pub(super) async fn list(State(lab): State<Lab>, visitor: Visitor) -> Result<Response, Denied> {
    let mut rows = String::new();
    for case in cases::all(&lab).await? {
        let id = escape(&case.id);
        let until = case.kept_until.map(when).unwrap_or_default();
        rows.push_str(&format!(
            "<tr><td><a href=\"/case/{id}\">{id}</a></td><td>{}</td><td>{}</td><td>{until}</td></tr>",
            escape(&case.state),
            when(case.created)
        ));
    }
    let table = match rows.is_empty() {
        true => "<p class=\"note\">None yet: a case begins with its first request.</p>".to_owned(),
        false => {
            format!(
                "<table><tr><th>Case</th><th>State</th><th>Asked</th><th>Deletes itself</th></tr>{rows}</table>"
            )
        }
    };
    Ok(visitor.page("cases", &format!("<h1>Cases</h1>{table}")))
}

/// `GET /case/ID`
pub(super) async fn one(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    let case = cases::find(&lab, &id).await?;
    let objects = cases::objects(&lab, &id).await?;
    let shown = escape(&case.id);
    let held: String = objects
        .iter()
        .map(|object| format!("<li>{}: {}, sealed</li>", escape(&object.kind), size(object.bytes)))
        .collect();
    let until = case
        .kept_until
        .filter(|_| case.state != "deleted")
        .map(|until| format!(" It deletes itself on {}.", when(until)))
        .unwrap_or_default();
    let mut middle = format!("<ul>{held}</ul>{}", received(&lab, &case.id).await?);
    if case.is_sealed() && case.state != "deleted" {
        middle.push_str(&sealed(&case, &visitor, &address(&headers)));
    }
    if case.certificate.is_some() {
        middle.push_str(&format!(
            "<p><a href=\"/case/{shown}/certificate\">The certificate of its deletion</a></p>"
        ));
    }
    if visitor.roles.may(Right::Read) {
        middle.push_str(&equals(&lab, &case.id, Same::Crash).await?);
        middle.push_str(&equals(&lab, &case.id, Same::Cause).await?);
    }
    if visitor.roles.may(Right::Read) && objects.iter().any(|object| object.kind.starts_with("report.")) {
        middle.push_str(&format!(
            "<iframe sandbox=\"allow-scripts\" title=\"report\" src=\"/case/{shown}/report\"></iframe>"
        ));
    }
    middle.push_str(&history(&lab, &case.id).await?);
    if visitor.roles.may(Right::Delete) && case.state != "deleted" {
        middle.push_str(&format!(
            "<h2>Delete it</h2><p class=\"note\">No copy can be read afterwards, back-ups included.</p>\
             <form class=\"row\" method=\"post\" action=\"/case/{shown}/delete\"><label>Why <input name=\"reason\" required maxlength=\"200\"></label> \
             <label>Its name, once more <input name=\"name\" required autocomplete=\"off\"></label> <button>Delete it for ever</button></form>"
        ));
    }
    let body = format!("<h1>Case {shown}</h1><p>It is {}.{until}</p>{middle}", escape(&case.state));
    Ok(visitor.page(&case.id, &body))
}

/// What is known of each thing that was sent, whoever can read it: by its receipt.
async fn received(lab: &Lab, case: &str) -> Result<String, LabError> {
    let mut rows = String::new();
    for (upload, receipt) in cases::receipts(lab, case).await? {
        let program = cases::program(lab, &upload).await?.unwrap_or_else(|| "not said".to_owned());
        rows.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            when(receipt.received),
            size(i64::try_from(receipt.bytes).unwrap_or(i64::MAX)),
            escape(&program),
            escape(&receipt.sha256)
        ));
    }
    if rows.is_empty() {
        return Ok(rows);
    }
    let signer = lab.signer.key().fingerprint();
    Ok(format!(
        "<table><tr><th>Received</th><th>Size</th><th>Sent by the program</th><th>SHA-256</th></tr>{rows}</table>\
         <p class=\"note\">By the receipts that the customer has, signed by <code>{signer}</code>.</p>"
    ))
}

/// Who can read a case that the lab cannot, and how.
fn sealed(case: &Case, visitor: &Visitor, address: &str) -> String {
    let keys: Vec<String> = case
        .readers
        .iter()
        .flat_map(|all| all.split(','))
        .map(|key| format!("<code>{}</code>", escape(key)))
        .collect();
    let how = match visitor.roles.may(Right::Read) {
        true => format!(
            "<p>With a token (<code>biopsy-lab token new NAME --role analyst</code>) and one of these keys, on your own machine:</p>\
             <pre>biopsy open {} --from {} --token-file TOKEN --identity KEYFILE</pre>",
            escape(&case.id),
            escape(address)
        ),
        false => String::new(),
    };
    format!(
        "<h2>Sealed</h2><p>The lab cannot read it, and so there is no report here. It is sealed to {}.</p>{how}",
        keys.join(", ")
    )
}

/// Which other cases crashed the same way, or have a finding at the same place.
async fn equals(lab: &Lab, case: &str, same: Same) -> Result<String, LabError> {
    let Some(others) = signatures::others(lab, case, same).await? else { return Ok(String::new()) };
    let words = match same {
        Same::Crash => "It crashed the same way as",
        Same::Cause => "It has a finding in the same function as",
    };
    let links: Vec<String> = others
        .newest
        .iter()
        .map(|id| escape(id))
        .map(|id| format!("<a href=\"/case/{id}\">{id}</a>"))
        .collect();
    let rest = others.count - i64::try_from(links.len()).unwrap_or(i64::MAX);
    let rest = if rest > 0 { format!(" and {rest} older") } else { String::new() };
    let since = when(others.since);
    let cases = if others.count == 1 { "case" } else { "cases" };
    Ok(format!("<p>{words} {} other {cases} since {since}: {}{rest}.</p>", others.count, links.join(", ")))
}

/// What happened to it, and who read what of it.
async fn history(lab: &Lab, case: &str) -> Result<String, LabError> {
    let rows: String = audit::of_case(&lab.store, case)
        .await?
        .iter()
        .map(|line| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                when(line.time),
                escape(&line.who),
                escape(&line.what),
                escape(&line.detail)
            )
        })
        .collect();
    Ok(format!(
        "<h2>What happened</h2><table><tr><th>When</th><th>Who</th><th>Did</th><th></th></tr>{rows}</table>"
    ))
}

/// `GET /case/ID/report`
pub(super) async fn report(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Result<Response, Denied> {
    visitor.must(Right::Read)?;
    let objects = cases::objects(&lab, &id).await?;
    // A report that the customer's side made is text, and stays text.
    let newest =
        objects.iter().rev().find(|object| ["report.html", "report.md"].contains(&object.kind.as_str()));
    let is_text = newest.is_some_and(|newest| {
        !objects.iter().any(|object| object.upload_id == newest.upload_id && object.kind == "report.html")
    });
    let (kind, content) = match is_text {
        true => ("report.md", "text/plain; charset=utf-8"),
        false => ("report.html", "text/html; charset=utf-8"),
    };
    let html = cases::report(&lab, &id, kind, &visitor.name).await?;
    let headers = [
        (header::CONTENT_TYPE, content),
        (header::CONTENT_SECURITY_POLICY, POLICY_OF_REPORT),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, html).into_response())
}

/// `GET /case/ID/certificate`
pub(super) async fn certificate(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    _: Visitor,
) -> Result<Response, Denied> {
    let Case { certificate, .. } = cases::find(&lab, &id).await?;
    let text = certificate.ok_or(LabError::Damaged { what: "the certificate: the case is not deleted" })?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CONTENT_DISPOSITION, "attachment; filename=certificate.json"),
    ];
    Ok((headers, text).into_response())
}

/// Why, and the name once more.
#[derive(Deserialize)]
pub(super) struct Removal {
    reason: String,
    name: String,
}

/// `POST /case/ID/delete`
pub(super) async fn remove(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    visitor: Visitor,
    Form(Removal { reason, name }): Form<Removal>,
) -> Result<Response, Denied> {
    visitor.must(Right::Delete)?;
    if name != id {
        let body = format!(
            "<p class=\"bad\" role=\"alert\">That is not the name of the case: nothing was deleted.</p><p><a href=\"/case/{0}\">Case {0}</a></p>",
            escape(&id)
        );
        return Ok((StatusCode::BAD_REQUEST, visitor.page("not deleted", &body)).into_response());
    }
    delete::case(&lab, &id, &visitor.name, &reason.chars().take(200).collect::<String>()).await?;
    Ok(Redirect::to(&format!("/case/{id}")).into_response())
}
