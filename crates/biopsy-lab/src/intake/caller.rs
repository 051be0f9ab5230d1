//! Who calls: the secret of the link, and the proof of the key.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use biopsy_deliver::{SignerKey, proof};

use crate::requests::Caller;

use super::answer::Refusal;

/// A header, if it is there once and is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => one.to_str().ok(),
        _ => None,
    }
}

/// The header by which a POST says that it is a PATCH (tus 1.0): there are proxies that let no PATCH through.
const OVERRIDE: &str = "x-http-method-override";

/// Whether a POST stands for a PATCH.
pub(super) fn is_patch(headers: &HeaderMap) -> bool {
    header(headers, OVERRIDE).is_some_and(|method| method.eq_ignore_ascii_case("PATCH"))
}

/// The caller, if the proof is right: it is of the call that is meant, whatever it came as.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(call: &mut Parts, _: &S) -> Result<Self, Response> {
        let headers = &call.headers;
        let find = || {
            let secret = header(headers, "authorization")?.strip_prefix("Bearer ")?.parse().ok()?;
            let key: SignerKey = header(headers, proof::KEY)?.parse().ok()?;
            let path = call.uri.path_and_query()?.as_str();
            let given = header(headers, proof::PROOF)?;
            let method =
                if call.method == Method::POST && is_patch(headers) { "PATCH" } else { call.method.as_str() };
            proof::is_right(&key, given, method, path, |name| header(headers, name))
                .then_some(Self { secret, key })
        };
        find().ok_or_else(|| Refusal::Nothing.into_response())
    }
}
