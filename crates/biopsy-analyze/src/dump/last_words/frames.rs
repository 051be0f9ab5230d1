//! The calls of a text, and which of them is the place.

use super::super::places::StackPlace;
use crate::whose::{self, Code, Language, Whose};

/// A call, as a text has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame<'l> {
    pub(super) function: &'l str,
    pub(super) file: &'l str,
    pub(super) line: Option<u32>,
}

/// Calls, innermost first.
#[derive(Clone, Debug)]
pub(super) struct Frames<'l> {
    language: Language,
    list: Vec<Frame<'l>>,
}

impl<'l> Frames<'l> {
    pub(super) fn new(language: Language, list: Vec<Frame<'l>>) -> Self {
        Self { language, list }
    }

    pub(super) fn list(&self) -> &[Frame<'l>] {
        &self.list
    }

    /// With the outer calls that another text has in full.
    pub(super) fn extend(&mut self, outer: &[Frame<'l>]) {
        self.list.extend(outer);
    }

    /// Where it was.
    pub(super) fn place(&self) -> Option<StackPlace> {
        let frame = self.list.get(whose::place(self.list.iter().map(|frame| self.whose(frame)))?)?;
        Some(StackPlace {
            function: frame.function.to_owned(),
            source: Some((frame.file.to_owned(), frame.line)),
            own: self.whose(frame) == Whose::Program,
            shown: Some(shown(frame)),
            ..StackPlace::default()
        })
    }

    /// The place, where it is the program's own.
    pub(super) fn own_place(&self) -> Option<StackPlace> {
        self.place().filter(|place| place.own)
    }

    pub(super) fn shown(&self, most: usize) -> Vec<String> {
        self.list.iter().take(most).map(shown).collect()
    }

    fn whose(&self, frame: &Frame<'_>) -> Whose {
        let code = Code {
            language: self.language,
            function: Some(frame.function),
            file: Some(frame.file),
            ..Code::default()
        };
        code.whose()
    }
}

/// `price (menu.py:7)`.
fn shown(frame: &Frame<'_>) -> String {
    let name = frame.file.rsplit('/').next().unwrap_or_default();
    let at = frame.line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
    match (frame.function, at.as_str()) {
        ("", at) => at.to_owned(),
        (function, "") => function.to_owned(),
        (function, at) => format!("{function} ({at})"),
    }
}

/// `/srv/menu.rs:7:9`, `/srv/menu.go:7`: the file, and the line.
pub(super) fn position(text: &str, columns: bool) -> Option<(&str, u32)> {
    let text = if columns { text.rsplit_once(':').filter(|(_, column)| is_number(column))?.0 } else { text };
    let (file, line) = text.rsplit_once(':')?;
    Some((file, line.parse().ok()?))
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Calls that were left out: `... 12 more`, `... 5 lines matching cause stack trace ...`.
pub(super) fn is_gap(line: &str) -> bool {
    line.trim_start().starts_with("... ")
}
