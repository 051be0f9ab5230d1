//! `biopsy doctor`: what this machine and account can do, and the exact command that would allow more.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use biopsy_capture::survey::runtime_events;
use biopsy_target::{Check, Status, doctor};
use serde::Serialize;

use crate::render::table::wrap;
use crate::render::terminal::Terminal;

/// Say what this machine and account can do, and what would allow more.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// For programs: one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs `biopsy doctor`. That something is limited is an answer, not a failure.
///
/// # Errors
/// The output was closed, or could not be written.
pub(crate) fn run(args: &DoctorArgs, out: &mut dyn Write, terminal: &Terminal) -> io::Result<()> {
    let mut checks = doctor();
    checks.extend(runtime_events());
    checks.extend(standing());
    if args.json { write_json(out, &checks) } else { write_checks(out, *terminal, &checks) }
}

/// What the watcher of this user has on; `None`: nothing.
fn standing() -> Option<Check> {
    let detail = biopsy_standby::restore::summary()?;
    let hint = Some("`biopsy restore` switches it off".to_owned());
    Some(Check { name: "watch", status: Status::Ok, detail, hint })
}

/// Writes checks as an aligned list, with their hints; also for the preflight of a capture.
///
/// # Errors
/// What writing gives.
pub(crate) fn write_checks(out: &mut dyn Write, terminal: Terminal, checks: &[Check]) -> io::Result<()> {
    let names = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    // Sign, word and name, each with a gap.
    let indent = 2 + "limited".len() + 2 + names + 2;
    let room = terminal.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(30));
    for check in checks {
        let (sign, style) = sign(check.status, terminal.unicode);
        let status = format!("{sign} {:7}", check.status.word());
        let mut lines = wrap(&check.detail, room).into_iter();
        let first = lines.next().unwrap_or_default();
        writeln!(out, "{}  {:names$}  {first}", terminal.paint(style, &status), check.name)?;
        for line in lines {
            writeln!(out, "{:indent$}{line}", "")?;
        }
        let hint = check.hint.iter().flat_map(|hint| wrap(&format!("hint: {hint}"), room));
        for line in hint {
            writeln!(out, "{:indent$}{}", "", terminal.paint(AnsiColor::Cyan.on_default(), &line))?;
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    writeln!(
        out,
        "\n{} ok, {} limited, {} missing",
        count(Status::Ok),
        count(Status::Limited),
        count(Status::Missing)
    )
}

fn sign(status: Status, unicode: bool) -> (&'static str, Style) {
    match (status, unicode) {
        (Status::Ok, true) => ("✓", AnsiColor::Green.on_default()),
        (Status::Ok, false) => ("+", AnsiColor::Green.on_default()),
        (Status::Limited, _) => ("!", AnsiColor::Yellow.on_default()),
        (Status::Missing, true) => ("✗", AnsiColor::Red.on_default()),
        (Status::Missing, false) => ("x", AnsiColor::Red.on_default()),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    checks: Vec<CheckJson<'a>>,
}

/// `status` is `ok`, `limited` or `missing`.
#[derive(Serialize)]
struct CheckJson<'a> {
    name: &'a str,
    status: &'static str,
    detail: &'a str,
    hint: Option<&'a str>,
}

fn write_json(out: &mut dyn Write, checks: &[Check]) -> io::Result<()> {
    let checks = checks.iter().map(|check| CheckJson {
        name: check.name,
        status: check.status.word(),
        detail: &check.detail,
        hint: check.hint.as_deref(),
    });
    serde_json::to_writer_pretty(&mut *out, &Document { schema: 1, checks: checks.collect() })?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_readable_without_colour_and_lines_fit() {
        let check = |name, status, hint: Option<&str>| Check {
            name,
            status,
            detail: "some words that say what was found here".to_owned(),
            hint: hint.map(str::to_owned),
        };
        let checks = [
            check("kernel", Status::Ok, None),
            check("sampling", Status::Limited, Some("`sudo x`")),
            check("disk", Status::Missing, None),
        ];
        let mut out = Vec::new();
        let terminal = Terminal { width: Some(52), colour: false, unicode: false };
        write_checks(&mut out, terminal, &checks).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\
+ ok       kernel    some words that say what was
                     found here
! limited  sampling  some words that say what was
                     found here
                     hint: `sudo x`
x missing  disk      some words that say what was
                     found here

1 ok, 1 limited, 1 missing
"
        );
    }
}
