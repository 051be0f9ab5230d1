//! Lines for a terminal: a heading, and words that are wrapped beside it.

use biopsy_model::printable::printable;
use std::fmt::Write as _;

/// How the terminal is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TextOptions {
    /// Columns of the terminal; `None`: there is none, lines are wrapped at 100 and nothing is cut.
    pub width: Option<usize>,
    /// Use ANSI colours.
    pub color: bool,
}

/// How stacks are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StacksOptions {
    /// Columns; `None`: lines are not cut.
    pub width: Option<usize>,
    /// Use ANSI colours.
    pub color: bool,
    /// One stack for each thread.
    pub all: bool,
    /// Native frames of managed threads too.
    pub native: bool,
    /// Frames of one stack at most.
    pub frames: usize,
}

/// What is shown, line by line.
pub(crate) struct Page {
    pub(crate) text: String,
    width: usize,
    /// Columns of the terminal; `None`: nothing is cut.
    room: Option<usize>,
    color: bool,
}

impl Page {
    pub(crate) fn new(options: TextOptions) -> Self {
        Page {
            text: String::new(),
            width: options.width.unwrap_or(100).clamp(40, 160),
            room: options.width.map(|width| width.max(40)),
            color: options.color,
        }
    }

    /// `word` in the colour `code` (ANSI SGR).
    pub(crate) fn painted(&self, code: &str, word: &str) -> String {
        if self.color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
    }

    /// A line of a table: `front`, which is ours, in `columns` columns, and a name of others, which is cut where the terminal ends.
    pub(crate) fn row(&mut self, front: &str, columns: usize, name: &str) {
        let name = clean(name);
        self.text.push_str(front);
        match self.room {
            Some(room) => self.text.push_str(&cut_end(&name, room.saturating_sub(columns))),
            None => self.text.push_str(&name),
        }
        self.text.push('\n');
    }

    /// A line with a heading of 12 columns; what does not fit goes on below it.
    pub(crate) fn line(&mut self, heading: &str, paint: &str, body: &str) {
        const INDENT: usize = 12;
        let mut heading = clean(heading);
        if let Some(room) = self.room {
            heading = cut_end(&heading, room - INDENT);
        }
        let heading = &heading;
        let painted = self.painted(paint, heading);
        let length = heading.chars().count();
        let padding = INDENT.saturating_sub(length).max(1);
        let mut column = length + padding;
        let _ = write!(self.text, "{painted}{}", " ".repeat(padding));
        let body = clean(body);
        for (index, word) in body.split_whitespace().enumerate() {
            let length = word.chars().count();
            if index > 0 && column + 1 + length > self.width {
                self.text.push('\n');
                self.text.push_str(&" ".repeat(INDENT));
                column = INDENT;
            } else if index > 0 {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += length;
        }
        self.text.push('\n');
    }
}

/// Without its end, where it is too long.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Nothing that commands: a name in a recording must not be able to steer the terminal.
pub(crate) fn clean(text: &str) -> String {
    printable(&text.replace(['\n', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_no_word_is_lost(
            words in prop::collection::vec("[a-z`]{1,28}", 0..30),
            heading in "[a-z]{0,11}|[a-z]{20,25}",
            width in 40..120_usize,
        ) {
            let mut page = Page::new(TextOptions { width: Some(width), color: false });
            page.line(&heading, "2", &words.join(" "));
            for (number, line) in page.text.lines().enumerate() {
                // A word stands beside its heading, however long both are.
                let first = number == 0 && line.split_whitespace().count() <= 2;
                prop_assert!(line.chars().count() <= width || first, "{:?}", page.text);
            }
            let shown: Vec<&str> = page.text.split_whitespace().collect();
            let expected: Vec<&str> = std::iter::once(heading.as_str()).filter(|one| !one.is_empty())
                .chain(words.iter().map(String::as_str)).collect();
            prop_assert_eq!(shown, expected);
        }
    }

    #[test]
    fn a_name_in_a_table_is_cut_where_the_terminal_ends() {
        let row = |width, name: &str| {
            let mut page = Page::new(TextOptions { width, color: false });
            page.row("  12 MiB  ", 10, name);
            page.text
        };
        let name = "a name that is of forty columns and four";
        for (width, expected) in [
            (None, name.to_owned()),
            (Some(50), name.to_owned()),
            (Some(49), format!("{}…", &name[..38])),
            (Some(40), format!("{}…", &name[..29])),
            // No terminal is narrower.
            (Some(0), format!("{}…", &name[..29])),
        ] {
            assert_eq!(row(width, name), format!("  12 MiB  {expected}\n"), "{width:?}");
        }
        assert_eq!(row(Some(50), "a\nb\u{1b}"), "  12 MiB  a b\\u{1b}\n");
        let mut narrow = Page::new(TextOptions { width: Some(40), color: false });
        narrow.row("front", 60, "name");
        assert_eq!(narrow.text, "front…\n", "where nothing is left it says that something was");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, width, expected) in
            [("größe", 5, "größe"), ("größe", 4, "grö…"), ("größe", 1, "…"), ("größe", 0, "…"), ("", 0, "")]
        {
            assert_eq!(cut_end(text, width), expected);
        }
    }

    #[test]
    fn colour_is_around_the_heading_alone_and_moves_nothing() {
        let line = |color| {
            let mut page = Page::new(TextOptions { width: Some(40), color });
            page.line("notice", "1;33", "one two three four five six seven");
            page.text
        };
        let painted = line(true);
        assert!(painted.starts_with("\u{1b}[1;33mnotice\u{1b}[0m      one"), "{painted}");
        assert_eq!(painted.replace("\u{1b}[1;33m", "").replace("\u{1b}[0m", ""), line(false));
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\r\n"), "a\\u{1b}[2Jb\\r ");
    }

    #[test]
    fn long_lines_go_on_below_their_heading() {
        let mut page = Page::new(TextOptions { width: Some(40), color: false });
        page.line("notice", "", "one two three four five six seven eight");
        assert_eq!(page.text, "notice      one two three four five six\n            seven eight\n");
        page.text.clear();
        page.line("a heading that is long", "", "one two three four five six");
        assert_eq!(page.text, "a heading that is long one two three\n            four five six\n");
    }
}
