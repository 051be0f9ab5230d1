//! Opens a log file: only regular files, never blocking, links with care.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use biopsy_files::Links;

use super::place::Place;

/// A log file that can be read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) facts: Metadata,
    /// Where a link led to.
    pub(crate) link_to: Option<PathBuf>,
}

/// Why a path is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it is a folder")]
    Folder,
    #[error("it is a link that leads nowhere")]
    DanglingLink,
    #[error(transparent)]
    File(biopsy_files::Refused),
}

/// Opens `path`, seen from `place`, for reading.
///
/// # Errors
/// When it is not a regular file, or may not be read. Opening never waits (a FIFO without a writer) and has no
/// effect on devices: what is not a regular file is not opened.
pub(crate) fn open(place: &Place, path: &Path) -> Result<Opened, Refused> {
    let found = place
        .root(path)
        .map_err(biopsy_files::Refused::Io)
        .and_then(|(root, path)| root.open(&path, Links::Follow));
    let opened = found.map_err(|refused| match refused {
        biopsy_files::Refused::NotRegular("a folder") => Refused::Folder,
        biopsy_files::Refused::Io(error) if error.kind() == io::ErrorKind::NotFound && place.has(path) => {
            Refused::DanglingLink
        }
        other => Refused::File(other),
    })?;
    let facts = opened.file.metadata().map_err(|error| Refused::File(error.into()))?;
    Ok(Opened { file: opened.file, facts, link_to: opened.link_to })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::place::Root;
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_told_from_a_file_that_is_not_there() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").expect("write");
        symlink("file", at("good")).expect("link");
        symlink("none", at("nowhere")).expect("link");
        assert!(open(&Place::Here, &at("file")).expect("regular").link_to.is_none());
        let link_to = open(&Place::Here, &at("good")).expect("a link to a regular file").link_to;
        assert_eq!(link_to, Some(fs::canonicalize(at("file")).expect("exists")));
        assert!(matches!(open(&Place::Here, &at("nowhere")), Err(Refused::DanglingLink)));
        assert!(matches!(open(&Place::Here, &at("missing")), Err(Refused::File(_))));
        assert!(matches!(open(&Place::Here, folder.path()), Err(Refused::Folder)));
    }

    #[test]
    fn links_of_a_container_stay_in_it() {
        use std::sync::Arc;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inside = folder.path().join("root");
        fs::create_dir_all(inside.join("var/log")).expect("folders");
        fs::create_dir_all(inside.join("etc")).expect("folders");
        fs::write(inside.join("etc/hostname"), "the container").expect("write");
        fs::write(folder.path().join("secret"), "of the host").expect("write");
        symlink("/etc/hostname", inside.join("var/log/absolute")).expect("link");
        symlink("../../../../secret", inside.join("var/log/upwards")).expect("link");
        symlink("/var/log", inside.join("logs")).expect("link");
        let root = Root::at(inside).expect("a folder");
        let place = Place::Inside(Arc::new(root));
        let mut text = String::new();
        let mut opened = open(&place, Path::new("/logs/absolute")).expect("regular");
        io::Read::read_to_string(&mut opened.file, &mut text).expect("text");
        assert_eq!(text, "the container");
        assert!(matches!(open(&place, Path::new("/var/log/upwards")), Err(Refused::DanglingLink)));
        assert!(matches!(open(&place, Path::new("/var/log")), Err(Refused::Folder)));
        let found = super::super::glob_walk::find(&place, "/logs/*").expect("a pattern");
        assert_eq!(found.paths, [Path::new("/logs/absolute"), Path::new("/logs/upwards")]);
        assert!(place.shown(Path::new("/logs/x")).ends_with("/root/logs/x"));
    }
}
