//! What a neighbour can do while a file is opened, and what callers get who look before they open.
#![allow(clippy::disallowed_methods, reason = "tests open what they wrote")]

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use biopsy_files::{Links, Mounts, Opened, Refused, Root, open_handle};
use rustix::fs::{CWD, FileType, Mode};

/// Rounds of a race.
const ROUNDS: usize = 2000;

fn text(mut opened: Opened) -> String {
    let mut text = String::new();
    opened.file.read_to_string(&mut text).expect("what was written");
    text
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
}

/// One name is a file, a link out of the root, a FIFO and a folder by turns: whatever is met, it is the file or an error.
#[test]
fn what_is_exchanged_meanwhile_is_the_file_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(folder.path().join("secret"), "outside").expect("a file");
    std::fs::write(root.join("log.file"), "inside").expect("a file");
    symlink("../secret", root.join("log.link")).expect("a link");
    fifo(&root.join("log.fifo"));
    std::fs::create_dir(root.join("log.folder")).expect("a folder");
    let ended = AtomicBool::new(false);
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for form in ["file", "link", "fifo", "folder"] {
                    let (form, log) = (root.join(format!("log.{form}")), root.join("log"));
                    std::fs::rename(&form, &log).expect("a name");
                    std::thread::yield_now();
                    std::fs::rename(&log, &form).expect("a name");
                }
            }
        });
        let below = Root::at(&root).expect("a folder");
        for _ in 0..ROUNDS {
            match below.open(Path::new("log"), Links::Follow) {
                Ok(opened) => {
                    assert_eq!(text(opened), "inside");
                    inside += 1;
                }
                Err(Refused::NotRegular(_) | Refused::Io(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(inside + refused, ROUNDS);
}

#[test]
fn a_handle_is_looked_at_before_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "12345").expect("a file");
    fifo(&folder.path().join("fifo"));
    let (root, mounts) = (Root::at(folder.path()).expect("a folder"), Mounts::own());
    for (name, kind, bytes) in [("file", FileType::RegularFile, Some(5)), ("fifo", FileType::Fifo, None)] {
        let handle = root.locate(Path::new(name), Links::Refuse).expect("a name");
        let found = mounts.look_at(&handle).expect("facts");
        assert_eq!(found.kind, kind);
        assert!(found.file_system.is_some(), "{found:?}");
        match (bytes, open_handle(&handle, &mounts)) {
            (Some(bytes), Ok(file)) => {
                assert_eq!((found.bytes, file.metadata().expect("facts").len()), (bytes, bytes));
                // The handle stays what it was: one that cannot be read from.
                assert!(rustix::io::read(&handle, &mut [0; 8][..]).is_err());
            }
            (None, Err(Refused::NotRegular(what))) => assert_eq!(what, "a FIFO"),
            (_, opened) => panic!("{name}: {opened:?}"),
        }
    }
}

#[test]
fn names_are_known_without_being_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("inner")).expect("a folder");
    fifo(&folder.path().join("inner/fifo"));
    symlink("nowhere", folder.path().join("inner/dangling")).expect("a link");
    let root = Root::at(folder.path()).expect("a folder");
    for (path, wanted) in [
        ("inner/fifo", true),
        ("inner/dangling", true),
        ("inner/none", false),
        ("none/none", false),
        ("../inner/fifo", true),
        ("/", true),
    ] {
        assert_eq!(root.has(Path::new(path)), wanted, "{path}");
    }
    let inner = root.open_folder(Path::new("/inner")).expect("a folder");
    let listed = std::fs::read_dir(PathBuf::from(format!("/proc/self/fd/{}", inner.as_raw_fd())));
    assert_eq!(listed.expect("a list").count(), 2);
    assert!(root.open_folder(Path::new("inner/none")).is_err());
}

#[test]
fn callers_of_the_standard_library_get_errors_that_they_know() {
    for (refused, kind) in [
        (Refused::NotRegular("a socket"), io::ErrorKind::InvalidInput),
        (Refused::Foreign { maker: 1, owner: 0 }, io::ErrorKind::PermissionDenied),
        (Refused::TooManyLinks { limit: 40 }, io::ErrorKind::PermissionDenied),
        (Refused::Io(io::ErrorKind::NotFound.into()), io::ErrorKind::NotFound),
    ] {
        let said = refused.to_string();
        let error = io::Error::from(refused);
        assert_eq!((error.kind(), error.to_string()), (kind, said));
    }
}
