//! Copying members of one recording into another: for a recording that goes on.

use std::io;
use std::path::Path;

use crate::open::source::Source;
use crate::{Limits, OpenError, RecordingFolder, WriteError};

/// Why members cannot be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The recording that they are in cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One cannot be read.
    #[error("cannot read `{member}` of the recording")]
    Read {
        /// Which.
        member: String,
        /// Why not.
        source: io::Error,
    },
    /// One cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl RecordingFolder {
    /// Copies the members of a recording, folder or bundle, that are wanted, as they are. None of them may be here already.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy_members(
        &self,
        from: &Path,
        limits: &Limits,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(), CopyError> {
        let mut source = Source::open(from, limits, &mut Vec::new())?;
        let names: Vec<String> = source.members().keys().filter(|name| wanted(name)).cloned().collect();
        for name in names {
            let member = self.create_member(&name)?;
            let copied = source.with(&name, |reader| io::copy(reader, &mut member.file()));
            let failed = |source| CopyError::Read { member: name.clone(), source };
            // The disk being full is the other side's.
            copied.map_err(failed)?.map_err(|error| CopyError::Write(member.write_error(error)))?;
        }
        Ok(())
    }
}
