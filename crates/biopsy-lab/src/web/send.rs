//! What a customer sees who opens the link in a browser: how to use it, and, where scripts may run, a way to send a file from there.
//!
//! The page says nothing of the request, not even whether there is one: the script asks for that with what is behind `#`, which the
//! browser sends to nobody. It seals the file before it sends it (`ui/send`).

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::page::bare;

const SCRIPT: &str = include_str!("../../../../ui/dist/send.js");
/// Our script alone, which may talk to this lab alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; form-action 'none'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// `GET /r/ID`
pub(super) async fn page() -> Response {
    let mut page = bare(
        "a request",
        "<h1>This is a request for evidence</h1><p>Run this where the server is, with the whole link in quotes:</p>\
         <pre>biopsy send --request 'LINK'</pre><p>It shows who asks, for what, and who will be able to read it, before anything is \
         recorded or sent. There is no biopsy on that server? <a href=\"/program\">The program</a> is one file.</p><script type=\"module\" src=\"/send.js\"></script>",
    );
    page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    page
}

/// `GET /send.js`
pub(super) async fn script() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, SCRIPT).into_response()
}
