//! What is known of something that is being sent, in a file beside it: enough to go on after a cut, a kill or a reboot. Of
//! the link it has all but the secret; its key proves who began to send, and opens nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use biopsy_seal::Beginnings;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encode::{decode, encode, random};
use crate::link::Link;
use crate::signed::Signer;

/// Most bytes of such a file.
const MOST_BYTES: u64 = 256 << 10;

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
    /// What was known of its beginnings when it was sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beginnings: Option<Kept>,
}

/// Beginnings as they are written: SHA-256 of the first `step`, twice, three times `step` bytes, and so on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Kept {
    step: u64,
    sha256: Vec<String>,
}

impl Kept {
    /// The last of which something is said that is not behind `end`, with what is said.
    fn last(&self, end: u64) -> Option<(u64, &str)> {
        let count = usize::try_from(end.checked_div(self.step)?).unwrap_or(usize::MAX).min(self.sha256.len());
        let sha256 = self.sha256.get(count.checked_sub(1)?)?;
        Some((self.step * count as u64, sha256))
    }
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
            beginnings: None,
        }
    }

    /// Keeps what is known of the beginnings of the sealed file.
    pub fn know(&mut self, beginnings: &Beginnings) {
        let sha256 = beginnings.all().iter().map(|one| encode(*one)).collect();
        self.beginnings = Some(Kept { step: beginnings.step(), sha256 });
    }

    /// The last place up to `end` at which something is known of all before it; 0: nowhere.
    pub(crate) fn last_known(&self, end: u64) -> u64 {
        match end == self.bytes {
            true => end,
            false => self.beginnings.as_ref().and_then(|kept| kept.last(end)).map_or(0, |(at, _)| at),
        }
    }

    /// SHA-256 of the first `bytes` bytes of the sealed file, where it is known.
    pub(crate) fn prefix(&self, bytes: u64) -> Option<[u8; 32]> {
        if bytes == self.bytes {
            return of_hexadecimal(&self.sha256);
        }
        let (at, sha256) = self.beginnings.as_ref()?.last(bytes)?;
        decode(sha256).filter(|_| at == bytes)
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

/// What [`hexadecimal`] wrote of 32 bytes.
fn of_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
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
