//! The sealed file: what leaves a customer's machine is encrypted to a public key before it touches a network or a drive.
//!
//! The format is age v1 (<https://age-encryption.org/v1>), by the crate of its second implementation: stock `age -d` opens what we
//! seal, and we open what `age -r` seals. [`Sealer`] writes in one pass and keeps nothing; [`SealedFile`] reads at any place, because
//! the payload is chunks of 64 KiB that are each encrypted by themselves: one member of a sealed bundle is read
//! without decrypting the others, and nothing is decrypted to a disk.
//!
//! What it promises: a file that was cut off or changed anywhere is an error, never other bytes.
//! What it does not: say who sealed it. Anybody can, who has the public key.

#![forbid(unsafe_code)]

mod behind;
mod digest;
mod key;
mod open;
mod seal;

pub use digest::{Beginnings, Digest, Digesting};
pub use key::{Identity, KeyError, Recipient};
pub use open::{SealedFile, UnsealError, fuzz_sealed, is_sealed, is_sealed_file};
pub use seal::{SealError, Sealed, Sealer, SealingFile, seal_file};
