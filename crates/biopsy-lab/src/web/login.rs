//! Logging in and out, and accepting an invitation.

use axum::Extension;
use axum::extract::{Form, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::page::{bare, escape};
use super::provider::Known;
use super::visitor::{Denied, is_of_our_pages, session_cookie, word};
use crate::people::{invite, login, password, session};
use crate::place::Lab;

/// What the address says.
#[derive(Deserialize)]
pub(super) struct After {
    out: Option<String>,
}

/// `GET /login`
pub(super) async fn form(Extension(provider): Extension<Known>, Query(after): Query<After>) -> Response {
    login_page(&provider, after.out.is_some(), None)
}

fn login_page(provider: &Known, is_after: bool, told: Option<&str>) -> Response {
    let told =
        told.map(|told| format!("<p class=\"bad\" role=\"alert\">{}</p>", escape(told))).unwrap_or_default();
    let elsewhere = provider.as_ref().map(|provider| {
        let name = escape(provider.name());
        let out = match is_after {
            true => format!(
                "<p>You are logged out here. <a href=\"/login/provider/out\">Log out of {name}, too</a></p>"
            ),
            false => String::new(),
        };
        format!(
            "{out}<p><a class=\"button\" href=\"/login/provider\">Log in with {name}</a></p><p class=\"note\">Or with a password of this lab alone:</p>"
        )
    });
    let elsewhere = elsewhere.unwrap_or_default();
    bare(
        "log in",
        &format!(
            "<h1>biopsy lab</h1>{told}{elsewhere}<form class=\"tall\" method=\"post\" action=\"/login\">\
             <label for=\"name\">Name</label><input id=\"name\" name=\"name\" autocomplete=\"username\" required autofocus>\
             <label for=\"password\">Password</label><input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required>\
             <label for=\"code\">Six digits</label><input id=\"code\" name=\"code\" inputmode=\"numeric\" autocomplete=\"one-time-code\" required>\
             <button>Log in</button></form><p class=\"note\">Lost your password or phone? An administrator can invite you again, or, where the lab runs, \
             <code>biopsy-lab person invite NAME --role ROLE</code></p>"
        ),
    )
}

/// What was typed.
#[derive(Deserialize)]
pub(super) struct Typed {
    name: String,
    password: String,
    code: String,
}

/// `POST /login`
pub(super) async fn log_in(
    State(lab): State<Lab>,
    Extension(provider): Extension<Known>,
    headers: HeaderMap,
    Form(typed): Form<Typed>,
) -> Result<Response, Denied> {
    if !is_of_our_pages(&headers) {
        return Err(Denied::Elsewhere);
    }
    let typed = login::Typed {
        name: typed.name.trim().to_owned(),
        password: Zeroizing::new(typed.password),
        code: typed.code,
    };
    match login::login(&lab, typed).await? {
        Some(word) => Ok(with_cookie(&headers, &word, "/")),
        None => {
            let told = "Name, password or digits are wrong, or the digits were used already. After several failures it takes a while until you can try again.";
            Ok((StatusCode::FORBIDDEN, login_page(&provider, false, Some(told))).into_response())
        }
    }
}

/// Sets the cookie, or takes it away, and leads on.
fn with_cookie(headers: &HeaderMap, word: &str, to: &str) -> Response {
    ([(header::SET_COOKIE, session_cookie(headers, word))], Redirect::to(to)).into_response()
}

/// `POST /logout`
pub(super) async fn log_out(State(lab): State<Lab>, headers: HeaderMap) -> Result<Response, Denied> {
    if !is_of_our_pages(&headers) {
        return Err(Denied::Elsewhere);
    }
    if let Some(word) = word(&headers) {
        session::end(&lab, word).await?;
    }
    Ok(with_cookie(&headers, "", "/login?out"))
}

/// `GET /welcome/WORD`
pub(super) async fn welcome(State(lab): State<Lab>, Path(word): Path<String>) -> Result<Response, Denied> {
    invitation(&lab, &word, None).await
}

/// What was chosen.
#[derive(Deserialize)]
pub(super) struct Chosen {
    password: String,
    code: String,
}

/// `POST /welcome/WORD`
pub(super) async fn accept(
    State(lab): State<Lab>,
    Path(word): Path<String>,
    headers: HeaderMap,
    Form(Chosen { password, code }): Form<Chosen>,
) -> Result<Response, Denied> {
    if !is_of_our_pages(&headers) {
        return Err(Denied::Elsewhere);
    }
    let Some(found) = invite::find(&lab, &word).await? else { return Ok(no_invitation()) };
    match invite::accept(&lab, &found, Zeroizing::new(password), &code).await? {
        Ok(session) => Ok(with_cookie(&headers, &session, "/")),
        Err(why) => invitation(&lab, &word, Some(why)).await,
    }
}

fn no_invitation() -> Response {
    let body = "<h1>This invitation is over</h1><p>It was accepted, or is older than three days. Ask for another one.</p>";
    (StatusCode::NOT_FOUND, bare("over", body)).into_response()
}

async fn invitation(lab: &Lab, word: &str, told: Option<&str>) -> Result<Response, Denied> {
    let Some(found) = invite::find(lab, word).await? else { return Ok(no_invitation()) };
    let told_text = told
        .map(|told| format!("<p class=\"bad\" role=\"alert\">Not accepted: {}.</p>", escape(told)))
        .unwrap_or_default();
    let picture = found.second.qr_code().unwrap_or_default();
    // As an element of the page, not a document of its own.
    let picture = picture.find("<svg").map_or("", |at| &picture[at..]);
    let body = format!(
        "<h1>Welcome, {}</h1>{told_text}<p>Scan this with your authenticator app, or type it there: <code>{}</code></p>\
         <div class=\"picture\" role=\"img\" aria-label=\"QR code of the same\">{picture}</div>\
         <form class=\"tall\" method=\"post\"><input name=\"name\" value=\"{}\" autocomplete=\"username\" readonly hidden>\
         <label for=\"password\">A password</label>\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"new-password\" minlength=\"{}\" required>\
         <label for=\"code\">The six digits it shows</label><input id=\"code\" name=\"code\" inputmode=\"numeric\" autocomplete=\"one-time-code\" required>\
         <button>Accept</button></form>",
        escape(&found.person),
        escape(&found.second.typed()),
        escape(&found.person),
        password::SHORTEST,
    );
    let status = if told.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok((status, bare("welcome", &body)).into_response())
}
