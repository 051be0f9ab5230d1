//! `biopsy doctor`: what this machine and account can do, and the exact command that would allow more.

use anstyle::{AnsiColor, Style};
use biopsy_capture::Failure;
use biopsy_capture::survey::runtime_events;
use biopsy_cli::DoctorArgs;
use biopsy_foreground::{Code, out};
use biopsy_target::{Check, Status};
use serde::Serialize;

use biopsy_terminal::Terminal;
use biopsy_terminal::table::wrap;

/// Runs `biopsy doctor`. That something is limited is an answer, not a failure.
pub(crate) fn doctor(args: &DoctorArgs, terminal: Terminal) -> Result<Code, Failure> {
    let mut checks = biopsy_target::doctor();
    checks.extend(runtime_events());
    checks.extend(standing());
    if !args.json {
        return out::text(&checks_text(terminal, &checks), terminal.colour);
    }
    let checks = checks.iter().map(|check| CheckJson {
        name: check.name,
        status: check.status.word(),
        detail: &check.detail,
        hint: check.hint.as_deref(),
    });
    out::document(&Document { schema: 1, checks: checks.collect() })
}

/// What the watcher of this user has on; `None`: nothing.
fn standing() -> Option<Check> {
    let detail = biopsy_standby::restore::summary()?;
    let hint = Some("`biopsy restore` switches it off".to_owned());
    Some(Check { name: "watch", status: Status::Ok, detail, hint })
}

/// Checks as an aligned list, with their hints.
fn checks_text(terminal: Terminal, checks: &[Check]) -> String {
    let mut text = String::new();
    let names = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    // Sign, word and name, each with a gap.
    let indent = 2 + "limited".len() + 2 + names + 2;
    let room = terminal.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(30));
    for check in checks {
        let (sign, style) = sign(check.status, terminal.unicode);
        let status = format!("{sign} {:7}", check.status.word());
        let mut lines = wrap(&check.detail, room).into_iter();
        let first = lines.next().unwrap_or_default();
        text.push_str(&format!("{}  {:names$}  {first}\n", terminal.paint(style, &status), check.name));
        text.extend(lines.map(|line| format!("{:indent$}{line}\n", "")));
        let hint = check.hint.iter().flat_map(|hint| wrap(&format!("hint: {hint}"), room));
        let hint = hint.map(|line| terminal.paint(AnsiColor::Cyan.on_default(), &line));
        text.extend(hint.map(|line| format!("{:indent$}{line}\n", "")));
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let [ok, limited, missing] = [Status::Ok, Status::Limited, Status::Missing].map(count);
    text + &format!("\n{ok} ok, {limited} limited, {missing} missing\n")
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
        let terminal = Terminal { width: Some(52), colour: false, unicode: false };
        assert_eq!(
            checks_text(terminal, &checks),
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
