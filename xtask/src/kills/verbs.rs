//! What biopsy is asked for when it is killed.

use std::path::Path;

use super::left::remove;
use super::servers::Server;

/// One of them. Its output begins with `out`, in the current folder.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    /// `PID` and `TREE` stand for pids.
    words: &'static str,
    pub(crate) dotnet_only: bool,
    /// How often it is chosen.
    weight: u64,
}

const fn verb(name: &'static str, words: &'static str, weight: u64) -> Verb {
    Verb { name, words, dotnet_only: false, weight }
}

pub(crate) const VERBS: &[Verb] = &[
    verb("dump", "dump PID --quiet --max-pause 5s --output out.core.zst", 4),
    verb("dump to a folder", "dump PID --quiet --max-pause 5s --output out", 2),
    verb("dump --tree", "dump TREE --tree --quiet --max-pause 5s --output out", 3),
    verb("dump --scrub", "dump PID --scrub --quiet --max-pause 5s --output out", 1),
    verb("dump --looks", "dump PID --looks 2 --every 100ms --quiet --max-pause 5s --output out", 2),
    verb("stacks", "stacks PID --max-pause 5s", 8),
    Verb {
        name: "snapshot",
        words: "snapshot PID --max-pause 5s --output out.gcdump",
        dotnet_only: true,
        weight: 4,
    },
    verb("capture", "capture TREE --for 1s --output out.biopsy.zip", 1),
    verb("trace", "trace TREE --for 1s --output out.biopsy.zip", 1),
    verb("capture --stacks", "capture TREE --stacks --for 1s --output out.biopsy.zip", 2),
];

impl Verb {
    pub(crate) fn arguments(&self, server: &Server) -> Vec<String> {
        let word = |word: &str| match word {
            "PID" => server.pid.to_string(),
            "TREE" => server.tree.to_string(),
            other => other.to_owned(),
        };
        self.words.split(' ').map(word).collect()
    }
}

/// One of them by chance.
pub(crate) fn choose(verbs: &[&Verb], random: u64) -> usize {
    let sum: u64 = verbs.iter().map(|verb| verb.weight).sum();
    let mut at = (random >> 16) % sum.max(1);
    for (index, verb) in verbs.iter().enumerate() {
        match at.checked_sub(verb.weight) {
            Some(rest) => at = rest,
            None => return index,
        }
    }
    0
}

/// Removes what was asked for: what begins with the name that was given.
pub(crate) fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"out") {
            remove(&entry.path());
        }
    }
}
