//! Random runs that are made to be shown to everybody, by the place where they stand: tags of entities in HTTP, keys that check
//! signatures, numbers of requests to a store.

use std::ops::Range;

/// How far around a member its key of JWK is looked for, in bytes.
const KEY_REACH: usize = 600;

/// Is the run one of them?
pub(crate) fn is_published(text: &[u8], run: &Range<usize>) -> bool {
    // Keys that Stripe, Clerk and others call publishable.
    [&b"pk_live_"[..], b"pk_test_"].iter().any(|begin| text[run.clone()].starts_with(begin))
        || is_entity_tag(&text[..run.start])
        || is_in_digest(text, run.start)
        || is_request_of_store(&text[run.end..])
        || is_of_public_key(text, run)
}

/// Is this inside of `sha512-z6sg9uctiyj3...==`, the digest of a file as lock files and pages have it (Subresource Integrity)?
pub(crate) fn is_in_digest(text: &[u8], at: usize) -> bool {
    const DIGITS_MAX: usize = 88;
    let is_of_digest = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    let length = text[..at].iter().rev().take(DIGITS_MAX).take_while(is_of_digest).count();
    [&b"sha512-"[..], b"sha384-", b"sha256-"].iter().any(|kind| text[..at - length].ends_with(kind))
}

/// `W/"e88-OMq8cEwqVYRhboXwtHfMHZEo3Hz"`: a weak tag (RFC 9110, section 8.8.3), also inside of a string.
fn is_entity_tag(before: &[u8]) -> bool {
    let Some(before) = before.strip_suffix(b"\"") else { return false };
    let backslashes = before.iter().rev().take(8).take_while(|b| **b == b'\\').count();
    before[..before.len() - backslashes].ends_with(b"W/")
}

/// `fkOCzXAHw7VQ...= SigV4 ECDHE-RSA-AES128-GCM-SHA256`: the second number of a request in an access log of S3.
fn is_request_of_store(behind: &[u8]) -> bool {
    let padding = behind.iter().take(2).take_while(|b| **b == b'=').count();
    [&b" SigV4 "[..], b" SigV2 "].iter().any(|version| behind[padding..].starts_with(version))
}

/// `"n": "0vx7agoebGcQ..."` beside `"kty"`: a number of a public key, or what one is called by (RFC 7517, 7518). Those of private keys
/// have other names.
fn is_of_public_key(text: &[u8], run: &Range<usize>) -> bool {
    const MEMBERS: [&[u8]; 5] = [b"\"n\"", b"\"x\"", b"\"y\"", b"\"x5t\"", b"\"x5t#S256\""];
    let before = &text[run.start.saturating_sub(24)..run.start];
    let Some(before) = before.strip_suffix(b"\"") else { return false };
    let Some(before) = before.trim_ascii_end().strip_suffix(b":") else { return false };
    let before = before.trim_ascii_end();
    let around = &text[run.start.saturating_sub(KEY_REACH)..text.len().min(run.end + KEY_REACH)];
    MEMBERS.iter().any(|member| before.ends_with(member))
        && memchr::memmem::find(around, b"\"kty\"").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "9fKq2LxV7bTn4WsYc8EdPm9fKq2LxV7bTn4WsYc8EdPm";

    fn is(text: &str) -> bool {
        let text = text.replace("RUN", RUN);
        let at = text.find(RUN).expect("a run");
        is_published(text.as_bytes(), &(at..at + RUN.len()))
    }

    #[test]
    fn places_say_that_everybody_may_see_it() {
        for (text, wanted) in [
            ("if-none-match: W/\"RUN\"", true),
            (r#"{"if-none-match":"W/\"RUN\""}"#, true),
            (r#"{"m":"{\"etag\":\"W/\\\"RUN\\\"\"}"}"#, true),
            ("tag \"RUN\"", false),
            ("\"integrity\": \"sha512-RUN==\"", true),
            ("\"integrity\": \"sha512-+/RUN==\"", true),
            ("\"integrity\": \"sha512-x RUN==\"", false),
            ("sha1-RUN", false),
            ("W/RUN", false),
            ("- RUN= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader", true),
            ("- RUN= SigV9 x", false),
            (r#"{"kty":"RSA","n":"RUN","e":"AQAB"}"#, true),
            (r#"{"n": "RUN", "kty": "RSA"}"#, true),
            (r#"{"kty":"EC","x5t#S256":"RUN"}"#, true),
            (r#"{"kty":"EC","d":"RUN"}"#, false),
            (r#"{"kty":"oct","k":"RUN"}"#, false),
            (r#"{"n":"RUN"}"#, false),
        ] {
            assert_eq!(is(text), wanted, "{text}");
        }
    }
}
