//! Somebody who has begun to log in: what has to be the same when he comes back. It is in a cookie of his, sealed, so that nothing is written down for
//! whoever only looks; that it was used is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biopsy_deliver::{encode, random};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::LabError;
use crate::place::{Lab, now};

/// How long it may take, in seconds.
pub const GOOD_FOR: i64 = 600;
const NONCE: usize = 24;
const OF: &[u8] = b"somebody who logs in";

/// One attempt.
#[derive(Serialize, Deserialize)]
pub struct Attempt {
    /// The answer has it: it is to this attempt.
    pub(super) state: String,
    /// The ID token has it: it was made for this attempt.
    pub(super) nonce: String,
    /// Whoever takes the code has it: nobody else has use of a code (PKCE).
    pub(super) verifier: String,
    until: i64,
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attempt")
    }
}

impl Attempt {
    /// A new one.
    #[must_use]
    pub fn begin() -> Self {
        let word = || encode(random::<32>());
        Self { state: word(), nonce: word(), verifier: word(), until: now() + GOOD_FOR }
    }

    /// What the provider is told of the verifier.
    pub(super) fn challenge(&self) -> String {
        encode(Sha256::digest(self.verifier.as_bytes()))
    }

    /// For a cookie.
    ///
    /// # Errors
    /// There is no key.
    pub fn sealed(&self, lab: &Lab) -> Result<String, LabError> {
        let damaged = LabError::Damaged { what: "an attempt to log in" };
        let Ok(text) = serde_json::to_vec(self) else { return Err(damaged) };
        let nonce = random::<NONCE>();
        let sealed = XChaCha20Poly1305::new((&lab.attempts_key()?).into())
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: &text, aad: OF })
            .map_err(|_| damaged)?;
        Ok(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// From a cookie, and for this answer: `None`, where it was begun in another browser or too long ago. Once: whoever comes second with the same gets `None`.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn taken(lab: &Lab, cookie: &str, state: &str) -> Result<Option<Self>, LabError> {
        let Some(attempt) = Self::opened(cookie, &lab.attempts_key()?) else { return Ok(None) };
        let digest = |text: &str| Sha256::digest(text.as_bytes());
        // Of digests: how long that takes says nothing.
        if digest(&attempt.state) != digest(state) || attempt.until <= now() {
            return Ok(None);
        }
        let mut within = lab.store.begin().await?;
        sqlx::query("DELETE FROM used_attempts WHERE until <= $1").bind(now()).execute(&mut *within).await?;
        let first = sqlx::query(
            "INSERT INTO used_attempts (digest, until) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING",
        )
        .bind(digest(state).as_slice())
        .bind(attempt.until)
        .execute(&mut *within)
        .await?;
        within.commit().await?;
        Ok((first.rows_affected() == 1).then_some(attempt))
    }

    fn opened(cookie: &str, key: &[u8; 32]) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE)?;
        let text = XChaCha20Poly1305::new(key.into())
            .decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: OF })
            .ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_the_standards() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let attempt = Attempt { verifier, ..Attempt::begin() };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
