//! Code objects: names, lines, and the table of exceptions that says what a `with` block holds.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::exceptions::Exceptions;
use super::lines::Lines;
use super::objects::Objects;

/// Bytes of a table of lines or exceptions: those of the largest functions take some tens of thousands.
const TABLE: usize = 4 << 20;
/// Variables of a function that are looked at.
const VARIABLES: u64 = 256;
/// Code objects that are kept.
const KEPT: usize = 65_536;

/// A function's code.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) name: Arc<str>,
    pub(super) file: Arc<str>,
    lines: Lines,
    exceptions: Exceptions,
    /// How many variables are before the stack in a frame.
    pub(super) variables: u64,
}

impl Code {
    /// The line of an instruction, by its offset in bytes.
    pub(super) fn line(&self, offset: i64) -> Option<u32> {
        u32::try_from(self.lines.line(offset)).ok()
    }

    /// Depths of the stack at the handlers that are around an instruction, from the innermost on.
    pub(super) fn handler_depths(&self, offset: i64) -> Vec<u64> {
        self.exceptions.depths(offset)
    }
}

/// Code objects met so far.
#[derive(Default, Debug)]
pub(super) struct Codes {
    known: RefCell<FxHashMap<u64, Option<Arc<Code>>>>,
    files: RefCell<FxHashMap<u64, Arc<str>>>,
}

impl Codes {
    /// The code object at an address; `None`: it is none.
    pub(super) fn read(&self, objects: &Objects<'_, '_>, at: u64) -> Option<Arc<Code>> {
        if let Some(known) = self.known.borrow().get(&at) {
            return known.clone();
        }
        let code = self.parse(objects, at).map(Arc::new);
        let mut known = self.known.borrow_mut();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(at, code.clone());
        code
    }

    fn parse(&self, objects: &Objects<'_, '_>, at: u64) -> Option<Code> {
        if !objects.is(at, "code") {
            return None;
        }
        let layout = &objects.layout;
        let table = |offset| objects.bytes(objects.pointer(at, offset)?, TABLE);
        let variables = match layout.code_variables {
            0 => objects.word(objects.pointer(at, layout.code_names)?, super::layout::same::SIZE)?,
            place => u64::try_from(objects.i32(at, place)?).ok()?,
        };
        let exceptions = if layout.code_exceptions == 0 { None } else { table(layout.code_exceptions) };
        Some(Code {
            name: objects.text(objects.pointer(at, layout.code_name)?)?.into(),
            file: self.file(objects, objects.pointer(at, layout.code_file)?)?,
            lines: Lines::new(
                layout.line_table,
                table(layout.code_lines)?,
                objects.i32(at, layout.code_first_line)?,
            ),
            exceptions: Exceptions::new(exceptions.unwrap_or_default()),
            variables: variables.min(VARIABLES * 256),
        })
    }

    fn file(&self, objects: &Objects<'_, '_>, text: u64) -> Option<Arc<str>> {
        if let Some(known) = self.files.borrow().get(&text) {
            return Some(Arc::clone(known));
        }
        let name: Arc<str> = objects.text(text)?.into();
        let mut files = self.files.borrow_mut();
        if files.len() < KEPT {
            files.insert(text, Arc::clone(&name));
        }
        Some(name)
    }
}

/// Variables that are looked at of a function with so many.
pub(super) fn looked_at(variables: u64) -> u64 {
    variables.min(VARIABLES)
}
