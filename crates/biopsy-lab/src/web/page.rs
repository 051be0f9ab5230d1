//! What all pages have in common.

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};

/// No script, nothing from elsewhere, in no frame of others.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8885;--dim:#777;--accent:#1b5fc1}\
@media(prefers-color-scheme:dark){:root{--accent:#7db0ff;--dim:#aaa}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:68rem;margin:0 auto;padding:0 1rem 3rem}\
nav{display:flex;gap:1.2rem;align-items:baseline;border-bottom:1px solid var(--line);padding:.8rem 0;margin-bottom:1.2rem}\
nav b{margin-right:.4rem}nav form{margin:0 0 0 auto}a{color:var(--accent)}h1{font-size:1.5rem;margin:.6rem 0}h2{font-size:1.1rem;margin-top:2rem}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.35rem 1rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
th{color:var(--dim);font-weight:500}code,pre{font:14px/1.5 ui-monospace,monospace}pre{border:1px solid var(--line);border-radius:6px;padding:.8rem;\
overflow-wrap:anywhere;white-space:pre-wrap}iframe{width:100%;height:75vh;border:1px solid var(--line);border-radius:6px}\
form.tall{display:grid;grid-template-columns:max-content minmax(0,30rem);gap:.5rem 1rem;align-items:baseline}form.tall button{grid-column:2;justify-self:start}\
form.row{display:flex;flex-wrap:wrap;gap:.6rem 1rem;align-items:baseline}input,select,button{font:inherit;padding:.25rem .5rem}fieldset{border:1px solid var(--line);border-radius:6px}\
a.button{display:inline-block;border:1px solid var(--accent);border-radius:6px;padding:.35rem .9rem;text-decoration:none}time,th{white-space:nowrap}.drop{border:2px dashed var(--line);border-radius:6px;padding:1.2rem;margin:1rem 0}progress{width:100%}td{overflow-wrap:break-word}td:last-child{overflow-wrap:anywhere}.note{color:var(--dim)}.bad{color:#c0262d}@media(prefers-color-scheme:dark){.bad{color:#ff8080}}.picture svg{background:#fff;border-radius:6px}\
@media(max-width:40rem){form.tall{grid-template-columns:1fr}form.tall button{grid-column:1}nav{flex-wrap:wrap}}";

/// A page for anybody.
pub(super) fn bare(title: &str, body: &str) -> Response {
    whole(title, &format!("<main style=\"padding-top:2rem\">{body}</main>"))
}

/// A page of which this is the body.
pub(super) fn whole(title: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{} · biopsy lab</title>\
         <style>{STYLE}</style>{body}</html>",
        escape(title)
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Html(text)).into_response()
}

/// The lab, as this browser reaches it.
pub(super) fn address(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = text("x-forwarded-proto").filter(|scheme| *scheme == "https").unwrap_or("http");
    format!("{scheme}://{}", text("host").unwrap_or("lab.example"))
}

/// A time, as people read it: an element of a page.
pub(super) fn when(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map(|time| time.strftime("<time>%Y-%m-%d %H:%M UTC</time>").to_string())
        .unwrap_or_default()
}

/// Bytes, as people read them.
pub(super) fn size(bytes: i64) -> String {
    match bytes {
        ..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// Text for a page: it stays text.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
