//! A sealed file by pieces. They go out as they are read. What they are held against was worked out when the file was sealed, as far as a
//! piece ends where something is known; it is read for that elsewhere.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::state::{State, digest};

/// A sealed file that is sent.
pub(crate) struct Contents<'a> {
    pub(crate) path: &'a Path,
    file: File,
    /// What it was when it was sealed.
    sealed: &'a State,
}

/// What a piece is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checksum {
    /// SHA-256 of the piece.
    OfPiece([u8; 32]),
    /// SHA-256 of all of the file up to the piece's end.
    OfPrefix([u8; 32]),
}

impl<'a> Contents<'a> {
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(path: &'a Path, sealed: &'a State) -> io::Result<Self> {
        Ok(Self { path, file: File::open(path)?, sealed })
    }

    /// Whether it is as long as it was.
    pub(crate) fn is_as_long(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() == self.sealed.bytes)
    }

    /// Where a piece from `at` on ends, at most `most` behind that: where something is known, if it gets that far.
    pub(crate) fn end_of_piece(&self, at: u64, most: u64) -> u64 {
        let end = at.saturating_add(most).min(self.sealed.bytes);
        let known = self.sealed.last_known(end);
        if known > at { known } else { end }
    }

    /// What the piece between is held against. `takes_prefixes`: what is known of all before its end may be used.
    pub(crate) fn checksum(&self, at: u64, end: u64, takes_prefixes: bool) -> io::Result<Checksum> {
        match self.sealed.prefix(end) {
            Some(known) if takes_prefixes => Ok(Checksum::OfPrefix(known)),
            _ => Ok(Checksum::OfPiece(digest(&mut self.piece(at, end))?.1)),
        }
    }

    /// The bytes between.
    pub(crate) fn piece(&self, at: u64, end: u64) -> Piece<'_> {
        Piece { file: &self.file, at, end }
    }

    /// Whether it is not what was sealed. All of it is read.
    pub(crate) fn was_changed(&self) -> io::Result<bool> {
        let (bytes, sha256) = digest(&mut self.piece(0, u64::MAX))?;
        Ok(bytes != self.sealed.bytes || self.sealed.prefix(bytes) != Some(sha256))
    }
}

/// Bytes of a file from one place to another, or to its end.
pub(crate) struct Piece<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Piece<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(into.len());
        let count = self.file.read_at(&mut into[..left], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use biopsy_seal::Digesting;
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::link::{Link, Secret};
    use crate::signed::{Fingerprint, Signer};

    fn link() -> Link {
        Link {
            lab: "https://lab.example".to_owned(),
            id: crate::encode([1; 16]),
            secret: Secret::generate(),
            signer: Fingerprint::of("signer", &["a".to_owned()]),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever sizes the pieces have: they are the file, one after the other, and each is held against what it is.
        #[test]
        fn pieces_are_the_file_and_their_checksums_hold(
            length in 0..5_u64 << 20, sizes in proptest::collection::vec(1..2_500_000_u64, 1..8),
            takes_prefixes: bool, is_known: bool,
        ) {
            let bytes: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(31) >> 3) as u8).collect();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.age");
            std::fs::write(&path, &bytes).unwrap();
            let mut digesting = Digesting::default();
            digesting.update(&bytes);
            let whole = digesting.finish();
            let mut state = State::new(&link(), &Signer::generate(), whole.bytes, whole.sha256, Vec::new());
            if is_known {
                state.know(&whole.beginnings);
            }
            let contents = Contents::open(&path, &state).unwrap();
            prop_assert!(contents.is_as_long().unwrap() && !contents.was_changed().unwrap());
            let (mut at, mut sizes) = (0, sizes.iter().cycle());
            while at < length {
                let most = *sizes.next().unwrap();
                let end = contents.end_of_piece(at, most);
                prop_assert!(at < end && end <= length && end - at <= most, "{}..{} of {}", at, end, most);
                let mut read = Vec::new();
                contents.piece(at, end).read_to_end(&mut read).unwrap();
                prop_assert_eq!(&read, &bytes[at as usize..end as usize]);
                let is_prefix = match contents.checksum(at, end, takes_prefixes).unwrap() {
                    Checksum::OfPiece(sha256) => {
                        prop_assert_eq!(sha256, <[u8; 32]>::from(Sha256::digest(&read)));
                        false
                    }
                    Checksum::OfPrefix(sha256) => {
                        prop_assert_eq!(sha256, <[u8; 32]>::from(Sha256::digest(&bytes[..end as usize])));
                        true
                    }
                };
                // Nothing is read twice where something is known: at each mebibyte, and at the end.
                let may_be_known = end == length || is_known && end.is_multiple_of(1 << 20);
                prop_assert_eq!(is_prefix, takes_prefixes && may_be_known);
                prop_assert!(!is_known || may_be_known || at >> 20 == end >> 20, "it could have ended at a mebibyte");
                at = end;
            }
        }
    }

    #[test]
    fn what_was_changed_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.age");
        let sha256 = Sha256::digest(b"abc").into();
        let state = State::new(&link(), &Signer::generate(), 3, sha256, Vec::new());
        for (now, is_as_long, was_changed) in
            [(&b"abc"[..], true, false), (b"abd", true, true), (b"ab", false, true), (b"abcd", false, true)]
        {
            std::fs::write(&path, now).unwrap();
            let contents = Contents::open(&path, &state).unwrap();
            assert_eq!(
                (contents.is_as_long().unwrap(), contents.was_changed().unwrap()),
                (is_as_long, was_changed)
            );
        }
    }
}
