//! What fell in earlier runs: a run that was ended goes on where it was.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::mutation::Mutation;
use super::tree::write;
use crate::run::Outcome;

/// By its name: the digest of what was taken away, and of the files from which.
pub(super) struct Seen {
    path: PathBuf,
    all: BTreeMap<String, u64>,
}

impl Seen {
    /// Those of this folder; none, if there are none or they cannot be read.
    pub(super) fn open(folder: &Path) -> Self {
        let path = folder.join("seen.json");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Self { path, all: serde_json::from_str(&text).unwrap_or_default() }
    }

    /// Whether it fell, as it is now.
    pub(super) fn has(&self, root: &Path, one: &Mutation) -> bool {
        self.all.get(&one.name()).is_some_and(|known| *known == digest(root, one))
    }

    /// It fell.
    pub(super) fn put(&mut self, root: &Path, one: &Mutation) -> Outcome {
        self.all.insert(one.name(), digest(root, one));
        let text = serde_json::to_string_pretty(&self.all).map_err(|error| error.to_string())?;
        write(&self.path, text.as_bytes())
    }
}

/// It is to notice a change, and need not be the same with another compiler.
fn digest(root: &Path, one: &Mutation) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{one:?}").hash(&mut hasher);
    for edit in &one.edit {
        std::fs::read(root.join(&edit.file)).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::mutation::Edit;
    use super::*;

    #[test]
    fn what_fell_is_tried_again_when_it_or_its_file_has_changed() {
        let folder = biopsy_testkit::temp_dir("seen");
        let file = |text: &str| std::fs::write(folder.path().join("f"), text).unwrap();
        let edit = Edit { file: "f".to_owned(), before: "x".to_owned(), after: String::new() };
        let [threat, control, test, says] = ["1", "it", "a b", "y"].map(str::to_owned);
        let one = Mutation { threat, control, test, says, edit: vec![edit] };
        file("x");
        assert!(!Seen::open(folder.path()).has(folder.path(), &one), "nothing is there");
        Seen::open(folder.path()).put(folder.path(), &one).unwrap();
        let seen = Seen::open(folder.path());
        assert!(seen.has(folder.path(), &one));
        file("x and more");
        assert!(!seen.has(folder.path(), &one), "its file has changed");
        file("x");
        assert!(!seen.has(folder.path(), &Mutation { says: "z".to_owned(), ..one }), "it has changed");
    }
}
