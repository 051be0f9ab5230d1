//! Files of one crate that need each other in a circle: nobody can read, test or move one of them alone.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, File};
use crate::run::{Outcome, root};

/// Circles that are there: any file of it, how many files it has, why. A circle that is not here, or grew, is a violation;
/// so is one that shrank, until its number is lowered, so that this list only gets shorter.
const KNOWN: &[(&str, usize, &str)] = &[(
    "crates/biopsy-dotnet/src/names/type_name.rs",
    2,
    "one grammar: names of types hold names of methods, and these names of types",
)];

/// Every circle that is not in the list, and every entry of the list that is not true.
pub(crate) fn violations(files: &[String]) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for (folder, names) in source_folders(files) {
        let mut sources = Vec::new();
        for name in names {
            let text =
                std::fs::read_to_string(root().join(name)).map_err(|error| format!("`{name}`: {error}"))?;
            sources.push(File::parse(name, &folder, &text));
        }
        found.extend(circles(&Crate::of(sources).edges()));
    }
    Ok(judged(found, KNOWN))
}

/// The `src` folder of each crate, with its files.
fn source_folders(files: &[String]) -> BTreeMap<String, Vec<&String>> {
    let mut folders: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let of_crate = file.starts_with("crates/") || file.starts_with("xtask/");
        if let Some((before, _)) = file.split_once("/src/").filter(|_| of_crate) {
            folders.entry(format!("{before}/src/")).or_default().push(file);
        }
    }
    folders
}

/// The files of a circle, each with those of the circle that it needs.
type Circle = BTreeMap<String, BTreeSet<String>>;

