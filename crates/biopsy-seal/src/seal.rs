//! Sealing: bytes in, ciphertext out, in one pass.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use sha2::{Digest, Sha256};

use crate::key::Recipient;

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

/// Seals all that `from` gives into a new file that only its owner may read. It has its name when it is whole and on the disk; nothing is
/// overwritten.
///
/// # Errors
/// [`SealError`].
pub fn seal_file(from: &mut dyn Read, out: &Path, recipients: &[Recipient]) -> Result<Sealed, SealError> {
    let failed = |source| SealError::Write { path: out.to_owned(), source };
    if out.symlink_metadata().is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let partial = Partial::create(out).map_err(failed)?;
    let hashed = Hashed { inner: &partial.file, sha256: Sha256::new(), bytes: 0 };
    let mut sealer = Sealer::new(BufWriter::with_capacity(256 << 10, hashed), recipients).map_err(failed)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => sealer.write_all(&buffer[..count]).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SealError::Read(error)),
        }
    }
    let buffered = sealer.finish().map_err(failed)?;
    let Hashed { sha256, bytes, .. } = buffered.into_inner().map_err(|error| failed(error.into_error()))?;
    partial.file.sync_all().map_err(failed)?;
    partial.name(out).map_err(failed)?;
    Ok(Sealed { path: out.to_owned(), bytes, sha256: sha256.finalize().into() })
}

/// Counts and digests what passes.
struct Hashed<W> {
    inner: W,
    sha256: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.sha256.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file that has no name before it is whole, so that nothing is left of it whatever ends this process. On a file system that has no such
/// files it has another name until then, which is removed.
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
