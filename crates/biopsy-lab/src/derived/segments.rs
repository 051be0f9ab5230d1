//! Segments: made first, in the storage; then named in the database, in one transaction with what they replace.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::sync::Arc;

use biopsy_cases::{Files, Key, RecordBatch, SegmentFile, Table};
use biopsy_deliver::{decode, encode, random};
use sqlx::{Any, Transaction};
use zeroize::Zeroizing;

use crate::error::LabError;
use crate::keys::of_segment;
use crate::place::{Lab, now};

/// A file that the database does not name after so many seconds was left behind by somebody who was ended.
const LEFT_BEHIND: i64 = 3600;

/// A segment whose files are in the storage, and that the database does not name yet. One that is never named is removed an hour later.
#[derive(Debug)]
pub struct Made {
    id: String,
    key: Zeroizing<[u8; 32]>,
    files: Vec<(Table, String, i64)>,
    memory: i64,
}

impl Made {
    /// One without files.
    #[must_use]
    pub fn new() -> Self {
        Self { id: encode(random::<9>()), key: Zeroizing::new(random::<32>()), files: Vec::new(), memory: 0 }
    }

    /// Writes the rows of one table, sorted, into the storage. Only ciphertext is written, here and there.
    ///
    /// # Errors
    /// The storage or the database refuses.
    pub async fn add(&mut self, lab: &Lab, table: Table, rows: RecordBatch) -> Result<(), LabError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let object = encode(random::<16>());
        discard(lab, &object, now() + LEFT_BEHIND).await?;
        let (path, id, key) = (lab.storage.place(&object), self.id.clone(), Key::new(*self.key));
        let writing = tokio::task::spawn_blocking(move || {
            crate::storage::make(&path).map_err(LabError::io("make", &path))?;
            let file = OpenOptions::new().write(true).open(&path).map_err(LabError::io("write", &path))?;
            let written = biopsy_cases::write(table, &rows, &key, &id, &file)?;
            file.sync_all().map_err(LabError::io("write", &path))?;
            Ok::<_, LabError>(written)
        });
        let written = writing.await.map_err(|_| LabError::Damaged { what: "rows of a report" })??;
        lab.storage.keep(&object).await?;
        lab.storage.let_go(&object)?;
        self.files.push((table, object, i64::try_from(written.bytes).unwrap_or(i64::MAX)));
        self.memory = self.memory.saturating_add(i64::try_from(written.memory).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Names it in the database, with no reports yet.
    async fn name(&self, lab: &Lab, within: &mut Transaction<'static, Any>) -> Result<(), LabError> {
        let text = Zeroizing::new(encode(*self.key));
        let wrap = lab.keys.wrap_text(within, &of_segment(&self.id), &text).await?;
        sqlx::query("INSERT INTO segments (id, wrap, reports, memory) VALUES ($1, $2, 0, $3)")
            .bind(&self.id)
            .bind(wrap)
            .bind(self.memory)
            .execute(&mut **within)
            .await?;
        for (table, object, bytes) in &self.files {
            sqlx::query(
                "INSERT INTO segment_files (object, segment_id, kind, bytes) VALUES ($1, $2, $3, $4)",
            )
            .bind(object)
            .bind(&self.id)
            .bind(table.name())
            .bind(bytes)
            .execute(&mut **within)
            .await?;
            sqlx::query("DELETE FROM discarded WHERE object = $1")
                .bind(object)
                .execute(&mut **within)
                .await?;
        }
        Ok(())
    }

    async fn count(&self, within: &mut Transaction<'static, Any>) -> Result<(), LabError> {
        sqlx::query(
            "UPDATE segments SET reports = (SELECT COUNT(*) FROM segment_reports WHERE segment_id = $1) WHERE id = $2",
        )
        .bind(&self.id)
        .bind(&self.id)
        .execute(&mut **within)
        .await?;
        Ok(())
    }

    /// Names it as the segment of these reports: upload and case. Reports that have one already keep it, all or none.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn put(
        &self,
        lab: &Lab,
        within: &mut Transaction<'static, Any>,
        reports: &[(&str, &str)],
    ) -> Result<(), LabError> {
        for (upload, case) in reports {
            let new = sqlx::query(
                "INSERT INTO segment_reports (upload_id, case_id, segment_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            )
            .bind(upload)
            .bind(case)
            .bind(&self.id)
            .execute(&mut **within)
            .await?;
            if new.rows_affected() == 0 && reports.len() == 1 {
                // Analysed twice: by a job that was taken for lost.
                return Ok(());
            }
        }
        self.name(lab, within).await?;
        self.count(within).await
    }
}

impl Default for Made {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts one in the place of others, whose files are removed from `later` on; `None`: nothing is left of them. False: somebody else has replaced one of them
/// meanwhile, and nothing was changed.
pub(crate) async fn replace(
    lab: &Lab,
    within: &mut Transaction<'static, Any>,
    old: &[String],
    made: Option<&Made>,
    later: i64,
) -> Result<bool, LabError> {
    for id in old {
        let there: Option<(String,)> = sqlx::query_as("SELECT id FROM segments WHERE id = $1")
            .bind(id)
            .fetch_optional(&mut **within)
            .await?;
        if there.is_none() {
            return Ok(false);
        }
    }
    if let Some(made) = made {
        made.name(lab, within).await?;
    }
    for id in old {
        match made {
            Some(made) => {
                sqlx::query("UPDATE segment_reports SET segment_id = $1 WHERE segment_id = $2")
                    .bind(&made.id)
                    .bind(id)
                    .execute(&mut **within)
                    .await?
            }
            None => {
                sqlx::query("DELETE FROM segment_reports WHERE segment_id = $1")
                    .bind(id)
                    .execute(&mut **within)
                    .await?
            }
        };
        sqlx::query(
            "INSERT INTO discarded (object, not_before) SELECT object, CAST($1 AS BIGINT) FROM segment_files WHERE segment_id = $2",
        )
        .bind(later)
        .bind(id)
        .execute(&mut **within)
        .await?;
        for statement in
            ["DELETE FROM segment_files WHERE segment_id = $1", "DELETE FROM segments WHERE id = $1"]
        {
            sqlx::query(statement).bind(id).execute(&mut **within).await?;
        }
    }
    if let Some(made) = made {
        made.count(within).await?;
    }
    Ok(true)
}

/// Whether there is still such a segment.
pub(crate) async fn is_there(lab: &Lab, segment: &str) -> Result<bool, LabError> {
    let there: Option<(String,)> = sqlx::query_as("SELECT id FROM segments WHERE id = $1")
        .bind(segment)
        .fetch_optional(lab.store.pool())
        .await?;
    Ok(there.is_some())
}

async fn discard(lab: &Lab, object: &str, not_before: i64) -> Result<(), LabError> {
    sqlx::query("INSERT INTO discarded (object, not_before) VALUES ($1, $2)")
        .bind(object)
        .bind(not_before)
        .execute(lab.store.pool())
        .await?;
    Ok(())
}

/// Removes files that no segment has any more, once their time has come.
///
/// # Errors
/// The storage or the database refuses.
pub async fn sweep(lab: &Lab) -> Result<(), LabError> {
    let due: Vec<(String,)> = sqlx::query_as("SELECT object FROM discarded WHERE not_before <= $1")
        .bind(now())
        .fetch_all(lab.store.pool())
        .await?;
    for (object,) in due {
        lab.storage.remove(&object).await?;
        sqlx::query("DELETE FROM discarded WHERE object = $1").bind(object).execute(lab.store.pool()).await?;
    }
    Ok(())
}

/// Files of segments, with their keys; of these segments, or of all.
///
/// # Errors
/// A key is gone, or the database refuses.
pub async fn files(lab: &Lab, of: Option<&[String]>) -> Result<Vec<(Table, SegmentFile)>, LabError> {
    type File = (String, Vec<u8>, String, String, i64);
    const ALL: &str = "SELECT s.id, s.wrap, f.kind, f.object, f.bytes FROM segments s JOIN segment_files f ON f.segment_id = s.id";
    const ONE: &str = "SELECT s.id, s.wrap, f.kind, f.object, f.bytes FROM segments s JOIN segment_files f ON f.segment_id = s.id
         WHERE s.id = $1";
    let mut rows: Vec<File> = Vec::new();
    match of {
        None => rows = sqlx::query_as(ALL).fetch_all(lab.store.pool()).await?,
        Some(ids) => {
            for id in ids {
                rows.extend(sqlx::query_as::<_, File>(ONE).bind(id).fetch_all(lab.store.pool()).await?);
            }
        }
    }
    let mut keys: BTreeMap<String, Key> = BTreeMap::new();
    let mut files = Vec::with_capacity(rows.len());
    for (segment, wrap, kind, name, bytes) in rows {
        // A table that a newer lab has written.
        let Some(table) = Table::named(&kind) else { continue };
        let key = match keys.get(&segment) {
            Some(key) => key.clone(),
            None => {
                let text = lab.keys.unwrap_text(&of_segment(&segment), &wrap)?;
                let bytes: [u8; 32] =
                    decode(&text).ok_or(LabError::Damaged { what: "the key of a segment" })?;
                let key = Key::new(bytes);
                keys.insert(segment.clone(), key.clone());
                key
            }
        };
        let bytes = u64::try_from(bytes).unwrap_or(0);
        files.push((table, SegmentFile { name, bytes, key, segment }));
    }
    Ok(files)
}

/// The storage, as files are read from it.
pub(crate) fn storage(lab: &Lab) -> Arc<dyn Files> {
    Arc::new(lab.storage.clone())
}

/// All rows of these segments as one that is made, sorted; those of the case `without` are left out. One table is in memory at a time.
pub(crate) async fn together(lab: &Lab, ids: &[String], without: Option<&str>) -> Result<Made, LabError> {
    let (all, storage) = (files(lab, Some(ids)).await?, storage(lab));
    let mut made = Made::new();
    for table in Table::ALL {
        let of_table: Vec<SegmentFile> =
            all.iter().filter(|(of, _)| *of == table).map(|(_, file)| file.clone()).collect();
        if !of_table.is_empty() {
            made.add(lab, table, biopsy_cases::merged(table, &storage, &of_table, without).await?).await?;
        }
    }
    Ok(made)
}
