//! The proof that a call comes from who redeemed the link first: a signature over what the call says. A stolen link is of no use after the
//! first contact, and a call that somebody caught can be repeated, but not changed.

use crate::signed::{Signer, SignerKey};

/// The header with the public key.
pub const KEY: &str = "biopsy-key";
/// The header with the signature.
pub const PROOF: &str = "biopsy-proof";
/// The headers of a call that are signed, in this order.
pub const SIGNED_HEADERS: [&str; 4] =
    ["upload-offset", "upload-length", "upload-checksum", "upload-metadata"];

/// Signs a call.
#[must_use]
pub fn sign<'a>(
    signer: &Signer,
    method: &str,
    path: &str,
    header: impl Fn(&str) -> Option<&'a str>,
) -> String {
    signer.sign("call", text(method, path, header).as_bytes())
}

/// Whether that key signed this call.
#[must_use]
pub fn is_right<'a>(
    key: &SignerKey,
    proof: &str,
    method: &str,
    path: &str,
    header: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    key.has_signed("call", text(method, path, header).as_bytes(), proof)
}

fn text<'a>(method: &str, path: &str, header: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut text = format!("{method}\n{path}");
    for name in SIGNED_HEADERS {
        text.push('\n');
        // No header has a line end in it.
        text.push_str(header(name).unwrap_or("-"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_call() {
        let signer = Signer::generate();
        let offset = |value: &'static str| move |name: &str| (name == "upload-offset").then_some(value);
        let proof = sign(&signer, "PATCH", "/u/1", offset("5"));
        assert!(is_right(&signer.key(), &proof, "PATCH", "/u/1", offset("5")));
        assert!(!is_right(&signer.key(), &proof, "PATCH", "/u/1", offset("6")));
        assert!(!is_right(&signer.key(), &proof, "DELETE", "/u/1", offset("5")));
        assert!(!is_right(&signer.key(), &proof, "PATCH", "/u/2", offset("5")));
        assert!(!is_right(&Signer::generate().key(), &proof, "PATCH", "/u/1", offset("5")));
    }
}
