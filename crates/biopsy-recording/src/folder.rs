//! The folder of a recording: creates members safely, replaces the few that change.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use biopsy_model::Pid;
use biopsy_model::capture::{CaptureHeader, RedactionCount};
use biopsy_model::dump::DumpFacts;
use biopsy_model::footprint::Footprint;
use biopsy_model::look::Look;
use biopsy_model::loss::Warning;
use biopsy_model::metric::Column;
use biopsy_model::peers::PeerLook;
use biopsy_model::process::ProcessInfo;
use biopsy_model::runtime_trace::RuntimeTrace;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use crate::documents::dump::DumpDocument;
use crate::documents::{
    footprint, header::Header, last_words, look, peers, processes::Process, redaction::Redaction, runtime,
    warnings,
};
use crate::error::WriteError;
use crate::logs::LogWriter;
use crate::metrics::TableWriter;
use crate::{layout, timeline};

/// Members begin with this only while they are being written.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// A recording being written: a folder of mode 0700 with files of mode 0600, all reached through one open
/// directory, so that nobody who renames or links things beside it can lead a write elsewhere.
#[derive(Debug)]
pub struct RecordingFolder {
    path: PathBuf,
    /// Where members are created: the open directory by way of `/proc/self/fd`, or `path` where `/proc` is missing.
    base: PathBuf,
    /// Keeps `base` true.
    _directory: File,
    /// The folder that it is in, and its name there, where it was created.
    place: Option<(OwnedFd, OsString)>,
}

