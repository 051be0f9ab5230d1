//! `cargo xtask controls`: each control of `docs/security.md` is taken away in a copy of the sources, and the test that is said to see it has to fail, and
//! for the reason that is said. What is taken away is in `fixtures/mutations`.

mod group;
mod mutation;
mod table;
mod tree;
mod verdict;

use crate::run::{Outcome, root};
use mutation::Mutation;
use tree::Tree;
use verdict::Verdict;

/// What to take away, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Those of this threat alone (`14`), or with these words in their name or in that of their test. [default: all]
    #[arg(value_name = "WORDS")]
    only: Vec<String>,
    /// Several in one build, each with a test of its own. What does not fall there is tried again by itself
    #[arg(long)]
    together: bool,
    /// The table in docs/security.md, made anew; nothing is taken away
    #[arg(long, conflicts_with_all = ["only", "together"])]
    table: bool,
}

/// Takes them away; an error if one of them is missed by nobody.
pub(crate) fn run(options: &Options) -> Outcome {
    let all = mutation::read(&root())?;
    if options.table {
        return table::write(&all);
    }
    let chosen: Vec<&Mutation> = all.iter().filter(|one| one.is_meant(&options.only)).collect();
    if chosen.is_empty() {
        return Err("there is no such control in `fixtures/mutations`".to_owned());
    }
    let tree = Tree::make()?;
    // A test that fails anyway says nothing.
    let output = tree.test(&chosen)?;
    let broken: Vec<&str> = chosen
        .iter()
        .filter(|one| Verdict::of(one, &output) != Verdict::Stands)
        .map(|one| one.test.as_str())
        .collect();
    if !broken.is_empty() {
        return Err(format!(
            "with all controls in place these do not pass:\n  {}\n{output}",
            broken.join("\n  ")
        ));
    }
    let groups = if options.together {
        group::of(&root(), &chosen)?
    } else {
        chosen.iter().map(|one| vec![*one]).collect()
    };
    let mut missed = Vec::new();
    for group in groups {
        for (one, verdict) in without(&tree, &group)? {
            let verdict = match verdict {
                Verdict::Falls => verdict,
                _ if group.len() == 1 => verdict,
                // It may be for what else was taken away.
                _ => without(&tree, &[one])?.remove(0).1,
            };
            println!("{verdict:>8}  {}  ({})", one.name(), one.test);
            if verdict != Verdict::Falls {
                missed.push(one.name());
            }
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("{} of {} are not seen:\n  {}", missed.len(), chosen.len(), missed.join("\n  ")))
        }
    }
}

/// What the tests say without these.
fn without<'a>(tree: &Tree, taken: &[&'a Mutation]) -> Outcome<Vec<(&'a Mutation, Verdict)>> {
    let changed = mutation::applied(&root(), taken)?;
    tree.put(&changed)?;
    let output = tree.test(taken);
    tree.put_back(changed.keys())?;
    let output = output?;
    Ok(taken.iter().map(|one| (*one, Verdict::of(one, &output))).collect())
}
