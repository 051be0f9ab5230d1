//! Masks in CSV stay inside of its cells: as many records come out as went in, each with as many cells.
//!
//! What a table is is told by its first line, which names columns, and by as many cells in each record; without such a line by quotes around
//! each cell of a line, or by the rows beside it.

use std::ops::Range;

use crate::rows::{self, Record, SEPARATORS, read_record};
use crate::scan::Span;

/// Keeps each of the spans, which are sorted and do not overlap, within one cell of the table that it stands in.
pub(crate) fn within_cells(text: &[u8], spans: Vec<Span>) -> Vec<Span> {
    let records = records_of(text, &spans);
    let mut kept: Vec<Span> = Vec::with_capacity(spans.len());
    let mut at = 0;
    for span in spans {
        while records.get(at).is_some_and(|record| record.range.end <= span.range.start) {
            at += 1;
        }
        let is_in_one = records.get(at).is_some_and(|record| record.range.start <= span.range.start);
        if span.wide.is_some() || span.wrap.is_some() || !is_in_one {
            kept.push(before_tab(text, span));
            continue;
        }
        // What is masked as it stands behind a name ends with its cell; what was found some other way may fill several.
        let most = if span.learn && span.rule.is_some() { 1 } else { usize::MAX };
        let cells = records[at..]
            .iter()
            .take_while(|record| record.range.start < span.range.end)
            .flat_map(|record| &record.cells);
        let pieces = cells.filter_map(|cell| {
            let range = span.range.start.max(cell.start)..span.range.end.min(cell.end);
            (range.start < range.end).then(|| whole_quotes(text, cell, range))
        });
        let says_something = |piece: &Range<usize>| {
            *piece == span.range
                || text[piece.clone()].iter().any(|b| b.is_ascii_alphanumeric() || *b >= 0x80)
        };
        let mut pieces: Vec<Range<usize>> = pieces.filter(says_something).take(most).collect();
        // What goes on behind the table is text again.
        let end = records[at..].iter().take_while(|record| record.range.start < span.range.end).last();
        let end = end.map_or(span.range.end, |record| record.range.end);
        if pieces.len() < most && end < span.range.end {
            pieces.push(end..span.range.end);
        }
        let is_cut = pieces.len() != 1 || pieces[0] != span.range;
        kept.extend(pieces.into_iter().map(|range| Span {
            open: span.open && range.end == text.len(),
            pseudonym: span.pseudonym.filter(|_| !is_cut),
            range,
            ..span.clone()
        }));
    }
    kept
}

/// A value behind a name ends at a tab, table or not.
fn before_tab(text: &[u8], mut span: Span) -> Span {
    let value = &text[span.range.clone()];
    let tab = memchr::memchr(b'\t', value).filter(|tab| value[..*tab].iter().any(u8::is_ascii_alphanumeric));
    if let Some(tab) = tab
        && span.learn
        && span.rule.is_some()
        && span.wide.is_none()
        && !value.contains(&b'\n')
    {
        span.range.end = span.range.start + tab;
        span.open = false;
        span.pseudonym = None;
    }
    span
}

/// The records that spans stand in, in their order.
fn records_of(text: &[u8], spans: &[Span]) -> Vec<Record> {
    let mut found = Vec::new();
    let mut table: Option<(u8, usize)> = None;
    let mut at = 0;
    let (mut next, mut reach) = (0, 0);
    while at < text.len() {
        while let Some(span) = spans.get(next).filter(|span| span.range.start < at) {
            reach = span.range.end;
            next += 1;
        }
        let start = spans.get(next).map_or(usize::MAX, |span| span.range.start);
        if start == usize::MAX && reach <= at {
            break;
        }
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
        let record = match table {
            Some((separator, cells)) => {
                read_record(text, at, separator).filter(|record| record.cells.len() == cells)
            }
            None => None,
        };
        if let Some(record) = record {
            at = record.range.end;
            if start < record.range.end || reach > record.range.start {
                found.push(record);
            }
            continue;
        }
        table = rows::names_of_columns(&text[at..end]);
        if table.is_none()
            && (start < end || reach > at)
            && let Some(record) =
                quoted_record(text, at..end).or_else(|| nameless_record(text, at..end, start))
        {
            found.push(record);
        }
        at = end + 1;
    }
    found
}

/// A row of a table that nothing names the columns of: `at` is where a secret begins in it.
fn nameless_record(text: &[u8], line: Range<usize>, at: usize) -> Option<Record> {
    let (_, record) = rows::row_among_others(text, &line, at).filter(|_| line.contains(&at))?;
    Some(record)
}

/// A line of cells, some of them in quotes: all of them, or one with what only quotes allow in a cell.
fn quoted_record(text: &[u8], line: Range<usize>) -> Option<Record> {
    let is_quoted = |cell: &Range<usize>| cell.start > line.start && text[cell.start - 1] == b'"';
    SEPARATORS.into_iter().find_map(|separator| {
        let record = read_record(&text[..line.end], line.start, separator)?;
        let (quoted, bare): (Vec<_>, Vec<_>) = record.cells.iter().cloned().partition(is_quoted);
        let needs_quotes =
            |cell: &Range<usize>| text[cell.clone()].iter().any(|b| matches!(*b, b'"') || *b == separator);
        let is_row = record.cells.len() >= 2
            && (!quoted.is_empty() && bare.is_empty() || quoted.iter().any(needs_quotes))
            && !bare.iter().any(|cell| text[cell.clone()].contains(&b'"'));
        is_row.then_some(record)
    })
}

/// A range of a cell in quotes that cuts no quote in two: each is written twice there.
fn whole_quotes(text: &[u8], cell: &Range<usize>, range: Range<usize>) -> Range<usize> {
    if cell.start == 0 || text[cell.start - 1] != b'"' {
        return range;
    }
    let quotes_before = |at: usize| text[cell.start..at].iter().rev().take_while(|b| **b == b'"').count();
    let is_cut = |at: usize| text.get(at) == Some(&b'"') && at < cell.end && quotes_before(at) % 2 == 1;
    let start = range.start + usize::from(is_cut(range.start));
    let end = range.end + usize::from(is_cut(range.end));
    start.min(end)..end
}

#[cfg(test)]
mod tests;