/// What the list does not know, and what it knows wrongly.
fn judged(mut circles: Vec<Circle>, known: &[(&str, usize, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (anchor, count, _) in known {
        let at = circles.iter().position(|circle| circle.contains_key(*anchor));
        match at.map(|at| circles.remove(at)) {
            Some(circle) if circle.len() > *count => {
                found.push(format!("the circle of `{anchor}` grew from {count} files:{}", shown(&circle)));
            }
            Some(circle) if circle.len() < *count => {
                let now = circle.len();
                found.push(format!(
                    "the circle of `{anchor}` has {now} files: lower its {count} in the list of circles"
                ));
            }
            Some(_) => {}
            None => found.push(format!("`{anchor}` is in no circle: take it from the list of circles")),
        }
    }
    found.extend(circles.iter().map(|circle| format!("files that need each other:{}", shown(circle))));
    found
}

fn shown(circle: &Circle) -> String {
    let line = |(file, needs): (&String, &BTreeSet<String>)| {
        let needs: Vec<&str> = needs
            .iter()
            .map(|one| one.split_once("/src/").map_or(one.as_str(), |(_, below)| below))
            .collect();
        format!("\n    {file} needs {}", needs.join(", "))
    };
    circle.iter().map(line).collect()
}

/// The sets of files of which each reaches each other one, by Tarjan's algorithm, without recursion.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Circle> {
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    let mut low: BTreeMap<&str, usize> = BTreeMap::new();
    let mut path: Vec<&str> = Vec::new();
    let mut circles = Vec::new();
    for start in edges.keys() {
        let mut open: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut next = Some(start.as_str()).filter(|start| !order.contains_key(start));
        loop {
            if let Some(file) = next.take() {
                low.insert(file, order.len());
                order.insert(file, order.len());
                path.push(file);
                open.push((file, edges.get(file).into_iter().flatten().map(String::as_str).collect()));
            }
            let Some((file, needed)) = open.last_mut() else { break };
            let file = *file;
            match needed.pop() {
                Some(other) if !order.contains_key(other) => next = Some(other),
                Some(other) if path.contains(&other) => {
                    let reached = order[other].min(low[file]);
                    low.insert(file, reached);
                }
                Some(_) => {}
                None => {
                    open.pop();
                    if let Some((above, _)) = open.last() {
                        let reached = low[file].min(low[above]);
                        low.insert(above, reached);
                    }
                    if low[file] == order[file] {
                        let at = path.iter().position(|one| *one == file).unwrap_or(0);
                        let files: BTreeSet<String> = path.drain(at..).map(str::to_owned).collect();
                        if files.len() > 1 {
                            let needs = |file: &String| edges[file].intersection(&files).cloned().collect();
                            circles.push(files.iter().map(|file| (file.clone(), needs(file))).collect());
                        }
                    }
                }
            }
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::super::modules::{Crate, File};
    use super::{circles, judged};

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files = files.iter().map(|(name, text)| File::parse(name, "src/", text)).collect();
        let found = circles(&Crate::of(files).edges());
        found.into_iter().map(|circle| circle.into_keys().collect()).collect()
    }

    #[test]
    fn layers_are_no_circle() {
        let files = [
            ("src/lib.rs", "mod a; mod b;\n#[cfg(test)]\nmod tests;\npub use a::top;"),
            ("src/a.rs", "use crate::b::bottom;\npub fn top() { bottom() }"),
            (
                "src/b.rs",
                "//! See [`crate::a::top`].\npub fn bottom() {}\n#[cfg(test)]\nmod tests { use crate::a::top; }",
            ),
            ("src/tests.rs", "use super::*;\nuse crate::a;"),
        ];
        assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn two_files_that_use_each_other_are_one() {
        let files = [
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "pub struct A;\nfn f() { crate::b::g() }"),
            ("src/b.rs", "use super::a::{self, A};\npub fn g() {}"),
        ];
        assert_eq!(circles_of(&files), [["src/a.rs", "src/b.rs"]]);
    }

    #[test]
    fn a_parent_and_its_child_are_one_and_a_name_passed_on_is_none() {
        let child = ("src/p/child.rs", "use super::Shared;\npub struct Child(Shared);");
        let uses = [
            ("src/lib.rs", "mod p;"),
            ("src/p/mod.rs", "mod child;\npub struct Shared;\nfn f(_: child::Child) {}"),
            child,
        ];
        assert_eq!(circles_of(&uses), [["src/p/child.rs", "src/p/mod.rs"]]);
        let passes = [
            ("src/lib.rs", "mod p;"),
            ("src/p/mod.rs", "mod child;\npub use child::Child;\npub struct Shared;"),
            child,
        ];
        assert_eq!(circles_of(&passes), Vec::<Vec<String>>::new());
        let passes_and_uses = [
            ("src/lib.rs", "mod p;"),
            ("src/p/mod.rs", "mod child;\npub use child::Child;\npub struct Shared(Child);"),
            child,
        ];
        assert_eq!(circles_of(&passes_and_uses).len(), 1);
    }

    #[test]
    fn names_that_are_passed_on_lead_to_their_file() {
        let files = [
            ("src/lib.rs", "mod a; mod p;\npub use p::Thing;"),
            ("src/a.rs", "use crate::Thing;\npub fn a() {}"),
            ("src/p/mod.rs", "mod deep;\npub use deep::*;"),
            ("src/p/deep.rs", "pub struct Thing;\nfn f() { crate::a::a() }"),
        ];
        assert_eq!(circles_of(&files), [["src/a.rs", "src/p/deep.rs"]]);
    }

    #[test]
    fn the_list_is_true() {
        let needs = |one: &str, other: &str| (one.to_owned(), [other.to_owned()].into());
        let circle = || vec![[needs("a.rs", "b.rs"), needs("b.rs", "a.rs")].into()];
        assert_eq!(judged(circle(), &[("b.rs", 2, "why")]), Vec::<String>::new());
        let lines = "\n    a.rs needs b.rs\n    b.rs needs a.rs";
        assert_eq!(judged(circle(), &[]), [format!("files that need each other:{lines}")]);
        let grown = format!("the circle of `a.rs` grew from 1 files:{lines}");
        assert_eq!(judged(circle(), &[("a.rs", 1, "why")]), [grown]);
        assert!(judged(circle(), &[("a.rs", 3, "why")])[0].contains("lower its 3"));
        assert!(judged(Vec::new(), &[("a.rs", 2, "why")])[0].contains("is in no circle"));
    }
}
