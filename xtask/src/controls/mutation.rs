//! A control, what takes it away, and the test that has to fail then.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::run::Outcome;

/// Where they are.
const FOLDER: &str = "fixtures/mutations";

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    /// Its number in `docs/security.md`, or its name there.
    pub(super) threat: String,
    /// What is taken away, in words.
    pub(super) control: String,
    /// The test, as `cargo nextest list` names it: of which program, and which.
    pub(super) test: String,
    /// What is in the output of the test when it fails for the right reason.
    pub(super) says: String,
    pub(super) edit: Vec<Edit>,
}

/// A text of a file, and what is there instead.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(super) file: String,
    pub(super) before: String,
    pub(super) after: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct All {
    mutation: Vec<Mutation>,
}

/// Which program has a test.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    Library,
    Test(String),
    Program(String),
}

impl Target {
    pub(super) fn arguments(&self) -> Vec<String> {
        match self {
            Self::Library => vec!["--lib".to_owned()],
            Self::Test(name) => vec!["--test".to_owned(), name.clone()],
            Self::Program(name) => vec!["--bin".to_owned(), name.clone()],
        }
    }
}

impl Mutation {
    pub(super) fn name(&self) -> String {
        format!("{}: {}", self.threat, self.control)
    }

    /// Whether somebody means it who says this; nothing: all.
    pub(super) fn is_meant(&self, words: &[String]) -> bool {
        // A number is one of a threat: `3` does not mean `13`.
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let has = |word: &String| {
            self.threat == *word
                || (!is_number(word) && (self.name().contains(word) || self.test.contains(word)))
        };
        words.is_empty() || words.iter().any(has)
    }

    /// The program and the name of the test.
    fn parts(&self) -> Outcome<(&str, &str)> {
        let odd = || format!("`{}` is no test, as `cargo nextest list` names them", self.test);
        self.test
            .split_once(' ')
            .filter(|(program, test)| !program.is_empty() && !test.contains(' '))
            .ok_or_else(odd)
    }

    /// The crate that has it.
    pub(super) fn package(&self) -> Outcome<&str> {
        let (program, _) = self.parts()?;
        Ok(program.split_once("::").map_or(program, |(package, _)| package))
    }

    pub(super) fn target(&self) -> Outcome<Target> {
        let (program, _) = self.parts()?;
        Ok(match program.split_once("::") {
            None => Target::Library,
            Some((_, rest)) => match rest.strip_prefix("bin/") {
                Some(name) => Target::Program(name.to_owned()),
                None => Target::Test(rest.to_owned()),
            },
        })
    }

    /// For `cargo nextest run -E`.
    pub(super) fn filter(&self) -> Outcome<String> {
        let (program, test) = self.parts()?;
        Ok(format!("(binary_id(={program}) & test(={test}))"))
    }
}

/// All of them, in the order of their files.
pub(super) fn read(root: &Path) -> Outcome<Vec<Mutation>> {
    let failed = |error| format!("`{FOLDER}`: {error}");
    let entries = std::fs::read_dir(root.join(FOLDER)).map_err(failed)?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    // The customer's side first, as in the document.
    paths.sort_by_key(|path| (path.ends_with("beside.toml"), path.clone()));
    let mut all = Vec::new();
    for path in paths {
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        all.extend(parse(&text).map_err(|error| format!("`{}`: {error}", path.display()))?);
    }
    Ok(all)
}

fn parse(text: &str) -> Outcome<Vec<Mutation>> {
    toml::from_str::<All>(text).map(|all| all.mutation).map_err(|error| error.to_string())
}

