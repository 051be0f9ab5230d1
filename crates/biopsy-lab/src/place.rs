//! Where a lab is: its database and storage in one folder, its keys in another.
//!
//! ```text
//! lab/lab.db          cases, requests, uploads, jobs, notices, log; keys of cases, wrapped
//! lab/objects/NAME    ciphertext; names that say nothing
//! lab.keys/kek-NAME   the key that wraps; one at a time
//! lab.keys/signing    signs requests, receipts and certificates
//! lab.keys/webhook    signs notices
//! lab.keys/people     second factors of people are derived from it
//! lab.keys/attempts   seals attempts to log in by a provider
//! lab.keys/signatures equal crashes are found by digests under it
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use biopsy_deliver::state::write_whole;
use biopsy_deliver::{Signer, decode, encode, random};
use jiff::Timestamp;

use crate::error::LabError;
use crate::intake::running::Running;
use crate::keys::Keys;
use crate::storage::Storage;
use crate::store::Store;

/// A lab that is open.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Its database.
    pub store: Store,
    /// The keys that wrap.
    pub keys: Keys,
    /// What it signs with.
    pub signer: Arc<Signer>,
    /// Where ciphertext is kept.
    pub storage: Storage,
    /// What has been hashed of uploads that go on.
    pub(crate) running: Running,
}

/// Where database and storage are, if not in the lab's folder.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// `postgres://USER@HOST/NAME`
    pub database: Option<String>,
    /// `s3://BUCKET/PREFIX`
    pub storage: Option<String>,
}

impl Lab {
    /// Opens a lab, or makes a new one where there is none.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn open(folder: &Path, keys: Option<&Path>) -> Result<Self, LabError> {
        Self::open_with(folder, keys, &Elsewhere::default()).await
    }

    /// The same, with a database or a storage elsewhere.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn open_with(
        folder: &Path,
        keys: Option<&Path>,
        elsewhere: &Elsewhere,
    ) -> Result<Self, LabError> {
        let keys_folder = match keys {
            Some(keys) => keys.to_owned(),
            None => {
                let mut name = folder.file_name().unwrap_or(std::ffi::OsStr::new("lab")).to_owned();
                name.push(".keys");
                folder.with_file_name(name)
            }
        };
        for path in [folder, &folder.join("objects"), &keys_folder] {
            private_folder(path)?;
        }
        let store = match &elsewhere.database {
            None => Store::open(&folder.join("lab.db")).await?,
            Some(url) => Store::open_server(url).await?,
        };
        let storage = Storage::open(folder.join("objects"), elsewhere.storage.as_deref())?;
        let seed = kept_secret(&keys_folder.join("signing"))?;
        let keys = Keys::open(&keys_folder, &store).await?;
        Ok(Self {
            store,
            keys,
            signer: Arc::new(Signer::of_seed(&seed)),
            storage,
            running: Running::default(),
        })
    }

    /// The secret that notices are signed with.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn webhook_secret(&self) -> Result<[u8; 32], LabError> {
        kept_secret(&self.keys.folder().join("webhook"))
    }

    /// What second factors are derived from: a database alone gives none away.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn second_factor_key(&self) -> Result<[u8; 32], LabError> {
        kept_secret(&self.keys.folder().join("people"))
    }

    /// What attempts to log in by a provider are sealed with, while they are in a browser.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn attempts_key(&self) -> Result<[u8; 32], LabError> {
        kept_secret(&self.keys.folder().join("attempts"))
    }

    /// What signatures of crashes are digested under: a database alone gives none away.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn signature_key(&self) -> Result<[u8; 32], LabError> {
        kept_secret(&self.keys.folder().join("signatures"))
    }
}

/// Seconds since 1970.
#[must_use]
pub fn now() -> i64 {
    Timestamp::now().as_second()
}

/// A folder that is nobody else's.
fn private_folder(path: &Path) -> Result<(), LabError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(LabError::Io { what: "make", path: path.to_owned(), source }),
    }
    let meta = fs::symlink_metadata(path).map_err(LabError::io("read", path))?;
    if !meta.is_dir() || meta.mode() & 0o077 != 0 {
        let why = "it has to be a folder that nobody else may read (0700)";
        return Err(LabError::Io { what: "use", path: path.to_owned(), source: io::Error::other(why) });
    }
    Ok(())
}

/// A secret in a file of its own, made when it is first wanted.
fn kept_secret(path: &Path) -> Result<[u8; 32], LabError> {
    let read = |path: &Path| {
        let mut text = zeroize::Zeroizing::new(String::new());
        File::open(path)?.take(200).read_to_string(&mut text)?;
        decode(text.trim()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    };
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret: [u8; 32] = random();
            write_whole(path, encode(secret).as_bytes()).map_err(LabError::io("write", path))?;
            Ok(secret)
        }
        other => other.map_err(LabError::io("read", path)),
    }
}
