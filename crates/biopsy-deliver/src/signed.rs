//! Documents that are signed: Ed25519 over their exact text, which travels as it was signed, so that nothing has to be put into a
//! canonical form to be checked.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::encode::{decode, encode};

/// Most bytes of a document.
pub const MOST_BYTES: usize = 256 << 10;

/// What may be signed.
pub trait Document: Serialize + DeserializeOwned {
    /// What it is; signed with it, so that no document can be taken for another.
    const KIND: &'static str;
}

/// The private half of a key that signs.
pub struct Signer(SigningKey);

impl Signer {
    /// From 32 bytes that nobody can guess.
    #[must_use]
    pub fn of_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self::of_seed(&Zeroizing::new(crate::encode::random()))
    }

    /// What it is made again from.
    #[must_use]
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Its public half.
    #[must_use]
    pub fn key(&self) -> SignerKey {
        SignerKey(self.0.verifying_key())
    }

    /// Signs bytes under a name for what they are.
    #[must_use]
    pub fn sign(&self, kind: &str, bytes: &[u8]) -> String {
        encode(self.0.sign(&with_kind(kind, bytes)).to_bytes())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer(of {})", self.key())
    }
}

/// The public half of a key that signs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignerKey(VerifyingKey);

impl SignerKey {
    /// Whether it signed these bytes under that name. Keys and signatures of unusual form are refused.
    #[must_use]
    pub fn has_signed(&self, kind: &str, bytes: &[u8], signature: &str) -> bool {
        let Some(signature) = decode::<64>(signature).map(|bytes| Signature::from_bytes(&bytes)) else {
            return false;
        };
        self.0.verify_strict(&with_kind(kind, bytes), &signature).is_ok()
    }

    /// What people and links compare.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of("signer", &[self.to_string()])
    }
}

impl FromStr for SignerKey {
    type Err = SignedError;
    fn from_str(text: &str) -> Result<Self, SignedError> {
        decode(text)
            .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
            .filter(|key| !key.is_weak())
            .map(Self)
            .ok_or(SignedError::NoKey)
    }
}

impl fmt::Display for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignerKey({self})")
    }
}

fn with_kind(kind: &str, bytes: &[u8]) -> Vec<u8> {
    [b"biopsy ", kind.as_bytes(), b" 1\n", bytes].concat()
}

/// The first half of a SHA-256 of keys: enough that nobody finds others with the same, short enough for a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Of keys in their order, under a name for what they are.
    #[must_use]
    pub fn of(kind: &str, keys: &[String]) -> Self {
        let digest = Sha256::digest(with_kind(kind, keys.join("\n").as_bytes()));
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = SignedError;
    fn from_str(text: &str) -> Result<Self, SignedError> {
        decode(text).map(Self).ok_or(SignedError::NoKey)
    }
}

/// A document as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Signed<D> {
    /// What it is.
    kind: String,
    /// The document, as the text that was signed.
    document: String,
    /// By whom.
    signer: String,
    /// The signature.
    signature: String,
    #[serde(skip)]
    of: PhantomData<D>,
}

