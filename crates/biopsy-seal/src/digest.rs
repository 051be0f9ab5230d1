//! What is known of a file once it was written: its size, its SHA-256, and that of its beginnings, so that a piece of it can be held against
//! what was sealed without reading any of it again.

use sha2::{Digest as _, Sha256};

use crate::behind::Look;

/// Bytes from one beginning to the next one, where there is room for all.
const LEAST_STEP: u64 = 1 << 20;
/// Most beginnings that are kept. Where there would be more, every other one goes.
const MOST: usize = 1024;

/// SHA-256 of beginnings of a file, each a step longer than the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beginnings {
    step: u64,
    sha256: Vec<[u8; 32]>,
}

impl Default for Beginnings {
    fn default() -> Self {
        Self { step: LEAST_STEP, sha256: Vec::new() }
    }
}

impl Beginnings {
    /// Bytes from one to the next.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// SHA-256 of the first `step`, twice, three times `step` bytes, and so on.
    #[must_use]
    pub fn all(&self) -> &[[u8; 32]] {
        &self.sha256
    }

    /// The next one. Those that are kept are halved once there is no room.
    fn push(&mut self, sha256: [u8; 32]) {
        self.sha256.push(sha256);
        if self.sha256.len() >= MOST {
            let mut number = 0_usize;
            self.sha256.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
            self.step *= 2;
        }
    }
}

/// A file as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of all of it.
    pub sha256: [u8; 32],
    /// And of its beginnings.
    pub beginnings: Beginnings,
}

/// The same of what has been written until now.
#[derive(Clone, Debug, Default)]
pub struct Digesting {
    bytes: u64,
    sha256: Sha256,
    beginnings: Beginnings,
}

impl Digesting {
    /// What is written next.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let step = self.beginnings.step;
            let left = usize::try_from(step - self.bytes % step).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            self.sha256.update(now);
            self.bytes += now.len() as u64;
            if now.len() == left {
                self.beginnings.push(self.sha256.clone().finalize().into());
            }
            bytes = later;
        }
    }

    /// That was all.
    #[must_use]
    pub fn finish(self) -> Digest {
        let Self { bytes, sha256, beginnings } = self;
        Digest { bytes, sha256: sha256.finalize().into(), beginnings }
    }
}

impl Look for Digesting {
    fn look(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sha256(bytes: &[u8]) -> [u8; 32] {
        Sha256::digest(bytes).into()
    }

    /// A step of one byte, so that little is enough to fill what is kept.
    fn of_steps(pieces: &[&[u8]]) -> Digest {
        let mut digesting = Digesting::default();
        digesting.beginnings.step = 1;
        pieces.iter().for_each(|piece| digesting.update(piece));
        digesting.finish()
    }

    proptest! {
        #[test]
        fn each_beginning_that_is_known_is_that_of_the_file(
            bytes in proptest::collection::vec(any::<u8>(), 0..5000), cut in 0.0..1.0_f64,
        ) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a length")]
            let cut = (bytes.len() as f64 * cut) as usize;
            let digest = of_steps(&[&bytes[..cut], &bytes[cut..]]);
            prop_assert_eq!((digest.bytes, digest.sha256), (bytes.len() as u64, sha256(&bytes)));
            let known = &digest.beginnings;
            for (number, sha256_of_beginning) in known.all().iter().enumerate() {
                let length = (number + 1) * known.step() as usize;
                prop_assert_eq!(*sha256_of_beginning, sha256(&bytes[..length]), "{} of {}", length, bytes.len());
            }
            prop_assert_eq!(known.all().len(), bytes.len() / known.step() as usize, "none is left out");
            prop_assert!(known.all().len() < MOST);
            // No file has less than half of what there is room for, unless all of it is known.
            prop_assert!(known.step() == 1 || known.all().len() >= MOST / 2 - 1);
        }
    }
}
