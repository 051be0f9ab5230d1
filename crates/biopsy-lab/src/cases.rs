//! Cases: each with a key pair of its own, made with its first request.

use biopsy_deliver::{Receipt, Signed};
use biopsy_seal::{Identity, Recipient};
use sqlx::{Any, Transaction};

use crate::audit::{self, Entry};
use crate::error::LabError;
use crate::place::{Lab, now};
use crate::readers;

/// A case.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Case {
    /// Its name: what people call it.
    pub id: String,
    /// Its public key.
    pub key: String,
    /// Its private key, wrapped; gone when it is deleted.
    pub wrap: Option<Vec<u8>>,
    /// `asked`, `received`, `analysed`, `failed` or `deleted`.
    pub state: String,
    /// When it was made.
    pub created: i64,
    /// When it deletes itself; `None`: not yet known, because nothing was received.
    pub kept_until: Option<i64>,
    /// The certificate of its deletion.
    pub certificate: Option<String>,
    /// Keys that what is sent is sealed to and that the lab does not have, with commas between. `None`: it is sealed to the case's own key alone.
    pub readers: Option<String>,
}

/// Something of a case in the storage.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Object {
    /// Its file.
    pub name: String,
    /// What was uploaded, or what was made of it.
    pub upload_id: String,
    /// `sent`, `report.html`, `report.json` or `report.md`.
    pub kind: String,
    /// Its size, sealed.
    pub bytes: i64,
}

impl Case {
    /// Its public key.
    ///
    /// # Errors
    /// The database was changed.
    pub fn recipient(&self) -> Result<Recipient, LabError> {
        self.key.parse().map_err(|_| LabError::Damaged { what: "the public key of a case" })
    }

    /// Whether the lab cannot read what is sent.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.readers.is_some()
    }

    /// To whom customers seal what they send.
    ///
    /// # Errors
    /// The database was changed.
    pub fn sealed_to(&self) -> Result<Vec<Recipient>, LabError> {
        match &self.readers {
            Some(readers) => readers::split(readers),
            None => Ok(vec![self.recipient()?]),
        }
    }
}

/// Whether it may be the name of a case: it is in addresses and on terminals.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&text.len()) && !text.starts_with(['.', '-']) && text.bytes().all(is_plain)
}

const ONE: &str = "SELECT c.*, s.readers FROM cases c LEFT JOIN sealed s ON s.case_id = c.id WHERE c.id = $1";

/// Finds a case.
///
/// # Errors
/// There is none.
pub async fn find(lab: &Lab, id: &str) -> Result<Case, LabError> {
    sqlx::query_as(ONE)
        .bind(id)
        .fetch_optional(lab.store.pool())
        .await?
        .ok_or_else(|| LabError::NoCase(id.chars().take(64).collect()))
}

/// All of them, the newest first.
///
/// # Errors
/// The database refuses.
pub async fn all(lab: &Lab) -> Result<Vec<Case>, LabError> {
    const ALL: &str = "SELECT c.*, s.readers FROM cases c LEFT JOIN sealed s ON s.case_id = c.id ORDER BY c.created DESC, c.id";
    Ok(sqlx::query_as(ALL).fetch_all(lab.store.pool()).await?)
}

/// In the order in which they came: what was sent before what was made of it.
const OBJECTS: &str = "SELECT o.name, o.upload_id, o.kind, o.bytes FROM objects o JOIN uploads u ON u.id = o.upload_id
    WHERE o.case_id = $1 ORDER BY u.touched, o.upload_id, CASE WHEN o.kind = 'sent' THEN 0 ELSE 1 END, o.kind";

/// What the storage holds of a case.
///
/// # Errors
/// The database refuses.
pub async fn objects(lab: &Lab, id: &str) -> Result<Vec<Object>, LabError> {
    Ok(sqlx::query_as(OBJECTS).bind(id).fetch_all(lab.store.pool()).await?)
}

