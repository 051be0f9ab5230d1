//! The link of a request: where, which, the secret that opens it, and whom to believe.
//!
//! ```text
//! https://lab.example/r/ID#SECRET.SIGNER.READERS
//! ```
//!
//! What is behind `#` stays with whoever has the link: programs that fetch pages do not send it, so it is in no log of a proxy. The two
//! fingerprints say who must have signed the request and for which keys, so that whoever takes over the lab, or stands between,
//! cannot put his own key there unseen.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::encode::{decode, encode, random};
use crate::signed::Fingerprint;

/// The secret of a link. The lab keeps its digest alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl Secret {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self(Zeroizing::new(random()))
    }

    /// As it is in links and in the header of a call.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(encode(*self.0))
    }

    /// What the lab keeps of it. It has 256 random bits: a quick digest is enough.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(*self.0).into()
    }
}

impl FromStr for Secret {
    type Err = LinkError;
    fn from_str(text: &str) -> Result<Self, LinkError> {
        decode(text).map(|bytes| Self(Zeroizing::new(bytes))).ok_or(LinkError::Incomplete)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Address of the lab, without a slash at its end: `https://lab.example`.
    pub lab: String,
    /// Which request.
    pub id: String,
    /// What opens it.
    pub secret: Secret,
    /// Who must have signed it.
    pub signer: Fingerprint,
    /// The keys that it must be sealed to.
    pub readers: Fingerprint,
}

impl Link {
    /// The whole of it, secret included.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let secret = self.secret.to_text();
        Zeroizing::new(format!("{}/r/{}#{}.{}.{}", self.lab, self.id, *secret, self.signer, self.readers))
    }

    /// Without what opens it, for messages and files.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}/r/{}", self.lab, self.id)
    }

    /// Whether what is sent there can be seen by others on the way. It is sealed all the same; the secret is not.
    #[must_use]
    pub fn is_private(&self) -> bool {
        is_private(&self.lab)
    }
}

/// Whether what goes to this address is seen by nobody on the way: by https, or to this machine.
#[must_use]
pub fn is_private(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("http://") else { return true };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let text = text.trim();
        let (address, fragment) = text.split_once('#').ok_or(LinkError::Incomplete)?;
        let is_web = address.starts_with("https://") || address.starts_with("http://");
        // No account in it, nothing asked of it, nothing that is no address: it goes into calls as it is.
        let is_plain =
            address.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?\\\"<>{}|^`".contains(&byte));
        let (lab, id) = address.rsplit_once("/r/").ok_or(LinkError::NoLink)?;
        if !is_web || !is_plain || lab.ends_with('/') || decode::<16>(id).is_none() {
            return Err(LinkError::NoLink);
        }
        let parts: Vec<&str> = fragment.split('.').collect();
        let [secret, signer, readers] = parts.as_slice() else { return Err(LinkError::Incomplete) };
        Ok(Self {
            lab: lab.to_owned(),
            id: (*id).to_owned(),
            secret: secret.parse()?,
            signer: signer.parse().map_err(|_| LinkError::Incomplete)?,
            readers: readers.parse().map_err(|_| LinkError::Incomplete)?,
        })
    }
}

/// Why a text is no link. It never quotes the text, which may hold a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkError {
    /// It is something else.
    #[error("it is no link of a request, which looks like `https://LAB/r/...#...`")]
    NoLink,
    /// The part behind `#` is missing or cut off.
    #[error("the link is not whole: what is behind `#` belongs to it, and has three parts")]
    Incomplete,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        Link {
            lab: "https://lab.example".to_owned(),
            id: encode([1; 16]),
            secret: Secret::generate(),
            signer: Fingerprint::of("signer", &["a".to_owned()]),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        }
    }

    #[test]
    fn a_link_is_written_and_read_again() {
        let link = link();
        assert_eq!(link.to_text().parse::<Link>().unwrap(), link);
        assert!(!link.shown().contains(&**link.secret.to_text()));
        assert!(!format!("{link:?}").contains(&**link.secret.to_text()));
    }

    #[test]
    fn what_is_no_link_is_refused() {
        let whole = link().to_text();
        for cut in 0..whole.len() {
            assert!(whole[..cut].parse::<Link>().is_err(), "{cut}");
        }
        for (from, to) in [
            ("https://", "ftp://"),
            ("https://", "https://me@"),
            ("lab.example", "lab.example/?x="),
            ("lab.example", "lab example"),
            ("/r/", "/r/../"),
            ("/r/", "//r/"),
        ] {
            assert!(whole.replacen(from, to, 1).parse::<Link>().is_err(), "{to}");
        }
    }

    #[test]
    fn who_can_look_on_is_known() {
        for (lab, private) in [
            ("https://lab.example", true),
            ("http://127.0.0.1:7788", true),
            ("http://[::1]:7788", true),
            ("http://localhost:1", true),
            ("http://lab.example", false),
            ("http://127.0.0.1.lab.example", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(Link { lab: lab.to_owned(), ..link() }.is_private(), private, "{lab}");
        }
    }
}
