//! Debug information in the portable form, or in that of Windows.

use std::sync::Arc;

use super::windows::MAGIC;
use super::{PdbError, PortablePdb, SourceLine, WindowsPdb};

/// Debug information in either form.
#[derive(Debug)]
pub enum Pdb {
    /// The portable one.
    Portable(PortablePdb),
    /// That of Windows.
    Windows(WindowsPdb),
}

impl Pdb {
    /// Reads whichever it is.
    ///
    /// # Errors
    /// When it is neither, or damaged.
    pub fn parse(bytes: Arc<[u8]>) -> Result<Self, PdbError> {
        if bytes.starts_with(MAGIC) {
            return WindowsPdb::parse(&bytes).map(Self::Windows);
        }
        PortablePdb::parse(bytes).map(Self::Portable)
    }

    /// The line of a place in a method. `il_offset` `None`: the method's first line.
    #[must_use]
    pub fn line(&self, method_token: u32, il_offset: Option<u32>) -> Option<SourceLine> {
        match self {
            Self::Portable(pdb) => pdb.line(method_token, il_offset),
            Self::Windows(pdb) => pdb.line(method_token, il_offset),
        }
    }
}
