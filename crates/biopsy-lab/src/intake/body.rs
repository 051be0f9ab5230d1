//! Taking the bytes of a piece: to the disk as they come, never more in memory than two of the batches that are written, and not from
//! whoever trickles.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use crate::error::LabError;

use super::answer::Refusal;
use super::locks::Writer;

/// Whoever sends less than this in a second, over all, is not waited for.
const SLOWEST: u64 = 1024;
/// Bytes that are written at once where nothing else is being written; from slow callers no more than these are held.
const LEAST_BATCH: usize = 256 << 10;
/// Most bytes that are held while others are being written. The more there are, the less often threads wait for each other.
const MOST_BATCH: usize = 1 << 20;
/// Most parts of what is held: each takes some memory beside its bytes, and a caller may send them one by one.
const MOST_PARTS: usize = 1024;
/// Bytes after which the disk is made to begin, so that little is left of a large piece when its last byte is there.
const SYNC_EACH: u64 = 8 << 20;

/// What came.
#[derive(Debug)]
pub(super) struct Taken {
    /// How many bytes.
    pub(super) bytes: u64,
    /// What was begun, with these bytes.
    pub(super) hashes: Hashes,
    /// They ended before they should have.
    pub(super) cut: bool,
}

/// What is hashed of an upload.
#[derive(Clone, Debug)]
pub(super) struct Hashes {
    /// All of it up to here.
    pub(super) all: Sha256,
    /// This piece alone, where it is held against that.
    pub(super) piece: Option<Sha256>,
}

impl Hashes {
    fn update(&mut self, bytes: &[u8]) {
        self.all.update(bytes);
        if let Some(piece) = &mut self.piece {
            piece.update(bytes);
        }
    }
}

/// Writes a body at a place of a file, and waits until it is on the disk. `most`: bytes that are left of the upload. `hashes`: of what
/// is before.
pub(super) async fn take(
    path: &Path,
    at: u64,
    most: u64,
    mut body: Body,
    writer: &Writer,
    silence: Duration,
    hashes: Hashes,
) -> Result<Taken, Refusal> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refusal::NoRoom,
        _ => LabError::Io { what: "write", path: path.to_owned(), source }.into(),
    };
    let mut pen = Pen::open(path, at, hashes).await.map_err(failed)?;
    let (mut bytes, mut cut) = (0, false);
    let mut batch = Batch::default();
    let began = Instant::now();
    loop {
        let frame = tokio::select! {
            frame = tokio::time::timeout(silence, body.frame()) => frame,
            () = writer.is_unwanted() => {
                cut = true;
                break;
            }
        };
        let allowed = silence + Duration::from_millis(u64::saturating_mul(bytes, 1000) / SLOWEST);
        let data = match frame {
            Ok(None) => break,
            Ok(Some(Ok(frame))) if began.elapsed() <= allowed => frame.into_data().unwrap_or_default(),
            _ => {
                cut = true;
                break;
            }
        };
        bytes += data.len() as u64;
        if bytes > most {
            pen.take_back(at).await.map_err(failed)?;
            return Err(Refusal::TooLarge { most: i64::try_from(at + most).unwrap_or(i64::MAX) });
        }
        if data.is_empty() {
            continue;
        }
        batch.bytes += data.len();
        batch.parts.push(data);
        let is_full = batch.bytes >= MOST_BATCH || batch.parts.len() >= MOST_PARTS;
        if is_full || batch.bytes >= LEAST_BATCH && pen.is_idle() {
            pen.write(std::mem::take(&mut batch)).await.map_err(failed)?;
            pen.begin_to_sync().await.map_err(failed)?;
        }
    }
    pen.write(batch).await.map_err(failed)?;
    let hashes = pen.end().await.map_err(failed)?;
    Ok(Taken { bytes, hashes, cut })
}

/// What came one after the other, and where the connection put it: none of it is copied.
#[derive(Default)]
struct Batch {
    parts: Vec<Bytes>,
    bytes: usize,
}

/// Hashes and writes a batch while the next one comes.
struct Pen {
    file: Arc<File>,
    at: u64,
    writing: JoinHandle<io::Result<Hashes>>,
    /// The disk takes what was written until then; an error of it is told once.
    syncing: Option<JoinHandle<io::Result<()>>>,
    unsynced: u64,
}

impl Pen {
    /// What is behind the place was not acknowledged, and goes.
    async fn open(path: &Path, at: u64, hashes: Hashes) -> io::Result<Self> {
        let path = path.to_owned();
        let opening = spawn_blocking(move || {
            let file = File::options().write(true).open(path)?;
            file.set_len(at)?;
            io::Result::Ok(file)
        });
        let file = Arc::new(opening.await.map_err(io::Error::other)??);
        Ok(Self { file, at, writing: spawn_blocking(|| Ok(hashes)), syncing: None, unsynced: 0 })
    }

    /// Nothing is being written.
    fn is_idle(&self) -> bool {
        self.writing.is_finished()
    }

    async fn written(&mut self) -> io::Result<Hashes> {
        (&mut self.writing).await.map_err(io::Error::other)?
    }

    /// Waits for the batch before.
    async fn write(&mut self, batch: Batch) -> io::Result<()> {
        let mut hashes = self.written().await?;
        let (file, mut at) = (Arc::clone(&self.file), self.at);
        self.at += batch.bytes as u64;
        self.unsynced += batch.bytes as u64;
        self.writing = spawn_blocking(move || {
            for part in batch.parts {
                hashes.update(&part);
                file.write_all_at(&part, at)?;
                at += part.len() as u64;
            }
            Ok(hashes)
        });
        Ok(())
    }

    /// Begins to put on the disk what is there, unless it is at that.
    async fn begin_to_sync(&mut self) -> io::Result<()> {
        if self.unsynced < SYNC_EACH || self.syncing.as_ref().is_some_and(|syncing| !syncing.is_finished()) {
            return Ok(());
        }
        self.synced().await?;
        self.unsynced = 0;
        let file = Arc::clone(&self.file);
        self.syncing = Some(spawn_blocking(move || file.sync_data()));
        Ok(())
    }

    async fn synced(&mut self) -> io::Result<()> {
        match self.syncing.take() {
            Some(syncing) => syncing.await.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }

    /// It is on the disk.
    async fn end(mut self) -> io::Result<Hashes> {
        let hashes = self.written().await?;
        self.synced().await?;
        let syncing = spawn_blocking(move || self.file.sync_data());
        syncing.await.map_err(io::Error::other)??;
        Ok(hashes)
    }

    /// Nothing of it stays.
    async fn take_back(mut self, to: u64) -> io::Result<()> {
        self.written().await?;
        spawn_blocking(move || self.file.set_len(to)).await.map_err(io::Error::other)?
    }
}
