//! Opens a log file: only regular files, never blocking, links with care.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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

/// Opens `path` for reading.
///
/// # Errors
/// When it is not a regular file, or may not be read. Opening never waits (a FIFO without a writer) and has no
/// effect on devices: what is not a regular file is not opened.
pub(crate) fn open(path: &Path) -> Result<Opened, Refused> {
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
    if let Some(kind) = other_kind(&target_facts) {
        return Err(Refused::LinkToOther { target, kind });
    }
    // A link in a folder that somebody else can write to may point to a file that only we can read: then we
    // would carry it out for them. Links of root, of ourselves and to the link maker's own files are safe.
    let safe = [0, own_uid(), target_facts.uid()].contains(&facts.uid());
    if !safe {
        return Err(Refused::ForeignLink { owner: facts.uid(), target_owner: target_facts.uid(), target });
    }
    let (file, facts) = open_regular(&target, &target_facts)?;
    Ok(Opened { file, facts, link_to: Some(target) })
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

        assert!(open(&at("file")).expect("regular").link_to.is_none());
        let link_to = open(&at("good")).expect("a link to a regular file").link_to;
        assert_eq!(link_to, Some(fs::canonicalize(at("file")).expect("exists")));
        let message = |name: &str| open(&at(name)).expect_err("refused").to_string();
        assert_eq!(message("fifo"), "it is a FIFO, not a regular file");
        assert_eq!(message("socket"), "it is a socket, not a regular file");
        assert_eq!(message("nowhere"), "it is a link that leads nowhere");
        assert_eq!(
            message("to-device"),
            "it is a link to `/dev/zero`, which is a device, not a regular file"
        );
        assert!(message("to-fifo").contains("which is a FIFO"));
        assert!(matches!(open(&at("loop")), Err(Refused::Io(_))));
        assert!(matches!(open(folder.path()), Err(Refused::Folder)));
        assert!(matches!(open(&at("missing")), Err(Refused::Io(_))));
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
        assert!(matches!(open(&link), Err(Refused::ForeignLink { owner: 4711, .. })));
        std::os::unix::fs::chown(&secret, Some(4711), None).expect("as root");
        assert!(open(&link).is_ok(), "their own file behind their own link");
    }
}
