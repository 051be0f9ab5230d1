//! The version of Go that a module was built with, from what the linker puts into its data.
//!
//! ```text
//! 16-aligned:  0 ff " Go buildinf:"  14 size of pointers  15 flags (2: text follows)  32 length (varint), text
//! ```
//! Since Go 1.18; debug/buildinfo of the standard library reads the same.

use std::ops::Range;

use crate::{Limits, Memory, Module};

const MAGIC: &[u8] = b"\xff Go buildinf:";
/// The text of a version with experiments is longer than most.
const TEXT: usize = 200;

/// A version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GoVersion {
    /// `1.22.10`, `1.25rc1 X:aliastypeparams`.
    pub(super) text: String,
    /// 22.
    pub(super) minor: u32,
}

/// The version of the module; `None`: it is none of Go's.
pub(super) fn find(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<GoVersion> {
    let in_range = |range: Range<u64>| {
        memory.find(range, MAGIC, 16, limits.searched_bytes, |at| {
            let [flags] = memory.array::<1>(at.checked_add(15)?)?;
            (flags & 2 != 0).then(|| parse(&varint_text(memory, at.checked_add(32)?)?)).flatten()
        })
    };
    module.writable().find_map(in_range).or_else(|| module.constant().find_map(in_range))
}

fn varint_text(memory: &Memory<'_>, at: u64) -> Option<String> {
    // No version is so long that its length takes more than two bytes.
    let [low, high] = memory.array::<2>(at)?;
    let (length, start) = match low {
        0..0x80 => (usize::from(low), at.checked_add(1)?),
        _ => (usize::from(low & 0x7f) | usize::from(high) << 7, at.checked_add(2)?),
    };
    (length <= TEXT).then(|| memory.text(start, length)).flatten()
}

/// `go1.22.10`, `devel go1.27-abcdef Mon ...`.
fn parse(text: &str) -> Option<GoVersion> {
    let version = text.split(' ').find_map(|word| word.strip_prefix("go1."))?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    let minor = digits.parse().ok()?;
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    Some(GoVersion { text: text.trim_start_matches("go").to_owned(), minor })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn versions_are_read_as_the_linker_writes_them() {
        let minor = |text| parse(text).map(|version| version.minor);
        assert_eq!(minor("go1.22.10"), Some(22));
        assert_eq!(minor("go1.25rc1 X:aliastypeparams"), Some(25));
        assert_eq!(minor("devel go1.27-0ab1c2 Mon Nov 2"), Some(27));
        assert_eq!(minor("1.22"), None);
        assert_eq!(minor("go1.x"), None);
        assert_eq!(parse("go1.19.8").unwrap().text, "1.19.8");
    }
}