impl<D: Document> Signed<D> {
    /// Signs a document.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn new(document: &D, signer: &Signer) -> Result<Self, SignedError> {
        let document = serde_json::to_string(document).map_err(SignedError::NotRead)?;
        let signature = signer.sign(D::KIND, document.as_bytes());
        Ok(Self {
            kind: D::KIND.to_owned(),
            document,
            signer: signer.key().to_string(),
            signature,
            of: PhantomData,
        })
    }

    /// Reads one, without believing anything of it.
    ///
    /// # Errors
    /// It is no signed document.
    pub fn parse(text: &[u8]) -> Result<Self, SignedError> {
        if text.len() > MOST_BYTES {
            return Err(SignedError::TooLarge);
        }
        serde_json::from_slice(text).map_err(SignedError::NotRead)
    }

    /// As it is written into a file or an answer.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Four texts: there is nothing in it that JSON cannot hold.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The document and who signed it, if the signature is right. Whether that is who should have is the caller's to say.
    ///
    /// # Errors
    /// It is another kind of document, was changed, or is of a form that is not known.
    pub fn verify(&self) -> Result<(D, SignerKey), SignedError> {
        if self.kind != D::KIND {
            return Err(SignedError::OtherKind {
                found: self.kind.chars().take(40).collect(),
                wanted: D::KIND,
            });
        }
        let signer: SignerKey = self.signer.parse()?;
        if !signer.has_signed(D::KIND, self.document.as_bytes(), &self.signature) {
            return Err(SignedError::Changed);
        }
        let document = serde_json::from_str(&self.document).map_err(SignedError::NotRead)?;
        Ok((document, signer))
    }

    /// The same, of one signer only.
    ///
    /// # Errors
    /// Also: somebody else signed it.
    pub fn verify_by(&self, fingerprint: Fingerprint) -> Result<(D, SignerKey), SignedError> {
        let (document, signer) = self.verify()?;
        if signer.fingerprint() != fingerprint {
            return Err(SignedError::OtherSigner { found: signer.fingerprint(), wanted: fingerprint });
        }
        Ok((document, signer))
    }
}

/// Why a document is not believed.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// It has no form that is known.
    #[error("it is no signed document of biopsy, or of a newer version")]
    NotRead(#[source] serde_json::Error),
    /// It has more bytes than any.
    #[error("it has more than {MOST_BYTES} bytes")]
    TooLarge,
    /// It is signed, and something else.
    #[error("it is a `{found}`, not a `{wanted}`")]
    OtherKind {
        /// What it says that it is.
        found: String,
        /// What was wanted.
        wanted: &'static str,
    },
    /// Key or fingerprint cannot be read.
    #[error("its key is none")]
    NoKey,
    /// Text and signature do not belong together.
    #[error("its signature is wrong: it was changed after it was signed")]
    Changed,
    /// Somebody else signed it.
    #[error("it is signed by {found}, not by {wanted}")]
    OtherSigner {
        /// Who did.
        found: Fingerprint,
        /// Who should have.
        wanted: Fingerprint,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Note {
        text: String,
    }
    impl Document for Note {
        const KIND: &'static str = "note";
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Other {
        text: String,
    }
    impl Document for Other {
        const KIND: &'static str = "other";
    }

    fn note() -> (Signer, Signed<Note>) {
        let signer = Signer::generate();
        let signed = Signed::new(&Note { text: "read \"me\"\n".to_owned() }, &signer).unwrap();
        (signer, signed)
    }

    #[test]
    fn a_signed_document_is_believed_as_it_was() {
        let (signer, signed) = note();
        let again = Signed::<Note>::parse(signed.to_text().as_bytes()).unwrap();
        let (document, by) = again.verify_by(signer.key().fingerprint()).unwrap();
        assert_eq!((document.text.as_str(), by), ("read \"me\"\n", signer.key()));
    }

    #[test]
    fn each_changed_byte_is_noticed() {
        let (signer, signed) = note();
        let text = signed.to_text().into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            let Ok(parsed) = Signed::<Note>::parse(&changed) else { continue };
            if let Ok((document, _)) = parsed.verify_by(signer.key().fingerprint()) {
                // White space, or a bit that base64 has no use for: what is said is the same.
                assert_eq!(document, Note { text: "read \"me\"\n".to_owned() }, "{at}");
            }
        }
    }

    #[test]
    fn another_kind_and_another_signer_are_refused() {
        let (_, signed) = note();
        let error = Signed::<Other>::parse(signed.to_text().as_bytes()).unwrap().verify().unwrap_err();
        assert_eq!(error.to_string(), "it is a `note`, not a `other`");
        let posing = signed.to_text().replace("\"note\"", "\"other\"");
        assert!(matches!(
            Signed::<Other>::parse(posing.as_bytes()).unwrap().verify(),
            Err(SignedError::Changed)
        ));
        let other = Signer::generate().key().fingerprint();
        assert!(matches!(signed.verify_by(other), Err(SignedError::OtherSigner { .. })));
    }
}
