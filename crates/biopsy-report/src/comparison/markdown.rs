//! A comparison as Markdown.

use std::fmt::Write as _;

use super::words::{change, noise, nothing, rate, words};
use crate::markdown::plain;
use crate::schema::comparison::{Comparison, Difference};
use crate::units::{cores, count, number};

/// Rows of each table.
const ROWS: usize = 40;

pub(super) fn render(comparison: &Comparison) -> String {
    let mut text = format!("# {} compared\n\n", plain(&comparison.after.name));
    text.push_str("| | file | began | length | CPU | samples | requests |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (name, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} s | {} | {} | {} |",
            plain(&side.file),
            side.start.as_deref().unwrap_or("–"),
            number(side.seconds),
            cores(side.cores),
            count(side.samples),
            side.requests.map_or_else(|| "–".to_owned(), count)
        );
    }
    for remark in &comparison.remarks {
        let _ = writeln!(text, "\n*{}.*", plain(remark).trim());
    }
    text.push_str("\n## Differences\n\n");
    if comparison.differences.is_empty() {
        let _ = writeln!(text, "{}.", plain(&nothing(comparison)));
    } else {
        table(&mut text, comparison, &comparison.differences);
    }
    if !comparison.unchanged.is_empty() {
        text.push_str("\n## Not different, as far as the noise lets one see\n\n");
        table(&mut text, comparison, &comparison.unchanged);
    }
    text
}

fn table(text: &mut String, comparison: &Comparison, rows: &[Difference]) {
    let unit = &comparison.unit;
    let _ = writeln!(
        text,
        "| | what | before, per {unit} | after | change | noise |\n| --- | --- | --- | --- | --- | --- |"
    );
    for one in rows.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            one.became.as_deref().unwrap_or("same"),
            plain(&words(one)),
            rate(one.before),
            rate(one.after),
            change(one),
            noise(one)
        );
    }
    if rows.len() > ROWS {
        let _ = writeln!(text, "\nand {} more.", rows.len() - ROWS);
    }
}
