//! Keys: the public half that everybody may have, and the private half that opens.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use age::secrecy::ExposeSecret;
use zeroize::Zeroizing;

/// Most bytes of a file of keys: it has a line each, and comments.
const MOST_KEY_BYTES: u64 = 64 << 10;

/// To whom something is sealed: `age1...`.
#[derive(Clone, PartialEq, Eq)]
pub struct Recipient(pub(crate) age::x25519::Recipient);

impl FromStr for Recipient {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        text.trim().parse().map(Self).map_err(|_| KeyError::NoRecipient)
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.0)
    }
}

/// What opens: the private half.
#[derive(Clone)]
pub struct Identity(pub(crate) age::x25519::Identity);

impl Identity {
    /// A new one, from the system's random numbers.
    #[must_use]
    pub fn generate() -> Self {
        Self(age::x25519::Identity::generate())
    }

    /// Its public half.
    #[must_use]
    pub fn recipient(&self) -> Recipient {
        Recipient(self.0.to_public())
    }

    /// As it is written into a file: `AGE-SECRET-KEY-1...`.
    #[must_use]
    pub fn secret_text(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.to_string().expose_secret().to_owned())
    }

    /// The first key of a file as `age-keygen` writes it.
    ///
    /// # Errors
    /// It cannot be read, or has none.
    pub fn of_file(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::Io { path: path.to_owned(), source };
        let mut text = Zeroizing::new(String::new());
        let file = File::open(path).map_err(failed)?;
        file.take(MOST_KEY_BYTES).read_to_string(&mut text).map_err(failed)?;
        text.parse()
    }
}

impl FromStr for Identity {
    type Err = KeyError;

    /// Of the text of such a file: empty lines and comments are passed over.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.next().and_then(|line| line.parse().ok()).map(Self).ok_or(KeyError::NoIdentity)
    }
}

impl fmt::Debug for Identity {
    /// Its public half: the other is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity(of {})", self.0.to_public())
    }
}

/// Why a text is no key. It never quotes the text.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A recipient was wanted.
    #[error("it is no public key: that is one word, `age1` and 58 letters and digits")]
    NoRecipient,
    /// An identity was wanted.
    #[error("it holds no key that opens: that is a line which begins with `AGE-SECRET-KEY-1`")]
    NoIdentity,
    /// The file of a key cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_read_again_and_are_not_shown() {
        let identity = Identity::generate();
        let file = format!("# created: today\n\n  {}\n", *identity.secret_text());
        let again: Identity = file.parse().unwrap();
        assert_eq!(again.recipient(), identity.recipient());
        assert_eq!(identity.recipient().to_string().parse::<Recipient>().unwrap(), identity.recipient());
        assert!(!format!("{identity:?}").contains("SECRET"));
    }

    #[test]
    fn what_is_no_key_is_refused_without_quoting_it() {
        for text in ["", "# only\n", "age1", "AGE-SECRET-KEY-1QQQ", "hunter2"] {
            assert!(matches!(text.parse::<Identity>(), Err(KeyError::NoIdentity)), "{text}");
            let error = text.parse::<Recipient>().unwrap_err();
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn of_a_file_the_first_key_counts_and_not_more_of_it_is_read_than_a_file_of_keys_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let [first, second] = [Identity::generate(), Identity::generate()];
        let (one, two) = (first.secret_text(), second.secret_text());
        let of = |text: String| {
            std::fs::write(&path, text).unwrap();
            Identity::of_file(&path)
        };
        for text in [format!("{}\n{}\n", *one, *two), format!("# a\r\n\r\n{}\r\n# b", *one)] {
            assert_eq!(of(text).unwrap().recipient(), first.recipient());
        }
        // A file of that size is no file of keys.
        let far = format!("#{}\n{}", "x".repeat(MOST_KEY_BYTES as usize), *one);
        assert!(matches!(of(far), Err(KeyError::NoIdentity)));
        // A public key opens nothing, and what stands behind it is not looked for.
        assert!(matches!(of(format!("{}\n{}", first.recipient(), *one)), Err(KeyError::NoIdentity)));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        for (path, kind) in [
            (path.clone(), io::ErrorKind::InvalidData),
            (folder.path().join("none"), io::ErrorKind::NotFound),
        ] {
            let error = Identity::of_file(&path).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert!(matches!(error, KeyError::Io { source, .. } if source.kind() == kind));
        }
    }
}
