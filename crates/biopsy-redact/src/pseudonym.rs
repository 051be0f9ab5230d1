//! The key of a bundle, the pseudonyms made with it, and the mask `[redacted:RULE:PSEUDONYM]`.

use std::fmt;
use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroize;

use crate::RedactError;

/// What every mask begins with.
pub const MASK_START: &str = "[redacted:";
/// Longest rule id, in bytes. Ids are `[a-z0-9-]`.
pub(crate) const RULE_ID_MAX: usize = 40;
/// Hex digits of a pseudonym.
pub(crate) const PSEUDONYM_LEN: usize = 8;

/// The random key of one bundle. Never stored and never printed: with it, pseudonyms of guessable values could be
/// reversed; without it, equal values are comparable inside the bundle and nowhere else.
#[derive(Clone)]
pub struct BundleKey([u8; 32]);

impl BundleKey {
    /// A fresh random key.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn random() -> Result<Self, RedactError> {
        let mut key = [0u8; 32];
        getrandom::fill(&mut key).map_err(RedactError::Random)?;
        Ok(Self(key))
    }

    /// A given key, for tests and for a recording that is continued by another process.
    #[must_use]
    pub fn from_bytes(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// HMAC-SHA256 of `value` under this key.
    pub(crate) fn mac(&self, value: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        mac.update(value);
        mac.finalize().into_bytes().into()
    }

    /// The pseudonym of `value`: the first 8 hex digits of its HMAC. The rule takes no part, so the same value found
    /// by two rules has one pseudonym.
    pub(crate) fn pseudonym(&self, value: &[u8]) -> Pseudonym {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mac = self.mac(value);
        let mut hex = [0u8; PSEUDONYM_LEN];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(mac) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        Pseudonym(hex)
    }
}

impl fmt::Debug for BundleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BundleKey(..)")
    }
}

impl Drop for BundleKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Eight hex digits that stand for a value inside one bundle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pseudonym([u8; PSEUDONYM_LEN]);

impl Pseudonym {
    /// The digits.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Appends `[redacted:RULE:PSEUDONYM]`.
pub(crate) fn push_mask(out: &mut Vec<u8>, rule: &str, pseudonym: Pseudonym) {
    out.extend_from_slice(MASK_START.as_bytes());
    out.extend_from_slice(rule.as_bytes());
    out.push(b':');
    out.extend_from_slice(&pseudonym.0);
    out.push(b']');
}

/// The same mask as a string.
pub(crate) fn mask(rule: &str, pseudonym: Pseudonym) -> String {
    format!("{MASK_START}{rule}:{}]", pseudonym.as_str())
}

/// Length of the mask that starts at `at`, if one does. Its end may be escaped, as in Markdown: `[redacted:host:1a2b3c4d\]`.
pub(crate) fn mask_at(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(MASK_START.as_bytes())?;
    let rule = rest
        .iter()
        .take(RULE_ID_MAX + 1)
        .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-')
        .count();
    if rule == 0 || rule > RULE_ID_MAX {
        return None;
    }
    let escape = usize::from(rest.get(rule + PSEUDONYM_LEN + 1) == Some(&b'\\'));
    let tail = rest.get(rule..rule + PSEUDONYM_LEN + 2 + escape)?;
    let digits = &tail[1..=PSEUDONYM_LEN];
    let well_formed = tail[0] == b':'
        && tail.last() == Some(&b']')
        && digits.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    well_formed.then_some(MASK_START.len() + rule + tail.len())
}

/// Every mask in `text`, in order. What lies in one is ours and is never searched again.
pub(crate) fn masks_in(text: &[u8]) -> Vec<Range<usize>> {
    memchr::memmem::find_iter(text, MASK_START.as_bytes())
        .filter_map(|start| mask_at(text, start).map(|length| start..start + length))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_pseudonym_under_one_key_only() {
        let one = BundleKey::from_bytes([1; 32]);
        let two = BundleKey::from_bytes([2; 32]);
        assert_eq!(one.pseudonym(b"hunter2"), one.pseudonym(b"hunter2"));
        assert_ne!(one.pseudonym(b"hunter2"), one.pseudonym(b"hunter3"));
        assert_ne!(one.pseudonym(b"hunter2"), two.pseudonym(b"hunter2"));
    }

    #[test]
    fn masks_are_recognised_and_imitations_are_not() {
        let key = BundleKey::from_bytes([1; 32]);
        let mut text = b"a ".to_vec();
        push_mask(&mut text, "some-rule", key.pseudonym(b"x"));
        text.extend_from_slice(
            b" [redacted:x:zz] [redacted::12345678] [redacted:A:12345678] [redacted:x:1234567",
        );
        let found = masks_in(&text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].start, 2);
        assert_eq!(&text[found[0].end..found[0].end + 2], b" [");
        let escaped = br"\[redacted:host:12345678\] [redacted:x:1234567\] [redacted:x:12345678\";
        let found = masks_in(escaped);
        assert_eq!((found.len(), found[0].clone()), (1, 1..26));
    }
}
