//! A table whose columns nobody knew beforehand: what is wide is cut until all of it fits the terminal, and what does not fit at all is shown row by row.

use std::io::{self, Write};

use anstyle::Style;
use biopsy_model::printable::printable;
use unicode_width::UnicodeWidthStr as _;

use crate::table::{Align, Cell, cut};
use crate::terminal::Terminal;

/// Between two columns.
const GAP: usize = 2;
/// A text that is cut to fewer columns than this says nothing.
const LEAST: usize = 12;

/// Writes the table. `titles` are the columns; each row has as many texts.
///
/// # Errors
/// What writing gives.
pub fn write_fitted(
    out: &mut dyn Write,
    terminal: Terminal,
    titles: &[(String, Align)],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|text| printable(text)).collect()).collect();
    let heads: Vec<String> = titles.iter().map(|(title, _)| printable(title)).collect();
    let natural: Vec<usize> = (0..heads.len())
        .map(|at| {
            let texts = rows.iter().filter_map(|row| row.get(at));
            texts.map(|text| text.width()).fold(heads[at].width(), usize::max)
        })
        .collect();
    let Some(widths) = widths(&natural, titles, terminal.width) else {
        return write_rows(out, terminal, &heads, &rows);
    };
    let bold: Vec<Cell> = heads.iter().map(|head| Cell::styled(head, Style::new().bold())).collect();
    write_line(out, terminal, titles, &widths, &bold)?;
    for row in rows {
        write_line(out, terminal, titles, &widths, &row.into_iter().map(Cell::new).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// How wide each column is; `None`: they do not fit. Numbers are never cut.
fn widths(natural: &[usize], titles: &[(String, Align)], room: Option<usize>) -> Option<Vec<usize>> {
    let Some(room) = room else { return Some(natural.to_vec()) };
    let capped = |most: usize| -> Vec<usize> {
        let of = |(&width, (_, align)): (&usize, &(String, Align))| match align {
            Align::Right => width,
            Align::Left => width.min(most),
        };
        natural.iter().zip(titles).map(of).collect()
    };
    let fits =
        |widths: &Vec<usize>| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) <= room;
    let widest = natural.iter().copied().max().unwrap_or(0).min(room.max(LEAST));
    (LEAST..=widest.max(LEAST)).rev().map(capped).find(fits)
}

fn write_line(
    out: &mut dyn Write,
    terminal: Terminal,
    titles: &[(String, Align)],
    widths: &[usize],
    row: &[Cell],
) -> io::Result<()> {
    let mut line = String::new();
    for (at, ((cell, width), (_, align))) in row.iter().zip(widths).zip(titles).enumerate() {
        let is_last = at + 1 == widths.len();
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        let text = cell.shown(terminal, *width);
        match align {
            Align::Right => line.push_str(&format!("{padding}{text}")),
            Align::Left if is_last => line.push_str(&text),
            Align::Left => line.push_str(&format!("{text}{padding}")),
        }
        if !is_last {
            line.push_str(&" ".repeat(GAP));
        }
    }
    writeln!(out, "{}", line.trim_end())
}

/// One field a line, an empty line between rows.
fn write_rows(
    out: &mut dyn Write,
    terminal: Terminal,
    heads: &[String],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let width = heads.iter().map(|head| head.width()).max().unwrap_or(0);
    let room = terminal.width.map_or(usize::MAX, |room| room.saturating_sub(width + GAP).max(LEAST));
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        for (head, text) in heads.iter().zip(row) {
            let padding = " ".repeat(width - head.width() + GAP);
            let head = terminal.paint(Style::new().bold(), head);
            writeln!(out, "{}", format!("{head}{padding}{}", cut(text, room, terminal.unicode)).trim_end())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<usize>, titles: &[(&str, Align)], rows: &[&[&str]]) -> String {
        let terminal = Terminal { width, colour: false, unicode: true };
        let titles: Vec<_> = titles.iter().map(|(title, align)| ((*title).to_owned(), *align)).collect();
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|text| (*text).to_owned()).collect()).collect();
        let mut out = Vec::new();
        write_fitted(&mut out, terminal, &titles, &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    const TITLES: &[(&str, Align)] = &[("case", Align::Left), ("cases", Align::Right), ("text", Align::Left)];
    const ROWS: &[&[&str]] =
        &[&["4711", "12", "raise | abort | shop::settle | shop::main"], &["4712-with-a-long-name", "1", "x"]];

    #[test]
    fn what_is_wide_is_cut_and_numbers_are_not() {
        let line =
            |case: &str, wide: usize, cases: &str, text: &str| format!("{case:wide$}  {cases:>5}  {text}\n");
        let (one, other) = (ROWS[0], ROWS[1]);
        let whole =
            [line("case", 21, "cases", "text"), line(one[0], 21, "12", one[2]), line(other[0], 21, "1", "x")];
        assert_eq!(shown(None, TITLES, ROWS), whole.concat());
        let cut = [
            line("case", 15, "cases", "text"),
            line("4711", 15, "12", "raise | abort …"),
            line("4712-with-a-lo…", 15, "1", "x"),
        ];
        assert_eq!(shown(Some(40), TITLES, ROWS), cut.concat());
        for width in 33..80 {
            let shown = shown(Some(width), TITLES, ROWS);
            assert!(shown.lines().all(|line| line.width() <= width), "{width}: {shown}");
            assert!(shown.contains("  12  "), "{width}: {shown}");
        }
    }

    #[test]
    fn what_does_not_fit_at_all_is_shown_row_by_row() {
        assert_eq!(
            shown(Some(20), TITLES, ROWS),
            "case   4711\ncases  12\ntext   raise | abor…\n\ncase   4712-with-a-…\ncases  1\ntext   x\n"
        );
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(
            shown(None, &[("a\u{1b}", Align::Left)], &[&["b\u{1b}[2J\n"]]),
            "a\\u{1b}\nb\\u{1b}[2J\\n\n"
        );
    }
}
