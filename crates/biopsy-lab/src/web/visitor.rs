//! Who asks for a page, and whether he may see it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::page::{bare, escape, whole};
use crate::error::{LabError, in_words};
use crate::people::{Right, Roles, session};
use crate::place::Lab;

/// The cookie of a session.
const COOKIE: &str = "biopsy-lab";

/// Somebody who is logged in.
#[derive(Debug)]
pub(super) struct Visitor {
    /// The name, for the log.
    pub(super) name: String,
    /// What he may do.
    pub(super) roles: Roles,
}

impl Visitor {
    /// Whether he may.
    pub(super) fn must(&self, right: Right) -> Result<(), Denied> {
        if self.roles.may(right) { Ok(()) } else { Err(Denied::NotAllowed) }
    }

    /// A page for him.
    pub(super) fn page(&self, title: &str, body: &str) -> Response {
        let mut links = String::from("<a href=\"/\">Cases</a>");
        for (right, link) in [
            (Right::Ask, "<a href=\"/requests\">Requests</a>"),
            (Right::Invite, "<a href=\"/people\">People</a>"),
            (Right::ReadLog, "<a href=\"/log\">Log</a>"),
        ] {
            if self.roles.may(right) {
                links.push_str(link);
            }
        }
        let name = escape(&self.name);
        let nav = format!(
            "<nav><b>biopsy lab</b>{links}<form method=\"post\" action=\"/logout\"><span class=\"note\">{name}</span> <button>Log out</button></form></nav>"
        );
        whole(title, &format!("{nav}<main>{body}</main>"))
    }
}

impl FromRequestParts<Lab> for Visitor {
    type Rejection = Denied;

    async fn from_request_parts(call: &mut Parts, lab: &Lab) -> Result<Self, Denied> {
        if call.method != Method::GET && call.method != Method::HEAD && !is_of_our_pages(&call.headers) {
            return Err(Denied::Elsewhere);
        }
        let Some(word) = word(&call.headers) else { return Err(Denied::Nobody) };
        let (name, roles) = session::of(lab, word).await?.ok_or(Denied::Nobody)?;
        Ok(Self { name, roles })
    }
}

/// The word of the session that is in the cookie.
pub(super) fn word(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, COOKIE)
}

/// A proxy that speaks https says so; without one the lab is on this machine alone.
pub(super) fn is_by_https(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|value| value == "https")
}

/// The cookie of a session; without a word, its end.
pub(super) fn session_cookie(headers: &HeaderMap, word: &str) -> String {
    let secure = if is_by_https(headers) { "; Secure" } else { "" };
    let age = if word.is_empty() { "; Max-Age=0" } else { "" };
    format!("{COOKIE}={word}; HttpOnly; SameSite=Strict; Path=/{secure}{age}")
}

/// What is in a cookie of this name.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|all| all.split(';')).find_map(|one| one.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Whether a form was on a page of ours. The cookie goes with no call of another site; browsers that do not keep to that say where the call
/// comes from.
pub(super) fn is_of_our_pages(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-site"), text("origin"), text("host")) {
        (Some(site), _, _) => site == "same-origin",
        (None, Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, at)| at == host),
        (None, Some(_), None) => false,
        (None, None, _) => true,
    }
}

/// Why a page is not shown.
#[derive(Debug)]
pub(super) enum Denied {
    /// He is not logged in.
    Nobody,
    /// None of his roles allows it.
    NotAllowed,
    /// The form was on a page of another site.
    Elsewhere,
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
            Self::Nobody => return Redirect::to("/login").into_response(),
            Self::NotAllowed => (StatusCode::FORBIDDEN, "None of your roles allows that.".to_owned()),
            Self::Elsewhere => (StatusCode::FORBIDDEN, "That form was on a page of another site.".to_owned()),
            Self::Trouble(error @ LabError::Usage(_)) => (StatusCode::BAD_REQUEST, in_words(&error)),
            Self::Trouble(error) => (StatusCode::NOT_FOUND, in_words(&error)),
        };
        let body = format!("<p class=\"bad\">{}</p><p><a href=\"/\">Cases</a></p>", escape(&words));
        (status, bare("not shown", &body)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_sites_are_known() {
        for (headers, is_ours) in [
            (&[][..], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://lab"), ("host", "lab")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("origin", "https://lab.example"), ("host", "lab.example")], true),
            (&[("origin", "https://elsewhere.example"), ("host", "lab.example")], false),
            (&[("origin", "null"), ("host", "lab.example")], false),
            (&[("origin", "https://lab.example")], false),
        ] {
            let headers: HeaderMap =
                headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(is_of_our_pages(&headers), is_ours, "{headers:?}");
        }
    }

    #[test]
    fn the_word_is_found_among_other_cookies() {
        let headers = |text: &str| HeaderMap::from_iter([(header::COOKIE, text.parse().unwrap())]);
        assert_eq!(word(&headers("a=b; biopsy-lab=xyz; c=d")), Some("xyz"));
        assert_eq!(word(&headers("biopsy-labs=xyz")), None);
        assert_eq!(word(&HeaderMap::new()), None);
    }
}
