//! Requests: those that were made, and a new one.

use axum::extract::{Form, Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use biopsy_deliver::{Kind, Recipe};
use serde::Deserialize;

use super::page::{address, escape, when};
use super::visitor::{Denied, Visitor};
use crate::error::LabError;
use crate::people::Right;
use crate::place::{Lab, now};
use crate::readers;
use crate::requests::{self, NewRequest};

/// `GET /requests`
pub(super) async fn list(
    State(lab): State<Lab>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    visitor.must(Right::Ask)?;
    let mut rows = String::new();
    for one in requests::all(&lab).await? {
        let (id, case) = (escape(&one.id), escape(&one.case_id));
        let is_open = one.state == "open" && one.received == 0 && one.expires > now();
        let state = one.state_in_words();
        let end = match is_open {
            true => format!(
                "<form method=\"post\" action=\"/requests/{id}/revoke\"><button>Revoke</button></form>"
            ),
            false => String::new(),
        };
        rows.push_str(&format!(
            "<tr><td><a href=\"/case/{case}\">{case}</a></td><td>{state}</td><td>{}</td><td>{}</td><td>{end}</td></tr>",
            when(one.created),
            when(one.expires)
        ));
    }
    let address = escape(&address(&headers));
    let readers = readers::readers_of_new(&lab).await?;
    let who = match readers.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"note\">New cases are sealed to {} of your own that the lab does not have: it will not be able to read or analyse them.</p>",
            if readers.len() == 1 { "a key".to_owned() } else { format!("{} keys", readers.len()) }
        ),
    };
    let recipes: String = [
        (Kind::Slow, "record what it does now"),
        (Kind::Hang, "record, with the stacks of all threads"),
        (Kind::File, "a file that is there"),
        (Kind::Report, "the report on a file that is there"),
    ]
    .iter()
    .map(|(kind, words)| format!("<option value=\"{0}\">{0}: {words}</option>", kind.name()))
    .collect();
    let body = format!(
        "<h1>Requests</h1>{who}<form class=\"tall\" method=\"post\" action=\"/requests\">\
         <label for=\"case\">Case</label><input id=\"case\" name=\"case\" required pattern=\"[A-Za-z0-9_][A-Za-z0-9._\\-]*\" maxlength=\"64\">\
         <label for=\"recipe\">What is asked for</label><select id=\"recipe\" name=\"recipe\">{recipes}</select>\
         <label for=\"minutes\">Minutes to record</label><input id=\"minutes\" name=\"minutes\" type=\"number\" min=\"1\" max=\"60\" value=\"3\" required>\
         <label for=\"target\">Process</label><input id=\"target\" name=\"target\" placeholder=\"the customer says which\">\
         <label for=\"asks\">Who asks, for the customer</label><input id=\"asks\" name=\"asks\" required maxlength=\"80\">\
         <label for=\"days\">Days it is kept at most</label><input id=\"days\" name=\"days\" type=\"number\" min=\"1\" max=\"3650\" value=\"30\" required>\
         <label for=\"address\">This lab, as customers reach it</label><input id=\"address\" name=\"address\" type=\"url\" value=\"{address}\" required>\
         <button>Make a link</button></form>\
         <h2>Made so far</h2><table><tr><th>Case</th><th>State</th><th>Made</th><th>Good until</th><th></th></tr>{rows}</table>"
    );
    Ok(visitor.page("requests", &body))
}

/// What is to be asked for.
#[derive(Deserialize)]
pub(super) struct Asked {
    case: String,
    recipe: String,
    minutes: u64,
    target: String,
    asks: String,
    days: u32,
    address: String,
}

/// `POST /requests`
pub(super) async fn make(
    State(lab): State<Lab>,
    visitor: Visitor,
    Form(asked): Form<Asked>,
) -> Result<Response, Denied> {
    /// How long a link is good, in seconds, and how much is taken.
    const GOOD_FOR: i64 = 72 * 3600;
    const MOST: u64 = 4 << 30;
    visitor.must(Right::Ask)?;
    let kind: Kind =
        asked.recipe.parse().map_err(|_| LabError::Usage("there is no such recipe".to_owned()))?;
    let target = Some(asked.target.trim().to_owned()).filter(|target| !target.is_empty());
    let seconds = kind.is_captured().then_some(asked.minutes.saturating_mul(60));
    let new = NewRequest {
        case: asked.case,
        lab_name: asked.asks,
        address: asked.address,
        recipe: Recipe { kind, seconds, target },
        valid_seconds: GOOD_FOR,
        max_bytes: MOST,
        kept_days: asked.days,
    };
    let link = requests::create(&lab, &new, &visitor.name).await?;
    let text = link.to_text();
    let command = requests::command(kind, &text);
    let body = format!(
        "<h1>Send this to the customer</h1><pre>{}</pre><p>Whoever has it may send once, and read nothing. It is shown here and nowhere else, and is \
         good for three days.</p><p><a href=\"/requests\">Requests</a></p>",
        escape(&command)
    );
    Ok(visitor.page("a link", &body))
}

/// `POST /requests/ID/revoke`
pub(super) async fn revoke(
    State(lab): State<Lab>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Result<Response, Denied> {
    visitor.must(Right::Ask)?;
    requests::revoke(&lab, &id, &visitor.name).await?;
    Ok(Redirect::to("/requests").into_response())
}
