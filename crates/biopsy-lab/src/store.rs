//! The database: one SQLite file. What it says of schema is here, and nowhere else.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Sqlite, Transaction};

use crate::error::LabError;

/// The tables, in the form of version 1.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS lab (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cases (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, wrap BLOB, state TEXT NOT NULL, created INTEGER NOT NULL,
    kept_until INTEGER, certificate TEXT);
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES cases(id), secret BLOB NOT NULL, document TEXT NOT NULL,
    expires INTEGER NOT NULL, max_bytes INTEGER NOT NULL, state TEXT NOT NULL, redeemer TEXT, created INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS uploads (
    id TEXT PRIMARY KEY, request_id TEXT NOT NULL UNIQUE REFERENCES requests(id), case_id TEXT NOT NULL, object TEXT NOT NULL,
    length INTEGER NOT NULL, at INTEGER NOT NULL, sha256 TEXT, consent TEXT, state TEXT NOT NULL, receipt TEXT,
    touched INTEGER NOT NULL, expires INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS objects (
    name TEXT PRIMARY KEY, case_id TEXT NOT NULL, upload_id TEXT NOT NULL, kind TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    upload_id TEXT PRIMARY KEY, case_id TEXT NOT NULL, state TEXT NOT NULL, tries INTEGER NOT NULL, not_before INTEGER NOT NULL,
    error TEXT);
CREATE TABLE IF NOT EXISTS outbox (
    id TEXT PRIMARY KEY, event TEXT NOT NULL, body TEXT NOT NULL, created INTEGER NOT NULL, not_before INTEGER NOT NULL,
    tries INTEGER NOT NULL, state TEXT NOT NULL, error TEXT);
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY, time INTEGER NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, of TEXT NOT NULL, detail TEXT NOT NULL,
    hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, second BLOB, step INTEGER NOT NULL, failed INTEGER NOT NULL,
    not_before INTEGER NOT NULL, created INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS invitations (
    digest BLOB PRIMARY KEY, person TEXT NOT NULL, second BLOB NOT NULL, expires INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    digest BLOB PRIMARY KEY, person TEXT NOT NULL, begun INTEGER NOT NULL, touched INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS objects_of_case ON objects(case_id);
CREATE INDEX IF NOT EXISTS jobs_waiting ON jobs(state, not_before);
CREATE INDEX IF NOT EXISTS outbox_waiting ON outbox(state, not_before);
";

/// The database of a lab.
#[derive(Clone, Debug)]
pub struct Store(SqlitePool);

impl Store {
    /// Opens or makes it.
    ///
    /// # Errors
    /// It is damaged, or cannot be written.
    pub async fn open(path: &Path) -> Result<Self, LabError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What was acknowledged is on the disk.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(20))
            .foreign_keys(true)
            .pragma("secure_delete", "ON");
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        Ok(Self(pool))
    }

    /// For a statement by itself.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.0
    }

    /// For statements that hold together. It takes the right to write at once: one that reads first and writes later could be refused in the middle.
    ///
    /// # Errors
    /// The database is held by somebody else for too long.
    pub async fn begin(&self) -> Result<Transaction<'static, Sqlite>, LabError> {
        Ok(self.0.begin_with("BEGIN IMMEDIATE").await?)
    }

    /// Takes what was deleted out of the file's journal, too.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn forget(&self) -> Result<(), LabError> {
        sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.0).await?;
        Ok(())
    }
}
