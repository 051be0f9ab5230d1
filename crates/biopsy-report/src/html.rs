//! The report as one self-contained HTML page: a shell, the style, the data as JSON, and the script that draws it.
//!
//! Hostile names and log lines reach the page only inside the JSON, where `<`, `>` and `&` are written as escapes, and
//! the script puts them into the document as text, never as markup. Should that ever fail, the page's content security
//! policy still runs no script but ours, known by its hash, and loads nothing from anywhere.

mod charts;
mod flames;
mod functions;
mod live_bytes;
mod numbers;
mod page;
mod readings;
mod recorded;
mod runtime_charts;
mod traced;

use crate::json;
use crate::mask::{Mask, masked_text};
use biopsy_analyze::Diagnosis;
use biopsy_model::printable::is_harmful;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Built from `ui/src` by `npm run build`; a test checks that they are current.
const SCRIPT: &str = include_str!("../../../ui/dist/report.js");
const STYLE: &str = include_str!("../../../ui/dist/report.css");

pub(crate) fn render(diagnosis: &Diagnosis, mask: Option<Mask<'_>>) -> String {
    let data = json::data(&page::page(diagnosis), mask);
    let title = format!("{} · biopsy report", diagnosis.name());
    shell(&data, &masked_text(title, mask), &masked_text(crate::markdown::render(diagnosis), mask))
}

/// A page around data. `plain`: what is shown where no script runs. Everything is masked already.
pub(crate) fn shell(data: &str, title: &str, plain: &str) -> String {
    let mut html = String::with_capacity(data.len() + SCRIPT.len() + STYLE.len() + 16_384);
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(
        html,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src '{}'; base-uri 'none'; form-action 'none'\">",
        hash(SCRIPT)
    );
    html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    let _ = writeln!(html, "<title>{}</title>", text(title));
    let _ = writeln!(html, "<style>{STYLE}</style>\n</head>\n<body>\n<div id=\"page\"></div>");
    let _ = writeln!(html, "<noscript><pre class=\"plain\">{}</pre></noscript>", text(plain));
    html.push_str("<script type=\"application/json\" id=\"data\">");
    push_json(&mut html, data);
    html.push_str("</script>\n<script>");
    html.push_str(SCRIPT);
    html.push_str("</script>\n</body>\n</html>\n");
    html
}

/// JSON inside a script element: nothing in it may look like markup, so that no string can end the element.
fn push_json(html: &mut String, json: &str) {
    for char in json.chars() {
        match char {
            '<' => html.push_str("\\u003c"),
            '>' => html.push_str("\\u003e"),
            '&' => html.push_str("\\u0026"),
            // Visible in the page: in the string it is a backslash, `u` and digits.
            other if is_harmful(other) && other != '\n' => {
                html.push('\\');
                html.extend(other.escape_unicode());
            }
            other => html.push(other),
        }
    }
}

/// Text as the content of an element.
fn text(raw: &str) -> String {
    let mut escaped = String::with_capacity(raw.len());
    for char in raw.chars() {
        match char {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // What commands or hides becomes visible. (A NUL is not allowed in HTML, not even as a reference.)
            other if is_harmful(other) && !matches!(other, '\n' | '\t') => {
                escaped.extend(other.escape_default())
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// A script's name in a content security policy: `sha256-BASE64`.
fn hash(script: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::from("sha256-");
    for group in Sha256::digest(script.as_bytes()).chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            if position <= group.len() {
                encoded.push(char::from(ALPHABET[(bits >> (18 - 6 * position) & 63) as usize]));
            } else {
                encoded.push('=');
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_browsers_compute() {
        // `printf '' | openssl dgst -sha256 -binary | base64`
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn a_hash_of_any_length_is_base64() {
        // `printf %s TEXT | openssl dgst -sha256 -binary | base64`
        for (script, expected) in [
            ("abc", "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
            ("hello", "sha256-LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
        ] {
            assert_eq!(hash(script), expected);
        }
    }

    #[test]
    fn text_is_text_wherever_it_stands() {
        for (raw, expected) in [
            ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
            ("\"'", "&quot;&#39;"),
            ("</pre><script>", "&lt;/pre&gt;&lt;script&gt;"),
            ("&lt;", "&amp;lt;"),
            ("a\n\tb", "a\n\tb"),
            ("\0\r\u{1b}[2J\u{202e}", "\\u{0}\\r\\u{1b}[2J\\u{202e}"),
            ("größe 🦀", "größe 🦀"),
        ] {
            assert_eq!(text(raw), expected);
        }
    }

    #[test]
    fn json_cannot_end_the_script() {
        let mut html = String::new();
        push_json(&mut html, "\"</script><!--&\u{2028}\"");
        assert_eq!(html, "\"\\u003c/script\\u003e\\u003c!--\\u0026\\\\u{2028}\"");
        // It is JSON still, and says the same.
        let (document, mut page) = (serde_json::json!({ "a<b": ["]]>&amp;", "1 > 0"] }), String::new());
        push_json(&mut page, &serde_json::to_string_pretty(&document).unwrap());
        assert!(!page.contains(['<', '>', '&']), "{page}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&page).unwrap(), document);
    }
}
