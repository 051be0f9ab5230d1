//! Versions of formats: a reader opens older ones and newer minor ones, and refuses newer major ones.

use std::fmt;
use std::str::FromStr;

/// Version of a format on disk. A new *minor* adds what an old reader can skip; a new *major* is for changes that
/// it would misread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FormatVersion {
    /// Readers refuse a higher one than they know.
    pub major: u16,
    /// Readers accept any.
    pub minor: u16,
}

impl FormatVersion {
    /// The layout of a recording (`biopsy.json` and the members it explains), as written by this crate.
    pub const RECORDING: Self = Self { major: 1, minor: 0 };
    /// The timeline (`trace/timeline.bin`), as written by this crate.
    pub const TIMELINE: Self = Self { major: 1, minor: 0 };

    /// Whether a reader of version `self` can read `found`.
    #[must_use]
    pub fn reads(self, found: Self) -> bool {
        found.major <= self.major
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for FormatVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once('.').ok_or(())?;
        Ok(Self { major: major.parse().map_err(|_| ())?, minor: minor.parse().map_err(|_| ())? })
    }
}

#[cfg(test)]
mod tests {
    use super::FormatVersion;

    #[test]
    fn newer_minor_is_read_newer_major_is_not() {
        let ours = FormatVersion { major: 2, minor: 4 };
        assert!(ours.reads("2.9".parse().unwrap()));
        assert!(ours.reads("1.7".parse().unwrap()));
        assert!(!ours.reads("3.0".parse().unwrap()));
        assert_eq!(ours.to_string(), "2.4");
        for bad in ["", "1", "1.", ".1", "1.2.3", "-1.0", "70000.0"] {
            assert_eq!(bad.parse::<FormatVersion>(), Err(()), "{bad}");
        }
    }
}
