//! What of a folder is gone into, and what is left out and named.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use biopsy_redact_files::{Found, RewriteError, find};

fn names(found: &Found) -> (Vec<String>, Vec<String>) {
    let of = |path: &Path| path.to_string_lossy().into_owned();
    (
        found.items.iter().map(|item| of(&item.name)).collect(),
        found.left_out.iter().map(|left| format!("{}: {}", of(&left.name), left.why)).collect(),
    )
}

#[test]
fn a_folder_is_listed_whole_and_what_is_no_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("b/deep/er")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    for name in ["z.log", "b/a.log", "b/deep/er/x", "a"] {
        fs::write(at(name), "text\n").unwrap();
    }
    fs::write(at("nothing"), "").unwrap();
    fs::write(at("program"), b"\x7fELF\0\0\0\x01").unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"text").unwrap();
    fs::write(at("old.gz"), packed.finish().unwrap()).unwrap();
    symlink("/etc/passwd", at("b/link")).unwrap();
    symlink("..", at("b/up")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();

    let (items, left_out) = names(&find(folder.path()).unwrap());
    assert_eq!(items, ["a", "b/a.log", "b/deep/er/x", "nothing", "old.gz", "z.log"]);
    assert_eq!(
        left_out,
        [
            "b/link: a link",
            "b/up: a link",
            "dangling: a link",
            "program: no text: it cannot be looked into",
            "socket: no regular file",
        ]
    );
}

#[test]
fn what_is_named_itself_may_be_a_link_and_must_be_a_file_or_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("logs")).unwrap();
    fs::write(at("logs/a.log"), "text").unwrap();
    symlink("logs/a.log", at("file")).unwrap();
    symlink("logs", at("folder")).unwrap();
    assert_eq!(names(&find(&at("file")).unwrap()).0, [""]);
    assert_eq!(names(&find(&at("folder")).unwrap()).0, ["a.log"]);
    let _socket = UnixListener::bind(at("socket")).unwrap();
    assert!(matches!(find(&at("socket")), Err(RewriteError::NoFile { .. })));
    assert!(matches!(find(&at("none")), Err(RewriteError::Read { .. })));
}
