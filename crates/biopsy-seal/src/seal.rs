//! Sealing: bytes in, ciphertext out, in one pass.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::behind::{Behind, Look};
use crate::digest::{Beginnings, Digest, Digesting};
use crate::key::Recipient;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// Encrypts what is written to it. What was written is of no use before [`finish`](Sealer::finish): a reader
/// takes it for cut off.
pub struct Sealer<W: Write>(age::stream::StreamWriter<W>);

impl<W: Write> Sealer<W> {
    /// Begins: writes the header, which says to how many keys it is sealed, and not whose they are.
    ///
    /// # Errors
    /// There is no recipient, or the output takes nothing.
    pub fn new(out: W, recipients: &[Recipient]) -> io::Result<Self> {
        let each = recipients.iter().map(|one| &one.0 as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(each).map_err(io::Error::other)?;
        encryptor.wrap_output(out).map(Self)
    }

    /// Writes the last chunk and gives the output back.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> std::fmt::Debug for Sealer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// A sealed file that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of the ciphertext.
    pub sha256: [u8; 32],
    /// And of its beginnings.
    pub beginnings: Beginnings,
}

/// Why nothing was sealed; nothing is left then.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// What is to be sealed cannot be read.
    #[error("cannot read what is to be sealed")]
    Read(#[source] io::Error),
    /// The sealed file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A sealed file that is written piece by piece, readable by its owner only. It has its name when it is whole and on the disk; before that there is
/// nothing of it, whatever ends this process, and nothing is overwritten.
#[derive(Debug)]
pub struct SealingFile(Sealing<()>);

impl SealingFile {
    /// Begins.
    ///
    /// # Errors
    /// There is something of this name, there is no recipient, or the folder takes nothing.
    pub fn create(out: &Path, recipients: &[Recipient]) -> Result<Self, SealError> {
        Sealing::begin(out, recipients, ()).map(Self)
    }

    /// Writes the end, waits for the disk, and gives the file its name.
    ///
    /// # Errors
    /// The disk takes no more, or there is something of this name by now; nothing is left then.
    pub fn finish(self) -> Result<(), SealError> {
        self.0.end()
    }
}

impl Write for SealingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.sealer.write(bytes)
    }

    /// What is in the last chunk is not written before [`finish`](Self::finish).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same, with somebody who looks at the ciphertext.
#[derive(Debug)]
struct Sealing<L: Look> {
    out: PathBuf,
    partial: Partial,
    sealer: Sealer<Behind<L>>,
}

impl<L: Look> Sealing<L> {
    fn begin(out: &Path, recipients: &[Recipient], looking: L) -> Result<Self, SealError> {
        let failed = |source| SealError::Write { path: out.to_owned(), source };
        if out.symlink_metadata().is_ok() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let partial = Partial::create(out).map_err(failed)?;
        let file = partial.file.try_clone().map_err(failed)?;
        let behind = Behind::new(file, looking).map_err(failed)?;
        let sealer = Sealer::new(behind, recipients).map_err(failed)?;
        Ok(Self { out: out.to_owned(), partial, sealer })
    }

    fn end(self) -> Result<L, SealError> {
        let Self { out, partial, sealer } = self;
        let failed = |source| SealError::Write { path: out.clone(), source };
        let looked = sealer.finish().and_then(Behind::finish).map_err(failed)?;
        partial.file.sync_all().map_err(failed)?;
        partial.name(&out).map_err(failed)?;
        Ok(looked)
    }
}

/// Seals all that `from` gives into a new file, as [`SealingFile`] does, and tells what was written: its digest is a third of what sealing costs.
///
/// # Errors
/// [`SealError`].
pub fn seal_file(from: &mut dyn Read, out: &Path, recipients: &[Recipient]) -> Result<Sealed, SealError> {
    let failed = |source| SealError::Write { path: out.to_owned(), source };
    let mut file = Sealing::begin(out, recipients, Digesting::default())?;
    let mut buffer = vec![0; PIECE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => file.sealer.write_all(&buffer[..count]).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SealError::Read(error)),
        }
    }
    let Digest { bytes, sha256, beginnings } = file.end()?.finish();
    Ok(Sealed { path: out.to_owned(), bytes, sha256, beginnings })
}

/// A file that has no name before it is whole, so that nothing is left of it whatever ends this process. On a file system that has no such
/// files it has another name until then, which is removed.
#[derive(Debug)]
struct Partial {
    file: File,
    named: Option<PathBuf>,
}

impl Partial {
    fn create(out: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(folder_of(out), flags, Mode::RUSR | Mode::WUSR) {
            return Ok(Self { file: file.into(), named: None });
        }
        let mut name = out.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let path = out.with_file_name(name);
        // `create_new` follows no link.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, named: Some(path) })
    }

    /// Gives it its name, unless there is something of that name.
    fn name(&self, out: &Path) -> io::Result<()> {
        match &self.named {
            // As open(2) says: what /proc links to needs no privilege to be given a name.
            None => {
                let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, open, CWD, out, AtFlags::SYMLINK_FOLLOW)?;
            }
            Some(path) => match fs::hard_link(path, out) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                // File systems without hard links: claim the name, then replace what was claimed.
                Err(_) => {
                    OpenOptions::new().write(true).create_new(true).mode(0o600).open(out)?;
                    fs::rename(path, out)?;
                }
            },
        }
        // A file system that cannot do this is no reason to fail.
        let _ = File::open(folder_of(out)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.named {
            // It is ciphertext without its end, or has another name by now.
            let _ = fs::remove_file(path);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
