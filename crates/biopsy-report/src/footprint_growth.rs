//! Where the memory of a process went, at several moments held against each other: as text, Markdown and JSON.

use biopsy_model::order::Order as _;
use std::fmt::Write as _;

use biopsy_analyze::FootprintSummary;
use biopsy_analyze::heap::growth::grown;
use biopsy_model::printable::printable_json;
use serde::Serialize;

use crate::assemble;
use crate::schema::footprint::Footprint;
use crate::text::{Page, TextOptions};
use crate::units::{bytes, to_f64};
use crate::words::name_and_pid;

/// What is to be known of moments of more than one process.
const OF_SEVERAL: &str = "these are of different processes: what differs need not be what one of them gained";

/// Memory of one kind, at each moment.
#[derive(Serialize)]
struct Row {
    kind: String,
    text: String,
    resident: Vec<u64>,
}

#[derive(Serialize)]
struct Moment {
    name: String,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_at: Option<String>,
    resident: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    files: &'a [&'a str],
    moments: Vec<Moment>,
    parts: Vec<Row>,
}

fn moments(footprints: &[FootprintSummary]) -> Vec<Footprint> {
    footprints.iter().map(|one| assemble::footprint(one, 0)).collect()
}

/// By kind, what changed most first.
fn rows(moments: &[Footprint]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, moment) in moments.iter().enumerate() {
        for part in &moment.parts {
            let known = rows.iter().position(|row| row.kind == part.kind);
            let known = known.unwrap_or_else(|| {
                let (kind, text) = (part.kind.clone(), part.text.clone());
                rows.push(Row { kind, text, resident: vec![0; moments.len()] });
                rows.len() - 1
            });
            if let Some(resident) = rows.get_mut(known).and_then(|row| row.resident.get_mut(at)) {
                *resident = part.resident;
            }
        }
    }
    rows.order_by_key(|row| std::cmp::Reverse(grown(&row.resident).unsigned_abs()));
    rows
}

/// `+12 MiB`.
fn change(values: &[u64]) -> String {
    let grown = grown(values);
    format!("{}{}", if grown < 0 { "-" } else { "+" }, bytes(grown.unsigned_abs() as f64))
}

fn row(values: &[u64]) -> String {
    values.iter().map(|value| bytes(to_f64(*value))).collect::<Vec<_>>().join(", ")
}

fn is_one_process(moments: &[Footprint]) -> bool {
    moments.windows(2).all(|pair| matches!(pair, [one, next] if one.pid == next.pid && one.pid != 0))
}

/// Adds it to a page.
pub(crate) fn growth(page: &mut Page, footprints: &[FootprintSummary]) {
    let moments = moments(footprints);
    let all: Vec<u64> = moments.iter().map(|one| one.resident).collect();
    let names = moments.iter().map(|one| {
        let taken = one.taken_at.as_ref().map_or_else(String::new, |taken| format!(" at {taken}"));
        format!(
            "{} of {}{taken}",
            bytes(to_f64(one.resident)),
            name_and_pid(&one.name, biopsy_model::Pid(one.pid))
        )
    });
    page.line("memory", "1", &names.collect::<Vec<_>>().join("; "));
    if !is_one_process(&moments) {
        page.line("note", "33", OF_SEVERAL);
    }
    page.line("in all", "1", &change(&all));
    page.text.push('\n');
    for one in rows(&moments) {
        let front = format!("{:>12}  ", change(&one.resident));
        page.row(&front, front.chars().count(), &format!("{} ({})", one.text, row(&one.resident)));
    }
}

/// For the terminal.
#[must_use]
pub fn render_footprint_growth_text(footprints: &[FootprintSummary], options: TextOptions) -> String {
    let mut page = Page::new(options);
    growth(&mut page, footprints);
    page.text
}

/// For a ticket.
#[must_use]
pub fn render_footprint_growth_markdown(footprints: &[FootprintSummary]) -> String {
    let moments = moments(footprints);
    let mut text = "# Memory compared\n\n".to_owned();
    if !is_one_process(&moments) {
        let _ = writeln!(text, "*{OF_SEVERAL}*\n");
    }
    text.push_str("| memory | change | at each moment |\n| --- | ---: | --- |\n");
    for one in rows(&moments) {
        let what = crate::markdown::plain(&one.text);
        let _ = writeln!(text, "| {what} | {} | {} |", change(&one.resident), row(&one.resident));
    }
    text
}

