//! What a lab says that it got.

use serde::{Deserialize, Serialize};

use crate::signed::Document;

/// A receipt: signed by the lab, kept by the customer beside what was sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// The request that it answers.
    pub request: String,
    /// The case.
    pub case: String,
    /// Size of the sealed file.
    pub bytes: u64,
    /// SHA-256 of the sealed file, in hexadecimal digits.
    pub sha256: String,
    /// When all of it was on the lab's disk, in seconds since 1970.
    pub received: i64,
    /// The newest line of the lab's log at that moment: what the lab says later of the time before must lead here.
    pub log_head: String,
}

impl Document for Receipt {
    const KIND: &'static str = "receipt";
}
