//! Which CPython a module is.
//!
//! The module exports `_PyRuntime`. From 3.11 on it exports its version too (`Py_Version`), and 3.13 has it at the beginning of
//! `_PyRuntime`, with offsets for debuggers; before, the name of the file says it.

use std::ops::Range;

use biopsy_elf::MappedElf;

use crate::{Memory, Module};

/// Program headers of a module; real files have about a dozen.
const PROGRAM_HEADERS: u64 = 256;
/// What `_PyRuntime` begins with from 3.13 on.
const COOKIE: &[u8; 8] = b"xdebugpy";

/// An interpreter's program or library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Address of `_PyRuntime`.
    pub(crate) runtime: u64,
    /// `3.11.7`, `3.8`; empty where nothing says it.
    pub(crate) text: String,
    pub(crate) minor: Option<u32>,
    /// Built without the interpreter's lock, which changes the head of all objects.
    pub(crate) free_threaded: bool,
}

impl Found {
    /// Of an image that was made up.
    pub(crate) fn made(runtime: u64, minor: u32) -> Self {
        Self { runtime, text: format!("3.{minor}"), minor: Some(minor), free_threaded: false }
    }
}

/// What the module is; `None`: no CPython.
pub(crate) fn find(memory: &Memory<'_>, module: &Module<'_>) -> Option<Found> {
    let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
    let elf = MappedElf::read(&read, module.module.start, PROGRAM_HEADERS).ok()?;
    let dynamic = elf.dynamic()?;
    let (runtime, _) = elf.symbol(&dynamic, b"_PyRuntime")?;
    if memory.array::<8>(runtime) == Some(*COOKIE) {
        let version = memory.u64(runtime.saturating_add(8)).and_then(|version| u32::try_from(version).ok());
        let (text, minor) = version.and_then(of_number).unzip();
        let free_threaded = memory.u64(runtime.saturating_add(16)) != Some(0);
        return Some(Found { runtime, text: text.unwrap_or_default(), minor, free_threaded });
    }
    let exported = elf.symbol(&dynamic, b"Py_Version").and_then(|(at, _)| memory.u32(at)).and_then(of_number);
    let (text, minor) = exported.or_else(|| of_name(module.file_name())).unzip();
    Some(Found { runtime, text: text.unwrap_or_default(), minor, free_threaded: false })
}

/// A function that the module exports, from its first to behind its last byte.
pub(crate) fn function(memory: &Memory<'_>, module: &Module<'_>, name: &[u8]) -> Option<Range<u64>> {
    let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
    let elf = MappedElf::read(&read, module.module.start, PROGRAM_HEADERS).ok()?;
    let (start, size) = elf.symbol(&elf.dynamic()?, name)?;
    Some(start..start.checked_add(size)?)
}

/// `PY_VERSION_HEX`: major, minor, micro, level and serial.
fn of_number(number: u32) -> Option<(String, u32)> {
    let [level, micro, minor, major] = number.to_le_bytes();
    let level = match level >> 4 {
        0xa => "a",
        0xb => "b",
        0xc => "rc",
        _ => "",
    };
    (major == 3).then(|| (format!("3.{minor}.{micro}{level}"), minor.into()))
}

/// `libpython3.8.so.1.0`, `python3.9`.
fn of_name(name: &[u8]) -> Option<(String, u32)> {
    let name = std::str::from_utf8(name).ok()?;
    let (_, version) = name.split_once("python3.")?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    let minor = digits.parse().ok()?;
    Some((format!("3.{minor}"), minor))
}

#[cfg(test)]
mod tests {
    use super::{of_name, of_number};

    #[test]
    fn versions_are_told_by_number_and_by_name() {
        assert_eq!(of_number(0x030b_07f0), Some(("3.11.7".to_owned(), 11)));
        assert_eq!(of_number(0x030e_00a1), Some(("3.14.0a".to_owned(), 14)));
        assert_eq!(of_number(0x0207_12f0), None);
        assert_eq!(of_name(b"libpython3.8.so.1.0"), Some(("3.8".to_owned(), 8)));
        assert_eq!(of_name(b"python3.10"), Some(("3.10".to_owned(), 10)));
        assert_eq!(of_name(b"python3"), None);
        assert_eq!(of_name(b"libpython3.so"), None);
    }
}
