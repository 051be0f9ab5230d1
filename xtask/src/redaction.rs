//! `cargo xtask redaction`: planted secrets of hundreds of kinds at dozens of places, and how many the redactor masks.
//!
//! Kinds and places are tables in `fixtures/secrets`; what is made from them is the same in each run. Kinds and places
//! belong to half A or B by their names, or to half C, D, E, F, G, H or I, which have tables of their own. The rest of E is half of its
//! kinds, which were held out longer; rules may be tuned on all of them but I, which is held out: its misses are never shown.

mod case;
mod checksum;
mod clean;
mod corpus;
mod detect_secrets;
mod encode;
mod engine;
mod escape;
mod gitleaks;
mod half;
mod kinds;
mod memory;
mod needle;
mod ordinary;
mod places;
mod random;
mod score;
mod shape;
mod spans;
mod speed;
mod table;
#[cfg(test)]
mod tests;
mod wellformed;
mod wrapping;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use regex::Regex;

use crate::run::{Outcome, target_folder};
use detect_secrets::DetectSecrets;
use engine::{Biopsy, Engine};
use gitleaks::Gitleaks;
use half::Half;
use score::Miss;
use table::Results;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Another corpus of the same kinds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only cases whose name (`beside a key / api-key / yaml`) matches
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Print so many misses of the halves that rules may be tuned on; all of them are in `target/redaction/misses.txt` anyway
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "100")]
    show: Option<usize>,
    /// gitleaks' table of rules (`config/gitleaks.toml` of its repository), to be scored beside
    #[arg(long, value_name = "FILE")]
    gitleaks: Option<PathBuf>,
    /// A Python with the package `detect-secrets`, to be scored beside
    #[arg(long, value_name = "PYTHON")]
    detect_secrets: Option<PathBuf>,
    /// Measure the speed on one core and the memory too, with a release build
    #[arg(long)]
    speed: bool,
    /// Score one half only: `a`, `b`, `mixed` (a kind of A at a place of B or the other way round), `c`, `d`, `e` (with its rest), `rest`, `f`, `g`, `h` or `i`
    #[arg(long)]
    half: Option<Half>,
    /// Score every n-th case only
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
}

impl Options {
    /// Everything once, without peers.
    pub(crate) fn usual() -> Self {
        Self {
            seed: 1,
            only: None,
            show: None,
            gitleaks: None,
            detect_secrets: None,
            speed: true,
            half: None,
            every: 1,
        }
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let kinds = kinds::read_all()?;
    let places = places::AllPlaces::read()?;
    let mut cases = corpus::make(options.seed, &kinds, &places);
    let mut samples = clean::samples()?;
    let mut look_alikes = clean::look_alikes(options.seed)?;
    if let Some(half) = options.half {
        cases.retain(|case| case.half == half || case.half.tables() == half);
        samples.retain(|sample| sample.half == half);
        look_alikes.retain(|sample| sample.half == half);
    }
    println!(
        "{} planted secrets of {} kinds; {} clean lines of {} sorts; {} look-alikes",
        cases.len(),
        kinds.len(),
        samples.iter().map(|sample| sample.text.lines().count()).sum::<usize>(),
        samples.len(),
        look_alikes.len()
    );
    if let Some(only) = &options.only {
        cases.retain(|case| only.is_match(&case.name()));
    }
    let mut number = 0;
    cases.retain(|_| {
        number += 1;
        number % options.every.max(1) == 0
    });
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Biopsy::new()?)];
    if let Some(path) = &options.gitleaks {
        let gitleaks = Gitleaks::read(path)?;
        if !gitleaks.left_out.is_empty() {
            println!("note: gitleaks' rules that cannot be compiled here: {}", gitleaks.left_out.join(", "));
        }
        engines.push(Box::new(gitleaks));
    }
    if let Some(python) = &options.detect_secrets {
        engines.push(Box::new(DetectSecrets::new(python)));
    }
    let mut all = Vec::new();
    for engine in engines {
        let begin = Instant::now();
        let score = score::score(&*engine, &cases)?;
        let damage = clean::damage(&*engine, &samples, &look_alikes)?;
        println!("{}: {:.0} s", engine.name(), begin.elapsed().as_secs_f64());
        all.push(Results { name: engine.name().to_owned(), score, damage });
    }
    println!("\n{}", table::markdown(&all));
    let folder = target_folder()?.join("redaction");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    if options.speed {
        println!("{}", speed::measure(&samples, &folder)?);
    }
    let facts = serde_json::json!({ "seed": options.seed, "kinds": kinds.len(), "cases": cases.len() });
    write(&folder.join("redaction.json"), &format!("{:#}\n", table::json(&all, facts)))?;
    let misses: Vec<&Miss> = all[0].score.misses.iter().chain(&all[0].damage.misses).collect();
    write(&folder.join("misses.txt"), &shown(&misses))?;
    if let Some(count) = options.show {
        println!("{}", shown(&misses[..misses.len().min(count)]));
    }
    let open: Vec<String> = Half::ALL.iter().filter(|half| half.is_open()).map(ToString::to_string).collect();
    let file = folder.join("misses.txt");
    println!("{} misses of half {} are in `{}`", misses.len(), open.join(", "), file.display());
    Ok(())
}

/// Misses, with what was given and what came out.
fn shown(misses: &[&Miss]) -> String {
    let mut text = String::new();
    for miss in misses {
        let short =
            |text: &str| text.chars().take(600).collect::<String>().trim_end().replace('\n', "\n    ");
        let _ = writeln!(text, "{}\n  < {}\n  > {}", miss.case, short(&miss.given), short(&miss.came_out));
    }
    text
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}
