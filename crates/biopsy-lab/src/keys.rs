//! The key that wraps the keys of cases. It is in a file of its own, read each time it is used and kept in no memory, so that where
//! the file is gone, the key is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use biopsy_deliver::state::write_whole;
use biopsy_deliver::{decode, encode, random};
use biopsy_seal::Identity;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sqlx::{Any, Transaction};
use zeroize::Zeroizing;

use crate::error::LabError;
use crate::store::Store;

/// What files of wrapping keys begin with.
const PREFIX: &str = "kek-";
const NONCE: usize = 24;

/// The folder of wrapping keys.
#[derive(Clone, Debug)]
pub struct Keys(PathBuf);

impl Keys {
    /// Opens the folder; the first key is made with the database. Keys that a change left behind when it was cut off are destroyed.
    ///
    /// # Errors
    /// The database names a key that is not there.
    pub async fn open(folder: &Path, store: &Store) -> Result<Self, LabError> {
        let keys = Self(folder.to_owned());
        let mut within = store.begin().await?;
        let current: Option<(String,)> =
            sqlx::query_as("SELECT value FROM lab WHERE name = 'kek'").fetch_optional(&mut *within).await?;
        match current {
            None => {
                let name = keys.make()?;
                sqlx::query("INSERT INTO lab (name, value) VALUES ('kek', $1)")
                    .bind(name)
                    .execute(&mut *within)
                    .await?;
                within.commit().await?;
            }
            // Nothing may be destroyed then: the keys that are there may be the right ones for another database.
            Some((name,)) if !keys.path(&name).is_file() => return Err(LabError::OlderThanKeys(name)),
            Some((name,)) => {
                // Nobody else changes keys while the database is ours.
                for other in keys.names()?.into_iter().filter(|other| *other != name) {
                    keys.destroy(&other)?;
                }
                within.commit().await?;
            }
        }
        Ok(keys)
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{PREFIX}{name}"))
    }

