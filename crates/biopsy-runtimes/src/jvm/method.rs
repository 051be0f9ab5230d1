//! A method: its name, its source file, and the line of each of its instructions.

use std::sync::Arc;

use super::compressed::{Form, Packed};
use crate::StrandFrame;

/// Stands for a step that does not fit one byte.
const ESCAPE: u8 = 0xff;

/// A method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Method {
    /// `java.lang.Thread.sleep`.
    pub(super) name: Arc<str>,
    /// File name of its source.
    pub(super) file: Option<Arc<str>>,
    /// It is not made of byte code.
    pub(super) native: bool,
    /// Where its byte code begins, and bytes of it.
    pub(super) code: u64,
    pub(super) code_size: u32,
    /// Packed pairs of byte code and line; empty where the class file has none.
    pub(super) lines: Box<[u8]>,
}

/// Whether a packed table has the zero that ends it.
pub(super) fn is_whole(table: &[u8], form: Form) -> bool {
    let mut packed = Packed::new(table, form);
    std::iter::from_fn(|| step(&mut packed)).any(|step| matches!(step, Step::End))
}

/// One entry of a table of lines.
enum Step {
    /// By so much byte code and so many lines.
    By(i32, i32),
    End,
}

fn step(packed: &mut Packed<'_>) -> Option<Step> {
    Some(match packed.byte()? {
        0 => Step::End,
        ESCAPE => Step::By(packed.signed()?, packed.signed()?),
        both => Step::By(i32::from(both >> 3), i32::from(both & 7)),
    })
}

impl Method {
    /// The line of a byte code: of the last one at or before it.
    pub(super) fn line(&self, index: u32, form: Form) -> Option<u32> {
        let mut packed = Packed::new(&self.lines, form);
        let (mut at, mut line) = (0i32, 0i32);
        let mut best: Option<(i32, i32)> = None;
        while let Some(Step::By(code, lines)) = step(&mut packed) {
            at = at.wrapping_add(code);
            line = line.wrapping_add(lines);
            let wanted = i32::try_from(index).unwrap_or(i32::MAX);
            if at == wanted {
                best = Some((at, line));
                break;
            }
            if at < wanted && best.is_none_or(|(found, _)| at >= found) {
                best = Some((at, line));
            }
        }
        best.and_then(|(_, line)| u32::try_from(line).ok()).filter(|line| *line > 0)
    }

    /// A frame of it, at a byte code.
    pub(super) fn frame(&self, index: Option<u32>, form: Form) -> StrandFrame {
        StrandFrame {
            function: Arc::clone(&self.name),
            file: self.file.clone(),
            line: index.filter(|_| !self.native).and_then(|index| self.line(index, form)),
            ..StrandFrame::default()
        }
    }
}
