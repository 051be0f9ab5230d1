//! Sealing a recording, and packing it into one zip.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use biopsy_model::loss::Warning;
use rustix::fs::{AtFlags, CWD, OFlags};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::folder::{TEMPORARY_PREFIX, json, temporary_name};
use crate::manifest::{Digester, Manifest, Member, Redaction};
use crate::open::folder::FolderSource;
use crate::warn::warning;
use crate::{Limits, OpenError, RecordingFolder, WriteError, layout};

/// From this size on a member gets the 64-bit fields of zip; a margin below 4 GiB for what deflate may add.
const LARGE_MEMBER: u64 = 0xf000_0000;

/// A finished bundle.
#[derive(Debug)]
pub struct Bundle {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What is in it, the manifest excepted.
    pub members: Vec<Member>,
    /// Members that could not be packed; also in the manifest.
    pub warnings: Vec<Warning>,
}

/// Packs a recording into a zip that any program opens: header first, manifest last. It is written under another
/// name beside `out`, flushed to the disk, and only then gets its name; nothing is overwritten, and the folder stays
/// as it is.
pub fn bundle(folder: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Bundle, WriteError> {
    pack(folder, out)?.finish()
}

/// The first half of [`bundle`]: the zip is whole and on the disk, and has no name that anybody knows yet. It is removed
/// when it is dropped.
pub fn pack(folder: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Packed, WriteError> {
    pack_of(&RecordingFolder::open_existing(folder)?, out.as_ref())
}

fn pack_of(recording: &RecordingFolder, out: &Path) -> Result<Packed, WriteError> {
    let folder = recording.path();
    // Said before hours of packing; what counts is the check at the end.
    if out.symlink_metadata().is_ok() {
        return Err(WriteError::Exists { path: out.to_path_buf() });
    }
    let temporary = Temporary::create(out)?;
    let bundle = write_zip(recording, &temporary, out).map_err(|error| error.keeping(folder))?;
    Ok(Packed { bundle, temporary, folder: folder.to_path_buf() })
}

/// A bundle that has not got its name yet, so that it can be looked through as it is.
#[derive(Debug)]
pub struct Packed {
    bundle: Bundle,
    temporary: Temporary,
    folder: PathBuf,
}

impl Packed {
    /// Members that could not be packed.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.bundle.warnings
    }

    /// Hands every member to `look`, unpacked, as it is in the file.
    ///
    /// # Errors
    /// The file is no zip that can be read, or a member of it cannot be found. Errors inside of a member come from its reader.
    pub fn each_member(&self, mut look: impl FnMut(&str, &mut dyn Read)) -> io::Result<()> {
        let file = self.temporary.file.try_clone()?;
        let mut archive = zip::ZipArchive::new(io::BufReader::with_capacity(256 << 10, file))?;
        for index in 0..archive.len() {
            let mut member = archive.by_index(index)?;
            let name = String::from_utf8_lossy(member.name_raw()).into_owned();
            look(&name, &mut member);
        }
        Ok(())
    }

    /// The second half: gives it its name.
    pub fn finish(self) -> Result<Bundle, WriteError> {
        let out = self.bundle.path.clone();
        self.temporary
            .rename(&out)
            .map_err(|error| WriteError::io("create", &out, error).keeping(&self.folder))?;
        Ok(self.bundle)
    }
}

impl RecordingFolder {
    /// As [`pack()`], of the folder that is open here.
    ///
    /// # Errors
    /// As [`pack()`].
    pub fn pack(&self, out: &Path) -> Result<Packed, WriteError> {
        pack_of(self, out)
    }

    /// Writes `manifest.json` into the folder: for a recording that stays a folder. Readers warn of anything that is
    /// changed or added after it.
    pub fn seal(&self) -> Result<Vec<Warning>, WriteError> {
        let (members, warnings) =
            each_member(self, |_, _, reader| io::copy(reader, &mut io::sink()).map(|_| ()))?;
        let manifest = json(layout::MANIFEST, &Manifest::new(members, &warnings))?;
        self.replace(layout::MANIFEST, &manifest, true)?;
        Ok(warnings)
    }
}

fn write_zip(recording: &RecordingFolder, temporary: &Temporary, out: &Path) -> Result<Bundle, WriteError> {
    let failed = |error: io::Error| WriteError::io("write", out, error);
    let file = temporary.file.try_clone().map_err(failed)?;
    let mut zip = ZipWriter::new(BufWriter::with_capacity(256 << 10, FailsOnce { file, failed: None }));
    let (members, warnings) = each_member(recording, |name, size, reader| {
        zip.start_file(name, options(name, size)).map_err(io::Error::from)?;
        io::copy(reader, &mut zip).map(|_| ())
    })
    .map_err(|error| error.instead_of(recording.path(), out))?;
    let manifest = Manifest::new(members, &warnings);
    let bytes = json(layout::MANIFEST, &manifest)?;
    let finished = zip
        .start_file(layout::MANIFEST, options(layout::MANIFEST, bytes.len() as u64))
        .map_err(io::Error::from)
        .and_then(|()| zip.write_all(&bytes))
        .and_then(|()| zip.finish().map_err(io::Error::from))
        .and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|FailsOnce { file, .. }| {
            file.sync_all()?;
            Ok(file.metadata()?.len())
        });
    let bytes = finished.map_err(failed)?;
    Ok(Bundle { path: out.to_path_buf(), bytes, members: manifest.members, warnings })
}

