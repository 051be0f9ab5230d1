//! Where ciphertext is kept: in a folder, or in a storage that speaks S3. What is being received or made is in the folder in either case; there is
//! nothing but ciphertext in it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_cases::Files;
use biopsy_cases::file::{BoxFuture, Bytes};
use biopsy_deliver::{encode, random};
use object_store::aws::AmazonS3Builder;
// Cargo.toml says with which TLS it comes.
use object_store::buffered::BufWriter;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt as _};
use reqwest as _;
use tokio::io::AsyncWriteExt as _;

use crate::error::LabError;

/// Bytes that are sent at once; memory does not grow with the object.
const PART: usize = 8 << 20;

/// Where ciphertext is kept.
#[derive(Clone, Debug)]
pub struct Storage {
    folder: PathBuf,
    bucket: Option<Arc<dyn ObjectStore>>,
}

/// A file that can be read as long as this value lives.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    is_copy: bool,
}

impl AsRef<Path> for Held {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_copy {
            // It is ciphertext, and the next start removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Storage {
    /// A folder alone, or `s3://BUCKET/PREFIX` with what the environment says of it (`AWS_ENDPOINT`, `AWS_ACCESS_KEY_ID` ...).
    ///
    /// # Errors
    /// It is no such address.
    pub fn open(folder: PathBuf, bucket: Option<&str>) -> Result<Self, LabError> {
        let Some(url) = bucket else { return Ok(Self { folder, bucket: None }) };
        // One that is there already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let no_storage =
            |why: &dyn std::fmt::Display| LabError::Usage(format!("`{url}` is no storage: {why}"));
        let rest = url.strip_prefix("s3://").ok_or_else(|| no_storage(&"it is not `s3://BUCKET/PREFIX`"))?;
        let store = AmazonS3Builder::from_env().with_url(url).build().map_err(|error| no_storage(&error))?;
        let prefix = rest.split_once('/').map_or("", |(_, prefix)| prefix);
        let bucket: Arc<dyn ObjectStore> = match prefix.is_empty() {
            true => Arc::new(store),
            false => Arc::new(object_store::prefix::PrefixStore::new(store, prefix)),
        };
        let storage = Self { folder, bucket: Some(bucket) };
        storage.remove_copies()?;
        Ok(storage)
    }

    /// Where something is received or made. Its name is one that we made.
    #[must_use]
    pub fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts what was received or made where it is to stay.
    ///
    /// # Errors
    /// It cannot be read, or the storage refuses.
    pub async fn keep(&self, name: &str) -> Result<(), LabError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let path = self.place(name);
        let mut file = tokio::fs::File::open(&path).await.map_err(LabError::io("read", &path))?;
        let mut writer = BufWriter::with_capacity(Arc::clone(bucket), Name::from(name), PART);
        tokio::io::copy(&mut file, &mut writer).await.map_err(LabError::io("store", &path))?;
        writer.shutdown().await.map_err(LabError::io("store", &path))
    }

    /// Removes what was received or made here, once the database says that it is kept elsewhere.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn let_go(&self, name: &str) -> Result<(), LabError> {
        if self.bucket.is_none() { Ok(()) } else { remove_file(&self.place(name)) }
    }

    /// A file to read: the one that is kept, or a copy that goes with the value.
    ///
    /// # Errors
    /// The storage refuses.
    pub async fn fetch(&self, name: &str) -> Result<Held, LabError> {
        let Some(bucket) = &self.bucket else { return Ok(Held { path: self.place(name), is_copy: false }) };
        let path = self.folder.join(format!("copy-{}", encode(random::<9>())));
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = made.map_err(LabError::io("make", &path))?;
        let held = Held { path, is_copy: true };
        let refused = |error: object_store::Error| LabError::Storage(error.to_string());
        let size = bucket.head(&Name::from(name)).await.map_err(refused)?.size;
        let mut at = 0;
        while at < size {
            let end = size.min(at + PART as u64);
            let part = bucket.get_range(&Name::from(name), at..end).await.map_err(refused)?;
            file.write_all(&part).map_err(LabError::io("write", &held.path))?;
            at = end;
        }
        Ok(held)
    }

    /// Removes it, wherever it is. One that is not there is removed.
    ///
    /// # Errors
    /// The storage refuses.
    pub async fn remove(&self, name: &str) -> Result<(), LabError> {
        remove_file(&self.place(name))?;
        match &self.bucket {
            None => Ok(()),
            Some(bucket) => match bucket.delete(&Name::from(name)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(LabError::Storage(error.to_string())),
            },
        }
    }

    /// Copies that a process left behind when it was ended.
    fn remove_copies(&self) -> Result<(), LabError> {
        for entry in fs::read_dir(&self.folder).map_err(LabError::io("read", &self.folder))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("copy-") {
                remove_file(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Pieces of what is kept, read where it is.
impl Files for Storage {
    fn read(&self, name: &str, range: Range<u64>) -> BoxFuture<'static, io::Result<Bytes>> {
        match &self.bucket {
            Some(bucket) => {
                let (bucket, name) = (Arc::clone(bucket), Name::from(name));
                Box::pin(async move {
                    bucket.get_range(&name, range).await.map_err(|error| match error {
                        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound.into(),
                        other => io::Error::other(other),
                    })
                })
            }
            None => {
                let path = self.place(name);
                let reading = tokio::task::spawn_blocking(move || piece(&path, &range));
                Box::pin(async move { reading.await.map_err(io::Error::other)? })
            }
        }
    }
}

fn piece(path: &Path, range: &Range<u64>) -> io::Result<Bytes> {
    let file = File::open(path)?;
    // Never more than there is, whatever is asked for.
    let end = range.end.min(file.metadata()?.len());
    let length = usize::try_from(end.saturating_sub(range.start)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes.into())
}

/// A new file for what is received.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.sync_all()?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

fn remove_file(path: &Path) -> Result<(), LabError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(LabError::io("remove", path)),
    }
}
