//! The page: a document that needs no script to be read; the script adds the search.
//!
//! Every name comes from a dump that may be hostile. All text goes through [`text`], which leaves no markup; the page's
//! content security policy runs no script but ours, known by its hash, and loads nothing from anywhere.

use std::fmt::Write as _;

use biopsy_analyze::dump::DumpAnalysis;
use biopsy_analyze::{Finding, Reference, Severity};

use super::{graph, managed, sections, stacks, words};
use crate::html::{STYLE, hash, text};
use crate::units::{bytes, count, seconds, share, to_f64};

/// What this page has beyond the style of the other reports.
const OWN_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Findings that are open from the start.
const OPEN: usize = 3;

pub(super) fn render(analysis: &DumpAnalysis) -> String {
    let identity = &analysis.identity;
    let title = format!("{} (pid {}) · biopsy dump", identity.name, identity.pid);
    let mut html = String::with_capacity(64 << 10);
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(
        html,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src '{}'; base-uri 'none'; form-action 'none'\">",
        hash(SCRIPT)
    );
    html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    let _ = writeln!(html, "<title>{}</title>", text(&title));
    let _ = writeln!(
        html,
        "<style>{STYLE}\n{OWN_STYLE}</style>\n</head>\n<body>\n<div id=\"page\" class=\"dump\">"
    );
    header(&mut html, analysis);
    tiles(&mut html, analysis);
    navigation(&mut html, analysis);
    findings(&mut html, analysis);
    graph::section(&mut html, analysis);
    stacks::section(&mut html, analysis);
    managed::section(&mut html, analysis);
    sections::memory(&mut html, analysis);
    sections::modules(&mut html, analysis);
    sections::undetermined(&mut html, analysis);
    html.push_str(
        "<footer>Made by biopsy from a dump. Derived data only: no contents of memory are in this page.</footer>\n</div>\n<script>",
    );
    html.push_str(SCRIPT);
    html.push_str("</script>\n</body>\n</html>\n");
    html
}

fn header(html: &mut String, analysis: &DumpAnalysis) {
    let identity = &analysis.identity;
    let _ = write!(
        html,
        "<header class=\"top\"><div class=\"brand\">biopsy · dump</div><h1>{} <span class=\"pid\">pid {}</span></h1><dl class=\"facts\">",
        text(&identity.name),
        identity.pid
    );
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
    };
    let code = |raw: &str| format!("<code>{}</code>", text(raw));
    fact("Taken", words::taken(identity).map(|time| text(&time)));
    fact("File", Some(text(&words::file(identity))));
    fact("Executable", identity.executable.as_deref().map(code));
    fact("Command", identity.command_line.as_deref().map(code));
    fact("Kernel", identity.kernel.as_deref().map(|kernel| text(&format!("Linux {kernel}"))));
    fact("Paused", identity.pause.map(|pause| seconds(pause.as_secs_f64())));
    html.push_str("</dl></header>\n");
}

fn tiles(html: &mut String, analysis: &DumpAnalysis) {
    html.push_str("<div class=\"completeness\"><ul class=\"tiles\">");
    let mut tile = |value: String, label: &str, state: &str| {
        let _ =
            write!(html, "<li class=\"{state}\"><b>{}</b><span>{}</span></li>", text(&value), text(label));
    };
    tile(count(analysis.threads.len() as u64), "threads", "");
    tile(count(analysis.groups.len() as u64), "different stacks", "");
    if let Some(whole) = words::whole_stacks(analysis) {
        tile(share(whole), "of the stacks are whole", if whole >= 0.95 { "good" } else { "bad" });
    }
    if let Some(named) = words::named_frames(analysis) {
        tile(share(named), "of the frames have names", if named >= 0.9 { "good" } else { "bad" });
    }
    tile(bytes(to_f64(analysis.memory.in_dump)), "of memory are in the dump", "");
    match analysis.identity.scrubbed {
        Some(true) => tile(
            "scrubbed".to_owned(),
            "secrets of known shapes were masked; handle it as confidential",
            "good",
        ),
        Some(false) => tile("not scrubbed".to_owned(), "the dump holds whatever the process held", "bad"),
        None => {}
    }
    html.push_str("</ul></div>\n");
}

fn navigation(html: &mut String, analysis: &DumpAnalysis) {
    html.push_str("<nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a>");
    if graph::has_any(analysis) {
        html.push_str("<a href=\"#waits\">Waits</a>");
    }
    html.push_str("<a href=\"#threads\">Threads</a>");
    if analysis.managed.is_some() {
        html.push_str("<a href=\"#managed\">Managed code</a>");
    }
    html.push_str("<a href=\"#memory\">Memory</a><a href=\"#modules\">Modules</a>");
    if !analysis.undetermined.is_empty() {
        html.push_str("<a href=\"#unknown\">Not determined</a>");
    }
    html.push_str("</nav>\n");
}

fn findings(html: &mut String, analysis: &DumpAnalysis) {
    html.push_str("<section id=\"findings\"><h2>Findings</h2>");
    for (index, finding) in analysis.findings.iter().enumerate() {
        let open = finding.severity >= Severity::Warning || index < OPEN;
        one_finding(html, analysis, finding, open);
    }
    html.push_str("</section>\n");
}

fn one_finding(html: &mut String, analysis: &DumpAnalysis, finding: &Finding, open: bool) {
    let severity = finding.severity.word();
    let open = if open { " open" } else { "" };
    let _ = write!(
        html,
        "<details class=\"finding {severity}\"{open}><summary><span class=\"severity\">{severity}</span>\
         <span class=\"title\">{}</span></summary><p>{}</p>",
        marked(&finding.title),
        marked(&finding.explanation)
    );
    if !finding.evidence.is_empty() {
        html.push_str("<ul class=\"evidence\">");
        for evidence in &finding.evidence {
            let _ = write!(html, "<li><span>{}</span>", marked(&evidence.text));
            let group = match evidence.reference {
                Reference::Thread(tid) => analysis.thread(tid).map(|thread| thread.group),
                Reference::Group(group) => Some(group),
                _ => None,
            };
            if let Some(group) = group {
                let _ = write!(html, "<a class=\"go\" href=\"#stack-{group}\">stack</a>");
            }
            html.push_str("</li>");
        }
        html.push_str("</ul>");
    }
    for step in &finding.next_steps {
        let _ = write!(html, "<div class=\"next\"><b>Next</b><span>{}</span></div>", marked(step));
    }
    html.push_str("</details>");
}

/// Text in which back-ticks mark code.
pub(super) fn marked(raw: &str) -> String {
    if !raw.matches('`').count().is_multiple_of(2) {
        return text(raw);
    }
    let mut html = String::with_capacity(raw.len() + 16);
    for (index, part) in raw.split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(html, "<code>{}</code>", text(part));
        } else {
            html.push_str(&text(part));
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::marked;

    #[test]
    fn back_ticks_are_code_and_markup_is_text() {
        assert_eq!(marked("in `a<b>` now"), "in <code>a&lt;b&gt;</code> now");
        assert_eq!(marked("one ` only <i>"), "one ` only &lt;i&gt;");
    }
}
