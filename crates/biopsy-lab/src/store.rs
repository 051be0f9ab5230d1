//! The database: a SQLite file, or PostgreSQL. What it says of schema is here, and nowhere else; statements are of the part that both understand.

use std::path::Path;
use std::sync::Once;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyPool, Transaction};

use crate::error::LabError;

/// The tables, in the form of version 1.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS lab (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cases (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, wrap BLOB, state TEXT NOT NULL, created BIGINT NOT NULL,
    kept_until BIGINT, certificate TEXT);
CREATE TABLE IF NOT EXISTS sealed (case_id TEXT PRIMARY KEY, readers TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES cases(id), secret BLOB NOT NULL, document TEXT NOT NULL,
    expires BIGINT NOT NULL, max_bytes BIGINT NOT NULL, state TEXT NOT NULL, redeemer TEXT, created BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS uploads (
    id TEXT PRIMARY KEY, request_id TEXT NOT NULL UNIQUE REFERENCES requests(id), case_id TEXT NOT NULL, object TEXT NOT NULL,
    length BIGINT NOT NULL, at BIGINT NOT NULL, sha256 TEXT, consent TEXT, state TEXT NOT NULL, receipt TEXT,
    touched BIGINT NOT NULL, expires BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS objects (
    name TEXT PRIMARY KEY, case_id TEXT NOT NULL, upload_id TEXT NOT NULL, kind TEXT NOT NULL, bytes BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    upload_id TEXT PRIMARY KEY, case_id TEXT NOT NULL, state TEXT NOT NULL, tries BIGINT NOT NULL, not_before BIGINT NOT NULL,
    error TEXT);
CREATE TABLE IF NOT EXISTS outbox (
    id TEXT PRIMARY KEY, event TEXT NOT NULL, body TEXT NOT NULL, created BIGINT NOT NULL, not_before BIGINT NOT NULL,
    tries BIGINT NOT NULL, state TEXT NOT NULL, error TEXT);
CREATE TABLE IF NOT EXISTS log (
    number BIGINT PRIMARY KEY, time BIGINT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, of TEXT NOT NULL, detail TEXT NOT NULL,
    hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, second BLOB, step BIGINT NOT NULL, failed BIGINT NOT NULL,
    not_before BIGINT NOT NULL, created BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS invitations (
    digest BLOB PRIMARY KEY, person TEXT NOT NULL, second BLOB NOT NULL, expires BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    digest BLOB PRIMARY KEY, person TEXT NOT NULL, begun BIGINT NOT NULL, touched BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS identities (digest BLOB PRIMARY KEY, person TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS used_attempts (digest BLOB PRIMARY KEY, until BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS mails (
    id TEXT PRIMARY KEY, recipient TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL, attached TEXT, created BIGINT NOT NULL,
    not_before BIGINT NOT NULL, tries BIGINT NOT NULL, state TEXT NOT NULL, error TEXT);
CREATE TABLE IF NOT EXISTS contacts (upload_id TEXT PRIMARY KEY, case_id TEXT NOT NULL, mail TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS senders (upload_id TEXT PRIMARY KEY, case_id TEXT NOT NULL, program TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS told (event TEXT NOT NULL, of TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (event, of, at));
CREATE TABLE IF NOT EXISTS tokens (
    digest BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, roles TEXT NOT NULL, created BIGINT NOT NULL, expires BIGINT NOT NULL,
    used BIGINT);
CREATE TABLE IF NOT EXISTS signatures (digest BLOB NOT NULL, case_id TEXT NOT NULL, seen BIGINT NOT NULL, PRIMARY KEY (digest, case_id));
CREATE TABLE IF NOT EXISTS causes (digest BLOB NOT NULL, case_id TEXT NOT NULL, seen BIGINT NOT NULL, PRIMARY KEY (digest, case_id));
CREATE TABLE IF NOT EXISTS segments (id TEXT PRIMARY KEY, wrap BLOB NOT NULL, reports BIGINT NOT NULL, memory BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS segment_files (object TEXT PRIMARY KEY, segment_id TEXT NOT NULL, kind TEXT NOT NULL, bytes BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS segment_reports (upload_id TEXT PRIMARY KEY, case_id TEXT NOT NULL, segment_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS discarded (object TEXT PRIMARY KEY, not_before BIGINT NOT NULL);
CREATE INDEX IF NOT EXISTS files_of_segment ON segment_files(segment_id);
CREATE INDEX IF NOT EXISTS reports_of_segment ON segment_reports(segment_id);
CREATE INDEX IF NOT EXISTS reports_of_case ON segment_reports(case_id);
CREATE INDEX IF NOT EXISTS signatures_of_case ON signatures(case_id);
CREATE INDEX IF NOT EXISTS causes_of_case ON causes(case_id);
CREATE INDEX IF NOT EXISTS objects_of_case ON objects(case_id);
CREATE INDEX IF NOT EXISTS jobs_waiting ON jobs(state, not_before);
CREATE INDEX IF NOT EXISTS outbox_waiting ON outbox(state, not_before);
";

/// What SQLite is told for each connection: what was acknowledged is on the disk, and what was deleted is not.
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 20000; PRAGMA foreign_keys = ON; \
                       PRAGMA secure_delete = ON";
/// One number of ours among those that PostgreSQL's users lock by.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7101927416)";

/// Which database it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sqlite,
    Postgres,
}

/// The database of a lab.
#[derive(Clone, Debug)]
pub struct Store {
    pool: AnyPool,
    kind: Kind,
}

impl Store {
    /// Opens or makes a SQLite file.
    ///
    /// # Errors
    /// It is damaged, or cannot be written.
    pub async fn open(path: &Path) -> Result<Self, LabError> {
        let path = std::path::absolute(path).map_err(LabError::io("find", path))?;
        // In an address, these three are something else.
        let text = path.to_string_lossy().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        Self::connect(&format!("sqlite://{text}?mode=rwc"), Kind::Sqlite, 4).await
    }

    /// Opens a database of PostgreSQL: `postgres://USER@HOST/NAME`.
    ///
    /// # Errors
    /// It is no such address, or the server refuses.
    pub async fn open_server(url: &str) -> Result<Self, LabError> {
        let is_one = url.starts_with("postgres://") || url.starts_with("postgresql://");
        if !is_one {
            return Err(LabError::Usage("a database is `postgres://USER@HOST/NAME`".to_owned()));
        }
        Self::connect(url, Kind::Postgres, 16).await
    }

    async fn connect(url: &str, kind: Kind, connections: u32) -> Result<Self, LabError> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let options: AnyConnectOptions = url.parse()?;
        let pool = AnyPoolOptions::new()
            .max_connections(connections)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if kind == Kind::Sqlite {
                        sqlx::raw_sql(PRAGMAS).execute(connection).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await?;
        let store = Self { pool, kind };
        let mut within = store.begin().await?;
        match kind {
            Kind::Sqlite => sqlx::raw_sql(SCHEMA).execute(&mut *within).await?,
            Kind::Postgres => {
                let schema = SCHEMA.replace(" BLOB", " BYTEA");
                sqlx::raw_sql(sqlx::AssertSqlSafe(schema)).execute(&mut *within).await?
            }
        };
        within.commit().await?;
        Ok(store)
    }

    /// For a statement by itself.
    #[must_use]
    pub fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// For statements that hold together, one such group at a time. It takes the right to write at once: one that reads first and writes later could
    /// be refused in the middle, and the log is a chain.
    ///
    /// # Errors
    /// The database is held by somebody else for too long.
    pub async fn begin(&self) -> Result<Transaction<'static, Any>, LabError> {
        match self.kind {
            Kind::Sqlite => Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?),
            Kind::Postgres => {
                let mut within = self.pool.begin().await?;
                sqlx::query(LOCK).execute(&mut *within).await?;
                Ok(within)
            }
        }
    }

    /// Takes what was deleted out of the file's journal, too. A server's own journal and back-ups hold wraps whose key is destroyed.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn forget(&self) -> Result<(), LabError> {
        if self.kind == Kind::Sqlite {
            sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.pool).await?;
        }
        Ok(())
    }
}
