//! Sealed mode: cases are sealed to keys of the vendor's own that the lab has no private half of. It takes in, keeps and deletes, and can read nothing.
//!
//! What arrives is sealed once more, to the key pair that each case has: so a deletion ends the copies in back-ups, too, for whoever has the vendor's keys.
//! That outer seal is all that the lab can open; what is in it is what the customer sent.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use biopsy_deliver::{encode, random};
use biopsy_seal::{SealedFile, seal_file};
use sqlx::{Any, Transaction};

use crate::cases::{self, Case};
use crate::error::LabError;
use crate::place::{Lab, now};

/// What was not named by the database after so many seconds was left behind by somebody who was ended.
const LEFT_BEHIND: i64 = 3600;

/// Seals what arrived once more; gives the name of the object and its size. The database does not name it yet.
pub(crate) async fn cover(lab: &Lab, case: &Case, arrived: &str) -> Result<(String, i64), LabError> {
    let name = encode(random::<16>());
    sqlx::query("INSERT INTO discarded (object, not_before) VALUES ($1, $2)")
        .bind(&name)
        .bind(now() + LEFT_BEHIND)
        .execute(lab.store.pool())
        .await?;
    let (from, to, recipient) = (lab.storage.place(arrived), lab.storage.place(&name), case.recipient()?);
    let sealing = tokio::task::spawn_blocking(move || {
        let mut file = File::open(&from).map_err(LabError::io("read", &from))?;
        Ok::<_, LabError>(seal_file(&mut file, &to, &[recipient])?)
    });
    let sealed = sealing.await.map_err(|_| LabError::Damaged { what: "what arrived" })??;
    lab.storage.keep(&name).await?;
    Ok((name, i64::try_from(sealed.bytes).unwrap_or(i64::MAX)))
}

/// Names what was covered, in the place of what arrived, which is removed.
pub(crate) async fn put(
    within: &mut Transaction<'static, Any>,
    upload: &str,
    arrived: &str,
    covered: &str,
) -> Result<(), LabError> {
    sqlx::query("UPDATE uploads SET object = $1 WHERE id = $2")
        .bind(covered)
        .bind(upload)
        .execute(&mut **within)
        .await?;
    sqlx::query("DELETE FROM discarded WHERE object = $1").bind(covered).execute(&mut **within).await?;
    sqlx::query("INSERT INTO discarded (object, not_before) VALUES ($1, $2)")
        .bind(arrived)
        .bind(now())
        .execute(&mut **within)
        .await?;
    Ok(())
}

/// What was sent, as the customer sealed it: for whoever has a key.
#[derive(Debug)]
pub struct AsSent {
    file: SealedFile,
    /// A copy from a storage elsewhere goes with it.
    _held: crate::storage::Held,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of it, as in the receipt.
    pub sha256: String,
}

impl AsSent {
    /// From this byte on.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn go_to(&mut self, at: u64) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(at)).map(|_| ())
    }

    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn piece(&mut self, most: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(most);
        (&mut self.file).take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The newest thing that was sent for a sealed case. The log says who asked.
///
/// # Errors
/// The case is not sealed, was deleted, or nothing was sent.
pub async fn as_sent(lab: &Lab, id: &str, who: &str) -> Result<AsSent, LabError> {
    let case = cases::find(lab, id).await?;
    if case.state == "deleted" {
        return Err(LabError::Deleted(case.id));
    }
    if !case.is_sealed() {
        return Err(LabError::Usage(format!(
            "case `{id}` is not sealed to keys of your own: it is read in the lab, or with `biopsy open` on its machine"
        )));
    }
    let objects = cases::objects(lab, id).await?;
    let sent = objects.iter().rev().find(|object| object.kind == "sent");
    let sent = sent.ok_or_else(|| LabError::Usage(format!("nothing was sent for case `{id}` yet")))?;
    let receipt =
        cases::receipts(lab, id).await?.into_iter().rev().find(|(upload, _)| *upload == sent.upload_id);
    let (_, receipt) = receipt.ok_or(LabError::Damaged { what: "the receipt of what was sent" })?;
    let identity = cases::open(lab, id, who, "what was sent, sealed").await?;
    let held = lab.storage.fetch(&sent.name).await?;
    let path = held.as_ref().to_owned();
    let opening = tokio::task::spawn_blocking(move || SealedFile::open(&path, &identity)).await;
    let file = opening.map_err(|_| LabError::Damaged { what: "what was sent" })??;
    Ok(AsSent { file, _held: held, bytes: receipt.bytes, sha256: receipt.sha256 })
}