/// For programs.
///
/// # Panics
/// Never: plain data serialises.
#[must_use]
pub fn render_footprint_growth_json(footprints: &[FootprintSummary], files: &[&str]) -> String {
    let moments = moments(footprints);
    let document = Document {
        schema: "biopsy-memory-comparison",
        version: 1,
        files,
        parts: rows(&moments),
        moments: moments
            .into_iter()
            .map(|one| Moment {
                name: one.name,
                pid: one.pid,
                taken_at: one.taken_at,
                resident: one.resident,
            })
            .collect(),
    };
    printable_json(serde_json::to_string_pretty(&document).expect("plain data serialises") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::Pid;
    use biopsy_model::footprint::{self, FootprintPart, MemoryKind};

    fn at(pid: u32, parts: &[(MemoryKind, u64)]) -> FootprintSummary {
        let part = |(kind, resident): &(MemoryKind, u64)| FootprintPart {
            kind: kind.clone(),
            resident: *resident,
            reserved: *resident,
        };
        let parts = parts.iter().map(part).collect();
        let facts = footprint::Footprint { pid: Pid(pid), parts, ..footprint::Footprint::default() };
        FootprintSummary { name: "redis-server".to_owned(), facts }
    }

    #[test]
    fn what_changed_most_comes_first_and_what_is_new_or_gone_is_there() {
        let footprints = [
            at(
                7,
                &[
                    (MemoryKind::Unaccounted, 1 << 20),
                    (MemoryKind::Stacks, 4096),
                    (MemoryKind::Shared, 1 << 16),
                ],
            ),
            at(
                7,
                &[
                    (MemoryKind::Allocated, 2 << 20),
                    (MemoryKind::Unaccounted, 9 << 20),
                    (MemoryKind::Stacks, 4096),
                ],
            ),
        ];
        let found = rows(&moments(&footprints));
        let found: Vec<(&str, &[u64])> =
            found.iter().map(|row| (row.kind.as_str(), row.resident.as_slice())).collect();
        let expected: [(&str, &[u64]); 4] = [
            ("unaccounted", &[1 << 20, 9 << 20]),
            ("allocated", &[0, 2 << 20]),
            ("shared", &[1 << 16, 0]),
            ("stacks", &[4096, 4096]),
        ];
        assert_eq!(found, expected);
        let text = render_footprint_growth_text(&footprints, TextOptions::default());
        assert!(text.contains("+8 MiB") && text.contains("-64 KiB"), "{text}");
        assert!(!text.contains("different processes"), "{text}");
        let json = render_footprint_growth_json(&footprints, &["a", "b"]);
        assert!(json.contains("\"biopsy-memory-comparison\"") && json.contains("\"unaccounted\""), "{json}");
        assert!(render_footprint_growth_markdown(&footprints).contains("| +8 MiB |"));
    }

    #[test]
    fn several_processes_are_told() {
        let text = render_footprint_growth_text(&[at(7, &[]), at(8, &[])], TextOptions::default());
        assert!(text.contains("different processes"), "{text}");
        // Who reads the ticket is to know it, too.
        let markdown = render_footprint_growth_markdown(&[at(7, &[]), at(8, &[])]);
        assert!(markdown.contains("\n*these are of different processes"), "{markdown}");
        assert!(!render_footprint_growth_markdown(&[at(7, &[]), at(7, &[])]).contains("different"));
        // A process without a number may be any.
        assert!(render_footprint_growth_markdown(&[at(0, &[]), at(0, &[])]).contains("different"));
    }

    #[test]
    fn a_change_has_a_sign_and_nothing_is_lost_at_the_ends_of_numbers() {
        for (values, expected) in [
            (&[0, 4096][..], "+4 KiB"),
            (&[4096, 9 << 20, 0], "-4 KiB"),
            (&[7, 7], "+0 B"),
            (&[], "+0 B"),
            (&[0, u64::MAX], "+16,384 PiB"),
            (&[u64::MAX, 0], "-16,384 PiB"),
        ] {
            assert_eq!(change(values), expected, "{values:?}");
        }
    }

    #[test]
    fn kinds_of_other_versions_are_called_as_they_are() {
        let other = || MemoryKind::from("gpu");
        let found = rows(&moments(&[at(7, &[]), at(7, &[(other(), 9), (MemoryKind::Unknown, 5)])]));
        let found: Vec<_> =
            found.iter().map(|row| (row.kind.as_str(), row.text.as_str(), row.resident.as_slice())).collect();
        assert_eq!(found, [("gpu", "gpu", &[0, 9][..]), ("", "unknown", &[0, 5])]);
    }
}
