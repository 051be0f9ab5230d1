//! Passwords: Argon2id, with the parameters that OWASP names for a server.

use std::sync::LazyLock;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use biopsy_deliver::random;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::error::LabError;

/// Fewest characters: NIST SP 800-63B asks for 8, and for 15 where there is no second factor.
pub const SHORTEST: usize = 12;
/// Most bytes. Nobody types more, and each is digested.
const LONGEST: usize = 1024;

/// Each check takes 19 MiB and some 30 ms: so many at once, whoever knocks.
static AT_ONCE: Semaphore = Semaphore::const_new(2);
/// Of a password that nobody has: whoever asks for a name that is not there waits as long.
static OF_NOBODY: LazyLock<String> = LazyLock::new(|| hash_now(&biopsy_deliver::encode(random::<32>())));

fn argon2() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
}

fn hash_now(password: &str) -> String {
    let salt = SaltString::encode_b64(&random::<16>()).expect("16 bytes are a salt");
    let hash =
        argon2().hash_password(password.as_bytes(), &salt).expect("the parameters are the crate's own");
    hash.to_string()
}

/// Why a password is not taken; `None`: it is.
#[must_use]
pub fn refuses(password: &str, name: &str) -> Option<&'static str> {
    let lower = password.to_lowercase();
    if password.chars().count() < SHORTEST {
        return Some("a password has 12 characters or more");
    }
    if password.len() > LONGEST {
        return Some("a password has 1024 bytes at most");
    }
    let first = lower.chars().next();
    if lower.contains(&name.to_lowercase()) || lower.chars().all(|one| Some(one) == first) {
        return Some("a password is not the name, and not one letter many times");
    }
    None
}

/// To be kept.
pub(super) async fn hash(password: Zeroizing<String>) -> Result<String, LabError> {
    let _turn = AT_ONCE.acquire().await.map_err(|_| LabError::Damaged { what: "a password" })?;
    tokio::task::spawn_blocking(move || hash_now(&password))
        .await
        .map_err(|_| LabError::Damaged { what: "a password" })
}

/// Whether it is the password; `kept`: none, if there is nobody, which takes as long.
pub(super) async fn is_right(password: Zeroizing<String>, kept: Option<String>) -> Result<bool, LabError> {
    if password.len() > LONGEST {
        return Ok(false);
    }
    let _turn = AT_ONCE.acquire().await.map_err(|_| LabError::Damaged { what: "a password" })?;
    let check = move || {
        let is_somebody = kept.is_some();
        let kept = kept.unwrap_or_else(|| OF_NOBODY.clone());
        let is_same = PasswordHash::new(&kept)
            .is_ok_and(|kept| argon2().verify_password(password.as_bytes(), &kept).is_ok());
        is_same & is_somebody
    };
    tokio::task::spawn_blocking(check).await.map_err(|_| LabError::Damaged { what: "a password" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_easily_guessed_is_not_taken() {
        for (password, is_taken) in [
            ("short", false),
            ("elevenchars", false),
            ("twelve chars", true),
            ("Alice-the-first-one", false),
            ("aaaaaaaaaaaaaaa", false),
            ("pässwörter!!", true),
        ] {
            assert_eq!(refuses(password, "alice").is_none(), is_taken, "{password}");
        }
        assert!(refuses(&"ab".repeat(600), "alice").is_some());
    }

    #[tokio::test]
    async fn a_password_is_right_or_wrong_and_nobody_has_none() {
        let word = |text: &str| Zeroizing::new(text.to_owned());
        let kept = hash(word("correct horse battery")).await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert_ne!(kept, hash(word("correct horse battery")).await.unwrap(), "each has a salt");
        assert!(is_right(word("correct horse battery"), Some(kept.clone())).await.unwrap());
        assert!(!is_right(word("correct horse batterY"), Some(kept)).await.unwrap());
        assert!(!is_right(word("anything"), None).await.unwrap());
        assert!(!is_right(word("anything"), Some("not a hash".to_owned())).await.unwrap());
    }
}
