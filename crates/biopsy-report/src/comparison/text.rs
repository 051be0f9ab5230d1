//! A comparison for the terminal.

use super::words::{change, noise, nothing, rate, words};
use crate::schema::comparison::{Comparison, Difference, Side};
use crate::text::{Page, TextOptions};
use crate::units::{cores, counted, number};

/// Quantities without a difference that are shown.
const UNCHANGED: usize = 5;
/// Differences that are shown.
const SHOWN: usize = 25;

pub(super) fn render(comparison: &Comparison, options: TextOptions) -> String {
    let mut page = Page::new(options);
    for (heading, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        page.line(heading, "1", &about(side));
    }
    for remark in &comparison.remarks {
        page.line("note", "1;33", remark);
    }
    page.text.push('\n');
    if comparison.differences.is_empty() {
        page.line("result", "1", &nothing(comparison));
    }
    row(&mut page, "", "2", ["before", "after", "change", "noise"], &format!("per {}", comparison.unit));
    for one in comparison.differences.iter().take(SHOWN) {
        let slower = one.became.as_deref() == Some("slower");
        let (word, paint) = if slower { ("slower", "1;31") } else { ("faster", "1;34") };
        row(&mut page, word, paint, cells(one).each_ref().map(String::as_str), &words(one));
    }
    if comparison.differences.len() > SHOWN {
        page.line("", "2", &format!("and {} more: see `--json`", comparison.differences.len() - SHOWN));
    }
    for one in comparison.unchanged.iter().take(UNCHANGED) {
        row(&mut page, "same", "2", cells(one).each_ref().map(String::as_str), &words(one));
    }
    page.text
}

fn about(side: &Side) -> String {
    let mut parts = vec![side.file.clone(), side.name.clone()];
    parts.extend(side.start.clone());
    parts.push(format!("{} s", number(side.seconds)));
    parts.push(cores(side.cores));
    parts.push(counted(side.samples, "sample", "samples"));
    parts.extend(side.requests.map(|requests| counted(requests, "request", "requests")));
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

fn cells(one: &Difference) -> [String; 4] {
    [rate(one.before), rate(one.after), change(one), noise(one)]
}

fn row(page: &mut Page, word: &str, paint: &str, cells: [&str; 4], what: &str) {
    let padding = " ".repeat(8_usize.saturating_sub(word.len()));
    let [before, after, change, noise] = cells;
    let cells = format!("{padding}{before:>9} {after:>9} {change:>9} {noise:>8}  ");
    let columns = word.len() + cells.chars().count();
    let front = page.painted(paint, word) + &cells;
    page.row(&front, columns, what);
}
