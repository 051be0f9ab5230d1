//! The stable output schema of `report.json`.

use serde::{Deserialize, Serialize};

/// A report.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of the schema.
    pub version: u32,
}
