//! `biopsy config`: the settings of what stands by.

mod show;

use biopsy_cli::{ConfigArgs, ConfigCommand};

use biopsy_capture::Failure;
use biopsy_standby::settings::{self, Edited};

use biopsy_cli::standing::check;
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::Terminal;

/// Runs `biopsy config`.
pub(crate) fn run(args: &ConfigArgs, terminal: Terminal) -> Result<Code, Failure> {
    match &args.command {
        ConfigCommand::Path => path(),
        ConfigCommand::Show { origin } => show::show(*origin, terminal),
        ConfigCommand::Check { files } => show::check(files),
        ConfigCommand::Set { key, value, machine } => set(key, value, *machine),
        ConfigCommand::Edit { machine } => edit(*machine),
        ConfigCommand::Kinds => kinds(),
        ConfigCommand::Schema => out::document(&biopsy_watch::settings::schema()),
    }
}

fn path() -> Result<Code, Failure> {
    let mut text = String::new();
    for (name, path) in settings::files(None)? {
        let there = if path.symlink_metadata().is_ok() { "" } else { " (not there)" };
        text.push_str(&format!("{name:8} {}{there}\n", path.display()));
    }
    out::text(&text, false)
}

fn set(key: &str, value: &str, machine: bool) -> Result<Code, Failure> {
    let set = settings::set(key, value, machine, &check)?;
    for warning in &set.warnings {
        out::say(format_args!("{warning}"));
    }
    out::text(&format!("{key} is {} in {}\n", set.value, set.path.display()), false)
}

fn edit(machine: bool) -> Result<Code, Failure> {
    match settings::edit(machine, &check, &mut |line| out::say(line))? {
        Edited::Unchanged => out::text("nothing was changed\n", false),
        Edited::Holds(path) => out::text(&format!("{} is in order, and holds\n", path.display()), false),
    }
}

fn kinds() -> Result<Code, Failure> {
    let kinds = settings::load(None, &check)?.settings.kinds;
    let line = |name: &str| match kinds.knows(name) {
        Some(true) => format!("{name}\n"),
        Some(false) | None => format!("{name} (none on Linux)\n"),
    };
    out::text(&kinds.names().map(line).collect::<String>(), false)
}
