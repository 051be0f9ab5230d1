//! The first page of several dumps: which there are, and what the first finding on each is.

use std::fmt::Write as _;

use biopsy_analyze::Severity;
use biopsy_analyze::dump::DumpAnalysis;
use biopsy_model::Pid;

use super::html::marked;
use super::words;
use crate::html::{STYLE, text};
use crate::markdown::plain;
use crate::units::{bytes, count, seconds, to_f64};

/// A dump in the list.
#[derive(Clone, Debug)]
pub struct IndexRow {
    /// Its report, from the page on: `dumps/4711.report.html`. `None`: it could not be read, and has none.
    pub link: Option<String>,
    /// Name of the process.
    pub name: String,
    /// Its pid.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// When it was taken, in words.
    pub taken: Option<String>,
    /// Why it was taken.
    pub reason: String,
    /// How long the process stood still, in seconds.
    pub pause: Option<f64>,
    /// Threads.
    pub threads: usize,
    /// Size of the file in bytes.
    pub bytes: Option<u64>,
    /// Nothing that it should have is missing.
    pub whole: bool,
    /// The most important finding.
    pub finding: Option<(Severity, String)>,
}

impl IndexRow {
    /// What an analysis says of itself. How the dump was taken is for the caller to add.
    #[must_use]
    pub fn of(analysis: &DumpAnalysis) -> Self {
        let identity = &analysis.identity;
        Self {
            link: None,
            name: identity.name.clone(),
            pid: identity.pid,
            parent: identity.parent,
            taken: words::taken(identity),
            reason: String::new(),
            pause: identity.pause.map(|pause| pause.as_secs_f64()),
            threads: analysis.threads.len(),
            bytes: identity.file_bytes,
            whole: true,
            finding: analysis.findings.first().map(|first| (first.severity, first.title.clone())),
        }
    }
}

/// The list as one HTML page, without scripts. `warnings`: what the recording says of itself.
#[must_use]
pub fn render_index_html(name: &str, rows: &[IndexRow], warnings: &[String]) -> String {
    let mut html = String::with_capacity(48 << 10);
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n",
    );
    let _ = writeln!(html, "<title>{} · biopsy dumps</title>", text(name));
    let _ = writeln!(html, "<style>{STYLE}</style>\n</head>\n<body>\n<div id=\"page\" class=\"dump\">");
    let _ = write!(
        html,
        "<header class=\"top\"><div class=\"brand\">biopsy · dumps</div><h1>{}</h1></header>\n\
         <section><h2>{} dumps</h2><div class=\"table\"><table><thead><tr><th>Process</th><th>Most important finding</th>\
         <th>Why and when</th><th class=\"numeric\">Threads</th><th class=\"numeric\">Pause</th>\
         <th class=\"numeric\">Size</th></tr></thead><tbody>",
        text(name),
        count(rows.len() as u64)
    );
    for row in rows {
        row_html(&mut html, row);
    }
    html.push_str("</tbody></table></div></section>\n");
    if !warnings.is_empty() {
        html.push_str("<section><h2>What could not be determined</h2><ul>");
        for warning in warnings {
            let _ = write!(html, "<li>{}</li>", marked(warning));
        }
        html.push_str("</ul></section>\n");
    }
    html.push_str(
        "<footer>Made by biopsy. Derived data only: no contents of memory are in this \
         page.</footer>\n</div>\n</body>\n</html>\n",
    );
    html
}

