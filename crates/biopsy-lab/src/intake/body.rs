//! Taking the bytes of a piece: to the disk as they come, never more in memory than one of them, and not from whoever trickles.

use std::io::SeekFrom;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::error::LabError;

use super::answer::Refusal;
use super::locks::Writer;

/// Whoever sends less than this in a second, over all, is not waited for.
const SLOWEST: u64 = 1024;

/// What came.
#[derive(Debug)]
pub(super) struct Taken {
    /// How many bytes.
    pub(super) bytes: u64,
    /// Their SHA-256.
    pub(super) sha256: [u8; 32],
    /// They ended before they should have.
    pub(super) cut: bool,
}

/// Writes a body at a place of a file, and waits until it is on the disk. `most`: bytes that are left of the upload.
pub(super) async fn take(
    path: &Path,
    at: u64,
    most: u64,
    mut body: Body,
    writer: &Writer,
    silence: Duration,
) -> Result<Taken, Refusal> {
    let failed = |source| match std::io::Error::kind(&source) {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Refusal::NoRoom,
        _ => LabError::Io { what: "write", path: path.to_owned(), source }.into(),
    };
    let mut file = tokio::fs::OpenOptions::new().write(true).open(path).await.map_err(failed)?;
    // What is behind was not acknowledged.
    file.set_len(at).await.map_err(failed)?;
    file.seek(SeekFrom::Start(at)).await.map_err(failed)?;
    let mut taken = Taken { bytes: 0, sha256: [0; 32], cut: false };
    let mut sha256 = Sha256::new();
    let began = Instant::now();
    loop {
        let frame = tokio::select! {
            frame = tokio::time::timeout(silence, body.frame()) => frame,
            () = writer.is_unwanted() => {
                taken.cut = true;
                break;
            }
        };
        let allowed = silence + Duration::from_millis(taken.bytes.saturating_mul(1000) / SLOWEST);
        let data = match frame {
            Ok(None) => break,
            Ok(Some(Ok(frame))) if began.elapsed() <= allowed => frame.into_data().unwrap_or_default(),
            _ => {
                taken.cut = true;
                break;
            }
        };
        taken.bytes += data.len() as u64;
        if taken.bytes > most {
            file.set_len(at).await.map_err(failed)?;
            return Err(Refusal::TooLarge { most: i64::try_from(at + most).unwrap_or(i64::MAX) });
        }
        sha256.update(&data);
        file.write_all(&data).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    file.sync_data().await.map_err(failed)?;
    taken.sha256 = sha256.finalize().into();
    Ok(taken)
}
