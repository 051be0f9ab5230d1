//! `words/PID.json`: what a process wrote last before it was dumped.

use serde::{Deserialize, Serialize};

use super::List;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct LastWords {
    pub(crate) lines: List<String>,
}