/// Fixed times and modes: the same recording gives the same bytes.
fn options(name: &str, size: u64) -> SimpleFileOptions {
    let method =
        if layout::is_compressed(name) { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    SimpleFileOptions::default()
        .compression_method(method)
        .large_file(size >= LARGE_MEMBER)
        .unix_permissions(0o600)
}

/// Hands every member but the manifest to `sink` (name, size, bytes), the header first and the others by name.
/// A member that cannot be read is a warning; a sink that fails is an error.
fn each_member(
    recording: &RecordingFolder,
    mut sink: impl FnMut(&str, u64, &mut dyn Read) -> io::Result<()>,
) -> Result<(Vec<Member>, Vec<Warning>), WriteError> {
    let mut warnings = Vec::new();
    let source = FolderSource::open(recording.reach(), &Limits::default(), &mut warnings)
        .map_err(|error| unreadable_folder(recording.path(), error))?;
    if !source.members().contains_key(layout::HEADER) {
        return Err(WriteError::NotARecording { path: recording.path().to_path_buf() });
    }
    let redaction_ran = source.members().contains_key(layout::REDACTION);
    let mut names: Vec<&str> = source.members().keys().map(String::as_str).collect();
    names.retain(|&name| name != layout::MANIFEST);
    names.sort_by_key(|&name| name != layout::HEADER);
    let mut members = Vec::with_capacity(names.len());
    for name in names {
        let (file, size) = match source.open_member(name) {
            Ok(opened) => opened,
            Err(error) => {
                warnings.push(warning("recording.unreadable", format!("`{name}` left out: {error}"), None));
                continue;
            }
        };
        let mut reader = Forgiving { inner: Digester::new(file), failed: None };
        sink(name, size, &mut reader)
            .map_err(|error| WriteError::io("write", &recording.shown(name), error))?;
        if let Some(error) = reader.failed {
            let message = format!("`{name}` is cut short: {error}");
            warnings.push(warning("recording.cut-short", message, None));
        }
        let (sha256, bytes) = reader.inner.finish();
        members.push(Member {
            name: name.to_owned(),
            bytes,
            sha256,
            media_type: layout::media_type(name).to_owned(),
            redaction: Redaction::of(name, redaction_ran),
        });
    }
    Ok((members, warnings))
}

fn unreadable_folder(path: &Path, error: OpenError) -> WriteError {
    match error {
        OpenError::Io { source, .. } => WriteError::io("read", path, source),
        other => WriteError::io("read", path, io::Error::other(other)),
    }
}

/// Ends at the first error of the file it reads, and keeps the error, so that errors of reading and of writing stay
/// apart in one `io::copy`.
struct Forgiving<R> {
    inner: Digester<R>,
    failed: Option<io::Error>,
}

impl<R: Read> Read for Forgiving<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.failed = Some(error);
                Ok(0)
            }
            other => other,
        }
    }
}

/// Takes everything and drops it after its first error, which the caller has got. The zip library would otherwise
/// try to write the directory when it is dropped, and print that it could not. Its positions go on as if all were well, because
/// the library asserts that they do.
struct FailsOnce {
    file: File,
    /// Where it would be by now.
    failed: Option<u64>,
}

impl Write for FailsOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(at) = &mut self.failed {
            *at = at.saturating_add(bytes.len() as u64);
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes);
        if written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            self.failed = Some(self.file.stream_position().unwrap_or(0));
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for FailsOnce {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let Some(at) = &mut self.failed else { return self.file.seek(to) };
        *at = match to {
            SeekFrom::Start(place) => place,
            SeekFrom::Current(by) | SeekFrom::End(by) => at.saturating_add_signed(by),
        };
        Ok(*at)
    }
}

/// Names that more can be added to: file systems allow 255 bytes.
const LONGEST_NAME: usize = 200;

/// A file under a name that nobody can guess, in the folder of the one it will be and beginning with its name. Removed unless it
/// was renamed.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(out: &Path) -> Result<Self, WriteError> {
        let folder = match out.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let failed = |error| WriteError::io("create", out, error);
        let unguessable = temporary_name("").map_err(failed)?;
        // Should we be killed, whoever finds it sees what it was to be.
        let name = match out.file_name() {
            Some(name) if name.len() <= LONGEST_NAME => {
                let mut name = name.to_owned();
                name.push(unguessable.replacen(TEMPORARY_PREFIX, ".partial-", 1));
                name
            }
            _ => unguessable.into(),
        };
        let path = folder.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(failed)?;
        Ok(Self { path, file })
    }

    /// Gives the file its name, unless there is something of that name.
    fn rename(self, out: &Path) -> io::Result<()> {
        // By the descriptor: whoever may write to the folder can have put something else under our name.
        let by_descriptor = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let linked = rustix::fs::linkat(CWD, by_descriptor, CWD, out, AtFlags::SYMLINK_FOLLOW);
        match linked.map_err(io::Error::from) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // File systems without hard links (FAT, some network ones): claim the name, then replace what we claimed.
            Err(_) => {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(out)?;
                fs::rename(&self.path, out)?;
            }
        }
        // The new name is not on the disk before its folder is. A file system that cannot do this is no reason to
        // fail: the bundle is there.
        if let Some(folder) = self.path.parent() {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing of this name; on an error there is nothing else to do about it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
