//! A sealed file that is to be sent: what it is called, what lies beside it, and whether it was begun or sent before.

use std::io;
use std::path::{Path, PathBuf};

use crate::link::Link;
use crate::signed::Signer;
use crate::state::State;

/// A sealed file, which need not be there yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parcel(PathBuf);

/// Why it cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ParcelError {
    /// Whoever gets it would not know what it is.
    #[error("the name of a sealed file ends in `.age`")]
    OtherName,
    /// Nothing is to be sent twice.
    #[error("`{}` was sent: its receipt is beside it", path.display())]
    Sent {
        /// The sealed file.
        path: PathBuf,
    },
    /// It would be overwritten, or taken for what is about to be made.
    #[error("`{}` is there already, and is not being sent to this link", path.display())]
    Taken {
        /// Which file.
        path: PathBuf,
    },
    /// What is known of an earlier try cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unread {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Parcel {
    /// Under this name.
    ///
    /// # Errors
    /// It is no name of a sealed file, or of one that was received.
    pub fn at(path: PathBuf) -> Result<Self, ParcelError> {
        if path.extension().is_none_or(|ending| ending != "age") {
            return Err(ParcelError::OtherName);
        }
        let is_begun = State::path_of(&path).is_file();
        if State::receipt_of(&path).is_file() && !is_begun {
            return Err(ParcelError::Sent { path });
        }
        Ok(Self(path))
    }

    /// What a file is called when it is sealed: `NAME.age`, or `NAME.report.age`.
    #[must_use]
    pub fn name_of(file: &Path, is_report: bool) -> PathBuf {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(if is_report { ".report.age" } else { ".age" });
        file.with_file_name(name)
    }

    /// What is called after a request, so that the same command finds it again.
    #[must_use]
    pub fn name_for(link: &Link) -> PathBuf {
        PathBuf::from(format!("biopsy-request-{}.biopsy.zip.age", link.id))
    }

    /// Where it is.
    #[must_use]
    pub fn sealed(&self) -> &Path {
        &self.0
    }

    /// Where a recording is until it is sealed: a `.zip`.
    #[must_use]
    pub fn bundle(&self) -> PathBuf {
        let stem = self.0.with_extension("");
        if stem.extension().is_some_and(|ending| ending == "zip") {
            return stem;
        }
        let mut name = stem.into_os_string();
        name.push(".zip");
        name.into()
    }

    /// What was begun for this link, and the key that began it; `None`: nothing.
    ///
    /// # Errors
    /// What is known of it cannot be read.
    pub fn begun(&self, link: &Link) -> Result<Option<(State, Signer)>, ParcelError> {
        let unread = |error| ParcelError::Unread { path: State::path_of(&self.0), error };
        let begun = State::load(&self.0).map_err(unread)?;
        let begun = begun.filter(|state| state.is_of(link) && self.0.is_file());
        begun.map(|state| state.signer().map(|signer| (state, signer)).map_err(unread)).transpose()
    }

    /// Nothing is there that what is about to be made would take the place of, or be taken for. `is_recorded`: there will be a bundle.
    ///
    /// # Errors
    /// Something is there.
    pub fn check_room(&self, is_recorded: bool) -> Result<(), ParcelError> {
        let bundle = is_recorded.then(|| self.bundle());
        let taken =
            std::iter::once(self.0.clone()).chain(bundle).find(|path| path.symlink_metadata().is_ok());
        taken.map_or(Ok(()), |path| Err(ParcelError::Taken { path }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Secret;
    use crate::signed::Fingerprint;

    fn link(id: u8) -> Link {
        Link {
            lab: "https://lab.example".to_owned(),
            id: crate::encode([id; 16]),
            secret: Secret::generate(),
            signer: Fingerprint::of("signer", &["a".to_owned()]),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        }
    }

    #[test]
    fn names() {
        for (file, is_report, wanted) in [
            ("/a/app.log", false, "/a/app.log.age"),
            ("/a/app.log", true, "/a/app.log.report.age"),
            ("x.biopsy.zip", false, "x.biopsy.zip.age"),
            ("no-ending", false, "no-ending.age"),
            (".hidden", true, ".hidden.report.age"),
        ] {
            let name = Parcel::name_of(Path::new(file), is_report);
            assert_eq!(name, Path::new(wanted));
            assert!(Parcel::at(name).is_ok(), "{file}");
        }
        assert!(Parcel::at(Parcel::name_for(&link(1))).is_ok());
        for wrong in ["x", "x.zip", "x.age.zip", ".age", "age"] {
            assert!(matches!(Parcel::at(wrong.into()), Err(ParcelError::OtherName)), "{wrong}");
        }
    }

    #[test]
    fn a_bundle_is_beside_what_is_sealed_and_never_the_same() {
        for (sealed, bundle) in [
            ("/r/a.biopsy.zip.age", "/r/a.biopsy.zip"),
            ("a.age", "a.zip"),
            ("a.b.age", "a.b.zip"),
            ("a.zip.b.age", "a.zip.b.zip"),
            ("zip.age", "zip.zip"),
        ] {
            let parcel = Parcel::at(sealed.into()).unwrap();
            assert_eq!(parcel.bundle(), Path::new(bundle));
            assert_ne!(parcel.bundle(), parcel.sealed());
        }
    }

    #[test]
    fn what_was_begun_goes_on_for_its_link_alone_and_nothing_is_sent_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip.age");
        let parcel = Parcel::at(path.clone()).unwrap();
        let (mine, other) = (link(1), link(2));
        assert!(parcel.begun(&mine).unwrap().is_none() && parcel.check_room(true).is_ok());
        let signer = Signer::generate();
        State::new(&mine, &signer, 3, [0; 32], Vec::new()).save(&path).unwrap();
        assert!(parcel.begun(&mine).unwrap().is_none(), "what was sealed is gone");
        std::fs::write(&path, "abc").unwrap();
        let (state, same) = parcel.begun(&mine).unwrap().unwrap();
        assert_eq!((state.bytes, same.seed()), (3, signer.seed()));
        assert!(parcel.begun(&other).unwrap().is_none());
        assert!(matches!(parcel.check_room(false), Err(ParcelError::Taken { path: taken }) if taken == path));
        // A receipt beside something that is being sent: the receipt was written, and the end was not.
        std::fs::write(State::receipt_of(&path), "{}").unwrap();
        assert!(Parcel::at(path.clone()).is_ok());
        State::remove(&path);
        assert!(matches!(Parcel::at(path.clone()), Err(ParcelError::Sent { .. })));
        std::fs::remove_file(State::receipt_of(&path)).unwrap();
        for damaged in ["", "{", "[]", "{\"version\": 1}"] {
            std::fs::write(State::path_of(&path), damaged).unwrap();
            let read = Parcel::at(path.clone()).unwrap().begun(&mine);
            assert!(matches!(read, Err(ParcelError::Unread { .. })), "{damaged}");
        }
    }

    #[test]
    fn a_bundle_or_a_link_in_the_way_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let parcel = Parcel::at(folder.path().join("a.zip.age")).unwrap();
        std::os::unix::fs::symlink("nowhere", parcel.bundle()).unwrap();
        assert!(parcel.check_room(false).is_ok());
        assert!(parcel.check_room(true).is_err(), "also one that leads nowhere");
    }
}
