//! `biopsy ps`: the processes as a tree, what they use, and what may be captured of them.

mod json;

use biopsy_cli::PsArgs;

use anstyle::{AnsiColor, Style};
use biopsy_capture::survey::{CPU_INTERVAL, Row, processes};
use biopsy_capture::{Failure, FailureKind};
use biopsy_foreground::{Code, out};
use biopsy_model::Pid;
use biopsy_model::process::{ProcessInfo, RuntimeKind};
use biopsy_target::{Access, Allowed, Surveyed, printable, short_command, up_time_short};

use biopsy_terminal::table::wrap;
use biopsy_terminal::{Align, Cell, Column, Terminal, tree_lines};

/// Runs `biopsy ps`.
pub(crate) fn ps(args: &PsArgs, terminal: Terminal) -> Result<Code, Failure> {
    let rows = processes(args.kernel, args.filter.as_deref()).map_err(|error| {
        let message = format!("cannot list processes in `/proc`: {error}");
        Failure::new(FailureKind::Target, message).with_hint(Some("mount it: `mount -t proc proc /proc`"))
    })?;
    if let Some(filter) = args.filter.as_ref().filter(|_| rows.is_empty()) {
        return Err(Failure::new(FailureKind::Target, format!("no process matches `{}`", printable(filter)))
            .with_hint(Some("`biopsy ps` without a name lists all")));
    }
    if args.json {
        return out::document(&json::document(&rows, CPU_INTERVAL));
    }
    let on = biopsy_standby::restore::summary().map(|on| format!("\n{}\n", printable(&on)));
    out::text(&(tree_text(&rows, terminal) + &on.unwrap_or_default()), terminal.colour)
}

fn tree_text(rows: &[Row], terminal: Terminal) -> String {
    let ids: Vec<(Pid, Pid)> =
        rows.iter().map(|row| (row.process.info.key.pid, row.process.info.parent)).collect();
    let mut notes = Notes::default();
    // Readings taken at different moments may contradict each other: a parent may seem to be a child of its child.
    let lines = tree_lines(&ids, terminal.unicode);
    let cells: Vec<Vec<Cell>> =
        lines.iter().map(|line| cells(&rows[line.row], &line.before, &mut notes)).collect();
    out::table_text(terminal, COLUMNS, &cells) + &notes.text(terminal)
}

const COLUMNS: &[Column] = &[
    Column { title: "PID", align: Align::Right, expendable: 0 },
    Column { title: "USER", align: Align::Left, expendable: 3 },
    Column { title: "CPU", align: Align::Right, expendable: 2 },
    Column { title: "MEMORY", align: Align::Right, expendable: 1 },
    Column { title: "THREADS", align: Align::Right, expendable: 4 },
    Column { title: "UP", align: Align::Right, expendable: 5 },
    Column { title: "RUNTIME", align: Align::Left, expendable: 0 },
    Column { title: "CAPTURE", align: Align::Left, expendable: 0 },
    Column { title: "PROCESS", align: Align::Left, expendable: 0 },
];

const DIM: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const BOLD: Style = Style::new().bold();

fn cells(row: &Row, lines: &str, notes: &mut Notes) -> Vec<Cell> {
    let process = &row.process;
    let info = &process.info;
    let usage = &process.usage;
    let (name, arguments) = title(process);
    let managed = !matches!(info.runtime.kind, RuntimeKind::Native | RuntimeKind::Unknown);
    vec![
        Cell::new(info.key.pid.to_string()),
        Cell::new(printable(&process.user)),
        Cell::new(row.cores.map_or_else(|| "-".to_owned(), |cores| format!("{:.0}%", cores * 100.0))),
        Cell::new(memory_text(usage.resident_bytes)),
        Cell::new(usage.threads.to_string()),
        Cell::new(up_time_short(usage.up_seconds)),
        if managed { Cell::new(runtime_text(info)) } else { Cell::styled(runtime_text(info), DIM) },
        notes.capture(&process.access, row.events.as_ref()),
        Cell::styled(format!("{lines}{name}"), if managed { BOLD } else { Style::new() })
            .then(&arguments, DIM),
    ]
}

