//! What a customer sees who opens the link in a browser: how to use it, and, where scripts may run, a way to send a file from there.
//!
//! The page says nothing of the request, not even whether there is one: the script asks for that with what is behind `#`, which the
//! browser sends to nobody. It seals the file before it sends it (`ui/send`).

use std::io::Write as _;
use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

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

/// The script by gzip; nothing if that failed.
static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(SCRIPT.as_bytes()).and_then(|()| packer.finish()).unwrap_or_default()
});

/// `GET /send.js`
pub(super) async fn script(headers: HeaderMap) -> Response {
    let named = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
    ];
    if takes_gzip(&headers) && !PACKED.is_empty() {
        return (named, [(header::CONTENT_ENCODING, "gzip")], PACKED.as_slice()).into_response();
    }
    (named, SCRIPT).into_response()
}

/// Whether a browser unpacks it (RFC 9110, 12.5.3): it names gzip, and not with a weight of nothing.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let is_none = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_none
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_script_is_packed_for_whoever_unpacks_it() {
        for (accepted, expected) in [
            (None, false),
            (Some(""), false),
            (Some("br, zstd"), false),
            (Some("gzip, deflate, br"), true),
            (Some("br;q=1.0, GZIP;q=0.8"), true),
            (Some("gzip;q=0"), false),
            (Some("gzip; q=0.000, br"), false),
            (Some("xgzip"), false),
        ] {
            let mut headers = HeaderMap::new();
            accepted.map(|value| headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value)));
            assert_eq!(takes_gzip(&headers), expected, "{accepted:?}");
        }
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(PACKED.as_slice()).read_to_string(&mut unpacked).unwrap();
        assert!(unpacked == SCRIPT && PACKED.len() < 60_000, "{} bytes", PACKED.len());
    }
}
