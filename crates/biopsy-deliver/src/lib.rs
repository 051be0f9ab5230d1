//! Puts a sealed file where it was asked for; and the signed documents around it.
//!
//! ```text
//!  lab:      Request, signed ──► Link (address, id, secret, fingerprints) ──► by mail, by phone
//!  customer: Link ──► fetch: is it the lab's signature, are these its keys? ──► consent ──► seal ──► Sender::send (tus 1.0)
//!  lab:      Receipt, signed ──► kept beside the sealed file ... later Certificate, signed ──► verify, offline
//! ```
//!
//! It knows nothing of what is in the sealed file. It opens sockets, to the lab that a link or a command line names and to nobody else; only
//! `biopsy send` and `biopsy open --from` call it.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
mod encode;
mod error;
pub mod fetch;
pub mod http;
pub mod link;
mod pace;
pub mod parcel;
mod pieces;
pub mod policy;
pub mod proof;
pub mod receipt;
pub mod recipe;
pub mod request;
pub mod signed;
pub mod state;

pub use certificate::Certificate;
pub use client::Sender;
pub use encode::{decode, encode, random};
pub use error::SendError;
pub use link::{Link, LinkError, Secret};
pub use pace::Progress;
pub use parcel::{Parcel, ParcelError};
pub use policy::{InForce, Policy, PolicyError};
pub use receipt::Receipt;
pub use recipe::{Kind, Recipe};
pub use request::Request;
pub use signed::{Fingerprint, Signed, SignedError, Signer, SignerKey};

/// How a file begins that holds a report alone, as text: what the customer's side made of a file that stays there.
pub const REPORT_ALONE: &[u8; 16] = b"biopsy report 1\n";