/// Name and the rest of the command line, as one would type it, without the folders of the program.
fn title(process: &Surveyed) -> (String, String) {
    let info = &process.info;
    if process.is_zombie {
        return (printable(&info.name), " (ended)".to_owned());
    }
    let entry = info.runtime.entry.as_deref();
    let (name, rest) = short_command(&info.name, &info.exe, entry, &info.command_line);
    let rest = if rest.is_empty() { rest } else { format!(" {rest}") };
    (printable(&name), printable(&rest))
}

fn runtime_text(info: &ProcessInfo) -> String {
    let runtime = &info.runtime;
    let name = match runtime.kind {
        // Told by the name of the program, which says more than a common word.
        RuntimeKind::OtherInterpreter if info.exe.is_empty() => return printable(&info.name),
        RuntimeKind::OtherInterpreter => return printable(info.exe.rsplit('/').next().unwrap_or_default()),
        kind => kind.name(),
    };
    match &runtime.version {
        Some(version) => format!("{name} {}", printable(version)),
        None => name.to_owned(),
    }
}

fn memory_text(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let mib = bytes as f64 / 1_048_576.0;
    if mib >= 10_240.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

/// Why not everything can be captured: each reason is written once, below the table.
#[derive(Default)]
struct Notes {
    reasons: Vec<String>,
    hint: Option<String>,
}

impl Notes {
    fn capture(&mut self, access: &Access, events: Option<&Allowed>) -> Cell {
        let mut parts =
            vec![("trace", &access.trace), ("metrics", &access.metrics), ("memory", &access.memory)];
        parts.extend(events.map(|events| ("runtime events", events)));
        if parts.iter().all(|(_, allowed)| **allowed == Allowed::Full) {
            return Cell::styled("all", GREEN);
        }
        let none = parts.iter().all(|(_, allowed)| matches!(allowed, Allowed::No { .. }));
        for (_, allowed) in &parts {
            if let Allowed::Limited { hint: Some(hint), .. } | Allowed::No { hint: Some(hint), .. } = allowed
            {
                self.hint.get_or_insert_with(|| hint.clone());
            }
        }
        let reason = reason(&parts);
        let number = self.reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        });
        let word = if none { "nothing" } else { "part" };
        Cell::styled(format!("{word} ({})", number + 1), if none { DIM } else { YELLOW })
    }

    fn text(&self, terminal: Terminal) -> String {
        let seconds = CPU_INTERVAL.as_secs_f64();
        let mut lines = vec![format!("CPU over {seconds} s; 100% is one processor")];
        lines.extend(self.reasons.iter().enumerate().map(|(at, reason)| format!("({}) {reason}", at + 1)));
        lines.extend(self.hint.iter().map(|hint| format!("more: {hint}")));
        let parts = lines.iter().flat_map(|line| wrap(line, terminal.width.unwrap_or(usize::MAX)));
        parts.fold("\n".to_owned(), |text, part| text + &terminal.paint(DIM, &part) + "\n")
    }
}

/// One line: what is limited, what is missing, and why; the same reason is not repeated.
fn reason(parts: &[(&str, &Allowed)]) -> String {
    let mut texts: Vec<(String, &str)> = Vec::new();
    for (name, allowed) in parts {
        let Some(why) = allowed.why() else { continue };
        let what = match allowed {
            Allowed::No { .. } => format!("no {name}"),
            _ => format!("{name} limited"),
        };
        match texts.iter_mut().find(|(_, known)| *known == why) {
            Some((known, _)) => *known = format!("{known}, {what}"),
            None => texts.push((what, why)),
        }
    }
    let texts: Vec<_> = texts.into_iter().map(|(what, why)| format!("{what}: {why}")).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests;
