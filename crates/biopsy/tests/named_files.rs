//! No file is opened because a core names it, unless the user says where files may be looked for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, inotify};

const BASE: u64 = 0x1000_0000;
const STEP: u64 = 0x10_0000;
const SIZE: u64 = 0x1_0000;

fn note(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = [5, content.len() as u32, kind].map(u32::to_le_bytes).concat();
    bytes.extend_from_slice(b"CORE\0\0\0\0");
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A core of a process that has mapped these files, with nothing of their bytes.
fn core(paths: &[PathBuf]) -> Vec<u8> {
    let address = |index: usize| BASE + index as u64 * STEP;
    let mut status = vec![0; 336];
    status[32..36].copy_from_slice(&4242_u32.to_le_bytes());
    status[112 + 16 * 8..][..8].copy_from_slice(&(BASE + 0x100).to_le_bytes()); // rip
    status[112 + 17 * 8..][..8].copy_from_slice(&0x33_u64.to_le_bytes()); // cs
    let mut files = [paths.len() as u64, 4096].map(u64::to_le_bytes).concat();
    for index in 0..paths.len() {
        files.extend([address(index), address(index) + SIZE, 0].map(u64::to_le_bytes).concat());
    }
    for path in paths {
        files.extend_from_slice(path.as_os_str().as_encoded_bytes());
        files.push(0);
    }
    let notes = [note(1, &status), note(0x4649_4c45, &files)].concat();
    let headers = 1 + paths.len();
    let behind = 64 + 56 * headers as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([4_u16, 62].map(u16::to_le_bytes).concat());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([64_u16, 56, headers as u16, 0, 0, 0].map(u16::to_le_bytes).concat());
    bytes.extend([4_u32, 4].map(u32::to_le_bytes).concat());
    bytes.extend([behind, 0, 0, notes.len() as u64, 0, 4].map(u64::to_le_bytes).concat());
    for index in 0..paths.len() {
        bytes.extend([1_u32, 5].map(u32::to_le_bytes).concat());
        let fields = [behind + notes.len() as u64, address(index), 0, 0, SIZE, 4096];
        bytes.extend(fields.map(u64::to_le_bytes).concat());
    }
    bytes.extend(notes);
    bytes
}

fn analyze(core: &Path, more: &[&str]) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_biopsy")).arg("analyze").arg(core).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What was opened in a folder since the watch began.
fn opened(watch: &impl std::os::fd::AsFd) -> Vec<String> {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = reader.next() {
        names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names
}

#[test]
fn files_that_a_core_names_are_opened_only_where_the_user_says() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = fs::canonicalize(scratch.path()).unwrap();
    let victims = folder.join("victims");
    fs::create_dir(&victims).unwrap();
    let program = std::env::current_exe().unwrap();
    fs::copy(&program, victims.join("program")).unwrap();
    fs::write(victims.join("libcoreclr.so"), b"@(#)Version 9.9.9999.1 @Commit: x").unwrap();
    rustix::fs::mknodat(CWD, victims.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("program", victims.join("link")).unwrap();
    let names = ["program", "libcoreclr.so", "fifo", "link"];
    let paths: Vec<PathBuf> = names.iter().map(|name| victims.join(name)).collect();
    let file = folder.join("paths.core");
    fs::write(&file, core(&paths)).unwrap();

    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, &victims, inotify::WatchFlags::OPEN).unwrap();
    let shown = analyze(&file, &["--markdown"]);
    assert_eq!(opened(&watch), [""; 0]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("`--symbols /` looks for them on this machine"), "{text}");

    let shown = analyze(&file, &["--symbols", "/"]);
    let names = opened(&watch);
    assert!(names.iter().any(|name| name == "program"), "{names:?}");
    assert!(!names.iter().any(|name| name == "fifo"), "{names:?}");
    let text = String::from_utf8_lossy(&shown.stdout);
    // Nothing in the core says that these are the files that were mapped.
    assert!(!text.contains("9.9.9999") && !text.contains("same file on this machine"), "{text}");

    let shown = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .arg("analyze")
        .arg(&file)
        .args(["--symbols", "/no/such/folder"])
        .output()
        .unwrap();
    assert_eq!(shown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&shown.stderr).contains("cannot look for files in `/no/such/folder`"));
}
