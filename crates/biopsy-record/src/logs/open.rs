//! Opens a log file: only regular files, never blocking, links with care.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::place::{Place, Root, by_handle};

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
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    #[error("it is a link to `{}`, which is {kind}, not a regular file", target.display())]
    LinkToOther { target: PathBuf, kind: &'static str },
    #[error("it is a link that leads nowhere")]
    DanglingLink,
    #[error("it is a link that user {owner} made to `{}`, which belongs to user {target_owner}", target.display())]
    ForeignLink { owner: u32, target: PathBuf, target_owner: u32 },
    #[error("it was replaced while it was being opened")]
    Replaced,
    #[error("{0}")]
    Io(io::Error),
}

/// Opens `path`, seen from `place`, for reading.
///
/// # Errors
/// When it is not a regular file, or may not be read. Opening never waits (a FIFO without a writer) and has no
/// effect on devices: what is not a regular file is not opened.
pub(crate) fn open(place: &Place, path: &Path) -> Result<Opened, Refused> {
    match place {
        Place::Here => open_here(path),
        Place::Inside(root) => open_inside(root, path),
    }
}

fn open_inside(root: &Root, path: &Path) -> Result<Opened, Refused> {
    let named = root.resolve(path, false).map_err(Refused::Io)?;
    let facts = named.metadata().map_err(Refused::Io)?;
    if !facts.file_type().is_symlink() {
        return open_handle(&named).map(|(file, facts)| Opened { file, facts, link_to: None });
    }
    let target = match root.resolve(path, true) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Refused::DanglingLink),
        Err(error) => return Err(Refused::Io(error)),
    };
    let target_facts = target.metadata().map_err(Refused::Io)?;
    let target_path = fs::read_link(by_handle(&target)).unwrap_or_default();
    check_link(&facts, &target_facts, &target_path)?;
    let (file, facts) = open_handle(&target)?;
    Ok(Opened { file, facts, link_to: Some(target_path) })
}

/// Opens for reading what a handle stands for.
fn open_handle(handle: &File) -> Result<(File, Metadata), Refused> {
    let facts = handle.metadata().map_err(Refused::Io)?;
    if facts.is_dir() {
        return Err(Refused::Folder);
    }
    if let Some(kind) = other_kind(&facts) {
        return Err(Refused::NotRegular(kind));
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(by_handle(handle)).map_err(Refused::Io)?;
    Ok((file, facts))
}

fn open_here(path: &Path) -> Result<Opened, Refused> {
    let facts = fs::symlink_metadata(path).map_err(Refused::Io)?;
    if !facts.file_type().is_symlink() {
        return open_regular(path, &facts).map(|(file, facts)| Opened { file, facts, link_to: None });
    }
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => return Err(Refused::DanglingLink),
        Err(error) => return Err(Refused::Io(error)),
    };
    let target_facts = fs::symlink_metadata(&target).map_err(Refused::Io)?;
    check_link(&facts, &target_facts, &target)?;
    let (file, facts) = open_regular(&target, &target_facts)?;
    Ok(Opened { file, facts, link_to: Some(target) })
}

/// Whether a link is one to follow.
fn check_link(link: &Metadata, facts: &Metadata, target: &Path) -> Result<(), Refused> {
    if let Some(kind) = other_kind(facts) {
        return Err(Refused::LinkToOther { target: target.to_owned(), kind });
    }
    // A link in a folder that somebody else can write to may point to a file that only we can read: then we
    // would carry it out for them. Links of root, of ourselves and to the link maker's own files are safe.
    let safe = [0, own_uid(), facts.uid()].contains(&link.uid());
    let (owner, target_owner) = (link.uid(), facts.uid());
    if safe { Ok(()) } else { Err(Refused::ForeignLink { owner, target: target.to_owned(), target_owner }) }
}

fn open_regular(path: &Path, facts: &Metadata) -> Result<(File, Metadata), Refused> {
    if facts.is_dir() {
        return Err(Refused::Folder);
    }
    if let Some(kind) = other_kind(facts) {
        return Err(Refused::NotRegular(kind));
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(Refused::Io)?;
    let opened = file.metadata().map_err(Refused::Io)?;
    if !opened.is_file() || (opened.dev(), opened.ino()) != (facts.dev(), facts.ino()) {
        return Err(Refused::Replaced);
    }
    Ok((file, opened))
}

/// What it is, when it is no regular file.
fn other_kind(facts: &Metadata) -> Option<&'static str> {
    let kind = facts.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a FIFO"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        () => Some("something else"),
    }
}

fn own_uid() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |facts| facts.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").expect("write");
        let status = std::process::Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo is there");
        assert!(status.success());
        let _socket = UnixListener::bind(at("socket")).expect("a socket");
        for (name, target) in [("good", "file"), ("nowhere", "none"), ("loop", "loop"), ("to-fifo", "fifo")] {
            symlink(target, at(name)).expect("link");
        }
        symlink("/dev/zero", at("to-device")).expect("link");

        assert!(open(&Place::Here, &at("file")).expect("regular").link_to.is_none());
        let link_to = open(&Place::Here, &at("good")).expect("a link to a regular file").link_to;
        assert_eq!(link_to, Some(fs::canonicalize(at("file")).expect("exists")));
        let message = |name: &str| open(&Place::Here, &at(name)).expect_err("refused").to_string();
        assert_eq!(message("fifo"), "it is a FIFO, not a regular file");
        assert_eq!(message("socket"), "it is a socket, not a regular file");
        assert_eq!(message("nowhere"), "it is a link that leads nowhere");
        assert_eq!(
            message("to-device"),
            "it is a link to `/dev/zero`, which is a device, not a regular file"
        );
        assert!(message("to-fifo").contains("which is a FIFO"));
        assert!(matches!(open(&Place::Here, &at("loop")), Err(Refused::Io(_))));
        assert!(matches!(open(&Place::Here, folder.path()), Err(Refused::Folder)));
        assert!(matches!(open(&Place::Here, &at("missing")), Err(Refused::Io(_))));
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
        let Ok(root) = Root::at(inside) else {
            // No openat2 here: containers may forbid it, and nothing is read then.
            return;
        };
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

    #[test]
    fn links_that_others_made_to_our_files_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (secret, link) = (folder.path().join("secret"), folder.path().join("link"));
        fs::write(&secret, "x").expect("write");
        symlink(&secret, &link).expect("link");
        if std::os::unix::fs::lchown(&link, Some(4711), None).is_err() {
            // Only root can give links away; without that there is nothing to test.
            return;
        }
        assert!(matches!(open(&Place::Here, &link), Err(Refused::ForeignLink { owner: 4711, .. })));
        std::os::unix::fs::chown(&secret, Some(4711), None).expect("as root");
        assert!(open(&Place::Here, &link).is_ok(), "their own file behind their own link");
    }
}
