//! Answers of `biopsy heap`: as text and JSON.

use biopsy_analyze::heap::questions::Answer;
use biopsy_model::printable::printable_json;
use serde::Serialize;

use crate::text::{Page, TextOptions, clean};
use crate::units::count;

/// The document of `biopsy heap --json`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    about: &'a str,
    notes: &'a [String],
    rows: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retained: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<String>,
    text: &'a str,
}

/// For programs.
#[must_use]
pub fn render_heap_answer_json(answer: &Answer) -> String {
    let document = Document {
        schema: "biopsy-heap-answer",
        version: 1,
        about: &answer.about,
        notes: &answer.notes,
        rows: answer
            .rows
            .iter()
            .map(|row| Row {
                objects: row.objects,
                bytes: row.bytes,
                retained: row.retained,
                example: row.example.map(|address| address.to_string()),
                text: &row.text,
            })
            .collect(),
    };
    printable_json(serde_json::to_string_pretty(&document).expect("plain data serialises") + "\n")
}

/// For the terminal. `top`: rows; 0: all.
#[must_use]
pub fn render_heap_answer_text(answer: &Answer, top: usize, options: TextOptions) -> String {
    let mut page = Page::new(options);
    page.line("heap", "1", &answer.about);
    for note in &answer.notes {
        page.line("note", "33", note);
    }
    let shown = if top == 0 { answer.rows.len() } else { top.min(answer.rows.len()) };
    let rows = &answer.rows[..shown];
    let columns: [(&str, Vec<Option<u64>>); 3] = [
        ("OBJECTS", rows.iter().map(|row| row.objects).collect()),
        ("BYTES", rows.iter().map(|row| row.bytes).collect()),
        ("RETAINED", rows.iter().map(|row| row.retained).collect()),
    ];
    let columns: Vec<_> =
        columns.into_iter().filter(|(_, cells)| cells.iter().any(Option::is_some)).collect();
    let mut heading = String::new();
    for (name, _) in &columns {
        heading.push_str(&format!("{name:>15}  "));
    }
    if shown > 0 {
        page.text.push('\n');
        page.text.push_str(&page.painted("1", heading.trim_end()));
        page.text.push('\n');
    }
    for (at, row) in rows.iter().enumerate() {
        for (_, cells) in &columns {
            let cell = cells[at].map_or_else(|| "–".to_owned(), count);
            page.text.push_str(&format!("{cell:>15}  "));
        }
        page.text.push_str(&clean(&row.text));
        if let Some(address) = row.example {
            page.text.push_str(&format!(" · one at {address}"));
        }
        page.text.push('\n');
    }
    let more = answer.rows.len() - shown;
    if more > 0 {
        page.text.push_str(&format!("{} more: `--top 0` or `--json` has them\n", count(more as u64)));
    }
    page.text
}

#[cfg(test)]
mod tests;
