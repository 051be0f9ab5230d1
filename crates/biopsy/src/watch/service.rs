//! The watcher as a service of systemd: written, started, asked, and taken away again.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biopsy_capture::{Failure, FailureKind};
use biopsy_model::printable::printable;
use biopsy_watch::Settings;

use crate::exit_codes::Code;
use crate::render::out;
use crate::standing::journal::JournalFolder;
use crate::standing::{places, restore, results};

use super::args::{ServiceVerb, WatchArgs};
use super::unit::{NAME, OURS, Unit};

/// The service of the machine, or that of one user.
struct Service {
    is_user: bool,
}

/// Writes the unit, and starts it now and at each start of the machine.
pub(super) fn install(args: &WatchArgs, settings: &Settings) -> Result<Code, Failure> {
    let service = Service::of(args);
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(FailureKind::Bug, format!("cannot tell which program this is: {error}"))
    })?;
    if !service.is_user {
        refuse_what_others_may_write(&program)?;
    }
    let journal = JournalFolder::usual()?;
    let results = args.output.clone().unwrap_or_else(|| results::folder(settings, &journal));
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| {
            Failure::new(FailureKind::Usage, format!("cannot tell where `{}` is: {error}", path.display()))
        })
    };
    let unit = Unit {
        program,
        config: args.config.as_deref().map(absolute).transpose()?,
        output: args.output.as_deref().map(absolute).transpose()?,
        length: args.length,
        is_user: service.is_user,
    };
    let path = service.path()?;
    let was_there = match std::fs::read_to_string(&path) {
        Ok(text) if !text.starts_with(OURS) => {
            let message = format!("`{}` is not by biopsy, and stays as it is", path.display());
            return Err(Failure::new(FailureKind::Output, message));
        }
        Ok(text) => Some(text),
        Err(_) => None,
    };
    write(&path, &unit.text()?)?;
    let started = service
        .control(&["daemon-reload"])
        .and_then(|()| service.control(&["enable", "--quiet", NAME]))
        .and_then(|()| service.control(&["restart", NAME]));
    if let Err(failure) = started {
        // As it was before.
        let _ = match was_there {
            Some(text) => write(&path, &text),
            None => {
                let _ = service.control(&["disable", "--now", "--quiet", NAME]);
                std::fs::remove_file(&path).map_err(|error| unwritable(&path, &error))
            }
        };
        let _ = service.control(&["daemon-reload"]);
        return Err(failure);
    }
    let flag = if service.is_user { " --user" } else { "" };
    let text = format!(
        "the watcher runs, and starts with {}\nunit: {}\nresults: {}\n`biopsy watch{flag} status`, `stop`, `start`, `logs`; `biopsy watch{flag} --uninstall` takes it away\n",
        if service.is_user { "this user's sessions" } else { "the machine" },
        printable(&path.display().to_string()),
        printable(&results.display().to_string()),
    );
    out::text(&text, false)
}

/// Stops the service and removes the unit. Results and settings stay.
pub(super) fn uninstall(args: &WatchArgs) -> Result<Code, Failure> {
    let service = Service::of(args);
    let path = service.path()?;
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.starts_with(OURS) => {
            let message = format!("`{}` is not by biopsy, and stays as it is", path.display());
            return Err(Failure::new(FailureKind::Output, message));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = format!("there is no service: no `{}`\n", printable(&path.display().to_string()));
            return out::text(&text, false);
        }
        Err(error) => return Err(unwritable(&path, &error)),
    }
    // The unit goes also where systemd does not answer: nothing starts then any more.
    let stopped = service.control(&["disable", "--now", "--quiet", NAME]);
    std::fs::remove_file(&path).map_err(|error| unwritable(&path, &error))?;
    stopped?;
    service.control(&["daemon-reload"])?;
    // It is not failed any more, if it was; a service that never failed cannot be reset.
    let _ = service.control(&["reset-failed", NAME]);
    let journal = JournalFolder::usual()?;
    let mut text: String =
        restore::clean_up(&journal, false)?.iter().map(|line| format!("{}\n", printable(line))).collect();
    text.push_str(
        "the service is gone, and nothing is on any more; settings and results stay where they are\n",
    );
    out::text(&text, false)
}

/// Hands a question about the service on to systemd, which answers on the terminal itself.
pub(super) fn ask(verb: ServiceVerb, args: &WatchArgs) -> Result<Code, Failure> {
    let service = Service::of(args);
    let mut command = match verb {
        ServiceVerb::Logs => {
            let mut command = Command::new("journalctl");
            command.args([if service.is_user { "--user-unit" } else { "--unit" }, NAME, "--lines", "200"]);
            command
        }
        ServiceVerb::Status => service.command(&["status", NAME]),
        ServiceVerb::Stop => service.command(&["stop", NAME]),
        ServiceVerb::Start => service.command(&["start", NAME]),
    };
    let status = command.arg("--no-pager").status().map_err(|error| no_systemd(&command, &error))?;
    // 3: it does not run, which is an answer.
    Ok(if status.success() { Code::Ok } else { Code::Partial })
}

/// Whether the machine's service is meant, which runs as root.
pub(super) fn is_of_machine(args: &WatchArgs) -> bool {
    !args.user && rustix::process::geteuid().is_root()
}

impl Service {
    fn of(args: &WatchArgs) -> Self {
        Self { is_user: !is_of_machine(args) }
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        if !self.is_user {
            return Ok(Path::new("/etc/systemd/system").join(NAME));
        }
        let folder = places::user_folder().and_then(|folder| Some(folder.parent()?.join("systemd/user")));
        folder.map(|folder| folder.join(NAME)).ok_or_else(|| {
            Failure::new(FailureKind::Output, "this user has no home for a service")
                .with_hint(Some("set `XDG_CONFIG_HOME` to a folder of his own"))
        })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("systemctl");
        if self.is_user {
            command.arg("--user");
        }
        command.args(words);
        command
    }

    fn control(&self, words: &[&str]) -> Result<(), Failure> {
        let mut command = self.command(words);
        let output = command.stdin(Stdio::null()).output().map_err(|error| no_systemd(&command, &error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = printable(said.lines().next().unwrap_or("it did not say why"));
        let message = format!("`systemctl {}` failed: {said}", words.join(" "));
        Err(Failure::new(FailureKind::Target, message).with_hint(Some(
            "where systemd does not run, `biopsy watch` stands by as long as its terminal lives",
        )))
    }
}

fn no_systemd(command: &Command, error: &std::io::Error) -> Failure {
    let program = command.get_program().to_string_lossy();
    Failure::new(FailureKind::Target, format!("cannot run `{program}`: {error}"))
        .with_hint(Some("a service needs systemd; `biopsy watch` alone does not"))
}

/// A program that others may change would run as root.
fn refuse_what_others_may_write(program: &Path) -> Result<(), Failure> {
    for path in program.ancestors() {
        let meta = path.metadata().map_err(|error| {
            Failure::new(FailureKind::Permission, format!("cannot look at `{}`: {error}", path.display()))
        })?;
        // In a folder with the sticky bit others cannot replace what is root's.
        let is_writable = meta.mode() & 0o022 != 0 && (!meta.is_dir() || meta.mode() & 0o1000 == 0);
        if meta.uid() != 0 || is_writable {
            let message = format!(
                "others than root may change `{}`, and the service would run `{}` as root",
                path.display(),
                program.display()
            );
            return Err(Failure::new(FailureKind::Permission, message)
                .with_hint(Some("copy the program to `/usr/local/bin`, owned by root, and call that")));
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| unwritable(path, &error);
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::Builder::new().prefix(".biopsy-").tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
}
