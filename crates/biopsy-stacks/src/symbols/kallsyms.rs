//! `/proc/kallsyms`: names of kernel functions.
//!
//! ```text
//! ffffffff81000000 T startup_64
//! ffffffffc0a01000 t ext4_foo\t[ext4]
//! ```

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::demangle::prefix;

/// The file of a kernel with all its modules has 10 to 20 MB.
const FILE_BYTES: u64 = 256 << 20;
const SYMBOLS: usize = 2 << 20;
const NAME_BYTES: usize = 512;
/// Symbols of a kernel with many modules, and bytes of a name.
const USUAL: usize = 256 << 10;
const USUAL_NAME: usize = 32;
/// Addresses further than this from the last symbol before them, in bytes, are in no function: code of modules and
/// BPF programs ends without saying so.
const REACH: u64 = 1 << 20;

/// Why kernel names are missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KallsymsError {
    /// The file could not be read.
    #[error("cannot read kernel symbols")]
    Io(#[from] io::Error),
    /// All addresses read as zero.
    #[error("kernel symbols are hidden: every address in `/proc/kallsyms` is zero")]
    Hidden,
}

impl KallsymsError {
    /// What the reader can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io(_) => None,
            Self::Hidden => Some("set `kernel.kptr_restrict` to 0 or 1 and give CAP_SYSLOG, or run as root"),
        }
    }
}

/// Kernel functions sorted by address; the names in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    symbols: Vec<(u64, u32)>,
    /// Each name is a length byte pair and its bytes.
    names: Vec<u8>,
}

impl Kallsyms {
    pub(crate) fn open(path: &Path) -> Result<Self, KallsymsError> {
        Self::read(biopsy_files::open_kernels(path)?)
    }

    pub(crate) fn read(source: impl Read) -> Result<Self, KallsymsError> {
        // Pages that nothing is written to take no memory, and vectors that grow leave holes behind.
        let mut found =
            Self { symbols: Vec::with_capacity(USUAL), names: Vec::with_capacity(USUAL * USUAL_NAME) };
        let mut lines = BufReader::with_capacity(64 << 10, source.take(FILE_BYTES));
        let mut line = Vec::new();
        let mut hidden = 0_u32;
        while found.symbols.len() < SYMBOLS {
            line.clear();
            if (&mut lines).take(4 * NAME_BYTES as u64).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if let Some((address, name, module)) = parse(&line) {
                if address == 0 {
                    hidden += 1;
                } else {
                    found.push(address, name, module);
                }
            }
        }
        if found.symbols.is_empty() && hidden > 0 {
            return Err(KallsymsError::Hidden);
        }
        // Of several names for an address the first stands, as in the kernel's own lookup: its place is before the others'.
        found.symbols.sort_unstable();
        found.symbols.dedup_by_key(|(address, _)| *address);
        found.symbols.shrink_to_fit();
        found.names.shrink_to_fit();
        Ok(found)
    }

    fn push(&mut self, address: u64, name: &str, module: Option<&str>) {
        let name = prefix(name, NAME_BYTES).as_bytes();
        let module = module.map(|module| prefix(module, NAME_BYTES).as_bytes());
        let length = name.len() + module.map_or(0, |module| 1 + module.len());
        let (Ok(at), Ok(length)) = (u32::try_from(self.names.len()), u16::try_from(length)) else { return };
        self.names.extend(length.to_le_bytes());
        self.names.extend(name);
        if let Some(module) = module {
            self.names.push(b' ');
            self.names.extend(module);
        }
        self.symbols.push((address, at));
    }

    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(start, _)| *start <= address);
        let (start, at) = *self.symbols.get(after.checked_sub(1)?)?;
        if address - start >= REACH {
            return None;
        }
        let tail = self.names.get(at as usize..)?;
        let length = usize::from(u16::from_le_bytes(*tail.first_chunk()?));
        std::str::from_utf8(tail.get(2..2 + length)?).ok()
    }
}

/// Address, name and module of a line about code.
fn parse(line: &[u8]) -> Option<(u64, &str, Option<&str>)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    if !matches!(fields.next()?, "t" | "T" | "w" | "W") {
        return None;
    }
    let name = fields.next()?;
    Some((address, name, fields.next()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000000 T _stext\n\
        junk\n\
        ffffffff81000400 t do_something\n\
        ffffffff81000400 D data\n\
        ffffffffc0a01000 t ext4_foo\t[ext4]\n\
        \xff\xfe t bad\n\
        ffffffff81000500 T";

    #[test]
    fn names_by_address() {
        let kallsyms = Kallsyms::read(TEXT).unwrap();
        assert_eq!(kallsyms.find(0xffff_ffff_8100_0000), Some("startup_64"));
        assert_eq!(kallsyms.find(0xffff_ffff_8100_03ff), Some("startup_64"));
        assert_eq!(kallsyms.find(0xffff_ffff_8100_0400), Some("do_something"));
        assert_eq!(kallsyms.find(0xffff_ffff_c0a0_1010), Some("ext4_foo [ext4]"));
        assert_eq!(kallsyms.find(0xffff_ffff_80ff_ffff), None);
        assert_eq!(kallsyms.find(u64::MAX), None);
    }

    #[test]
    fn hidden_addresses_are_told() {
        let hidden = Kallsyms::read(&b"0000000000000000 T startup_64\n"[..]);
        assert!(matches!(hidden, Err(KallsymsError::Hidden)));
    }

    proptest! {
        /// Against a walk over all lines: the nearest function before, the first of its names.
        #[test]
        fn a_name_is_that_of_the_nearest_function_before(
            lines in prop::collection::vec((1..200_u64, prop::sample::select(vec!['t', 'T', 'w', 'W', 'd', 'A'])), 1..30),
            asked in 0..220_u64,
            spacing in prop::sample::select(vec![1_u64, 0x100, REACH / 3, REACH]),
        ) {
            let address = |place: u64| 0xffff_ffff_8000_0000 + place * spacing;
            let text: String = lines.iter().enumerate()
                .map(|(number, (place, kind))| format!("{:016x} {kind} f{number}\n", address(*place)))
                .collect();
            let kallsyms = Kallsyms::read(text.as_bytes()).unwrap();
            let is_near = |place: u64| place <= asked && address(asked) - address(place) < REACH;
            let functions = lines.iter().enumerate().filter(|(_, one)| !matches!(one.1, 'd' | 'A') && is_near(one.0));
            // The last of equal maxima is taken, and the first name of an address counts.
            let nearest = functions.rev().max_by_key(|(_, one)| one.0).map(|(number, _)| format!("f{number}"));
            prop_assert_eq!(kallsyms.find(address(asked)).map(str::to_owned), nearest);
        }
    }
}
