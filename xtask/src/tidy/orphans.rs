//! Files that no module declares: they are compiled by nobody, and what is in them is true by accident.

use std::collections::BTreeMap;

use crate::run::{Outcome, root};

/// Every file below a `src` of a crate that is not the root of one and that its parent does not declare.
pub(crate) fn violations(files: &[String]) -> Outcome<Vec<String>> {
    let mut texts = BTreeMap::new();
    for file in files.iter().filter(|file| is_source(file)) {
        let text = std::fs::read_to_string(root().join(file))
            .map_err(|error| format!("cannot read `{file}`: {error}"))?;
        texts.insert(file.clone(), text);
    }
    Ok(orphans(&texts).map(|file| format!("no module declares `{file}`: nobody compiles it")).collect())
}

fn is_source(file: &str) -> bool {
    file.ends_with(".rs")
        && (file.starts_with("crates/") || file.starts_with("xtask/"))
        && file.contains("/src/")
}

/// By path: the text of each file.
fn orphans(texts: &BTreeMap<String, String>) -> impl Iterator<Item = &String> {
    texts.keys().filter(|file| {
        let Some((folder, name)) = file.trim_end_matches("/mod.rs").trim_end_matches(".rs").rsplit_once('/')
        else {
            return false;
        };
        let is_root = matches!(name, "main" | "lib") || folder.ends_with("/bin");
        let parents = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"].map(|end| format!("{folder}{end}"));
        let declares = |parent: &String| texts.get(parent).is_some_and(|text| declares(text, name));
        !is_root && !parents.iter().any(declares)
    })
}

fn declares(text: &str, name: &str) -> bool {
    let declaration = format!("mod {name};");
    text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(&declaration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_declares_is_found() {
        let texts = [
            ("crates/a/src/lib.rs", "pub mod b;\nmod d;\n// mod left;\n"),
            ("crates/a/src/b/mod.rs", "mod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/d.rs", "pub(crate) mod e;"),
            ("crates/a/src/d/e.rs", ""),
            ("crates/a/src/bin/tool.rs", "fn main() {}"),
            ("crates/a/src/left.rs", ""),
            ("crates/a/src/b/old.rs", ""),
            ("crates/a/src/gone/mod.rs", ""),
        ];
        let texts = texts.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        let found: Vec<&String> = orphans(&texts).collect();
        assert_eq!(found, ["crates/a/src/b/old.rs", "crates/a/src/gone/mod.rs", "crates/a/src/left.rs"]);
    }
}
