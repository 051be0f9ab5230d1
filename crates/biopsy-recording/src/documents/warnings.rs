//! One line of `warnings.jsonl`, and of the list in the manifest.

use biopsy_model::MonoNanos;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Warning {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
}

impl From<&biopsy_model::loss::Warning> for Warning {
    fn from(warning: &biopsy_model::loss::Warning) -> Self {
        Self {
            code: warning.code.clone(),
            message: warning.message.clone(),
            hint: warning.hint.clone(),
            time_ns: warning.time.map(|time| time.0),
        }
    }
}

impl Warning {
    pub(crate) fn to_model(&self) -> biopsy_model::loss::Warning {
        biopsy_model::loss::Warning {
            code: self.code.clone(),
            message: self.message.clone(),
            hint: self.hint.clone(),
            time: self.time_ns.map(MonoNanos),
        }
    }
}
