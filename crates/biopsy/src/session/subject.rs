//! Whom to record: found by name, or started here.

use std::process::{Child, Command};

use biopsy_dotnet_ipc::ReversePort;
use biopsy_model::Pid;
use biopsy_model::printable::printable;
use biopsy_model::process::ProcessInfo;
use biopsy_sys::launch::Held;
use biopsy_target::{Selector, Status, Wanted, check_same, find, preflight};

use crate::cli::CaptureArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::out;
use crate::render::terminal::Terminal;

use super::Kind;
use super::output::Place;

/// The process that is recorded.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) info: ProcessInfo,
    /// For headings and file names.
    pub(crate) name: String,
    /// Forked by us, and waiting to be released into its program.
    pub(crate) held: Option<Held>,
    /// Where runtimes of what is started connect to.
    pub(crate) port: Option<ReversePort>,
}

impl Subject {
    pub(crate) fn pid(&self) -> Pid {
        self.info.key.pid
    }

    /// The process and, unless they are not wanted, all its descendants.
    pub(crate) fn tree(&self, args: &CaptureArgs) -> std::io::Result<Vec<ProcessInfo>> {
        let mut tree = if args.no_children { Vec::new() } else { biopsy_target::tree(self.pid())? };
        // Biopsy itself may have been started by its target's shell; it does not record itself.
        tree.retain(|process| process.key.pid.0 != std::process::id());
        // A held program is described as what it will be, not as the copy of biopsy that it still is.
        tree.retain(|process| process.key.pid != self.pid());
        tree.insert(0, self.info.clone());
        Ok(tree)
    }

    /// Refuses if the pid means another process by now.
    pub(crate) fn check_same(&self) -> Result<(), Failure> {
        check_same(&self.info.key)
            .map_err(|error| Failure::from_error(Code::Target, &error).with_hint(error.hint()))
    }

    /// Lets a started program run.
    pub(crate) fn release(&mut self) -> Result<Option<Child>, Failure> {
        let Some(held) = self.held.take() else { return Ok(None) };
        held.release().map(Some).map_err(|error| {
            Failure::new(Code::Target, format!("cannot execute `{}`: {error}", self.info.exe))
        })
    }
}

/// Finds the named process, or forks the program.
pub(crate) fn find_or_start(args: &CaptureArgs) -> Result<Subject, Failure> {
    if let Some(program) = args.program.first() {
        let mut command = Command::new(program);
        command.args(&args.program[1..]);
        let shown = program.to_string_lossy().into_owned();
        let port = if args.no_runtime_events { None } else { super::dotnet::prepare(&mut command) };
        let held = Held::start(command)
            .map_err(|error| Failure::new(Code::Target, format!("cannot start `{shown}`: {error}")))?;
        let mut info = biopsy_target::list::process(held.pid()).map_err(|error| {
            Failure::new(Code::Target, format!("cannot read what was started for `{shown}`: {error}"))
        })?;
        let name = shown.rsplit('/').next().unwrap_or(&shown).to_owned();
        // It is still a copy of biopsy: say what it is about to become.
        info.name.clone_from(&name);
        info.exe = shown;
        info.command_line = args.program.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        return Ok(Subject { info, name, held: Some(held), port });
    }
    let text = args.target.as_deref().unwrap_or_default();
    let selector = Selector::parse(text)
        .map_err(|error| Failure::from_error(Code::Usage, &error).with_hint(error.hint()))?;
    let target =
        find(&selector).map_err(|error| Failure::from_error(Code::Target, &error).with_hint(error.hint()))?;
    let name = display_name(&selector, &target.info);
    Ok(Subject { info: target.info, name, held: None, port: None })
}

/// What a process is called in headings and file names: its entry assembly or script when it was asked for by name, or
/// when its own name is that of the runtime, which says nothing.
pub(crate) fn display_name(selector: &Selector, info: &ProcessInfo) -> String {
    match &info.runtime.entry {
        Some(entry) if matches!(selector, Selector::Name(_)) || is_runtime_name(&info.name) => {
            let file = entry.rsplit('/').next().unwrap_or(entry);
            file.strip_suffix(".dll").unwrap_or(file).to_owned()
        }
        _ => info.name.clone(),
    }
}

fn is_runtime_name(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(stem, "dotnet" | "java" | "node" | "python" | "ruby" | "php" | "perl")
}

/// Looks before anything is touched whether it can work, and says what will be missing.
pub(crate) fn check(
    subject: &Subject,
    args: &CaptureArgs,
    kind: Kind,
    place: &Place,
    terminal: Terminal,
) -> Result<(), Failure> {
    let wanted = Wanted {
        trace: true,
        metrics: kind == Kind::Capture,
        memory: false,
        output: Some(place.result().to_owned()),
        output_bytes: None,
    };
    let checks = preflight(subject.pid(), &wanted);
    let own = subject.held.is_some();
    for check in checks.iter().filter(|check| check.status != Status::Ok && !own) {
        if !args.quiet {
            let text =
                format!("{} {}: {}\n", terminal.paint(NOTE, "note:"), check.name, printable(&check.detail));
            out::to_stderr(&text, terminal.colour);
            if let Some(hint) = &check.hint {
                out::say(format_args!("      {hint}"));
            }
        }
    }
    Ok(())
}

/// Notes are yellow.
pub(crate) const NOTE: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();
