//! Values that are known to be secrets: found by their keys in the environment, on the command line and in the
//! configuration of a process, and searched for in its memory, wherever they stand.

use zeroize::Zeroizing;

use super::window::Encoding;
use crate::forms::{self, FormKind};
use crate::learned;
use crate::plausible::Lists;
use crate::rules::Words;
use crate::{RedactError, Redactor};

/// Most values: as many as are learned.
const VALUES_MAX: usize = 8192;
/// Longest byte string that is searched for; longer values are searched for in pieces.
const PIECE: usize = 2048;
/// Byte strings beyond which the rarer forms of values are not searched for: each costs speed.
const PATTERNS_MANY: usize = 64;

/// Secret values to be searched for. Wiped when dropped.
#[derive(Default)]
pub struct Literals {
    values: Vec<Zeroizing<Vec<u8>>>,
    refused: usize,
}

impl Literals {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything that `redactor` has learned: from the environment and command line passed to [`Redactor::env`] and
    /// [`Redactor::command_line`], and from text.
    #[must_use]
    pub fn learned_by(redactor: &Redactor) -> Self {
        let mut literals = Self::new();
        for value in redactor.learned_values() {
            literals.push(&value);
        }
        literals
    }

    /// The same for the memory of a process: also values of its environment and arguments that look like secrets, though nothing
    /// says that they are.
    #[must_use]
    pub fn of_process(redactor: &Redactor) -> Self {
        let mut literals = Self::learned_by(redactor);
        for value in redactor.values_of_process() {
            if !literals.values.iter().any(|known| known.as_slice() == value.as_slice()) {
                literals.push(&value);
            }
        }
        literals
    }

    /// Adds a value that the caller knows to be a secret. Values that are too short, or words that memory is full of,
    /// are refused: `false`.
    ///
    /// # Errors
    /// When the word lists that come with the program cannot be read, which the tests rule out.
    pub fn add(&mut self, value: &[u8]) -> Result<bool, RedactError> {
        let lists = Lists::new(Words::load()?);
        if learned::worth(value, learned::Source::Told, &lists) == learned::Worth::None {
            self.refused += 1;
            return Ok(false);
        }
        Ok(self.push(value))
    }

    fn push(&mut self, value: &[u8]) -> bool {
        if self.values.len() >= VALUES_MAX {
            self.refused += 1;
            return false;
        }
        self.values.push(Zeroizing::new(value.to_vec()));
        true
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many values were refused: too short, too common, or too many.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// The byte strings to be searched for: each value as it is, as text writes it (percent-encoded, escaped), and in
    /// base64, where there are not too many.
    pub(super) fn patterns(&self) -> Vec<Pattern> {
        let mut patterns = self.plain();
        for kind in [FormKind::Text, FormKind::Base64] {
            // The first three of base64 are the usual alphabet at each offset.
            let most = if kind == FormKind::Base64 { 3 } else { 8 };
            let mut more = Vec::new();
            for value in &self.values {
                if patterns.len() + more.len() > PATTERNS_MANY {
                    break;
                }
                for form in forms::of(value).iter().filter(|form| form.kind == kind).take(most) {
                    push(&mut more, &form.bytes);
                }
                tidy(&mut more);
                more.retain(|one| !patterns.iter().any(|known| known.bytes == one.bytes));
            }
            if patterns.len() + more.len() <= PATTERNS_MANY {
                patterns.append(&mut more);
            }
        }
        patterns
    }

    /// All values as they are, alone.
    pub(super) fn plain(&self) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        self.values.iter().for_each(|value| push(&mut patterns, value));
        tidy(&mut patterns);
        patterns
    }
}

/// Adds a text, in pieces, and what stands for it in UTF-16.
fn push(patterns: &mut Vec<Pattern>, bytes: &[u8]) {
    push_pieces(patterns, bytes, bytes.is_ascii(), Encoding::Bytes);
    if bytes.is_ascii() {
        return;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        push_pieces(patterns, &little, false, Encoding::Little);
        push_pieces(patterns, &big, false, Encoding::Big);
    }
}

/// In pieces of about the same even length, so that none is too short.
fn push_pieces(patterns: &mut Vec<Pattern>, bytes: &[u8], wide: bool, written: Encoding) {
    let pieces = bytes.len().div_ceil(PIECE).max(1);
    let length = bytes.len().div_ceil(pieces).next_multiple_of(2).max(2);
    let pieces = bytes.chunks(length).filter(|piece| piece.len() >= learned::LEARN_MIN);
    patterns.extend(pieces.map(|piece| Pattern { bytes: Zeroizing::new(piece.to_vec()), wide, written }));
}

/// Each once.
fn tidy(patterns: &mut Vec<Pattern>) {
    patterns.sort_unstable_by(|one, other| one.bytes.as_slice().cmp(other.bytes.as_slice()));
    patterns.dedup_by(|one, other| one.bytes == other.bytes);
}

/// One byte string.
pub(super) struct Pattern {
    /// As it stands in memory.
    pub(super) bytes: Zeroizing<Vec<u8>>,
    /// Also with a zero byte between each two bytes.
    pub(super) wide: bool,
    /// What its bytes are.
    pub(super) written: Encoding,
}

impl std::fmt::Debug for Literals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Literals").field("values", &self.values.len()).finish_non_exhaustive()
    }
}
