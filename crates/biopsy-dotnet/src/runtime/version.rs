//! Versions of the runtime.

use std::fmt;

/// Version of a runtime, as its own `@(#)Version` string says it: 8.0.31 is build `8.0.3126.xxxxx`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuntimeVersion {
    /// 8 in 8.0.31.
    pub major: u16,
    /// 0 in 8.0.31.
    pub minor: u16,
    /// 31 in 8.0.31, where it could be told.
    pub patch: Option<u16>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch}"),
            None => Ok(()),
        }
    }
}