    fn names(&self) -> Result<Vec<String>, LabError> {
        let failed = || LabError::io("read", &self.0);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            // One that is being written has a point in it.
            names.extend(name.to_str().and_then(|name| name.strip_prefix(PREFIX)).map(str::to_owned));
        }
        Ok(names)
    }

    /// A new key.
    fn make(&self) -> Result<String, LabError> {
        let (name, key) = (encode(random::<9>()), Zeroizing::new(random::<32>()));
        let text = Zeroizing::new(encode(*key));
        let path = self.path(&name);
        write_whole(&path, text.as_bytes()).map_err(LabError::io("write", &path))?;
        Ok(name)
    }

    fn read(&self, name: &str) -> io::Result<Zeroizing<[u8; 32]>> {
        let mut text = Zeroizing::new(String::with_capacity(64));
        File::open(self.path(name))?.take(200).read_to_string(&mut text)?;
        decode(text.trim()).map(Zeroizing::new).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Overwrites a key and removes it. Where the disk keeps what was overwritten, that is for the disk to lose: `docs/security.md`.
    fn destroy(&self, name: &str) -> Result<(), LabError> {
        let path = self.path(name);
        let overwritten = OpenOptions::new().write(true).open(&path).and_then(|mut file| {
            let length = file.metadata()?.len().min(4096);
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&vec![0; usize::try_from(length).unwrap_or(0)])?;
            file.sync_all()
        });
        let removed = overwritten.and_then(|()| fs::remove_file(&path));
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(LabError::io("destroy", &path)),
        }?;
        File::open(&self.0).and_then(|folder| folder.sync_all()).map_err(LabError::io("write", &self.0))
    }

    /// Wraps the key of a case with the current key. The wrap is of that case and of no other.
    ///
    /// # Errors
    /// The wrapping key is not there.
    pub async fn wrap(
        &self,
        within: &mut Transaction<'static, Any>,
        case: &str,
        identity: &Identity,
    ) -> Result<Vec<u8>, LabError> {
        self.wrap_text(within, case, &identity.secret_text()).await
    }

    /// The same for a key that is a text. `of` says what it is the key of, and it is the key of nothing else: a case, or something whose name no case has.
    pub(crate) async fn wrap_text(
        &self,
        within: &mut Transaction<'static, Any>,
        of: &str,
        secret: &str,
    ) -> Result<Vec<u8>, LabError> {
        let name = current(within).await?;
        self.wrap_with(&name, of, secret)
    }

    fn wrap_with(&self, name: &str, case: &str, secret: &str) -> Result<Vec<u8>, LabError> {
        let gone = |_| LabError::KeyGone { case: case.to_owned(), kek: name.to_owned() };
        let key = self.read(name).map_err(gone)?;
        let nonce = random::<NONCE>();
        let payload = Payload { msg: secret.as_bytes(), aad: case.as_bytes() };
        let wrapped = XChaCha20Poly1305::new((&*key).into())
            .encrypt(XNonce::from_slice(&nonce), payload)
            .map_err(|_| LabError::Damaged { what: "a key to be wrapped" })?;
        Ok([name.as_bytes(), b".", &nonce, &wrapped].concat())
    }

    /// The key of a case.
    ///
    /// # Errors
    /// [`LabError::KeyGone`]: the wrapping key was destroyed.
    pub fn unwrap(&self, case: &str, wrap: &[u8]) -> Result<Identity, LabError> {
        let secret = self.unwrap_text(case, wrap)?;
        secret.parse().map_err(|_| LabError::Damaged { what: "the wrapped key of a case" })
    }

    /// The same for a key that is a text.
    ///
    /// # Errors
    /// [`LabError::KeyGone`]: the wrapping key was destroyed.
    pub fn unwrap_text(&self, case: &str, wrap: &[u8]) -> Result<Zeroizing<String>, LabError> {
        let damaged = || LabError::Damaged { what: "a wrapped key" };
        let point = wrap.iter().position(|&byte| byte == b'.').ok_or_else(damaged)?;
        let (name, rest) = (&wrap[..point], &wrap[point + 1..]);
        let name =
            std::str::from_utf8(name).ok().filter(|name| decode::<9>(name).is_some()).ok_or_else(damaged)?;
        let gone = |_| LabError::KeyGone { case: case.to_owned(), kek: name.to_owned() };
        let key = self.read(name).map_err(gone)?;
        let (nonce, wrapped) = rest.split_at_checked(NONCE).ok_or_else(damaged)?;
        let payload = Payload { msg: wrapped, aad: case.as_bytes() };
        let secret = XChaCha20Poly1305::new((&*key).into())
            .decrypt(XNonce::from_slice(nonce), payload)
            .map(Zeroizing::new)
            .map_err(|_| damaged())?;
        std::str::from_utf8(&secret).map(|text| Zeroizing::new(text.to_owned())).map_err(|_| damaged())
    }

    /// Begins a change of the wrapping key: makes a new one and wraps the keys of all cases that still have one with it, and those of segments. It is done when
    /// the transaction is, and [`Change::destroy_old`] was called. Where it is cut off between, the next start destroys what is left over.
    ///
    /// # Errors
    /// A wrap cannot be read: then nothing is changed.
    pub async fn change(&self, within: &mut Transaction<'static, Any>) -> Result<Change, LabError> {
        let old = current(within).await?;
        let new = self.make()?;
        let change = Change { keys: self.clone(), old };
        let living: Vec<(String, Vec<u8>)> =
            sqlx::query_as("SELECT id, wrap FROM cases WHERE wrap IS NOT NULL")
                .fetch_all(&mut **within)
                .await?;
        for (case, wrap) in living {
            let again = self.wrap_with(&new, &case, &self.unwrap(&case, &wrap)?.secret_text())?;
            sqlx::query("UPDATE cases SET wrap = $1 WHERE id = $2")
                .bind(again)
                .bind(case)
                .execute(&mut **within)
                .await?;
        }
        let segments: Vec<(String, Vec<u8>)> =
            sqlx::query_as("SELECT id, wrap FROM segments").fetch_all(&mut **within).await?;
        for (segment, wrap) in segments {
            let of = of_segment(&segment);
            let again = self.wrap_with(&new, &of, &self.unwrap_text(&of, &wrap)?)?;
            sqlx::query("UPDATE segments SET wrap = $1 WHERE id = $2")
                .bind(again)
                .bind(segment)
                .execute(&mut **within)
                .await?;
        }
        sqlx::query("UPDATE lab SET value = $1 WHERE name = 'kek'").bind(new).execute(&mut **within).await?;
        Ok(change)
    }
}

/// What the key of a segment is wrapped as. No case has such a name.
pub(crate) fn of_segment(segment: &str) -> String {
    format!("segment:{segment}")
}

async fn current(within: &mut Transaction<'static, Any>) -> Result<String, LabError> {
    let (name,): (String,) =
        sqlx::query_as("SELECT value FROM lab WHERE name = 'kek'").fetch_one(&mut **within).await?;
    Ok(name)
}

/// A change of the wrapping key that is not over.
#[derive(Debug)]
pub struct Change {
    keys: Keys,
    old: String,
}

impl Change {
    /// The name of the key that will be destroyed.
    #[must_use]
    pub fn old(&self) -> &str {
        &self.old
    }

    /// To be called when the transaction is on the disk.
    ///
    /// # Errors
    /// The old key cannot be removed.
    pub fn destroy_old(self) -> Result<(), LabError> {
        self.keys.destroy(&self.old)
    }
}
