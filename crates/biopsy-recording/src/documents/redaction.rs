//! `redaction.json`: what was redacted. Its being there says that redaction ran.

use biopsy_model::capture::RedactionCount;
use serde::{Deserialize, Serialize};

use super::List;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Redaction {
    counts: List<Count>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Count {
    member: String,
    rule: String,
    count: u64,
}

impl From<RedactionCount> for Count {
    fn from(count: RedactionCount) -> Self {
        Self { member: count.member, rule: count.rule, count: count.count }
    }
}

impl From<Count> for RedactionCount {
    fn from(count: Count) -> Self {
        Self { member: count.member, rule: count.rule, count: count.count }
    }
}

impl From<&[RedactionCount]> for Redaction {
    fn from(counts: &[RedactionCount]) -> Self {
        Self { counts: counts.to_vec().into() }
    }
}

impl From<Redaction> for Vec<RedactionCount> {
    fn from(redaction: Redaction) -> Self {
        redaction.counts.into()
    }
}
