//! A sealed file by pieces, each with what has been hashed up to its end.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::state::{digest, hexadecimal};

/// A sealed file that is sent.
pub(crate) struct Contents<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: File,
    pub(crate) bytes: u64,
    /// What it was when it was sealed.
    pub(crate) sha256: String,
}

/// A piece of it.
pub(crate) struct Piece {
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    /// All of the file up to its end.
    pub(crate) after: Sha256,
}

impl Piece {
    pub(crate) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Contents<'_> {
    /// `length` bytes from `at` on; `before`: of all before it.
    pub(crate) fn piece(&self, at: u64, length: u64, before: Sha256) -> io::Result<Piece> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, at)?;
        let after = before.chain_update(&bytes);
        Ok(Piece { at, bytes, after })
    }

    /// Of the first `at` bytes, by reading them.
    pub(crate) fn hashed(&self, at: u64) -> io::Result<Sha256> {
        const AT_ONCE: u64 = 1 << 20;
        let (mut sha256, mut from) = (Sha256::new(), 0);
        while from < at {
            let piece = self.piece(from, AT_ONCE.min(at - from), sha256)?;
            from += piece.length();
            sha256 = piece.after;
        }
        Ok(sha256)
    }

    /// Whether it is not what was sealed.
    pub(crate) fn was_changed(&self) -> io::Result<bool> {
        let (bytes, sha256) = digest(&mut File::open(self.path)?.take(self.bytes))?;
        Ok(bytes != self.bytes || hexadecimal(&sha256) != self.sha256)
    }
}
