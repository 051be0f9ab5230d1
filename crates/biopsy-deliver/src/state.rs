//! What is known of something that is being sent, in a file beside it: enough to go on after a cut, a kill or a reboot. Of
//! the link it has all but the secret; its key proves who began to send, and opens nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encode::{decode, encode, random};
use crate::link::Link;
use crate::signed::Signer;

/// Most bytes of such a file.
const MOST_BYTES: u64 = 64 << 10;

/// How far sending is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// Of which lab.
    pub lab: String,
    /// To which request.
    pub request: String,
    key: String,
    /// Size of the sealed file.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// What the customer agreed to, as it was shown.
    pub consent: Vec<String>,
    /// Whom the lab tells by mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Where the lab takes it, once it has said so.
    pub upload: Option<String>,
}

impl State {
    /// Of something that is about to be sent.
    #[must_use]
    pub fn new(link: &Link, signer: &Signer, bytes: u64, sha256: [u8; 32], consent: Vec<String>) -> Self {
        Self {
            version: 1,
            lab: link.lab.clone(),
            request: link.id.clone(),
            key: encode(*signer.seed()),
            bytes,
            sha256: hexadecimal(&sha256),
            consent,
            contact: None,
            upload: None,
        }
    }

    /// Where it is kept for a sealed file.
    #[must_use]
    pub fn path_of(sealed: &Path) -> PathBuf {
        with_ending(sealed, ".sending.json")
    }

    /// Where the receipt is kept for a sealed file.
    #[must_use]
    pub fn receipt_of(sealed: &Path) -> PathBuf {
        with_ending(sealed, ".receipt.json")
    }

    /// What is kept for a sealed file; `None`: nothing.
    ///
    /// # Errors
    /// There is something that cannot be read.
    pub fn load(sealed: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(Self::path_of(sealed)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    /// Keeps it; the file is whole, as it was or as it is now, whenever the machine stops.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, sealed: &Path) -> io::Result<()> {
        write_whole(&Self::path_of(sealed), &serde_json::to_vec_pretty(self)?)
    }

    /// It is over.
    pub fn remove(sealed: &Path) {
        // What stays says that something is being sent that was received: the next try finds that out.
        let _ = fs::remove_file(Self::path_of(sealed));
    }

    /// It is of this link.
    #[must_use]
    pub fn is_of(&self, link: &Link) -> bool {
        self.version == 1 && self.lab == link.lab && self.request == link.id
    }

    /// The key that began to send.
    ///
    /// # Errors
    /// The file was changed.
    pub fn signer(&self) -> io::Result<Signer> {
        let seed = decode(&self.key).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Signer::of_seed(&seed))
    }
}

/// Writes a file whole: under another name first, on the disk, and only then under its own. Only its owner may read it.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = with_ending(path, &format!(".new-{}", encode(random::<6>())));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    if let Some(folder) = path.parent() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    written
}

/// Size and SHA-256 of what a reader gives.
///
/// # Errors
/// It cannot be read.
pub fn digest(from: &mut dyn Read) -> io::Result<(u64, [u8; 32])> {
    let mut sha256 = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok((bytes, sha256.finalize().into())),
            Ok(count) => {
                sha256.update(&buffer[..count]);
                bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// As `sha256sum` prints it.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::link::Secret;
    use crate::signed::Fingerprint;

    #[test]
    fn what_is_kept_for_going_on_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let sealed = folder.path().join("a.age");
        let link = Link {
            lab: "https://lab.example".to_owned(),
            id: encode([1; 16]),
            secret: Secret::generate(),
            signer: Fingerprint::of("signer", &["a".to_owned()]),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        };
        let state = State::new(&link, &Signer::generate(), 3, [0; 32], vec!["agreed".to_owned()]);
        state.save(&sealed).unwrap();
        let path = State::path_of(&sealed);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&**link.secret.to_text()), "the secret of the link is in {text}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(State::load(&sealed).unwrap().unwrap().is_of(&link));
    }
}
