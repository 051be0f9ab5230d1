//! Command line and environment: the texts that hold most secrets, masked piece by piece.

use biopsy_model::order::Order as _;
use std::fmt::Write as _;

use biopsy_model::Pid;
use biopsy_recording::WriteError;
use biopsy_redact::Hit;

use super::config::Config;
use super::members::{Members, one_line};
use crate::masking::Masking;
use crate::preview::{Preview, PreviewLine};

/// Bytes of each that are shown beforehand.
const MOST_BYTES: usize = 1 << 20;
/// Variables and arguments beyond this many are counted instead.
const MOST_LINES: usize = 5_000;

/// Writes both. The environment is gone over first: what it gives away is learned.
pub(super) fn write(members: &mut Members<'_>) -> Result<(), WriteError> {
    write_environment(members)?;
    write_command_line(members)
}

fn write_environment(members: &mut Members<'_>) -> Result<(), WriteError> {
    let Some(bytes) = members.read("environ") else { return Ok(()) };
    let member = members.member("environment.txt");
    let (lines, left_out) = variables(members.masking, &bytes);
    let mut text = String::new();
    for line in &lines {
        members.masking.log().add(&member, &line.hits);
        let _ = writeln!(text, "{}", line.text);
    }
    if left_out > 0 {
        let _ = writeln!(text, "[{left_out} entries that are no variables, or too many, left out]");
    }
    members.write_masked(&member, &text)
}

/// A line of text without its secrets.
struct Line {
    text: String,
    hits: Vec<Hit>,
}

/// All variables, by name, and how many entries are none or too many.
fn variables(masking: &Masking, bytes: &[u8]) -> (Vec<Line>, usize) {
    let mut lines = Vec::new();
    let mut left_out = 0;
    for entry in split(bytes) {
        // A program that overwrites its environment to set its title leaves anything here.
        let entry = entry.split_once('=').filter(|(name, _)| is_name(name) && lines.len() < MOST_LINES);
        let Some((name, value)) = entry else {
            left_out += 1;
            continue;
        };
        let shown = masking.redactor().env(name, value);
        let text = format!("{name}={}", one_line(shown.to_string().as_bytes()));
        lines.push(Line { text, hits: shown.hits });
    }
    lines.order_by(|one, other| one.text.cmp(&other.text));
    (lines, left_out)
}

/// Environment and arguments of a process as they would be recorded.
#[must_use]
pub fn preview(process: Pid, masking: &Masking) -> [Preview; 2] {
    let read = |name: &str| {
        let bytes = Config::default().root.process(process).and_then(|dir| dir.read(name, MOST_BYTES));
        bytes.map_err(|error| error.to_string())
    };
    let environment = read("environ").map(|bytes| {
        let lines = variables(masking, &bytes).0;
        lines.into_iter().map(|line| PreviewLine::new(line.text, line.hits)).collect()
    });
    let arguments = read("cmdline").map(|bytes| {
        let args: Vec<String> = split(&bytes).take(MOST_LINES).collect();
        let masked = masking.redactor().command_line(&args);
        vec![PreviewLine::new(one_line(masked.args.join(" ").as_bytes()), masked.hits)]
    });
    [
        Preview { source: format!("environment of process {process}"), lines: environment },
        Preview { source: format!("arguments of process {process}"), lines: arguments },
    ]
}

/// Letters, digits, `_` and what .NET and shells put in names; nothing that could be a value.
fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_.-:()%".contains(c);
    !name.is_empty() && name.len() <= 256 && name.chars().all(good)
}

fn write_command_line(members: &mut Members<'_>) -> Result<(), WriteError> {
    let Some(bytes) = members.read("cmdline") else { return Ok(()) };
    let member = members.member("command-line.txt");
    let args: Vec<String> = split(&bytes).take(MOST_LINES).collect();
    let masked = members.masking.redactor().command_line(&args);
    members.masking.log().add(&member, &masked.hits);
    let mut text = String::new();
    for (index, arg) in masked.args.iter().enumerate() {
        let _ = writeln!(text, "[{index}] {}", one_line(arg.as_bytes()));
    }
    for link in ["exe", "cwd", "root"] {
        let target = members.dir.link(link);
        if let Some(target) = members.note(link, target) {
            let target = one_line(&target);
            let _ = writeln!(text, "{link}: {}", members.masking.text(&member, &target));
        }
    }
    members.write_masked(&member, &text)
}

/// Pieces between zero bytes.
fn split(bytes: &[u8]) -> impl Iterator<Item = String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let pieces = (!bytes.is_empty()).then(|| bytes.split(|byte| *byte == 0));
    pieces.into_iter().flatten().map(|piece| String::from_utf8_lossy(piece).into_owned())
}
