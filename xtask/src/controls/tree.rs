//! A copy of the sources in which something may be missing, with a folder of its own for what is built: nothing of it gets into what others run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mutation::Mutation;
use crate::run::{Outcome, metadata, output_of, root};
use crate::tidy::sources::tracked_files;

/// The copy.
pub(super) struct Tree {
    /// What this is in.
    below: PathBuf,
    folder: PathBuf,
    built: PathBuf,
}

impl Tree {
    /// Brings it up to date. What is equal is not touched, so that little is built again.
    pub(super) fn make(below: &Path) -> Outcome<Self> {
        let [folder, built] = ["tree", "build"].map(|name| below.join(name));
        let tree = Self { below: below.to_path_buf(), folder, built };
        let files = tracked_files()?;
        if tree.folder.join(".git").is_dir() {
            let known: BTreeSet<&String> = files.iter().collect();
            let mut list = Command::new("git");
            list.args(["ls-files", "-z", "--others"]).current_dir(&tree.folder);
            for gone in output_of(&mut list)?.split('\0').filter(|name| !name.is_empty()) {
                if !known.contains(&gone.to_owned()) {
                    let _ = std::fs::remove_file(tree.folder.join(gone));
                }
            }
        }
        tree.put_back(files.iter())?;
        // The repository's own rules are asked of what git knows.
        output_of(Command::new("git").args(["init", "--quiet"]).current_dir(&tree.folder))?;
        Ok(tree)
    }

    /// Where it is, with all that belongs to it.
    pub(super) fn place(&self) -> &Path {
        &self.below
    }

    /// Writes files, each by its name.
    pub(super) fn put(&self, changed: &BTreeMap<String, String>) -> Outcome {
        changed.iter().try_for_each(|(name, text)| write(&self.folder.join(name), text.as_bytes()))
    }

    /// Makes files as they are in the repository.
    pub(super) fn put_back<'a>(&self, names: impl Iterator<Item = &'a String>) -> Outcome {
        for name in names {
            let (from, to) = (root().join(name), self.folder.join(name));
            let bytes = std::fs::read(&from).map_err(|error| format!("`{}`: {error}", from.display()))?;
            if std::fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            write(&to, &bytes)?;
            let permissions = from.metadata().map(|meta| meta.permissions());
            permissions
                .and_then(|all| std::fs::set_permissions(&to, all))
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Runs the tests of these, and gives what is printed: that some fail is what is wanted.
    pub(super) fn test(&self, packages: &[&str], of: &[&Mutation]) -> Outcome<String> {
        let targets = of.iter().map(|one| one.target()).collect::<Outcome<BTreeSet<_>>>()?;
        let filters = of.iter().map(|one| one.filter()).collect::<Outcome<BTreeSet<_>>>()?;
        let mut command = Command::new("cargo");
        command.args(["nextest", "run", "--no-fail-fast", "--retries", "0"]);
        // No more than these: of a crate far below, all of the workspace would be built again. And always the same ones, for
        // crates of others are built once for each set of packages that wants features of them.
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        command.args(["--failure-output", "immediate", "--color", "never"]);
        command.args(targets.iter().flat_map(|target| target.arguments()));
        command.arg("-E").arg(filters.into_iter().collect::<Vec<_>>().join(" | "));
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.built).env("CARGO_INCREMENTAL", "0");
        // A test that skips itself sees nothing.
        let output = command.env("BIOPSY_REQUIRE_LIVE", "1").env("RUST_BACKTRACE", "0").output();
        let output = output.map_err(|error| format!("cannot run `cargo nextest`: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(text(&output.stdout) + &text(&output.stderr))
    }
}

/// Writes a file and the folders it is in.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let failed = |error| format!("`{}`: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)
}

/// How many of our crates are below each.
pub(super) fn heights() -> Outcome<BTreeMap<String, usize>> {
    let metadata = metadata()?;
    let named = |name: &str| metadata.workspace_packages().into_iter().find(|package| package.name == name);
    let ours = |package: &cargo_metadata::Package| -> Vec<String> {
        package.dependencies.iter().filter(|one| one.path.is_some()).map(|one| one.name.to_string()).collect()
    };
    let mut heights = BTreeMap::new();
    for package in metadata.workspace_packages() {
        let (mut below, mut left) = (BTreeSet::new(), ours(package));
        while let Some(name) = left.pop() {
            if let Some(package) = named(&name).filter(|_| below.insert(name.clone())) {
                left.extend(ours(package));
            }
        }
        heights.insert(package.name.to_string(), below.len());
    }
    Ok(heights)
}