/// The receipts of what was received, each by its upload, in the order in which it came: what is known of it without a key.
///
/// # Errors
/// The database refuses, or one of them is not the lab's own.
pub async fn receipts(lab: &Lab, id: &str) -> Result<Vec<(String, Receipt)>, LabError> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT id, receipt FROM uploads WHERE case_id = $1 AND receipt IS NOT NULL ORDER BY touched, id",
    )
    .bind(id)
    .fetch_all(lab.store.pool())
    .await?;
    let own = lab.signer.key().fingerprint();
    let receipt = |(upload, text): (String, String)| {
        Ok((upload, Signed::<Receipt>::parse(text.as_bytes())?.verify_by(own)?.0))
    };
    rows.into_iter().map(receipt).collect()
}

/// By which program an upload was sent, as it says itself.
///
/// # Errors
/// The database refuses.
pub async fn program(lab: &Lab, upload: &str) -> Result<Option<String>, LabError> {
    let row: Option<(String,)> = sqlx::query_as("SELECT program FROM senders WHERE upload_id = $1")
        .bind(upload)
        .fetch_optional(lab.store.pool())
        .await?;
    Ok(row.map(|(program,)| program))
}

/// Finds a case for a new request, or makes it.
pub(crate) async fn find_or_make(
    lab: &Lab,
    within: &mut Transaction<'static, Any>,
    id: &str,
) -> Result<Case, LabError> {
    if !is_name(id) {
        let what = "a case has a name of letters, digits, `-`, `_` and `.`, at most 64";
        return Err(LabError::Usage(what.to_owned()));
    }
    let there: Option<Case> = sqlx::query_as(ONE).bind(id).fetch_optional(&mut **within).await?;
    if let Some(case) = there {
        return if case.state == "deleted" { Err(LabError::Deleted(case.id)) } else { Ok(case) };
    }
    let identity = Identity::generate();
    let case = Case {
        id: id.to_owned(),
        key: identity.recipient().to_string(),
        wrap: Some(lab.keys.wrap(within, id, &identity).await?),
        state: "asked".to_owned(),
        created: now(),
        kept_until: None,
        certificate: None,
        readers: Some(readers::joined(&readers::setting(within).await?))
            .filter(|readers| !readers.is_empty()),
    };
    sqlx::query("INSERT INTO cases (id, key, wrap, state, created) VALUES ($1, $2, $3, $4, $5)")
        .bind(&case.id)
        .bind(&case.key)
        .bind(&case.wrap)
        .bind(&case.state)
        .bind(case.created)
        .execute(&mut **within)
        .await?;
    if let Some(readers) = &case.readers {
        sqlx::query("INSERT INTO sealed (case_id, readers) VALUES ($1, $2)")
            .bind(&case.id)
            .bind(readers)
            .execute(&mut **within)
            .await?;
    }
    Ok(case)
}

/// The key that opens a case; of a sealed one, what the lab has sealed around it. The log says who asked, and for what, before there is an answer.
///
/// # Errors
/// The case was deleted, or its key is gone.
pub async fn open(lab: &Lab, id: &str, who: &str, what: &str) -> Result<Identity, LabError> {
    let case = find(lab, id).await?;
    let wrap = case.wrap.ok_or_else(|| LabError::Deleted(id.to_owned()))?;
    audit::note(&lab.store, Entry { who, what: "read", of: id, detail: what }).await?;
    lab.keys.unwrap(id, &wrap)
}

/// Reads the newest report of a case, of this kind, into memory.
///
/// # Errors
/// There is none, or it cannot be read.
pub async fn report(lab: &Lab, id: &str, kind: &str, who: &str) -> Result<Vec<u8>, LabError> {
    /// A page may be large; a report is nowhere near this.
    const MOST: u64 = 512 << 20;
    let objects = objects(lab, id).await?;
    let newest = objects.iter().rev().find(|object| object.kind == kind);
    let Some(object) = newest else {
        let case = find(lab, id).await?;
        return Err(match case.state.as_str() {
            "deleted" => LabError::Deleted(case.id),
            state => LabError::Usage(format!("there is no `{kind}` of case `{id}`; it is {state}")),
        });
    };
    let identity = open(lab, id, who, kind).await?;
    let held = lab.storage.fetch(&object.name).await?;
    let read = tokio::task::spawn_blocking(move || {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        let file = biopsy_seal::SealedFile::open(held.as_ref(), &identity)?;
        file.take(MOST).read_to_end(&mut bytes).map_err(LabError::io("read", held.as_ref()))?;
        Ok(bytes)
    });
    read.await.map_err(|_| LabError::Damaged { what: "a report" })?
}
