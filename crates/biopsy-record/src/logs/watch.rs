//! The logs at the start of the recording: which files there are, and how long they are.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::config::Config;
use super::glob_walk::{self, Found};
use super::open;
use super::place::{Place, Root};

/// Files that are held open during the recording, so that they can be read after they were deleted.
const MOST_HELD: usize = 64;

/// The files as they were when the recording started.
#[derive(Debug)]
pub struct LogWatch {
    pub(super) config: Config,
    pub(super) noted: Vec<Noted>,
    /// The root of [`Config::inside`], kept open so that it outlives the process.
    pub(super) inside: Option<Place>,
    /// Why there is none, where there should be.
    pub(super) inside_error: Option<std::io::Error>,
}

/// A file at the start of the recording.
#[derive(Debug)]
pub(super) struct Noted {
    /// As it is shown.
    pub(super) name: String,
    pub(super) id: FileId,
    pub(super) size: u64,
    /// Held open, so that it can be read even when it is deleted.
    pub(super) file: Option<File>,
}

/// What names a file whatever its path is.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(facts: &std::fs::Metadata) -> FileId {
    (facts.dev(), facts.ino())
}

impl LogWatch {
    /// Notes the files that match, and their sizes. What is wrong with a pattern is said by [`LogWatch::collect`].
    #[must_use]
    pub fn begin(config: Config) -> LogWatch {
        let (inside, inside_error) = match config.inside.map(Root::of) {
            Some(Ok(root)) => (root.map(|root| Place::Inside(Arc::new(root))), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let mut watch = LogWatch { config, noted: Vec::new(), inside, inside_error };
        for glob in watch.config.globs.clone() {
            let (place, found) = watch.find(&glob);
            for path in found.unwrap_or_default().paths {
                let Ok(opened) = open::open(&place, &path) else { continue };
                let id = file_id(&opened.facts);
                if watch.noted.iter().any(|known| known.id == id) {
                    continue;
                }
                let file = (watch.noted.len() < MOST_HELD).then_some(opened.file);
                watch.noted.push(Noted { name: place.shown(&path), id, size: opened.facts.len(), file });
            }
        }
        watch
    }

    /// Finds what a pattern matches: from our root, or, where that is nothing, from the target's.
    pub(super) fn find(&self, glob: &str) -> (Place, Result<Found, String>) {
        let here = glob_walk::find(&Place::Here, glob);
        match (&here, &self.inside) {
            (Ok(found), Some(inside)) if found.paths.is_empty() => {
                (inside.clone(), glob_walk::find(inside, glob))
            }
            _ => (Place::Here, here),
        }
    }
}
