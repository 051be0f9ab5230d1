//! Shapes that are secrets beyond doubt, told by hand-written scanners.

use memchr::memmem;

/// A prefix, the class of what follows it, and how much of it there must be.
struct Token {
    prefix: &'static str,
    class: fn(u8) -> bool,
    least: usize,
    most: usize,
    name: &'static str,
}

fn word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn dashed(b: u8) -> bool {
    word(b) || b == b'-'
}

fn base32(b: u8) -> bool {
    b.is_ascii_uppercase() || (b'2'..=b'7').contains(&b)
}

fn upper(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit()
}

const fn token(
    prefix: &'static str,
    class: fn(u8) -> bool,
    least: usize,
    most: usize,
    name: &'static str,
) -> Token {
    Token { prefix, class, least, most, name }
}

const TOKENS: [Token; 21] = [
    token("AKIA", base32, 16, 16, "an AWS access key id"),
    token("ASIA", base32, 16, 16, "an AWS access key id"),
    token("ghp_", word, 36, 255, "a GitHub token"),
    token("gho_", word, 36, 255, "a GitHub token"),
    token("ghu_", word, 36, 255, "a GitHub token"),
    token("ghs_", word, 36, 255, "a GitHub token"),
    token("ghr_", word, 36, 255, "a GitHub token"),
    token("github_pat_", word, 60, 255, "a GitHub token"),
    token("glpat-", dashed, 20, 255, "a GitLab token"),
    token("xoxb-", dashed, 30, 255, "a Slack token"),
    token("xoxp-", dashed, 30, 255, "a Slack token"),
    token("sk_live_", word, 20, 255, "a Stripe key"),
    token("rk_live_", word, 20, 255, "a Stripe key"),
    token("npm_", word, 36, 36, "an npm token"),
    token("pypi-AgEIcHlwaS5vcmc", dashed, 40, 400, "a PyPI token"),
    token("AIza", dashed, 35, 35, "a Google API key"),
    token("sk-proj-", dashed, 40, 400, "an OpenAI key"),
    token("sk-ant-", dashed, 40, 400, "an Anthropic key"),
    token("hvs.", dashed, 24, 400, "a Vault token"),
    token("AGE-SECRET-KEY-1", upper, 58, 58, "an age key"),
    token("dop_v1_", word, 64, 64, "a DigitalOcean token"),
];

/// Reports every shape.
pub(super) fn find(text: &[u8], report: &mut impl FnMut(usize, &'static str)) {
    for token in &TOKENS {
        for at in memmem::find_iter(text, token.prefix.as_bytes()) {
            let body = &text[at + token.prefix.len()..];
            let length = body.iter().take(token.most + 1).take_while(|b| (token.class)(**b)).count();
            let alone = at == 0 || !dashed(text[at - 1]);
            let mixed = body[..length].iter().any(u8::is_ascii_digit);
            if alone && mixed && length >= token.least && length <= token.most {
                report(at, token.name);
            }
        }
    }
    private_keys(text, report);
    web_tokens(text, report);
    urls(text, report);
    headers(text, report);
}

/// BEGIN ... PRIVATE KEY with key material behind it, in front of the next dashes.
fn private_keys(text: &[u8], report: &mut impl FnMut(usize, &'static str)) {
    for at in memmem::find_iter(text, b"PRIVATE KEY") {
        let before = &text[at.saturating_sub(40)..at];
        let begins =
            memmem::rfind(before, b"-----").is_some_and(|dashes| before[dashes + 5..].starts_with(b"BEGIN"));
        let after = &text[at + 11..text.len().min(at + 423)];
        let after = after.strip_prefix(b" BLOCK").unwrap_or(after);
        let Some(after) = after.strip_prefix(b"-----").filter(|_| begins) else { continue };
        let after = &after[..memmem::find(after, b"-----").unwrap_or(after.len())];
        // A line of a key: long, and of all three kinds of characters.
        let is_line = |run: &[u8]| {
            run.len() >= 40
                && run.iter().any(u8::is_ascii_digit)
                && run.iter().any(u8::is_ascii_uppercase)
                && run.iter().any(u8::is_ascii_lowercase)
        };
        if after.split(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))).any(is_line) {
            report(at, "a private key");
        }
    }
}

