//! Writing, and what is to be learned of the bytes, in a thread of its own: whoever encrypts waits for neither.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::fs::{Advice, fadvise};

/// Bytes that are handed over at once.
const PIECE: usize = 256 << 10;
/// Bytes after which the kernel is asked to begin to write, so that little is left for the end.
const STRETCH: u64 = 4 << 20;
/// Pieces on their way; whoever writes more waits.
const MOST_PIECES: usize = 4;

/// What looks at the bytes that are written.
pub(crate) trait Look: Send + 'static {
    /// At those that come next.
    fn look(&mut self, bytes: &[u8]);
}

/// Nobody looks.
impl Look for () {
    fn look(&mut self, _: &[u8]) {}
}

/// Writes to a file, behind whoever calls. That the file takes no more is told by a later call, at the latest by [`finish`](Self::finish).
#[derive(Debug)]
pub(crate) struct Behind<L: Look> {
    piece: Vec<u8>,
    full: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<L>>>,
}

impl<L: Look> Behind<L> {
    /// Begins.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn new(mut file: File, mut looking: L) -> io::Result<Self> {
        let (full, to_write) = sync_channel::<Vec<u8>>(MOST_PIECES);
        let (written, empty) = channel();
        let work = move || {
            let (mut written_bytes, mut asked_for) = (0_u64, 0_u64);
            for mut piece in to_write {
                file.write_all(&piece)?;
                written_bytes += piece.len() as u64;
                if let Some(stretch) =
                    NonZeroU64::new(written_bytes - asked_for).filter(|bytes| bytes.get() >= STRETCH)
                {
                    // posix_fadvise(2): what is dirty begins to be written, nobody waits. No reason to fail.
                    let _ = fadvise(&file, asked_for, Some(stretch), Advice::DontNeed);
                    asked_for = written_bytes;
                }
                looking.look(&piece);
                piece.clear();
                // Nobody takes it any more at the end.
                let _ = written.send(piece);
            }
            Ok(looking)
        };
        let thread = thread::Builder::new().name("seal".to_owned()).spawn(work)?;
        Ok(Self { piece: Vec::with_capacity(PIECE), full: Some(full), empty, thread: Some(thread) })
    }

    /// Waits until all of it is written, and gives back what has looked at it.
    ///
    /// # Errors
    /// The file took no more.
    pub(crate) fn finish(mut self) -> io::Result<L> {
        self.hand_over()?;
        self.end()
    }

    /// Gives what has been collected to the thread.
    fn hand_over(&mut self) -> io::Result<()> {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
        let piece = mem::replace(&mut self.piece, next);
        match self.full.as_ref().map(|full| full.send(piece)) {
            Some(Ok(())) => Ok(()),
            // The thread takes no more: it says why.
            _ => self.end().and(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// What the thread says at its end.
    fn end(&mut self) -> io::Result<L> {
        self.full = None;
        let thread = self.thread.take().ok_or(io::ErrorKind::BrokenPipe)?;
        thread.join().map_err(|_| io::Error::other("the thread that writes has failed"))?
    }
}

impl<L: Look> Write for Behind<L> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.get(..PIECE - self.piece.len()).unwrap_or(bytes);
        self.piece.extend_from_slice(now);
        if self.piece.len() == PIECE {
            self.hand_over()?;
        }
        Ok(now.len())
    }

    /// What is on its way is written before [`finish`](Self::finish) returns.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<L: Look> Drop for Behind<L> {
    fn drop(&mut self) {
        // Whoever gives up leaves no open file behind.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::digest::Digesting;

    #[test]
    fn what_is_written_in_pieces_of_any_size_is_the_file_and_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (length, step) in
            [(0, 1), (1, 1), (PIECE, PIECE), (PIECE * 7 + 3, 65_552), (PIECE * 3, PIECE * 2 + 1)]
        {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut behind = Behind::new(File::create(&path).unwrap(), Digesting::default()).unwrap();
            bytes.chunks(step).for_each(|chunk| behind.write_all(chunk).unwrap());
            let digest = behind.finish().unwrap().finish();
            assert!(fs::read(&path).unwrap() == bytes, "{length} bytes in steps of {step}");
            assert_eq!((digest.bytes, digest.sha256), (length as u64, Sha256::digest(&bytes).into()));
        }
    }

    /// The disk is full: said by a later call, once, and nothing hangs.
    #[test]
    fn a_file_that_takes_no_more_is_told() {
        let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut behind = Behind::new(full(), ()).unwrap();
        let told = (0..100).find_map(|_| behind.write_all(&[0; PIECE]).err()).expect("some call says it");
        assert_eq!(told.kind(), io::ErrorKind::StorageFull);
        assert_eq!(behind.write_all(&[0; PIECE]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(behind.finish().is_err());

        let mut little = Behind::new(full(), ()).unwrap();
        little.write_all(b"at the end").unwrap();
        assert_eq!(little.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn whoever_gives_up_leaves_no_open_file() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut behind = Behind::new(File::from(std::os::fd::OwnedFd::from(writer)), ()).unwrap();
        behind.write_all(b"given up").unwrap();
        drop(behind);
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        assert_eq!(bytes, b"", "what was not handed over is not written");
    }
}
