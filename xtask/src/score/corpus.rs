//! The programs of `fixtures/sick/`, found by their truth files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::truth::{Class, Truth, parse_truth};
use crate::run::{Outcome, root};

/// Written before the rules, and seven times after them by somebody who had not seen them; halves from when there were two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Half {
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Sixth,
    Seventh,
    Eighth,
}

impl Half {
    const ALL: [Self; 8] = [
        Self::First,
        Self::Second,
        Self::Third,
        Self::Fourth,
        Self::Fifth,
        Self::Sixth,
        Self::Seventh,
        Self::Eighth,
    ];

    fn folder(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Third => "third",
            Self::Fourth => "fourth",
            Self::Fifth => "fifth",
            Self::Sixth => "sixth",
            Self::Seventh => "seventh",
            Self::Eighth => "eighth",
        }
    }
}

/// A program with its truth.
#[derive(Clone)]
pub(crate) struct Specimen {
    /// `first/cpp/ledger`.
    pub(crate) name: String,
    /// Where the source is.
    pub(crate) folder: PathBuf,
    pub(crate) truth: Truth,
    /// C#: what it is built for and runs on; the newest, if it is not said.
    pub(crate) framework: Option<String>,
}

/// The programs of `fixtures/leaks/`, each once for each framework that its truth file names.
pub(crate) fn find_leaks() -> Outcome<Vec<Specimen>> {
    let corpus = root().join("fixtures/leaks");
    let mut specimens = Vec::new();
    for language in folders(&corpus)? {
        specimens.extend(specimens_of(&corpus, &language)?);
    }
    Ok(specimens)
}

/// All programs of a half, or of all of them, by name.
pub(crate) fn find_specimens(half: Option<Half>) -> Outcome<Vec<Specimen>> {
    let corpus = root().join("fixtures/sick");
    let mut specimens = Vec::new();
    for half in Half::ALL.into_iter().filter(|one| half.is_none_or(|half| half == *one)) {
        let folder = corpus.join(half.folder());
        // A half may be missing.
        for language in folders(&folder).unwrap_or_default() {
            specimens.extend(specimens_of(&corpus, &language)?);
        }
    }
    Ok(specimens)
}

fn specimens_of(corpus: &Path, folder: &Path) -> Outcome<Vec<Specimen>> {
    let mut specimens = Vec::new();
    for file in entries(folder)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml"))
    {
        let text =
            std::fs::read_to_string(&file).map_err(|error| format!("`{}`: {error}", file.display()))?;
        let truth = parse_truth(&text).map_err(|error| format!("`{}`: {error}", file.display()))?;
        let name = file.with_extension("");
        let name = name.strip_prefix(corpus).unwrap_or(&name).to_string_lossy().into_owned();
        let frameworks = truth.frameworks.clone();
        let specimen = Specimen { name, folder: folder.to_path_buf(), truth, framework: None };
        let on = |framework: String| Specimen {
            name: format!("{}@{framework}", specimen.name),
            framework: Some(framework),
            ..specimen.clone()
        };
        match frameworks.is_empty() {
            true => specimens.push(specimen),
            false => specimens.extend(frameworks.into_iter().map(on)),
        }
    }
    Ok(specimens)
}

fn folders(folder: &Path) -> Outcome<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_dir()).collect())
}

fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let failed = |error: std::io::Error| format!("`{}`: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Ids of findings that neither the guide nor the list of those to come has: misspelt, or renamed by somebody.
pub(crate) fn unknown_ids(specimens: &[Specimen]) -> Outcome<Vec<String>> {
    let mut listed = String::new();
    for file in ["docs/guide/findings.md", "fixtures/sick/README.md"] {
        listed +=
            &std::fs::read_to_string(root().join(file)).map_err(|error| format!("`{file}`: {error}"))?;
    }
    Ok(ids_not_in(&listed, specimens))
}

fn ids_not_in(listed: &str, specimens: &[Specimen]) -> Vec<String> {
    let mut found = Vec::new();
    for specimen in specimens {
        for id in specimen.truth.kind.iter().filter(|id| !listed.contains(&format!("`{id}`"))) {
            found.push(format!("{}: there is no finding `{id}`", specimen.name));
        }
    }
    found
}

/// What does not fit together between files.
pub(crate) fn contradictions(specimens: &[Specimen]) -> Vec<String> {
    let mut found = Vec::new();
    let mut twins = BTreeSet::new();
    for specimen in specimens {
        if !specimen.folder.join(&specimen.truth.source).is_file() {
            found.push(format!("{}: `{}` is missing", specimen.name, specimen.truth.source));
        }
        let Some(twin) = &specimen.truth.twin else { continue };
        let name = Path::new(&specimen.name).with_file_name(twin).to_string_lossy().into_owned();
        let other = specimens.iter().find(|other| other.name == name);
        if other.is_none_or(|other| other.truth.class != Class::Healthy) {
            found.push(format!("{}: the twin `{twin}` is not a healthy program beside it", specimen.name));
        }
        if specimen.truth.class == Class::Healthy {
            found.push(format!("{}: the sick one of a pair names its twin", specimen.name));
        }
        twins.insert(name);
    }
    let alone = specimens
        .iter()
        .filter(|specimen| specimen.truth.class == Class::Healthy && !twins.contains(&specimen.name))
        // What grows and is healthy is like no leak in particular.
        .filter(|specimen| specimen.truth.form.is_none())
        .map(|specimen| format!("{}: no sick program names it as its twin", specimen.name));
    found.extend(alone);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specimen(name: &str, class: &str, twin: &str) -> Specimen {
        let expected =
            if class == "healthy" { "" } else { "kind = ['deadlock']\nplace = ['a']\nreason = ['b']\n" };
        let twin = if twin.is_empty() { String::new() } else { format!("twin = '{twin}'\n") };
        let text = format!(
            "language = 'c'\nclass = '{class}'\ncause = ''\nsource = 'README.md'\nobserve = 'stacks'\n{expected}{twin}"
        );
        Specimen {
            name: name.to_owned(),
            folder: root(),
            truth: parse_truth(&text).unwrap(),
            framework: None,
        }
    }

    #[test]
    fn the_corpora_fit_together() {
        for specimens in [find_specimens(None).unwrap(), find_leaks().unwrap()] {
            assert_eq!(contradictions(&specimens), Vec::<String>::new());
            assert_eq!(unknown_ids(&specimens).unwrap(), Vec::<String>::new());
        }
    }

    #[test]
    fn an_id_that_nobody_lists_is_found() {
        let specimens = [specimen("first/c/a", "hangs", "")];
        assert_eq!(ids_not_in("| `deadlock` | a circle |", &specimens), Vec::<String>::new());
        assert_eq!(ids_not_in("| `deadlocks` |", &specimens), ["first/c/a: there is no finding `deadlock`"]);
    }

    #[test]
    fn a_pair_fits_together() {
        let pair = [specimen("first/c/a", "hangs", "b"), specimen("first/c/b", "healthy", "")];
        assert_eq!(contradictions(&pair), Vec::<String>::new());
    }

    #[test]
    fn a_twin_that_is_not_there_and_one_that_nobody_names_are_found() {
        let lonely = [specimen("first/c/a", "hangs", "c"), specimen("first/c/b", "healthy", "")];
        let found = contradictions(&lonely);
        assert!(
            found.len() == 2 && found[0].contains("`c`") && found[1].contains("no sick program"),
            "{found:?}"
        );
    }

    #[test]
    fn a_twin_of_another_language_is_none() {
        let far = [specimen("first/c/a", "hangs", "b"), specimen("first/go/b", "healthy", "")];
        assert_eq!(contradictions(&far).len(), 2);
    }
}
