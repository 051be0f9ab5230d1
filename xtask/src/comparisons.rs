//! What `biopsy compare` claims: of the same load twice nothing, of one function made slower that one, first.
//!
//! Recordings are taken in turn, the same program healthy and with one function slower, each a new process. Neighbours are held against
//! each other, so that what the machine does meanwhile is the same for both as far as it can be.

use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_testkit::{Program, TargetProcess};
use clap::Args;
use serde_json::Value;

use crate::run::{Outcome, output_of, release_program};

/// The functions of the program, by their number.
const FUNCTIONS: [&str; 5] = ["parse_order", "price_order", "check_stock", "render_invoice", "compress_page"];
/// None of them.
const NONE: usize = FUNCTIONS.len();

/// What `comparisons` is asked.
#[derive(Args)]
pub(crate) struct Options {
    /// Comparisons of each kind
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Length of each recording, in seconds
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// Samples per second and CPU
    #[arg(long, default_value_t = 2999)]
    frequency: u32,
    /// How much slower one function is made, in percent
    #[arg(long, default_value_t = 10)]
    percent: u32,
    /// Which function; all in turn: `all`
    #[arg(long, default_value = "price_order")]
    function: String,
    /// Orders a second
    #[arg(long, default_value_t = 800)]
    pace: u32,
    /// A biopsy; without it, the release program of this repository
    #[arg(long)]
    program: Option<PathBuf>,
    /// Keep the recordings in this folder, which must not exist
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Records and compares.
pub(crate) fn run(options: &Options) -> Outcome {
    let biopsy = match &options.program {
        Some(program) => {
            program.canonicalize().map_err(|error| format!("`{}`: {error}", program.display()))?
        }
        None => release_program()?,
    };
    let slow: Vec<usize> = match FUNCTIONS.iter().position(|name| *name == options.function) {
        Some(one) => vec![one],
        None if options.function == "all" => (0..NONE).collect(),
        None => return Err(format!("`{}` is none of {}", options.function, FUNCTIONS.join(", "))),
    };
    let folder = options
        .keep
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("comparisons-{}", std::process::id())));
    std::fs::create_dir(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let done = rounds(options, &biopsy, &slow, &folder);
    if options.keep.is_none() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    }
    done
}

fn rounds(options: &Options, biopsy: &Path, slow: &[usize], folder: &Path) -> Outcome {
    let (mut silent, mut named) = (0, 0);
    let mut before = record(options, biopsy, NONE, &folder.join("same-0.zip"))?;
    for round in 1..=options.rounds {
        let function = slow[(round - 1) % slow.len()];
        let slower = record(options, biopsy, function, &folder.join(format!("slow-{round}.zip")))?;
        let same = record(options, biopsy, NONE, &folder.join(format!("same-{round}.zip")))?;
        let claimed = claims(biopsy, &before, &same)?;
        silent += usize::from(claimed.is_empty());
        println!("{round:>3} same load twice      {}", said(&claimed));
        let claimed = claims(biopsy, &before, &slower)?;
        let wanted = FUNCTIONS.get(function).copied().unwrap_or_default();
        let first = claimed.first().is_some_and(|one| one["name"] == wanted && one["became"] == "slower");
        named += usize::from(first);
        println!(
            "{round:>3} {wanted:<14} +{} %  {} {}",
            options.percent,
            if first { "first:" } else { "MISSED:" },
            said(&claimed)
        );
        before = same;
    }
    println!("\nno difference claimed of the same load: {silent} of {}", options.rounds);
    println!("the slower function named first: {named} of {}", options.rounds);
    Ok(())
}

fn record(options: &Options, biopsy: &Path, slower: usize, file: &Path) -> Outcome<PathBuf> {
    let arguments = [slower.to_string(), options.percent.to_string(), options.pace.to_string()];
    let mut target = TargetProcess::start(Program::PacedServer, &arguments.each_ref().map(String::as_str));
    let mut capture = Command::new(biopsy);
    capture.args(["trace", &target.pid().to_string(), "--for", &format!("{}s", options.seconds)]);
    capture.args(["--frequency", &options.frequency.to_string()]);
    let recorded = output_of(capture.arg("--output").arg(file));
    target.stop();
    recorded.map(|_| file.to_owned())
}

fn claims(biopsy: &Path, before: &Path, after: &Path) -> Outcome<Vec<Value>> {
    let text = output_of(Command::new(biopsy).args(["compare", "--json"]).args([before, after]))?;
    let document: Value =
        serde_json::from_str(&text).map_err(|error| format!("`compare --json`: {error}"))?;
    Ok(document["differences"].as_array().cloned().unwrap_or_default())
}

fn said(claimed: &[Value]) -> String {
    let one = |one: &Value| {
        let change =
            one["change"].as_f64().map_or("new".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        format!("{} {} {change}", one["kind"].as_str().unwrap_or("?"), one["name"].as_str().unwrap_or("?"))
    };
    if claimed.is_empty() {
        "nothing claimed".to_owned()
    } else {
        claimed.iter().take(4).map(one).collect::<Vec<_>>().join(", ")
    }
}
