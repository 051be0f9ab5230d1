//! Texts as the tables have them: on one line, without what commands a terminal, and of a bounded length.

use std::borrow::Cow;

use biopsy_model::printable::printable;

/// Most bytes of a text.
pub(crate) const LONGEST: usize = 1000;
/// Bytes of what stands for the rest of a longer one: a mark of three bytes, and 16 digits.
const TAIL: usize = 19;

/// The text as a table has it. Of one that is too long there is the beginning, a mark, and digits that differ where the rests differ: equal texts
/// stay equal, and others do not become so.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    // Only the beginning is escaped: escapes are longer than what they stand for, and a text may be as long as a report.
    let head = &text[..text.floor_char_boundary(LONGEST)];
    let is_plain = head.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let shown = if is_plain { Cow::Borrowed(head) } else { Cow::Owned(printable(head)) };
    if head.len() == text.len() && shown.len() <= LONGEST {
        return shown;
    }
    let end = shown.floor_char_boundary(LONGEST - TAIL);
    Cow::Owned(format!("{}…{:016x}", &shown[..end], fnv(text.as_bytes())))
}

/// FNV-1a, 64 bits: the same in each version of this program, and on each machine. It tells names apart that nobody chose to be alike.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, plain};

    #[test]
    fn what_commands_a_terminal_becomes_visible() {
        assert_eq!(plain("sort\u{1b}[2J\n"), "sort\\u{1b}[2J\\n");
        assert_eq!(plain("größer"), "größer");
    }

    #[test]
    fn long_texts_are_cut_and_stay_different() {
        let (one, other) = ("ä".repeat(LONGEST), format!("{}b", "ä".repeat(LONGEST)));
        assert!(plain(&one).len() <= LONGEST);
        assert_eq!(plain(&one), plain(&one));
        assert_ne!(plain(&one), plain(&other));
        assert_eq!(plain(&"a".repeat(LONGEST)), "a".repeat(LONGEST));
        for hostile in ["\u{1b}".repeat(400), "\u{1b}".repeat(1 << 20), "a".repeat(LONGEST + 1)] {
            let shown = plain(&hostile);
            assert!(shown.len() <= LONGEST && shown.contains('…') && !shown.contains('\u{1b}'), "{shown}");
        }
    }
}
