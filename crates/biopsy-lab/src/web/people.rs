//! Who may log in, and as what.

use std::collections::BTreeMap;

use axum::extract::{Form, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::page::{address, escape};
use super::visitor::{Denied, Visitor};
use crate::people::{self, Right, Role, Roles};
use crate::place::Lab;

/// `GET /people`
pub(super) async fn list(State(lab): State<Lab>, visitor: Visitor) -> Result<Response, Denied> {
    visitor.must(Right::Invite)?;
    let mut rows = String::new();
    for person in people::all(&lab).await? {
        let name = escape(&person.name);
        let state = match (person.is_vouched_for, person.has_accepted) {
            (true, _) => "by the provider",
            (false, true) => "",
            (false, false) => "invited",
        };
        rows.push_str(&format!(
            "<tr><td>{name}</td><td>{}</td><td>{state}</td><td><form method=\"post\" action=\"/people/remove\">\
             <input type=\"hidden\" name=\"name\" value=\"{name}\"><button>Remove</button></form></td></tr>",
            escape(&person.roles.to_string().replace(',', ", "))
        ));
    }
    let roles: String = Role::ALL
        .iter()
        .map(|role| {
            format!(
                "<div><label><input type=\"checkbox\" name=\"{0}\" value=\"on\"> {0}</label> <span class=\"note\">{1}</span></div>",
                role.name(),
                role.words()
            )
        })
        .collect();
    let body = format!(
        "<h1>People</h1><table><tr><th>Name</th><th>Roles</th><th></th><th></th></tr>{rows}</table>\
         <h2>Invite</h2><p class=\"note\">Invite somebody again to give them new roles, or a new password and phone.</p>\
         <form class=\"tall\" method=\"post\" action=\"/people\"><label for=\"name\">Name</label><input id=\"name\" name=\"name\" required maxlength=\"64\">\
         <span>Roles</span><fieldset>{roles}</fieldset><button>Make an invitation</button></form>"
    );
    Ok(visitor.page("people", &body))
}

/// `POST /people`: a name, and each role that is ticked.
pub(super) async fn invite(
    State(lab): State<Lab>,
    visitor: Visitor,
    headers: HeaderMap,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Result<Response, Denied> {
    visitor.must(Right::Invite)?;
    let name = fields.get("name").map(|name| name.trim()).unwrap_or_default();
    let roles = Roles(Role::ALL.into_iter().filter(|role| fields.contains_key(role.name())).collect());
    let word = people::invite::invite(&lab, name, &roles, &visitor.name).await?;
    let body = format!(
        "<h1>An invitation for {}</h1><p>Give them this address; it is good once, for three days, and is shown here and nowhere else:</p>\
         <pre>{}/welcome/{}</pre><p><a href=\"/people\">People</a></p>",
        escape(name),
        escape(&address(&headers)),
        escape(&word)
    );
    Ok(visitor.page("an invitation", &body))
}

/// Who.
#[derive(Deserialize)]
pub(super) struct Who {
    name: String,
}

/// `POST /people/remove`
pub(super) async fn remove(
    State(lab): State<Lab>,
    visitor: Visitor,
    Form(Who { name }): Form<Who>,
) -> Result<Response, Denied> {
    visitor.must(Right::Invite)?;
    people::remove(&lab, &name, &visitor.name).await?;
    Ok(Redirect::to("/people").into_response())
}
