//! Requests: made by the vendor, found by whoever has their link.

use biopsy_deliver::request::Reader;
use biopsy_deliver::{Kind, Link, Recipe, Request, Secret, Signed, SignerKey, encode, random};

use crate::audit::{self, Entry};
use crate::cases::{self, Case};
use crate::error::LabError;
use crate::place::{Lab, now};

/// What is to be asked for.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// For which case.
    pub case: String,
    /// Who asks, in words for the customer.
    pub lab_name: String,
    /// The address of the lab, as customers reach it.
    pub address: String,
    /// What is asked for.
    pub recipe: Recipe,
    /// How long the link may be used, in seconds.
    pub valid_seconds: i64,
    /// Most bytes that are taken.
    pub max_bytes: u64,
    /// For how many days it is kept.
    pub kept_days: u32,
}

/// Makes a request.
///
/// # Errors
/// The case was deleted, or the name is none.
pub async fn create(lab: &Lab, new: &NewRequest, who: &str) -> Result<Link, LabError> {
    let mut within = lab.store.begin().await?;
    let case = cases::find_or_make(lab, &mut within, &new.case).await?;
    let secret = Secret::generate();
    let request = Request {
        id: encode(random::<16>()),
        lab: new.lab_name.clone(),
        case: case.id.clone(),
        recipe: new.recipe.clone(),
        readers: readers(&case, &new.lab_name)?,
        expires: now().saturating_add(new.valid_seconds),
        max_bytes: new.max_bytes,
        kept_days: new.kept_days,
    };
    let link = Link {
        lab: new.address.trim_end_matches('/').to_owned(),
        id: request.id.clone(),
        secret,
        signer: lab.signer.key().fingerprint(),
        readers: request.readers_fingerprint(),
    };
    // What we give out can be read again.
    if link.to_text().parse().ok().as_ref() != Some(&link) {
        return Err(LabError::Usage(format!("`{}` is no address of a lab", new.address)));
    }
    let document = Signed::new(&request, &lab.signer)?.to_text();
    sqlx::query(
        "INSERT INTO requests (id, case_id, secret, document, expires, max_bytes, state, created)
         VALUES ($1, $2, $3, $4, $5, $6, 'open', $7)",
    )
    .bind(&request.id)
    .bind(&case.id)
    .bind(link.secret.digest().as_slice())
    .bind(document)
    .bind(request.expires)
    .bind(i64::try_from(new.max_bytes).unwrap_or(i64::MAX))
    .bind(now())
    .execute(&mut *within)
    .await?;
    let detail = format!("request {} for `{}`", request.id, request.recipe.kind.name());
    audit::write(&mut within, Entry { who, what: "asked", of: &case.id, detail: &detail }).await?;
    within.commit().await?;
    Ok(link)
}

/// Who will be able to read it, as the customer is told.
fn readers(case: &Case, lab: &str) -> Result<Vec<Reader>, LabError> {
    let keys = case.sealed_to()?;
    let name = match case.is_sealed() {
        true => format!("{lab}, whoever has this key of theirs; the lab itself cannot"),
        false => format!("{lab}, for case {} alone", case.id),
    };
    Ok(keys.iter().map(|key| Reader { name: name.clone(), key: key.to_string() }).collect())
}

/// Ends a request.
///
/// # Errors
/// There is no such request that is open.
pub async fn revoke(lab: &Lab, id: &str, who: &str) -> Result<(), LabError> {
    let mut within = lab.store.begin().await?;
    let changed = sqlx::query("UPDATE requests SET state = 'revoked' WHERE id = $1 AND state = 'open'")
        .bind(id)
        .execute(&mut *within);
    if changed.await?.rows_affected() == 0 {
        return Err(LabError::Usage("there is no such request that is open".to_owned()));
    }
    audit::write(&mut within, Entry { who, what: "revoked", of: id, detail: "" }).await?;
    within.commit().await.map_err(LabError::from)
}

/// A request, for a list.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Made {
    /// Its name.
    pub id: String,
    /// Its case.
    pub case_id: String,
    /// `open` or `revoked`.
    pub state: String,
    /// 1: somebody has begun to send.
    pub redeemed: i64,
    /// 1: it was answered, and there is a receipt.
    pub received: i64,
    /// Until when it is good for beginning.
    pub expires: i64,
    /// When it was made.
    pub created: i64,
}

impl Made {
    /// `open`, `taken up`, `answered`, `over` or `revoked`.
    #[must_use]
    pub fn state_in_words(&self) -> &'static str {
        match (self.state.as_str(), self.redeemed != 0, self.expires > now()) {
            _ if self.received != 0 => "answered",
            (_, true, _) => "taken up",
            ("open", false, true) => "open",
            ("open", false, false) => "over",
            _ => "revoked",
        }
    }
}

/// What the customer runs.
#[must_use]
pub fn command(kind: Kind, link: &str) -> String {
    match kind.is_captured() {
        true => format!("biopsy send --request '{link}'"),
        false => format!("biopsy send FILE --to '{link}'"),
    }
}

/// All of them, the newest first.
///
/// # Errors
/// The database refuses.
pub async fn all(lab: &Lab) -> Result<Vec<Made>, LabError> {
    let made = sqlx::query_as(
        "SELECT id, case_id, state, CASE WHEN redeemer IS NULL THEN 0 ELSE 1 END AS redeemed,
         CASE WHEN EXISTS (SELECT 1 FROM uploads u WHERE u.request_id = requests.id AND u.receipt IS NOT NULL) THEN 1 ELSE 0 END AS received,
         expires, created FROM requests ORDER BY created DESC, id",
    );
    Ok(made.fetch_all(lab.store.pool()).await?)
}

/// A request that was found.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Found {
    /// Its name.
    pub id: String,
    /// Its case.
    pub case_id: String,
    secret: Vec<u8>,
    /// The signed document.
    pub document: String,
    expires: i64,
    /// Most bytes that are taken.
    pub max_bytes: i64,
    state: String,
    redeemer: Option<String>,
}

/// For what a request is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To see or to begin.
    Begin,
    /// To go on with what was begun in time.
    GoOn,
}

/// Who calls: by the link, and with the key of the sender.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The secret of the link.
    pub secret: Secret,
    /// Who sends; the proof was right.
    pub key: SignerKey,
}

/// Finds a request for a caller. `None`: there is none, it is over, another has redeemed it, it was revoked, the case was deleted, the secret
/// is another; nobody is told which, and each way does the same work.
///
/// # Errors
/// The database refuses.
pub async fn find(lab: &Lab, id: &str, caller: &Caller, purpose: Purpose) -> Result<Option<Found>, LabError> {
    let found: Option<Found> = sqlx::query_as(
        "SELECT r.id, r.case_id, r.secret, r.document, r.expires, r.max_bytes, r.state, r.redeemer FROM requests r
         JOIN cases c ON c.id = r.case_id WHERE r.id = $1 AND c.state <> 'deleted'",
    )
    .bind(id)
    .fetch_optional(lab.store.pool())
    .await?;
    let digest = caller.secret.digest();
    let kept = found.as_ref().map_or([0; 32].as_slice(), |found| &found.secret);
    let is_secret = is_same(kept, &digest) & found.is_some();
    let key = caller.key.to_string();
    Ok(found.filter(|found| {
        let is_redeemer = found.redeemer.as_ref().is_none_or(|redeemer| *redeemer == key);
        let in_time = purpose == Purpose::GoOn || found.redeemer.is_some() || found.expires > now();
        is_secret & (found.state == "open") & is_redeemer & in_time
    }))
}

/// Compares in a time that does not say where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}
