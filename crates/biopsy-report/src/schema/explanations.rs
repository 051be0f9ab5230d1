//! What findings mean: the document of `biopsy explain --json`.

use serde::{Deserialize, Serialize};

use super::Finding;

/// What findings mean, and where they were found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanations {
    /// Always `biopsy-explanations`.
    pub schema: String,
    /// Version of the schema: 1.
    pub version: u32,
    /// One entry for each id that was asked for; of all, in the order of the catalogue.
    pub findings: Vec<Explanation>,
}

/// What one finding means.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    /// Its stable id.
    pub id: String,
    /// It in one sentence.
    pub summary: String,
    /// What it means, and what it is easily taken for.
    pub means: String,
    /// When it is said, by kind of evidence.
    pub said: Vec<Said>,
    /// What one would see if it were wrong, or harmless.
    pub disproved_by: String,
    /// What to do, the first thing first.
    pub to_do: Vec<String>,
    /// Where it was found in the file; absent: no file was given; empty: it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<Finding>>,
}

/// When a finding is said of one kind of evidence.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Said {
    /// `recording`, `dotnet`, `memory`.
    pub of: String,
    /// Under which conditions.
    pub when: String,
    /// What that rests on.
    pub rests_on: String,
}
