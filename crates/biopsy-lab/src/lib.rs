//! The vendor's side of a delivery: what is asked for, what arrives, who may read it, and that it is gone when it has served.
//!
//! ```text
//!  request new ─► link ──────────────► customer
//!  intake (tus 1.0) ◄──── sealed ───── customer      storage: ciphertext alone
//!     └─ complete: digest, receipt, job and notice in one transaction
//!          ├─ work: a process of its own, without network and files, reads the sealed file ─► report, sealed to the case
//!          ├─ derived: rows of its report, beside those of all others, in files under keys of their own
//!          └─ notices: webhooks
//!  case delete ─► the wrap of the case's key is dropped, the wrapping key is replaced and destroyed ─► certificate
//! ```
//!
//! Each case has a key pair. What is sent, and what is made of it, is sealed to its public half; its private half is in the
//! database, wrapped by a key that is in neither database nor storage. So a back-up of both does not hold a case that was deleted since:
//! the key that its wrap in there needs is destroyed. In sealed mode (`sealed`), what is sent is sealed to keys that the lab does not have, within.

#![forbid(unsafe_code)]

pub mod audit;
pub mod cases;
pub mod delete;
pub mod derived;
pub mod error;
pub mod intake;
pub mod keys;
pub mod notices;
pub mod open;
pub mod people;
pub mod place;
pub mod readers;
pub mod requests;
pub mod sealed;
pub mod serve;
pub mod signatures;
pub mod storage;
pub mod store;
pub mod web;
pub mod work;
pub mod worker;

pub use error::LabError;
pub use place::{Elsewhere, Lab};