fn row_html(html: &mut String, row: &IndexRow) {
    let name = match &row.link {
        Some(link) => format!("<a href=\"{}\">{}</a>", text(link), text(&row.name)),
        None => text(&row.name),
    };
    let parent = row.parent.map_or_else(String::new, |parent| format!(", of {parent}"));
    let _ = write!(html, "<tr><td class=\"text\">{name}<small>pid {}{parent}</small></td>", row.pid);
    html.push_str("<td class=\"text\">");
    if !row.whole {
        html.push_str("<b class=\"bad\">not whole</b> ");
    }
    match &row.finding {
        Some((severity, title)) => {
            let _ = write!(html, "<span class=\"badge\">{}</span> {}", severity.word(), marked(title));
        }
        None if row.link.is_none() => html.push_str("<span class=\"muted\">no report</span>"),
        None => html.push_str("<span class=\"muted\">none</span>"),
    }
    let _ = writeln!(
        html,
        "</td><td class=\"text\">{}<small>{}</small></td><td class=\"numeric\">{}</td><td class=\"numeric\">{}</td>\
         <td class=\"numeric\">{}</td></tr>",
        text(&row.reason),
        text(row.taken.as_deref().unwrap_or_default()),
        count(row.threads as u64),
        row.pause.map_or_else(|| "–".to_owned(), seconds),
        row.bytes.map_or_else(|| "–".to_owned(), |size| bytes(to_f64(size)))
    );
}

/// The list as Markdown.
#[must_use]
pub fn render_index_markdown(name: &str, rows: &[IndexRow], warnings: &[String]) -> String {
    let mut out = format!("# {} dumps of {}\n\n", count(rows.len() as u64), plain(name));
    out.push_str("| process | most important finding | why | threads | pause | size |\n");
    out.push_str("| --- | --- | --- | ---: | ---: | ---: |\n");
    for row in rows {
        let finding = match &row.finding {
            Some((severity, title)) => format!("{}: {}", severity.word(), plain(title)),
            None => String::new(),
        };
        let whole = if row.whole { "" } else { "not whole. " };
        let _ = writeln!(
            out,
            "| {} ({}) | {whole}{finding} | {} | {} | {} | {} |",
            plain(&row.name),
            row.pid,
            plain(&row.reason),
            count(row.threads as u64),
            row.pause.map_or_else(|| "–".to_owned(), seconds),
            row.bytes.map_or_else(|| "–".to_owned(), |size| bytes(to_f64(size)))
        );
    }
    if !warnings.is_empty() {
        out.push_str("\n## What could not be determined\n\n");
        for warning in warnings {
            let _ = writeln!(out, "- {}", plain(warning));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<IndexRow> {
        let row = IndexRow {
            link: Some("dumps/7.report.html".to_owned()),
            name: "<img src=x>|`".to_owned(),
            pid: Pid(7),
            parent: Some(Pid(1)),
            taken: Some("2026-11-21 10:00:00 UTC".to_owned()),
            reason: "it ended with exit code 3".to_owned(),
            pause: Some(0.25),
            threads: 12,
            bytes: Some(3 << 20),
            whole: true,
            finding: Some((Severity::Critical, "The process died in `<main>`".to_owned())),
        };
        let cut =
            IndexRow { link: None, whole: false, finding: None, pause: None, bytes: None, ..row.clone() };
        vec![row, cut]
    }

    #[test]
    fn each_dump_is_a_row_with_a_link_and_names_are_text() {
        let html = render_index_html("</title><b>", &rows(), &["no `threads.txt` <i>".to_owned()]);
        assert!(html.contains("<a href=\"dumps/7.report.html\">"), "{html}");
        assert!(html.contains("The process died in <code>&lt;main&gt;</code>"), "{html}");
        assert!(html.contains("<li>no <code>threads.txt</code> &lt;i&gt;</li>"), "{html}");
        assert!(html.contains("not whole") && html.contains("no report"), "{html}");
        assert_eq!(html.matches("<tr>").count(), 3);
        assert!(
            !html.contains("<img") && !html.contains("<b></title>") && !html.contains("</title><b>"),
            "{html}"
        );
    }

    #[test]
    fn markdown_keeps_its_columns() {
        let text = render_index_markdown("server", &rows(), &["no such text".to_owned()]);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(table.len(), 4, "{text}");
        assert!(text.ends_with("- no such text\n"), "{text}");
        for line in table {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 7, "{line}");
        }
    }
}
