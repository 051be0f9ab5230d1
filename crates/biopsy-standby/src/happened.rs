//! What the watcher tells.

use std::path::Path;

use biopsy_watch::rules::Rule;
use serde::Serialize;

/// Something that happened, as programs read it. The fields that mean nothing for it are not there.
#[derive(Default, Debug, Serialize)]
pub struct Happened<'a> {
    /// `watching`, `begun`, `made`, `over`, `failed`, `held`, `off`, `sent`, `removed` or `note`.
    pub event: &'static str,
    /// By which rule.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub rule: &'a str,
    /// To which process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What that is called.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'a str,
    /// In words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The file or folder that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a Path>,
    /// The size of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Happened<'_> {
    /// Something that is about no process.
    #[must_use]
    pub fn note(text: String) -> Self {
        Self { event: "note", text, ..Self::default() }
    }
}

/// Is told what the watcher does.
pub trait Listener {
    /// Something happened.
    fn happened(&mut self, happened: &Happened<'_>);
    /// These rules hold from now on.
    fn rules(&mut self, rules: &[Rule], note: &str);
}
