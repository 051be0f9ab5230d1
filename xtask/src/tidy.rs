//! The rules of the repository that no compiler checks.

mod circles;
mod edges;
mod licences;
mod modules;
mod numbers;
mod orphans;
mod ratio;
pub(crate) mod sources;

use crate::run::Outcome;

/// What it does.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Options {
    /// Prints lines of tests for each line of code, by crate, and checks nothing
    #[arg(long)]
    ratio: bool,
}

/// Checks, or prints the table of tests.
pub(crate) fn run(options: Options) -> Outcome {
    match options.ratio {
        true => {
            print!("{}", ratio::table(&sources::tracked_files()?)?);
            Ok(())
        }
        false => check(),
    }
}

/// Checks everything and lists every violation, not only the first.
fn check() -> Outcome {
    let metadata = crate::run::metadata()?;
    let files = sources::tracked_files()?;
    let mut found = edges::violations(&edges::Graph::of(&metadata, &files)?);
    found.extend(circles::violations(&files)?);
    found.extend(orphans::violations(&files)?);
    found.extend(edges::servers_below_the_program(&metadata));
    found.extend(licences::violations(&metadata));
    found.extend(numbers::violations(&files)?);
    found.extend(sources::violations(&files)?);
    for note in sources::long_files(&files)? {
        println!("note: {note}");
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("{} violations:\n  {}", found.len(), found.join("\n  "))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_keeps_its_rules() {
        super::check().unwrap();
    }
}
