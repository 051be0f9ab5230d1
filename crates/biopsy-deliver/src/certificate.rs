//! What a lab says that it deleted, and how anybody checks it without a network.

use serde::{Deserialize, Serialize};

use crate::receipt::Receipt;
use crate::signed::{Document, Fingerprint, Signed, SignedError, SignerKey};

/// A certificate of deletion.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Certificate {
    /// Which case.
    pub case: String,
    /// What was received for it.
    pub received: Vec<Sent>,
    /// The public key that all of it was sealed to, and whose private half is gone.
    pub case_key: String,
    /// Keys that it was sealed to within that, and that the lab never had: sealed mode. None: the lab could read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed_to: Vec<String>,
    /// The name of the key that the private half was wrapped with, in every copy of the lab's database there may be, and that was destroyed.
    pub destroyed_key: String,
    /// Each place that held something of the case, and what became of it.
    pub places: Vec<Removed>,
    /// Who read something of it before, by the lab's log.
    pub reads: Vec<Read>,
    /// When, in seconds since 1970.
    pub deleted: i64,
    /// Who asked for it.
    pub by: String,
    /// Why, in words of whoever asked.
    pub reason: String,
    /// The line of the lab's log that says so.
    pub log_head: String,
    /// What it does not say, so that nobody reads it into it.
    pub limits: String,
}

/// Something that was received.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Its request.
    pub request: String,
    /// Size of the sealed file.
    pub bytes: u64,
    /// SHA-256 of the sealed file.
    pub sha256: String,
}

/// Something that was removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Removed {
    /// Its name in the lab's storage, which says nothing.
    pub name: String,
    /// What it was.
    pub kind: String,
    /// What became of it.
    pub result: String,
}

/// Somebody read something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Read {
    /// When, in seconds since 1970.
    pub when: i64,
    /// Who.
    pub who: String,
    /// What.
    pub what: String,
}

/// What every certificate says of its limits.
pub const LIMITS: &str = "it says that the lab's copies cannot be read any more, back-ups included; it cannot say that nobody who read \
                          the case before kept a copy";

/// The same of a case that the lab could not read itself.
pub const LIMITS_SEALED: &str = "it says that the lab's copies cannot be opened any more, back-ups of them included, by whoever has a key that \
                                 they were sealed to either; it cannot say that nobody who fetched the case before kept a copy, nor that none is in a \
                                 back-up that was made while it was arriving: those who have such a key can read these";

impl Document for Certificate {
    const KIND: &'static str = "deletion certificate";
}

/// What checking a certificate has shown.
#[derive(Debug)]
pub struct Verified {
    /// The certificate; its signature is right.
    pub certificate: Certificate,
    /// Who signed it.
    pub signer: SignerKey,
    /// Somebody said who should have signed it, and it is the same.
    pub is_known_signer: bool,
}

/// Why a certificate is worth nothing.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It is none, was changed, or is by somebody else.
    #[error("the certificate cannot be believed")]
    Certificate(#[source] SignedError),
    /// The receipt is none, or was changed.
    #[error("the receipt cannot be believed")]
    Receipt(#[source] SignedError),
    /// Both are right, and of different things.
    #[error("the certificate is not of what the receipt is for: {0}")]
    OfSomethingElse(String),
}

/// Checks a certificate: by itself, against a fingerprint, and against the receipt of what was sent.
///
/// # Errors
/// [`CertificateError`].
pub fn verify(
    certificate: &[u8],
    signer: Option<Fingerprint>,
    receipt: Option<&[u8]>,
) -> Result<Verified, CertificateError> {
    let signed = Signed::<Certificate>::parse(certificate).map_err(CertificateError::Certificate)?;
    let (certificate, by) = match signer {
        Some(wanted) => signed.verify_by(wanted),
        None => signed.verify(),
    }
    .map_err(CertificateError::Certificate)?;
    let mut is_known_signer = signer.is_some();
    if let Some(receipt) = receipt {
        let (receipt, receipted_by) = Signed::<Receipt>::parse(receipt)
            .and_then(|signed| signed.verify())
            .map_err(CertificateError::Receipt)?;
        let of = |what: &str| Err(CertificateError::OfSomethingElse(what.to_owned()));
        if receipted_by != by {
            return of("another lab signed the receipt");
        }
        if receipt.case != certificate.case {
            return of("it is another case");
        }
        if !certificate
            .received
            .iter()
            .any(|sent| sent.sha256 == receipt.sha256 && sent.bytes == receipt.bytes)
        {
            return of("what was sent is not among what was deleted");
        }
        if certificate.deleted < receipt.received {
            return of("it was deleted before it was received");
        }
        is_known_signer = true;
    }
    Ok(Verified { certificate, signer: by, is_known_signer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed::Signer;

    fn receipt() -> Receipt {
        Receipt {
            request: "r".to_owned(),
            case: "4711".to_owned(),
            bytes: 10,
            sha256: "ab".to_owned(),
            received: 100,
            log_head: String::new(),
        }
    }

    fn certificate() -> Certificate {
        Certificate {
            case: "4711".to_owned(),
            received: vec![Sent { request: "r".to_owned(), bytes: 10, sha256: "ab".to_owned() }],
            case_key: "age1".to_owned(),
            sealed_to: Vec::new(),
            destroyed_key: "k".to_owned(),
            places: Vec::new(),
            reads: Vec::new(),
            deleted: 200,
            by: "operator".to_owned(),
            reason: "done".to_owned(),
            log_head: String::new(),
            limits: LIMITS.to_owned(),
        }
    }

    fn text<D: Document>(document: &D, signer: &Signer) -> Vec<u8> {
        Signed::new(document, signer).unwrap().to_text().into_bytes()
    }

    #[test]
    fn a_certificate_belongs_to_its_receipt() {
        let lab = Signer::generate();
        let (good, paid) = (text(&certificate(), &lab), text(&receipt(), &lab));
        assert!(!verify(&good, None, None).unwrap().is_known_signer, "anybody can make a key");
        assert!(verify(&good, None, Some(&paid)).unwrap().is_known_signer);
        assert!(verify(&good, Some(lab.key().fingerprint()), None).unwrap().is_known_signer);
        let stranger = Signer::generate();
        assert!(verify(&good, Some(stranger.key().fingerprint()), None).is_err());
        assert!(verify(&good, None, Some(&text(&receipt(), &stranger))).is_err());
        for other in [
            Receipt { case: "4712".to_owned(), ..receipt() },
            Receipt { sha256: "cd".to_owned(), ..receipt() },
            Receipt { bytes: 11, ..receipt() },
            Receipt { received: 201, ..receipt() },
        ] {
            let verified = verify(&good, None, Some(&text(&other, &lab)));
            assert!(matches!(verified, Err(CertificateError::OfSomethingElse(_))), "{other:?}: {verified:?}");
        }
        assert!(verify(&paid, None, None).is_err(), "a receipt is no certificate");
    }
}
