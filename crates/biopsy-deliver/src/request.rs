//! What a lab asks of a customer.

use biopsy_seal::Recipient;
use serde::{Deserialize, Serialize};

use crate::recipe::Recipe;
use crate::signed::{Document, Fingerprint};

/// A request: signed by the lab, shown to the customer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Its name in links.
    pub id: String,
    /// Who asks, in words of the lab.
    pub lab: String,
    /// The case that it is for.
    pub case: String,
    /// What is asked for.
    pub recipe: Recipe,
    /// Who will be able to read it.
    pub readers: Vec<Reader>,
    /// After this second since 1970 it is over.
    pub expires: i64,
    /// Most bytes that are taken.
    pub max_bytes: u64,
    /// For how many days what was sent is kept, unless it is deleted before.
    pub kept_days: u32,
}

/// Somebody who will be able to read what is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reader {
    /// Who, in words of the lab.
    pub name: String,
    /// The key that it is sealed to.
    pub key: String,
}

impl Document for Request {
    const KIND: &'static str = "request";
}

impl Request {
    /// What the link says of the keys that it is sealed to.
    #[must_use]
    pub fn readers_fingerprint(&self) -> Fingerprint {
        let keys: Vec<String> = self.readers.iter().map(|reader| reader.key.clone()).collect();
        Fingerprint::of("readers", &keys)
    }

    /// The keys that it is to be sealed to.
    ///
    /// # Errors
    /// There is none, or one is no key.
    pub fn recipients(&self) -> Result<Vec<Recipient>, biopsy_seal::KeyError> {
        if self.readers.is_empty() {
            return Err(biopsy_seal::KeyError::NoRecipient);
        }
        self.readers.iter().map(|reader| reader.key.parse()).collect()
    }
}