/// Three base64url parts, of which two begin as JSON objects do.
fn web_tokens(text: &[u8], report: &mut impl FnMut(usize, &'static str)) {
    for at in memmem::find_iter(text, b"eyJ") {
        if at > 0 && dashed(text[at - 1]) {
            continue;
        }
        let mut parts = [0usize; 3];
        let mut place = at;
        for part in &mut parts {
            *part = text[place..].iter().take(1 << 14).take_while(|b| dashed(**b)).count();
            place += *part;
            if text.get(place) == Some(&b'.') {
                place += 1;
            } else {
                break;
            }
        }
        if parts[0] >= 12 && parts[1] >= 8 && parts[2] >= 16 && text[at + parts[0] + 1..].starts_with(b"eyJ")
        {
            report(at, "a JSON web token");
        }
    }
}

/// `scheme://user:password@host`
fn urls(text: &[u8], report: &mut impl FnMut(usize, &'static str)) {
    for at in memmem::find_iter(text, b"://") {
        let authority = &text[at + 3..text.len().min(at + 3 + 300)];
        let end = authority
            .iter()
            .position(|b| !b.is_ascii_graphic() || b"/\"'<>?#`\\,;(){}|[]".contains(b))
            .unwrap_or(authority.len());
        let Some(sign) = authority[..end].iter().position(|b| *b == b'@') else { continue };
        let Some(colon) = authority[..sign].iter().position(|b| *b == b':') else { continue };
        let password = &authority[colon + 1..sign];
        let letters_first = colon > 0 && at > 1 && text[at - 1].is_ascii_alphanumeric();
        let real = password.len() >= 6
            && password.iter().any(u8::is_ascii_digit)
            && password.iter().any(u8::is_ascii_alphabetic)
            && !password.iter().any(|b| b"*${%".contains(b));
        if letters_first && real && authority.get(sign + 1).is_some_and(u8::is_ascii_alphanumeric) {
            report(at, "a password in a URL");
        }
    }
}

/// `Authorization: Basic|Bearer ...`
fn headers(text: &[u8], report: &mut impl FnMut(usize, &'static str)) {
    for at in memmem::find_iter(text, b"uthorization") {
        let rest = &text[at + 12..text.len().min(at + 12 + 96)];
        let scheme = rest.iter().position(|b| b.is_ascii_alphabetic()).unwrap_or(rest.len());
        // `: `, `=`, `": "`, `\": \"`, `":["`: one sign, and quotes around it.
        let between = &rest[..scheme];
        let signs = between.iter().filter(|b| matches!(b, b':' | b'=')).count();
        if scheme > 8 || signs != 1 || !between.iter().all(|b| b" :=\"'\\[".contains(b)) {
            continue;
        }
        let rest = &rest[scheme..];
        let Some(rest) =
            [&b"Basic "[..], b"Bearer ", b"basic ", b"bearer "].iter().find_map(|s| rest.strip_prefix(*s))
        else {
            continue;
        };
        let body = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"+/=-_.~".contains(b)).count();
        if body >= 16 && rest[0].is_ascii_alphanumeric() && rest[..body].iter().any(u8::is_ascii_digit) {
            report(at, "an authorization header");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<&'static str> {
        let mut shapes = Vec::new();
        find(text.as_bytes(), &mut |_, shape| shapes.push(shape));
        shapes
    }

    #[test]
    fn secrets_are_seen() {
        assert_eq!(shapes(&format!("id {}IOSFODNN7EXAMPLE.", "AKIA")), ["an AWS access key id"]);
        assert_eq!(shapes(&format!("t={}{}", "ghp_", "a1".repeat(18))), ["a GitHub token"]);
        assert_eq!(shapes("postgres://app:hunt3r2x@db:5432/x"), ["a password in a URL"]);
        assert_eq!(shapes("Authorization: Basic dXNlcjpodW50ZXIy"), ["an authorization header"]);
        assert_eq!(
            shapes(&format!("-----BEGIN RSA PRIVATE KEY-----\\n{}", "MIIE4b+/".repeat(8))),
            ["a private key"]
        );
        assert_eq!(
            shapes("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"),
            ["a JSON web token"]
        );
    }

    #[test]
    fn ordinary_text_is_not() {
        for text in [
            "https://example.com:8443/a@b",
            "http://[::1]:80/x see user@example.com",
            "postgres://app:[redacted:url-password:0123abcd]@db/x",
            "ssh://git@example.com/x",
            "authorization: none required here 1234567890123456",
            "-----BEGIN PRIVATE KEY-----[redacted:private-key:0123abcd]-----END PRIVATE KEY-----",
            "cannot read the PRIVATE KEY file /etc/ssl/private/abcdefghijABCDEFGHIJabcdefghijABCDEFGHIJ",
            "npm_config_cache and npm_lifecycle_script_with_a_very_long_name_1234",
            "eyJ.eyJ.x",
        ] {
            assert_eq!(shapes(text), Vec::<&str>::new(), "{text}");
        }
    }
}
