//! Texts that name the exception first and then its calls, innermost first, and then what caused it: Java and JavaScript.

use super::error::Thrown;
use super::frames::Frame;
use super::words::CHAIN;

/// Lines that the text of one exception may have.
const TEXT_LINES: usize = 20;

/// One exception of a chain.
#[derive(Clone, Debug)]
pub(super) struct Section<'l> {
    pub(super) thrown: Thrown,
    pub(super) frames: Vec<Frame<'l>>,
    /// Its number among the lines.
    pub(super) header: usize,
    /// Of Java: calls that it has in common with the one before.
    pub(super) common: usize,
}

/// How a language writes them.
pub(super) struct Form<'f, 'l> {
    /// A call, or something that stands between calls: `Some(None)`.
    pub(super) call: &'f dyn Fn(&'l str) -> Option<Option<Frame<'l>>>,
    /// The line names an exception; whether it is the cause of the one before.
    pub(super) header: &'f dyn Fn(&'l str) -> Option<(Thrown, bool)>,
}

impl<'l> Form<'_, 'l> {
    /// The last chain of the lines, the outermost exception first, and the line behind it. `last`: the last call.
    pub(super) fn chain(&self, lines: &[&'l str], last: usize) -> Option<Vec<Section<'l>>> {
        let mut chain = Vec::new();
        let mut at = last;
        while chain.len() < CHAIN {
            let mut frames = Vec::new();
            let mut common = 0;
            let is_cut = loop {
                let Some(found) = lines.get(at).and_then(|line| (self.call)(line)) else { break false };
                match found {
                    Some(frame) => frames.push(frame),
                    None => common = common.max(lines.get(at).and_then(|line| more(line)).unwrap_or(0)),
                }
                let Some(before) = at.checked_sub(1) else { break true };
                at = before;
            };
            if is_cut {
                break;
            }
            // The text may have several lines; the nearest that names an exception is the one.
            let header = (at.saturating_sub(TEXT_LINES)..=at).rev().find_map(|number| {
                let line = lines.get(number)?;
                // Calls of another exception: the text of this one has no name.
                Some(match (self.call)(line) {
                    Some(_) => Err(()),
                    None => Ok(((self.header)(line)?, number)),
                })
            });
            let Some(Ok(((thrown, is_cause), header))) = header else { break };
            frames.reverse();
            chain.push(Section { thrown, frames, header, common });
            match header.checked_sub(1) {
                Some(before) if is_cause => at = before,
                _ => break,
            }
        }
        chain.reverse();
        (!chain.is_empty()).then_some(chain)
    }
}

/// `... 12 more`
fn more(line: &str) -> Option<usize> {
    line.trim().strip_prefix("... ")?.strip_suffix(" more")?.parse().ok()
}
