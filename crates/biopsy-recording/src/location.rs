//! Where a recording is, and what opens it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use biopsy_seal::{Identity, SealedFile, UnsealError};

use crate::open::zip::Input;

/// Where a recording is: a path, and, where it is sealed, the key that opens it.
#[derive(Clone, Debug)]
pub struct Location {
    path: PathBuf,
    identity: Option<Identity>,
}

impl<P: AsRef<Path>> From<P> for Location {
    fn from(path: P) -> Self {
        Self { path: path.as_ref().to_owned(), identity: None }
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}

impl Location {
    /// A sealed file. It is read where it is, and nothing of it is written anywhere.
    #[must_use]
    pub fn sealed(path: impl AsRef<Path>, identity: Identity) -> Self {
        Self { path: path.as_ref().to_owned(), identity: Some(identity) }
    }

    /// The file or folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// There is a key to it.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.identity.is_some()
    }

    /// What was sealed; `None`: there is no key.
    ///
    /// # Errors
    /// It is damaged, or sealed to another key.
    pub fn open_sealed(&self) -> Result<Option<SealedFile>, UnsealError> {
        self.identity.as_ref().map(|identity| SealedFile::open(&self.path, identity)).transpose()
    }

    /// The bytes of the file as a reader of zips wants them.
    pub(crate) fn reader(&self) -> io::Result<Box<dyn Input + Send>> {
        Ok(match self.open_sealed().map_err(io::Error::other)? {
            Some(sealed) => Box::new(sealed),
            None => Box::new(File::open(&self.path)?),
        })
    }
}
