//! What may be taken away at once: each with a test of its own, and texts that do not overlap.

use std::path::Path;

use super::mutation::{Mutation, applied};
use crate::run::Outcome;

/// Few groups, each of those that go together.
pub(super) fn of<'a>(root: &Path, all: &[&'a Mutation]) -> Outcome<Vec<Vec<&'a Mutation>>> {
    let mut groups: Vec<Vec<&Mutation>> = Vec::new();
    for one in all {
        // By itself it has to apply.
        applied(root, &[one])?;
        let fits = |group: &&mut Vec<&Mutation>| {
            let has_test = group.iter().any(|other| other.test == one.test);
            !has_test && applied(root, &[&group[..], &[one]].concat()).is_ok()
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::super::mutation::Edit;
    use super::*;

    fn one(test: &str, before: &str) -> Mutation {
        let edit = Edit { file: "f".to_owned(), before: before.to_owned(), after: String::new() };
        let [threat, control, says] = ["1", before, "x"].map(str::to_owned);
        Mutation { threat, control, test: test.to_owned(), says, edit: vec![edit] }
    }

    #[test]
    fn those_go_together_that_have_other_tests_and_other_places() {
        let folder = biopsy_testkit::temp_dir("group");
        std::fs::write(folder.path().join("f"), "one two three").unwrap();
        let all = [one("a", "one"), one("b", "two"), one("a", "three"), one("c", "o three"), one("d", "e t")];
        let all: Vec<&Mutation> = all.iter().collect();
        let groups = of(folder.path(), &all).unwrap();
        let names: Vec<Vec<&str>> =
            groups.iter().map(|group| group.iter().map(|one| one.control.as_str()).collect()).collect();
        assert_eq!(names, [vec!["one", "two"], vec!["three", "e t"], vec!["o three"]]);
        assert!(of(folder.path(), &[&one("a", "four")]).is_err());
    }
}
