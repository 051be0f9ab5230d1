//! `cargo xtask controls`: each control of `docs/security.md` is taken away in a copy of the sources, and the test that is said to see it has to fail, and
//! for the reason that is said. What is taken away is in `fixtures/mutations`.

mod group;
mod mutation;
mod seen;
mod table;
mod tree;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use crate::run::{Outcome, root, target_folder};
use mutation::Mutation;
use seen::Seen;
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
    /// Tests of several packages in one build too, so that crates of others are built once; what is taken away for one is away for all of them
    #[arg(long)]
    mixed: bool,
    /// Does not look first whether the tests pass with all controls in place: for whoever has just seen it
    #[arg(long)]
    sound: bool,
    /// Leaves out what fell in an earlier run, if neither it nor the file it is taken from has changed
    #[arg(long)]
    resume: bool,
    /// Where the copy of the sources, what is built of it and what the tests print are. [default: `controls` in cargo's target folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Says which would be tried, and tries none
    #[arg(long)]
    list: bool,
    /// The table in docs/security.md, made anew; nothing is taken away
    #[arg(long, conflicts_with_all = ["only", "together", "resume", "list"])]
    table: bool,
}

/// Those that are tried with the same calls of cargo.
#[derive(Default)]
struct Batch<'a> {
    packages: Vec<&'a str>,
    all: Vec<&'a Mutation>,
}

/// Takes them away; an error if one of them is missed by nobody. It goes to its end whatever one of them does.
pub(crate) fn run(options: &Options) -> Outcome {
    let all = mutation::read(&root())?;
    if options.table {
        return table::write(&all);
    }
    let folder = match &options.folder {
        Some(folder) => std::path::absolute(folder).map_err(|error| error.to_string())?,
        None => target_folder()?.join("controls"),
    };
    let mut seen = Seen::open(&folder);
    let chosen = chosen(&all, options, &seen)?;
    if options.list {
        chosen.iter().for_each(|one| println!("{}  ({})", one.name(), one.test));
        return Ok(());
    }
    println!("{} of {} are to be tried", chosen.len(), all.len());
    let tree = Tree::make(&folder)?;
    let mut missed = Vec::new();
    for batch in batches(&chosen, options.mixed)? {
        for (one, verdict) in of(&tree, &batch, options, &mut seen)? {
            if verdict != Verdict::Falls {
                missed.push(format!("{}: {}", verdict.word(), one.name()));
            }
        }
    }
    println!("{} of {} fell", chosen.len() - missed.len(), chosen.len());
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("{} are not seen:\n  {}", missed.len(), missed.join("\n  "))),
    }
}

/// Those that are meant, without those that need not be tried again.
fn chosen<'a>(all: &'a [Mutation], options: &Options, seen: &Seen) -> Outcome<Vec<&'a Mutation>> {
    let meant: Vec<&Mutation> = all.iter().filter(|one| one.is_meant(&options.only)).collect();
    if meant.is_empty() {
        return Err("there is no such control in `fixtures/mutations`".to_owned());
    }
    let is_left = |one: &&Mutation| !(options.resume && seen.has(&root(), one));
    Ok(meant.into_iter().filter(is_left).collect())
}

/// Those whose tests are of one package, those of lower crates first: what is above is built again whenever they were changed. Each call of
/// cargo is for the packages of one batch, so that crates of others are built once.
fn batches<'a>(chosen: &[&'a Mutation], is_mixed: bool) -> Outcome<Vec<Batch<'a>>> {
    let heights = tree::heights()?;
    let mut by_package: BTreeMap<(usize, &str), Vec<&Mutation>> = BTreeMap::new();
    for one in chosen {
        let package = one.package()?;
        let height = heights.get(package).copied().unwrap_or_default();
        by_package.entry((height, package)).or_default().push(one);
    }
    let batch = |((_, package), all): ((usize, &'a str), _)| Batch { packages: vec![package], all };
    let batches = by_package.into_iter().map(batch);
    Ok(match is_mixed {
        false => batches.collect(),
        true => vec![batches.fold(Batch::default(), |mut whole, one| {
            whole.packages.extend(one.packages);
            whole.all.extend(one.all);
            whole
        })],
    })
}

/// Tries those of one batch.
fn of<'a>(
    tree: &Tree,
    batch: &Batch<'a>,
    options: &Options,
    seen: &mut Seen,
) -> Outcome<Vec<(&'a Mutation, Verdict)>> {
    let mut done = Vec::new();
    let mut whole = batch.all.clone();
    if !options.sound {
        let broken = broken(tree, batch)?;
        whole.retain(|one| broken.iter().all(|(other, _)| one != other));
        done.extend(broken);
    }
    let mut left: VecDeque<Vec<&Mutation>> = match options.together {
        true => group::of(&root(), &whole)?.into(),
        false => whole.iter().map(|one| vec![*one]).collect(),
    };
    while let Some(group) = left.pop_front() {
        let verdicts = without(tree, &batch.packages, &group)?;
        let is_built = verdicts.iter().any(|(_, verdict)| !matches!(verdict, Verdict::NotRun(_)));
        if !is_built && group.len() > 1 {
            // One of them does not compile: which?
            let (first, second) = group.split_at(group.len() / 2);
            left.push_front(second.to_vec());
            left.push_front(first.to_vec());
            continue;
        }
        for (one, verdict) in verdicts {
            if verdict != Verdict::Falls && group.len() > 1 {
                // It may be for what else was taken away: by itself, when all others are done.
                println!("   again  {}  ({})", one.name(), one.test);
                left.push_back(vec![one]);
                continue;
            }
            println!("{verdict:>8}  {}  ({})", one.name(), one.test);
            if verdict == Verdict::Falls {
                seen.put(&root(), one)?;
            }
            done.push((one, verdict));
        }
    }
    Ok(done)
}

/// Those whose tests do not pass with all controls in place: a test that fails anyway says nothing.
fn broken<'a>(tree: &Tree, batch: &Batch<'a>) -> Outcome<Vec<(&'a Mutation, Verdict)>> {
    let output = tree.test(&batch.packages, &batch.all)?;
    let mut broken = Vec::new();
    for one in &batch.all {
        let verdict = match Verdict::of(one, &output) {
            Verdict::Stands => continue,
            Verdict::NotRun(said) => Verdict::NotRun(said),
            Verdict::Falls | Verdict::FallsOtherwise(_) | Verdict::FailsAnyway => Verdict::FailsAnyway,
        };
        println!("{verdict:>8}  {}  ({})", one.name(), one.test);
        keep(tree.place(), one, &verdict::said(one, &output))?;
        broken.push((*one, verdict));
    }
    Ok(broken)
}

/// What the tests say without these.
fn without<'a>(
    tree: &Tree,
    packages: &[&str],
    taken: &[&'a Mutation],
) -> Outcome<Vec<(&'a Mutation, Verdict)>> {
    let changed = mutation::applied(&root(), taken)?;
    tree.put(&changed)?;
    let output = tree.test(packages, taken);
    tree.put_back(changed.keys())?;
    let output = output?;
    for one in taken {
        keep(tree.place(), one, &verdict::said(one, &output))?;
    }
    Ok(taken.iter().map(|one| (*one, Verdict::of(one, &output))).collect())
}

/// Keeps what a test said, for whoever wants to see that it failed for what was taken away.
fn keep(folder: &Path, one: &Mutation, said: &str) -> Outcome {
    let plain = |character: char| if character.is_alphanumeric() { character } else { '_' };
    let name: String = one.name().chars().map(plain).collect();
    tree::write(&folder.join("said").join(format!("{name}.txt")), said.as_bytes())
}
