//! `redaction.json`: what was redacted. Its being there says that redaction ran.

use biopsy_model::capture::RedactionCount;
use serde::{Deserialize, Serialize};

use super::at_most;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Redaction {
    #[serde(deserialize_with = "at_most")]
    counts: Vec<Count>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Count {
    member: String,
    rule: String,
    count: u64,
}

impl From<&[RedactionCount]> for Redaction {
    fn from(counts: &[RedactionCount]) -> Self {
        let count = |count: &RedactionCount| Count {
            member: count.member.clone(),
            rule: count.rule.clone(),
            count: count.count,
        };
        Self { counts: counts.iter().map(count).collect() }
    }
}

impl From<Redaction> for Vec<RedactionCount> {
    fn from(redaction: Redaction) -> Self {
        let count =
            |count: Count| RedactionCount { member: count.member, rule: count.rule, count: count.count };
        redaction.counts.into_iter().map(count).collect()
    }
}