/// The files that are other with these taken away, and what is in them then.
pub(super) fn applied(root: &Path, taken: &[&Mutation]) -> Outcome<BTreeMap<String, String>> {
    let mut changed: BTreeMap<String, String> = BTreeMap::new();
    for (one, edit) in taken.iter().flat_map(|one| one.edit.iter().map(move |edit| (one, edit))) {
        let text = match changed.get(&edit.file) {
            Some(text) => text.clone(),
            None => std::fs::read_to_string(root.join(&edit.file))
                .map_err(|error| format!("`{}`: {error}", edit.file))?,
        };
        let count = text.matches(&edit.before).count();
        if edit.before.is_empty() || edit.before == edit.after || count != 1 {
            return Err(format!(
                "`{}` cannot be taken away: what it looks for is {count} times in `{}`",
                one.name(),
                edit.file
            ));
        }
        changed.insert(edit.file.clone(), text.replacen(&edit.before, &edit.after, 1));
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::run::root;
    use crate::tidy::sources::tracked_files;

    const ONE: &str = "[[mutation]]\nthreat = \"2\"\ncontrol = \"no link is followed\"\ntest = \"a::b c::d\"\nsays = \"x\"\n";
    const EDIT: &str = "[[mutation.edit]]\nfile = \"f\"\nbefore = \"one\\n\"\nafter = \"\"\n";

    fn one(test: &str) -> Mutation {
        let mut one = parse(&format!("{ONE}{EDIT}")).unwrap().remove(0);
        one.test = test.to_owned();
        one
    }

    #[test]
    fn it_is_read_as_it_is_written_and_nothing_else_is() {
        let all = parse(&format!("{ONE}{EDIT}{ONE}{EDIT}{EDIT}")).unwrap();
        assert_eq!((all.len(), all[1].edit.len(), all[0].name().as_str()), (2, 2, "2: no link is followed"));
        assert_eq!(all[0].edit[0].before, "one\n");
        for wrong in ["", ONE, &format!("{ONE}other = 1\n{EDIT}"), &format!("{ONE}{EDIT}other = 1\n")] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_test_says_which_program_it_is_of() {
        for (test, target, filter) in [
            (
                "biopsy-deliver proof::tests::x",
                Target::Library,
                "(binary_id(=biopsy-deliver) & test(=proof::tests::x))",
            ),
            (
                "biopsy-lab::lab intake::x",
                Target::Test("lab".to_owned()),
                "(binary_id(=biopsy-lab::lab) & test(=intake::x))",
            ),
            (
                "xtask::bin/xtask tidy::x",
                Target::Program("xtask".to_owned()),
                "(binary_id(=xtask::bin/xtask) & test(=tidy::x))",
            ),
        ] {
            assert_eq!((one(test).target().unwrap(), one(test).filter().unwrap().as_str()), (target, filter));
            assert_eq!(one(test).package().ok(), test.split([':', ' ']).next());
        }
        for wrong in ["", "x", " x", "a b c"] {
            assert!(one(wrong).target().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_says_what_he_means_gets_that() {
        let words = |text: &str| vec![text.to_owned()];
        for (text, is) in [("2", true), ("1", false), ("link", true), ("b c::", true), ("other", false)] {
            assert_eq!(one("a::b c::d").is_meant(&words(text)), is, "{text}");
        }
        assert!(one("a b").is_meant(&[]));
        assert!(!one("a x3").is_meant(&words("3")), "no threat, and in a name");
    }

    #[test]
    fn a_text_is_replaced_where_it_is_once() {
        let folder = biopsy_testkit::temp_dir("mutation");
        let with = |text: &str| {
            std::fs::write(folder.path().join("f"), text).unwrap();
            applied(folder.path(), &[&one("a b")])
        };
        assert_eq!(with("zero\none\ntwo\n").unwrap()["f"], "zero\ntwo\n");
        for wrong in ["zero\n", "one\none\n"] {
            assert!(with(wrong).unwrap_err().contains("cannot be taken away"), "{wrong}");
        }
        std::fs::write(folder.path().join("f"), "one\n").unwrap();
        assert!(applied(folder.path(), &[&one("a b"), &one("a b")]).is_err(), "it is gone already");
    }

    /// What cannot be taken away any more, or has no test any more, proves nothing: to be mended with whatever changed it.
    #[test]
    fn each_one_of_the_repository_applies_and_has_a_test() {
        let (all, mut names, mut functions) = (read(&root()).unwrap(), BTreeSet::new(), BTreeSet::new());
        assert!(all.len() > 80, "{}", all.len());
        for file in tracked_files().unwrap().iter().filter(|file| file.ends_with(".rs")) {
            let text = std::fs::read_to_string(root().join(file)).unwrap();
            let named = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
            functions.extend(named.map(str::to_owned));
        }
        for one in &all {
            applied(&root(), &[one]).unwrap();
            one.target().unwrap();
            assert!(names.insert(one.name()), "twice: {}", one.name());
            let function =
                one.test.rsplit("::").next().unwrap_or_default().rsplit(' ').next().unwrap_or_default();
            assert!(functions.contains(function), "there is no test `{}`", one.test);
            assert!(!one.says.is_empty() && !one.edit.is_empty(), "{}", one.name());
        }
        for number in 1..=25 {
            let is_there = all.iter().any(|one| one.threat == number.to_string());
            assert!(is_there, "nothing is taken away of threat {number}");
        }
    }
}
