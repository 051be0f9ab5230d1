//! Aligned columns that fit the terminal: narrow terminals lose the columns that matter least, and the last column
//! is cut.

use std::io::{self, Write};

use anstyle::Style;
use biopsy_model::printable::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::terminal::Terminal;

/// Between two columns.
const GAP: usize = 2;

/// Side to which the texts of a column are aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Alignment.
    pub align: Align,
    /// On a narrow terminal the column with the highest number is left out first; 0: never.
    pub expendable: u8,
}

/// One field: a text, made safe to print, and how it looks.
#[derive(Clone, Default, Debug)]
pub struct Cell {
    text: String,
    style: Style,
    /// The end of the text from this byte on has the style `rest`.
    rest: Option<(usize, Style)>,
}

impl Cell {
    /// A text.
    pub fn new(text: impl Into<String>) -> Self {
        Self::styled(text, Style::new())
    }

    /// The same in a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: printable(&text.into()), style, rest: None }
    }

    /// Adds a text in another style.
    pub fn then(mut self, text: &str, style: Style) -> Self {
        self.rest = Some((self.text.len(), style));
        self.text.push_str(&printable(text));
        self
    }

    /// Columns that it takes.
    pub(crate) fn width(&self) -> usize {
        self.text.width()
    }

    /// At most `width` columns of it.
    pub(crate) fn shown(&self, terminal: Terminal, width: usize) -> String {
        self.paint(terminal, width)
    }

    fn paint(&self, terminal: Terminal, width: usize) -> String {
        let shown = cut(&self.text, width, terminal.unicode);
        match self.rest {
            Some((at, style)) if at < shown.len() && shown.is_char_boundary(at) => {
                let (first, rest) = shown.split_at(at);
                format!("{}{}", terminal.paint(self.style, first), terminal.paint(style, rest))
            }
            _ => terminal.paint(self.style, &shown),
        }
    }
}

/// Writes the table. Every row has as many cells as there are columns.
///
/// # Errors
/// What writing gives.
pub fn write_table(
    out: &mut dyn Write,
    terminal: Terminal,
    columns: &[Column],
    rows: &[Vec<Cell>],
) -> io::Result<()> {
    /// Fewer columns than this make the last column useless.
    const LEAST: usize = 24;
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            rows.iter()
                .filter_map(|row| row.get(at))
                .map(|cell| cell.text.width())
                .fold(column.title.width(), usize::max)
        })
        .collect();
    let last = columns.len().saturating_sub(1);
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let needed = |shown: &[usize]| -> usize {
        shown.iter().map(|&at| if at == last { LEAST.min(widths[at]) } else { widths[at] + GAP }).sum()
    };
    if let Some(width) = terminal.width {
        while needed(&shown) > width {
            let candidates = shown.iter().enumerate().filter(|&(_, &at)| columns[at].expendable > 0);
            let Some((position, _)) = candidates.max_by_key(|&(_, &at)| columns[at].expendable) else {
                break;
            };
            shown.remove(position);
        }
    }
    let used: usize = shown.iter().filter(|&&at| at != last).map(|&at| widths[at] + GAP).sum();
    let room = terminal.width.map_or(usize::MAX, |width| width.saturating_sub(used).max(1));

    let titles: Vec<Cell> =
        columns.iter().map(|column| Cell::styled(column.title, Style::new().bold())).collect();
    for row in std::iter::once(&titles).chain(rows) {
        for &at in &shown {
            let Some(cell) = row.get(at) else { continue };
            if at == last {
                write!(out, "{}", cell.paint(terminal, room))?;
                continue;
            }
            let padding = " ".repeat(widths[at].saturating_sub(cell.text.width()));
            let text = cell.paint(terminal, widths[at]);
            match columns[at].align {
                Align::Left => write!(out, "{text}{padding}  ")?,
                Align::Right => write!(out, "{padding}{text}  ")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// At most `width` columns of a text, with a mark where something was cut off.
pub fn cut(text: &str, width: usize, unicode: bool) -> String {
    if width == usize::MAX || text.width() <= width {
        return text.to_owned();
    }
    let mark = if unicode { '…' } else { '>' };
    let mut out = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(character);
    }
    out.push(mark);
    out
}

/// Breaks a text at spaces into lines of at most `width` columns. Longer words stay whole, and so does what stands
/// between backticks: commands are there to be copied.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(&word);
        } else if line.width().saturating_add(1 + word.width()) <= width {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

/// Words: split at spaces that are not between backticks.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in text.chars() {
        quoted ^= character == '`';
        match words.last_mut() {
            Some(word) if character != ' ' || quoted => word.push(character),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Terminal = Terminal { width: Some(30), colour: false, unicode: true };

    fn table(terminal: Terminal) -> String {
        let columns = [
            Column { title: "PID", align: Align::Right, expendable: 0 },
            Column { title: "USER", align: Align::Left, expendable: 1 },
            Column { title: "PROCESS", align: Align::Left, expendable: 0 },
        ];
        let rows = [
            vec![
                Cell::new("1"),
                Cell::new("root"),
                Cell::new("init").then(" with long arguments", Style::new()),
            ],
            vec![Cell::new("4711"), Cell::new("文字"), Cell::new("漢字")],
        ];
        let mut out = Vec::new();
        write_table(&mut out, terminal, &columns, &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fits_the_width() {
        assert_eq!(
            table(Terminal { width: Some(36), ..PLAIN }),
            " PID  USER  PROCESS\n   1  root  init with long arguments\n4711  文字  漢字\n"
        );
        // Too narrow for the user.
        assert_eq!(table(PLAIN), " PID  PROCESS\n   1  init with long arguments\n4711  漢字\n");
        assert_eq!(
            table(Terminal { width: Some(20), ..PLAIN }),
            " PID  PROCESS\n   1  init with lon…\n4711  漢字\n"
        );
        assert!(table(PLAIN).lines().all(|line| line.width() <= 30));
    }

    #[test]
    fn nothing_is_cut_without_a_terminal() {
        assert!(table(Terminal { width: None, ..PLAIN }).contains("root  init with long arguments"));
    }

    #[test]
    fn colours_take_no_width() {
        let coloured = table(Terminal { colour: true, ..PLAIN });
        assert!(coloured.contains("\u{1b}[1mPROCESS\u{1b}[0m"));
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), table(PLAIN));
    }

    #[test]
    fn cutting_and_wrapping() {
        assert_eq!(cut("漢字漢字", 5, true), "漢字…");
        assert_eq!(cut("abc", 2, false), "a>");
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("run `a long command` now", 8), ["run", "`a long command`", "now"]);
        assert_eq!(wrap("incomprehensible word", 4), ["incomprehensible", "word"]);
    }
}
