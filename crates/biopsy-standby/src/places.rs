//! Where settings are, and where the watcher keeps what is its own.

use std::ffi::OsString;
use std::path::PathBuf;

use biopsy_capture::{Failure, FailureKind};

const NAMES: [&str; 2] = ["diagnostics.json", "diagnostics.toml"];

/// The folder of settings of the machine.
pub fn machine_folder() -> PathBuf {
    PathBuf::from("/etc/biopsy")
}

/// The folder of settings of this user; `None`: he has no home.
pub fn user_folder() -> Option<PathBuf> {
    Some(of_home("XDG_CONFIG_HOME", ".config")?.join("biopsy"))
}

/// The folder of the watcher: what is on, the lock, and usually results.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    let named = std::env::var_os("XDG_STATE_HOME").filter(is_absolute);
    match named.map(PathBuf::from) {
        Some(folder) => Ok(folder.join("biopsy")),
        None if is_root => Ok(PathBuf::from("/var/lib/biopsy")),
        None => {
            of_home("XDG_STATE_HOME", ".local/state").map(|folder| folder.join("biopsy")).ok_or_else(|| {
                Failure::new(FailureKind::Output, "this user has no home for what the watcher keeps")
                    .with_hint(Some("set `XDG_STATE_HOME` to a folder of his own"))
            })
        }
    }
}

/// The folder of those who keep the last minutes of processes.
pub fn recent_folder() -> Result<PathBuf, Failure> {
    Ok(state_folder()?.join("recent"))
}

/// The file of settings in a folder: the one that is there, or JSON.
pub fn file_in(folder: &std::path::Path) -> Result<PathBuf, Failure> {
    let there: Vec<PathBuf> =
        NAMES.iter().map(|name| folder.join(name)).filter(|path| path.symlink_metadata().is_ok()).collect();
    match there.as_slice() {
        [] => Ok(folder.join(NAMES[0])),
        [one] => Ok(one.clone()),
        _ => Err(Failure::new(
            FailureKind::BadInput,
            format!(
                "there are both `{}` and `{}` in `{}`: which one holds is not clear",
                NAMES[0],
                NAMES[1],
                folder.display()
            ),
        )),
    }
}

fn of_home(variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(is_absolute).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME").filter(is_absolute)?).join(below_home)))
}

/// What is not absolute is to be ignored (XDG Base Directory Specification).
fn is_absolute(path: &OsString) -> bool {
    std::path::Path::new(path).is_absolute()
}

/// This program, which a service runs and the watcher starts again for each recording.
pub(crate) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(FailureKind::Bug, format!("cannot tell which program this is: {error}"))
    })
}
