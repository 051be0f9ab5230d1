//! Commands of rules, as they are typed.

use biopsy_watch::rules::What;
use serde::{Deserialize, Serialize};

/// The words of a command for a process, without those that say where it goes.
#[must_use]
pub fn words(what: &What, target: &str, triggers: &[String]) -> Vec<String> {
    let mut words = vec![what.verb.word().to_owned()];
    words.extend(what.options.iter().cloned());
    for trigger in triggers {
        words.extend(["--on".to_owned(), trigger.clone()]);
    }
    words.push(target.to_owned());
    words
}

/// What a process that is held is about to be: a line of JSON that a command reads with `--at-gate`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Coming {
    /// What it is called.
    pub name: String,
    /// Its program.
    pub exe: String,
    /// Its command line.
    pub arguments: Vec<String>,
}
