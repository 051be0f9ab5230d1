//! What a runtime refuses with, in words.

use std::fmt;

/// A result code as runtimes send it. `Display` says in words what it means here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HResult(pub u32);

impl HResult {
    /// Success.
    pub const OK: Self = Self(0);
    /// The message was not understood: a newer form of a known command.
    pub const BAD_ENCODING: Self = Self(0x8013_1384);
    /// The command is not known: an older runtime.
    pub const UNKNOWN_COMMAND: Self = Self(0x8013_1385);
    /// An error of the diagnostics server without a name.
    pub const UNKNOWN_ERROR: Self = Self(0x8013_1387);
    /// The runtime is not built with it.
    pub const NOT_SUPPORTED: Self = Self(0x8013_1515);
    /// It went wrong.
    pub const FAIL: Self = Self(0x8000_4005);

    /// The runtime does not know the command, or not in this form: an older form can be tried.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::UNKNOWN_COMMAND | Self::BAD_ENCODING | Self::NOT_SUPPORTED)
    }

    /// What it means; `None`: it is none of the codes that runtimes are known to send.
    #[must_use]
    pub fn words(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "success",
            0x8013_1384 => "the runtime could not read the message",
            0x8013_1385 => "the runtime does not know the command",
            0x8013_1386 => "the runtime speaks another protocol",
            0x8013_1387 => "an error that the runtime has no name for",
            0x8013_1515 => "the runtime was built without it",
            0x8013_135b => "it is not possible at this moment of the runtime's life",
            0x8013_1371 => "the runtime has not started yet",
            0x8000_4005 => "it failed inside the runtime, which says no more",
            0x8000_4001 => "the runtime does not implement it",
            0x8000_ffff => "the runtime met something it did not expect",
            0x8007_0057 => "the runtime does not accept an argument",
            0x8007_0005 => "the process may not do this",
            0x8007_000e => "the process is out of memory",
            0x8007_0002 => "a file does not exist",
            0x8007_0003 => "a folder does not exist",
            0x8007_0050 => "the file exists",
            0x8007_0070 => "the disk is full",
            0x8007_05b4 => "it took the runtime too long",
            0x8007_00aa => "it is in use",
            _ => return None,
        })
    }
}

impl fmt::Display for HResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some(words) => write!(f, "{words} ({:#010x})", self.0),
            // Other codes of Win32 carry a number of that system.
            None if self.0 >> 16 == 0x8007 => {
                write!(f, "system error {} ({:#010x})", self.0 & 0xffff, self.0)
            }
            None => write!(f, "code {:#010x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_words_or_its_number() {
        assert_eq!(
            HResult::UNKNOWN_COMMAND.to_string(),
            "the runtime does not know the command (0x80131385)"
        );
        assert_eq!(HResult(0x8007_0123).to_string(), "system error 291 (0x80070123)");
        assert_eq!(HResult(0x8999_0000).to_string(), "code 0x89990000");
        assert!(HResult::BAD_ENCODING.is_unknown() && !HResult::FAIL.is_unknown());
    }
}
