//! Logging in at the company's own provider: off to it, and back.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::page::{bare, escape};
use super::visitor::{Denied, cookie, is_by_https, session_cookie};
use crate::error::in_words;
use crate::people::provider::{Attempt, GOOD_FOR, Provider, Refused, enter};
use crate::place::Lab;

/// The cookie of somebody who has begun. It has to come with a link from the provider, which a stricter one would not.
const COOKIE: &str = "biopsy-lab-attempt";

/// What the lab was told of a provider, if anything.
pub(super) type Known = Option<Arc<Provider>>;

/// `GET /login/provider`
pub(super) async fn begin(
    State(lab): State<Lab>,
    Extension(provider): Extension<Known>,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    let Some(provider) = provider else { return Ok(Redirect::to("/login").into_response()) };
    let attempt = Attempt::begin();
    let way = match provider.way_in(&attempt).await {
        Ok(way) => way,
        Err(refused) => return Ok(not_logged_in(&refused)),
    };
    let set = attempt_cookie(&headers, &attempt.sealed(&lab)?, GOOD_FOR);
    Ok((AppendHeaders([(header::SET_COOKIE, set)]), Redirect::to(&way)).into_response())
}

/// What the provider sends somebody back with.
#[derive(Deserialize)]
pub(super) struct Back {
    state: Option<String>,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// `GET /login/provider/back`
pub(super) async fn back(
    State(lab): State<Lab>,
    Extension(provider): Extension<Known>,
    headers: HeaderMap,
    Query(back): Query<Back>,
) -> Result<Response, Denied> {
    let Some(provider) = provider else { return Ok(Redirect::to("/login").into_response()) };
    let (sealed, state) = (cookie(&headers, COOKIE).unwrap_or_default(), back.state.unwrap_or_default());
    let Some(attempt) = Attempt::taken(&lab, sealed, &state).await? else {
        return Ok(not_logged_in(&Refused::NotBegunHere));
    };
    let who = match (back.error, back.code) {
        (None, Some(code)) => provider.who(attempt, code, back.iss).await,
        // A word of the standard's.
        (error, _) => {
            let is_plain = |one: &char| one.is_ascii_lowercase() || *one == '_';
            let word = error.unwrap_or_else(|| "nothing".to_owned());
            Err(Refused::ByProvider(word.chars().filter(is_plain).take(40).collect()))
        }
    };
    let who = match who {
        Ok(who) => who,
        Err(refused) => return Ok(not_logged_in(&refused)),
    };
    let Some(word) = enter(&lab, &who).await? else {
        let body = "<h1>Not logged in</h1><p>None of your groups has a role in this lab. Whoever runs it can give one a role.</p>\
                    <p><a href=\"/login\">Log in otherwise</a></p>";
        return Ok((StatusCode::FORBIDDEN, bare("not logged in", body)).into_response());
    };
    // The cookie of a session goes with no link from elsewhere, redirects included, and this one is from the provider: the browser has to come from
    // a page of ours.
    let body = "<meta http-equiv=\"refresh\" content=\"0;url=/\"><h1>You are logged in</h1><p><a href=\"/\">Cases</a></p>";
    let cookies = [
        (header::SET_COOKIE, session_cookie(&headers, &word)),
        (header::SET_COOKIE, attempt_cookie(&headers, "", 0)),
    ];
    Ok((AppendHeaders(cookies), bare("logged in", body)).into_response())
}

/// `GET /login/provider/out`: what is open there, too.
pub(super) async fn out(Extension(provider): Extension<Known>) -> Response {
    let Some(provider) = provider else { return Redirect::to("/login").into_response() };
    match provider.way_out().await {
        Ok(Some(way)) => Redirect::to(&way).into_response(),
        Ok(None) => {
            let body = "<h1>You are logged out here</h1><p>Your provider has no way to log out that the lab could lead to: do it there.</p>\
                        <p><a href=\"/login\">Log in again</a></p>";
            bare("logged out", body).into_response()
        }
        Err(refused) => not_logged_in(&refused),
    }
}

fn attempt_cookie(headers: &HeaderMap, value: &str, seconds: i64) -> String {
    let secure = if is_by_https(headers) { "; Secure" } else { "" };
    format!("{COOKIE}={value}; HttpOnly; SameSite=Lax; Path=/login/provider; Max-Age={seconds}{secure}")
}

/// Why not, for whoever tried; what only those can mend who run the lab, they are told.
fn not_logged_in(refused: &Refused) -> Response {
    let (status, why) = match refused {
        Refused::NotBegunHere => (
            StatusCode::FORBIDDEN,
            "This was begun in another browser or more than ten minutes ago, or has ended already."
                .to_owned(),
        ),
        Refused::ByProvider(word) => {
            (StatusCode::FORBIDDEN, format!("Your provider did not log you in: it says {}.", escape(word)))
        }
        Refused::Trouble { .. } | Refused::NotBelieved(_) => {
            biopsy_terminal::out::say(format!("log in by the provider: {}", in_words(refused)));
            let why = "Your provider did not answer as it should. What it did is on the standard error of the lab, for whoever runs it.";
            (StatusCode::BAD_GATEWAY, why.to_owned())
        }
    };
    let body = format!(
        "<h1>Not logged in</h1><p class=\"bad\" role=\"alert\">{why}</p><p><a href=\"/login\">Try again</a></p>"
    );
    (status, bare("not logged in", &body)).into_response()
}
