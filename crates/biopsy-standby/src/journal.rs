//! The file that says what is on, the lock of the watcher, and ending what is on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use biopsy_capture::{Failure, FailureKind};
use biopsy_model::ProcessKey;
use biopsy_target::identity;
use biopsy_watch::Moment;
use biopsy_watch::lease::{Journal, LONGEST};
use rustix::fs::FlockOperation;
use rustix::process::{PidfdFlags, Signal};

use crate::{places, whole};

const FILE: &str = "leases.json";
const LOCK: &str = "watch.lock";
const LOOK: Duration = Duration::from_millis(20);

/// Time since the start of the machine, its sleep counted.
pub(crate) fn now() -> Moment {
    Moment(Duration::try_from_secs_f64(identity::seconds_since_boot()).unwrap_or_default())
}

/// The journal in its folder.
#[derive(Clone, Debug)]
pub struct JournalFolder(PathBuf);

/// The lock; dropping it lets it go, and so does any end of the process.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl JournalFolder {
    /// The usual one, which need not be there.
    pub fn usual() -> Result<Self, Failure> {
        places::state_folder().map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder, for its owner alone.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        make_folder(&self.0)
    }

    /// What is on; empty: nothing, or nothing is known.
    pub(crate) fn read(&self) -> Journal {
        let mut text = String::new();
        let read = File::open(self.0.join(FILE))
            .and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text));
        read.ok().and_then(|_| Journal::parse(&text)).unwrap_or_default()
    }

    /// Writes it, whole or not at all, and down to the disk before anything takes effect.
    pub(crate) fn write(&self, journal: &Journal) -> Result<(), Failure> {
        let path = self.0.join(FILE);
        whole::write(&path, &journal.to_text(), None).map_err(|error| {
            Failure::new(
                FailureKind::Output,
                format!("cannot write down what is on into `{}`: {error}", path.display()),
            )
        })
    }

    /// Takes the lock; says who has it where that is another watcher.
    pub(crate) fn lock(&self) -> Result<Lock, Failure> {
        let path = self.0.join(LOCK);
        let failed = |error: std::io::Error| {
            Failure::new(FailureKind::Output, format!("cannot lock `{}`: {error}", path.display()))
        };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc_nofollow());
        let mut file = options.open(&path).map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // Only for the message.
                let _ = (&file).take(32).read_to_string(&mut holder);
                // It may have the lock, and not have written yet who it is.
                let which = match holder.trim() {
                    "" => String::new(),
                    pid => format!(": process {pid}"),
                };
                let why = format!("another watcher of this user runs already{which}");
                return Err(Failure::new(FailureKind::Usage, why)
                    .with_hint(Some("`biopsy restore` ends it, and all that it has begun")));
            }
            Err(error) => return Err(failed(error.into())),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

fn libc_nofollow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// Makes the folder of those who keep the last minutes, and empties it: whoever kept them before has ended.
pub(crate) fn clear_recent() -> Result<(), Failure> {
    let folder = places::recent_folder()?;
    make_folder(&folder)?;
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        // What cannot be removed is replaced, or said to be in the way.
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
    Ok(())
}

/// Makes a folder and those above it, for their owner alone; one that others may write is refused.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot make the folder `{}`: {error}", path.display()))
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let meta = path.metadata().map_err(failed)?;
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    if meta.mode() & 0o022 != 0 || ![0, me].contains(&meta.uid()) {
        let message = format!("others may write into the folder `{}`", path.display());
        return Err(Failure::new(FailureKind::Output, message).with_hint(Some("name one of your own")));
    }
    Ok(())
}

/// Asks that very process to end, and no other that has its pid by now; `false`: it is gone.
pub(crate) fn signal(key: &ProcessKey, signal: Signal) -> std::io::Result<bool> {
    let Some(pid) = i32::try_from(key.pid.0).ok().and_then(rustix::process::Pid::from_raw) else {
        return Ok(false);
    };
    let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // The handle is of whoever has the pid now; if that still is the one that is meant, it stays him.
    if !biopsy_target::is_same(key) {
        return Ok(false);
    }
    match rustix::process::pidfd_send_signal(&handle, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a process is gone; `false`: it is not, in this time.
pub(crate) fn gone_within(key: &ProcessKey, patience: Duration) -> bool {
    let begin = Instant::now();
    while biopsy_target::is_same(key) {
        if begin.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use biopsy_model::{BootId, Pid};
    use biopsy_watch::lease::Lease;

    use super::*;

    fn lease(what: &str) -> Lease {
        Lease {
            holder: None,
            what: what.to_owned(),
            target: None,
            output: None,
            begun_unix: 1,
            boot: BootId(String::new()),
            until: Moment(Duration::from_secs(1)),
        }
    }

    #[test]
    fn what_is_on_is_read_as_it_was_written_and_a_damaged_file_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let journal = JournalFolder(folder.path().join("deep/er"));
        assert!(journal.read().0.is_empty(), "there is none");
        assert!(journal.write(&Journal::default()).is_err(), "nor a folder");
        journal.make().unwrap();
        for leases in [vec![lease("watch"), lease("trace --for 5s")], vec![lease("a \"b\"\n")], Vec::new()] {
            journal.write(&Journal(leases.clone())).unwrap();
            assert_eq!(journal.read().0, leases);
        }
        let path = journal.path().join(FILE);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(journal.path().read_dir().unwrap().count(), 1, "nothing is left beside it");
        for damaged in ["", "{", "[[]]", &"x".repeat(LONGEST + 2)] {
            std::fs::write(&path, damaged).unwrap();
            assert!(journal.read().0.is_empty());
        }
    }

    #[test]
    fn one_watcher_has_the_lock_and_a_link_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let journal = JournalFolder(folder.path().to_owned());
        let lock = journal.lock().unwrap();
        let refused = journal.lock().unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.to_string().ends_with(&format!(": process {}", std::process::id())), "{refused}");
        drop(lock);
        drop(journal.lock().unwrap());
        std::fs::remove_file(folder.path().join(LOCK)).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), folder.path().join(LOCK)).unwrap();
        assert_eq!(journal.lock().unwrap_err().kind, FailureKind::Output);
        assert!(!folder.path().join("elsewhere").exists());
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("a/b");
        make_folder(&made).unwrap();
        for path in [folder.path().join("a"), made.clone()] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        for (mode, is_taken) in
            [(0o755, true), (0o750, true), (0o770, false), (0o702, false), (0o1777, false)]
        {
            std::fs::set_permissions(&made, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(make_folder(&made).is_ok(), is_taken, "{mode:o}");
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(make_folder(&folder.path().join("file")).is_err());
    }

    #[test]
    fn only_the_very_process_is_asked() {
        let root = biopsy_target::ProcRoot::live();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let key = identity::key_of(&root, Pid(child.id())).unwrap();
        let other = ProcessKey { start_ticks: key.start_ticks + 1, ..key.clone() };
        assert!(!signal(&other, Signal::KILL).unwrap() && gone_within(&other, Duration::ZERO));
        assert!(child.try_wait().unwrap().is_none() && !gone_within(&key, Duration::ZERO));
        for pid in [0, u32::MAX] {
            assert!(!signal(&ProcessKey { pid: Pid(pid), ..key.clone() }, Signal::KILL).unwrap_or(false));
        }
        assert!(signal(&key, Signal::KILL).unwrap());
        let _ = child.wait();
        assert!(!signal(&key, Signal::KILL).unwrap() && gone_within(&key, Duration::from_secs(10)));
    }
}