impl RecordingFolder {
    /// Creates the folder; its parent must exist, it itself must not.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let failed = |doing| move |error: Errno| WriteError::io(doing, path, error.into());
        let Some(name) = path.file_name() else {
            return Err(WriteError::Exists { path: path.to_path_buf() });
        };
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = rustix::fs::open(above, flags | OFlags::PATH, Mode::empty()).map_err(failed("create"))?;
        rustix::fs::mkdirat(&above, name, Mode::RWXU).map_err(failed("create"))?;
        let directory = rustix::fs::openat(&above, name, flags | OFlags::NOFOLLOW, Mode::empty());
        let mut folder = Self::of(path, File::from(directory.map_err(failed("open"))?));
        // Between the two calls somebody with rights on the folder above could have put another one here.
        let fresh = folder
            .is_private()
            .and_then(|private| Ok(private && fs::read_dir(&folder.base)?.next().is_none()));
        match fresh {
            Ok(true) => {
                folder.place = Some((above, name.to_owned()));
                Ok(folder)
            }
            Ok(false) => Err(WriteError::Exists { path: path.to_path_buf() }),
            Err(error) => Err(WriteError::io("check", path, error)),
        }
    }

    /// Opens a folder made before, to add members to it (a report, a manifest).
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
            .open(path)
            .map_err(|e| WriteError::io("open", path, e))?;
        Ok(Self::of(path, directory))
    }

    fn of(path: &Path, directory: File) -> Self {
        let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        let base = if by_descriptor.is_dir() { by_descriptor } else { path.to_path_buf() };
        Self { path: path.to_path_buf(), base, _directory: directory, place: None }
    }

    /// Nobody else has any right on it: it is ours, and not one of somebody who could put it there.
    fn is_private(&self) -> io::Result<bool> {
        let facts = fs::metadata(&self.base)?;
        let ours = facts.uid() == rustix::process::geteuid().as_raw();
        Ok(ours && facts.permissions().mode().trailing_zeros() >= 6)
    }

    /// The folder, as it was named: for people. Whoever may write to the folder above can put another one of this name there.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder by its open descriptor, as long as this lives: where members are read that were written here.
    #[must_use]
    pub fn reach(&self) -> &Path {
        &self.base
    }

    /// Removes the folder that was created, with all that is in it. What has been put in its place meanwhile stays.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.base)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        match &self.place {
            // A folder that is not empty is not ours, and stays.
            Some((above, name)) => Ok(rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?),
            None => fs::remove_dir(&self.path),
        }
    }

    /// Creates a member, and the folders in it. It must not exist.
    pub fn create_member(&self, name: &str) -> Result<MemberFile, WriteError> {
        let target = self.member_path(name)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(target)
            .map_err(|e| WriteError::io("create", &self.shown(name), e))?;
        Ok(MemberFile { file, shown: self.shown(name) })
    }

    /// Writes a member whole: it appears, or replaces its former self, in one step, whatever kills this process.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        self.replace(name, bytes, false)
    }

    /// Opens a member to be changed in place: masked with as many bytes as it has.
    ///
    /// # Errors
    /// It is not there, or is no regular file.
    pub fn edit_member(&self, name: &str) -> Result<File, WriteError> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(self.member_path(name)?)
            .and_then(|file| {
                if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
            });
        opened.map_err(|error| WriteError::io("open", &self.shown(name), error))
    }

    /// Writes a member anew from what it is now: `change` reads the one and writes the other, which takes its place in one
    /// step.
    ///
    /// # Errors
    /// It cannot be opened, or `change` fails; then it is as it was.
    pub fn rewrite_member<T>(
        &self,
        name: &str,
        change: impl FnOnce(File, &mut MemberFile) -> io::Result<T>,
    ) -> Result<T, WriteError> {
        let failed = |error| WriteError::io("write", &self.shown(name), error);
        let old = self.edit_member(name)?;
        let temporary_name = temporary_name(name).map_err(failed)?;
        let mut new = self.create_member(&temporary_name)?;
        let temporary = self.base.join(&temporary_name);
        let changed = change(old, &mut new)
            .and_then(|value| fs::rename(&temporary, self.base.join(name)).map(|()| value));
        changed.map_err(|error| {
            // As in `replace`.
            let _ = fs::remove_file(&temporary);
            failed(error)
        })
    }

    /// Names of all members, sorted.
    ///
    /// # Errors
    /// A folder cannot be read, or something in it is no member: nobody would look at it.
    pub fn members(&self) -> Result<Vec<String>, WriteError> {
        let mut found = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(relative) = open.pop() {
            let failed = |error| WriteError::io("read", &self.path.join(&relative), error);
            for entry in fs::read_dir(self.base.join(&relative)).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = relative.join(entry.file_name());
                let kind = entry.file_type().map_err(failed)?;
                if kind.is_dir() {
                    open.push(path);
                    continue;
                }
                let name = path.to_str().filter(|name| layout::is_member_name(name));
                match name {
                    Some(name) if kind.is_file() => found.push(name.to_owned()),
                    _ => {
                        let name = path.to_string_lossy().into_owned();
                        return Err(WriteError::BadName { name });
                    }
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// `durable`: survives a power loss, too. Waiting for the disk can take long and slows others down, so that only
    /// the members that say what the others are worth ask for it.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8], durable: bool) -> Result<(), WriteError> {
        let target = self.member_path(name)?;
        let temporary_name =
            temporary_name(name).map_err(|e| WriteError::io("write", &self.shown(name), e))?;
        let temporary = self.base.join(&temporary_name);
        let mut member = self.create_member(&temporary_name)?;
        let written = member
            .file
            .write_all(bytes)
            .and_then(|()| if durable { member.file.sync_data() } else { Ok(()) })
            .and_then(|()| fs::rename(&temporary, &target));
        written.map_err(|error| {
            // Nothing more can be done about a temporary file that cannot be removed; readers ignore it.
            let _ = fs::remove_file(&temporary);
            WriteError::io("write", &self.shown(name), error)
        })
    }

    /// Gives a member its final name: for large members that are written under another name until they are whole.
    /// `to` must not exist.
    pub fn rename_member(&self, from: &str, to: &str) -> Result<(), WriteError> {
        let (source, target) = (self.member_path(from)?, self.member_path(to)?);
        if target.symlink_metadata().is_ok() {
            return Err(WriteError::Exists { path: self.shown(to) });
        }
        fs::rename(source, target).map_err(|e| WriteError::io("name", &self.shown(to), e))
    }

    /// Writes text, for example context (`target/...`) or a report.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), WriteError> {
        self.write_bytes(name, text.as_bytes())
    }

    /// Writes a value as JSON.
    pub fn write_json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), WriteError> {
        self.replace(name, &json(name, value)?, false)
    }

    /// Writes `biopsy.json`: first when the recording begins (without an end), again when it ended.
    pub fn header(&self, header: &CaptureHeader) -> Result<(), WriteError> {
        self.replace(layout::HEADER, &json(layout::HEADER, &Header::from(header))?, true)
    }

    /// Writes `target/processes.json`, the target first.
    pub fn processes(&self, processes: &[ProcessInfo]) -> Result<(), WriteError> {
        self.write_json(layout::PROCESSES, &processes.iter().map(Process::from).collect::<Vec<_>>())
    }

    /// Writes `redaction.json`. Write it, with an empty list too, where redaction ran.
    pub fn redactions(&self, counts: &[RedactionCount]) -> Result<(), WriteError> {
        self.write_json(layout::REDACTION, &Redaction::from(counts))
    }

    /// Writes what was collected of a runtime's events as `dotnet/PID.json`. The caller has redacted it.
    pub fn runtime_trace(&self, trace: RuntimeTrace) -> Result<(), WriteError> {
        self.write_json(&layout::runtime_member(trace.pid), &runtime::RuntimeTrace::from(trace))
    }

    /// Writes how a dump was taken, beside the dump.
    pub fn dump_facts(&self, member: &str, facts: &DumpFacts) -> Result<(), WriteError> {
        self.write_json(member, &DumpDocument::from(facts))
    }

    /// Writes what was found in the memory of a process as `stacks/PID.json`. The caller has redacted it.
    pub fn look(&self, look: &Look) -> Result<(), WriteError> {
        self.write_json(&layout::look_member(look.pid), &look::Look::from(look))
    }

    /// Writes where the memory of a process went as `footprints/NUMBER.json`.
    ///
    /// # Errors
    /// The member cannot be written.
    pub fn footprint(&self, number: u32, footprint: &Footprint) -> Result<(), WriteError> {
        self.write_json(&layout::footprint_member(number), &footprint::Footprint::from(footprint))
    }

    /// Writes what the threads of a process waited for in others as `peers/PID.json`. The caller has redacted it.
    pub fn peers(&self, pid: Pid, look: &PeerLook) -> Result<(), WriteError> {
        self.write_json(&layout::peers_member(pid), &peers::Peers::from(look))
    }

    /// Writes what a process wrote last as `words/PID.json`. The caller has redacted it.
    ///
    /// # Errors
    /// The member cannot be written.
    pub fn last_words(&self, pid: Pid, lines: &[String]) -> Result<(), WriteError> {
        let words = last_words::LastWords { lines: lines.to_vec().into() };
        self.write_json(&layout::words_member(pid), &words)
    }

    /// Appends a warning to `warnings.jsonl`, at once. May be called from any thread.
    pub fn warn(&self, warning: &Warning) -> Result<(), WriteError> {
        let name = layout::WARNINGS;
        let mut line = serde_json::to_vec(&warnings::Warning::from(warning))
            .map_err(|source| WriteError::Json { name: name.to_owned(), source })?;
        line.push(b'\n');
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.member_path(name)?)
            .and_then(|mut file| file.write_all(&line))
            .map_err(|e| WriteError::io("append to", &self.shown(name), e))
    }

    /// Begins the timeline.
    pub fn timeline(&self) -> Result<timeline::Writer<MemberFile>, WriteError> {
        let file = self.create_member(layout::TIMELINE)?;
        timeline::Writer::new(file).map_err(|e| WriteError::io("write", &self.shown(layout::TIMELINE), e))
    }

    /// Begins a metric table.
    pub fn metric_table(
        &self,
        table: &str,
        keys: &[&str],
        columns: &[Column],
    ) -> Result<TableWriter<MemberFile>, WriteError> {
        let name = layout::metrics_member(table);
        let file = self.create_member(&name)?;
        TableWriter::new(file, keys, columns).map_err(|e| WriteError::io("write", &self.shown(&name), e))
    }

    /// Begins a log. `source` is a path or `journal:UNIT`; two sources that lead to the same member name get a
    /// number each.
    pub fn log(&self, source: &str, assumed_zone: &str) -> Result<LogWriter<MemberFile>, WriteError> {
        let first = layout::log_member(source);
        let stem = first.trim_end_matches(".jsonl");
        let mut name = first.clone();
        for number in 2..1000 {
            match self.create_member(&name) {
                Err(WriteError::Exists { .. }) => name = format!("{stem}-{number}.jsonl"),
                Err(error) => return Err(error),
                Ok(file) => {
                    return LogWriter::new(file, &name, source, assumed_zone)
                        .map_err(|e| WriteError::io("write", &self.shown(&name), e));
                }
            }
        }
        Err(WriteError::Exists { path: self.shown(&first) })
    }

    /// A member's path for messages.
    pub(crate) fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where a member goes; its folders are made.
    fn member_path(&self, name: &str) -> Result<PathBuf, WriteError> {
        if !layout::is_member_name(name) {
            return Err(WriteError::BadName { name: name.to_owned() });
        }
        let mut folder = self.base.clone();
        let (folders, last) = name.rsplit_once('/').unwrap_or(("", name));
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            folder.push(part);
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {}
                // A symbolic link here could only come from ourselves or root: the folder above is 0700.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(WriteError::io("create", &self.shown(name), error)),
            }
        }
        Ok(folder.join(last))
    }
}

/// A member being written. Errors name the member.
#[derive(Debug)]
pub struct MemberFile {
    file: File,
    shown: PathBuf,
}

impl MemberFile {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// The file itself, for writers that leave holes in it or write at several places.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Waits until the data is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// An error of writing this member.
    #[must_use]
    pub fn write_error(&self, error: io::Error) -> WriteError {
        WriteError::io("write", &self.shown, error)
    }
}

impl Write for MemberFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|source| {
            // The kind is kept, so that a full disk is recognised; the path is added.
            io::Error::new(source.kind(), WriteError::io("write", &self.shown, source))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A value as the bytes of a JSON member.
pub(crate) fn json<T: Serialize + ?Sized>(name: &str, value: &T) -> Result<Vec<u8>, WriteError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| WriteError::Json { name: name.to_owned(), source })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A name beside `name` that nobody can guess.
pub(crate) fn temporary_name(name: &str) -> io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let (folder, _) = name.rsplit_once('/').map_or(("", name), |(folder, last)| (folder, last));
    let separator = if folder.is_empty() { "" } else { "/" };
    Ok(format!("{folder}{separator}{TEMPORARY_PREFIX}{:016x}", u64::from_le_bytes(random)))
}

#[cfg(test)]
mod tests;
