//! What has been hashed of uploads that go on, so that none has to be read again at its end. In memory alone: where it is missing, as
//! after a start of the lab or in another process of it, the file is read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

/// Uploads that are remembered; each takes some two hundred bytes.
const MOST: usize = 20_000;

/// The SHA-256 of the first bytes of each upload, and how many they are. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<String, (u64, Sha256)>>>);

impl Running {
    fn all(&self) -> MutexGuard<'_, HashMap<String, (u64, Sha256)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the first `at` bytes of an upload. It stays: what comes next may not be taken.
    pub(crate) fn of(&self, id: &str, at: u64) -> Option<Sha256> {
        self.all().get(id).filter(|(of, _)| *of == at).map(|(_, sha256)| sha256.clone())
    }

    /// The same at the end of an upload, of which nothing is remembered then.
    pub(crate) fn take(&self, id: &str, at: u64) -> Option<Sha256> {
        let known = self.of(id, at);
        self.all().remove(id);
        known
    }

    /// Keeps what is known of the first `at` bytes.
    pub(crate) fn put(&self, id: &str, at: u64, sha256: Sha256) {
        let mut all = self.all();
        if all.len() >= MOST {
            // They are read again, then.
            all.clear();
        }
        all.insert(id.to_owned(), (at, sha256));
    }
}

/// The same by reading the file.
///
/// # Errors
/// It cannot be read, or has fewer bytes.
pub(crate) fn of_file(path: &Path, at: u64) -> io::Result<Sha256> {
    let mut sha256 = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut from = File::open(path)?.take(at);
    let mut bytes = 0;
    loop {
        let count = from.read(&mut buffer)?;
        sha256.update(&buffer[..count]);
        bytes += count as u64;
        match count {
            0 if bytes == at => return Ok(sha256),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_of_that_place_alone_and_until_the_end() {
        let running = Running::default();
        running.put("a", 3, Sha256::new().chain_update(b"abc"));
        assert!(running.of("a", 2).is_none());
        assert!(running.of("a", 3).is_some() && running.of("a", 3).is_some(), "what is asked stays");
        let known = running.take("a", 3).unwrap();
        assert!(running.of("a", 3).is_none());
        running.put("a", 3, Sha256::new());
        assert!(running.take("a", 2).is_none() && running.of("a", 3).is_none(), "it has ended");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"abcdef").unwrap();
        assert_eq!(known.finalize(), of_file(&path, 3).unwrap().finalize());
        assert_eq!(of_file(&path, 7).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let running = Running::default();
        (0..=MOST).for_each(|number| running.put(&number.to_string(), 0, Sha256::new()));
        assert_eq!(running.all().len(), 1);
    }
}
