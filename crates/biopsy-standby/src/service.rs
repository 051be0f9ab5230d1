//! The watcher as a service of systemd: written, started, asked, and taken away again.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biopsy_capture::{Failure, FailureKind};
use biopsy_model::printable::printable;
use biopsy_watch::Settings;

use crate::journal::JournalFolder;
use crate::unit::{NAME, OURS, Unit};
use crate::watch::WatchPlan;
use crate::{places, restore, results, whole};

/// The service of the machine, or that of one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// Of this user.
    pub is_user: bool,
}

/// A service that runs.
#[derive(Debug)]
pub struct Installed {
    /// Its unit.
    pub unit: PathBuf,
    /// Where results go.
    pub results: PathBuf,
}

/// What became of a service that was to go.
#[derive(Debug)]
pub enum Uninstalled {
    /// There was no such unit.
    NotThere(PathBuf),
    /// It is gone; what was on, and how it ended.
    Gone(Vec<String>),
}

/// What the service is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Does it run, since when, and what it said last.
    Status,
    /// Stop it.
    Stop,
    /// Start it again.
    Start,
    /// What it said.
    Logs,
}

impl Service {
    /// That of the machine for root, unless `is_user`; else that of this user.
    #[must_use]
    pub fn of(is_user: bool) -> Self {
        Self { is_user: is_user || !rustix::process::geteuid().is_root() }
    }

    /// Writes the unit, and starts it now and at each start of the machine.
    ///
    /// # Errors
    /// The unit cannot be written, is not by biopsy, or systemd does not start it: then all is as it was.
    pub fn install(&self, plan: &WatchPlan<'_>, settings: &Settings) -> Result<Installed, Failure> {
        let program = places::own_program()?;
        if !self.is_user {
            refuse_what_others_may_write(&program)?;
        }
        let journal = JournalFolder::usual()?;
        let results = plan.output.clone().unwrap_or_else(|| results::folder(settings, &journal));
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| {
                Failure::new(
                    FailureKind::Usage,
                    format!("cannot tell where `{}` is: {error}", path.display()),
                )
            })
        };
        let unit = Unit {
            program,
            config: plan.config.as_deref().map(absolute).transpose()?,
            output: plan.output.as_deref().map(absolute).transpose()?,
            length: plan.length,
            is_user: self.is_user,
        };
        let path = self.path()?;
        let was_there = own_unit(&path).ok().transpose()?;
        write(&path, &unit.text()?)?;
        let started = self
            .control(&["daemon-reload"])
            .and_then(|()| self.control(&["enable", "--quiet", NAME]))
            .and_then(|()| self.control(&["restart", NAME]));
        if let Err(failure) = started {
            // As it was before.
            let _ = match was_there {
                Some(text) => write(&path, &text),
                None => {
                    let _ = self.control(&["disable", "--now", "--quiet", NAME]);
                    std::fs::remove_file(&path).map_err(|error| unwritable(&path, &error))
                }
            };
            let _ = self.control(&["daemon-reload"]);
            return Err(failure);
        }
        Ok(Installed { unit: path, results })
    }

    /// Stops the service and removes the unit. Results and settings stay.
    ///
    /// # Errors
    /// The unit is not by biopsy, cannot be removed, or systemd does not answer.
    pub fn uninstall(&self) -> Result<Uninstalled, Failure> {
        let path = self.path()?;
        match own_unit(&path) {
            Ok(unit) => drop(unit?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Uninstalled::NotThere(path));
            }
            Err(error) => return Err(unwritable(&path, &error)),
        }
        // The unit goes also where systemd does not answer: nothing starts then any more.
        let stopped = self.control(&["disable", "--now", "--quiet", NAME]);
        std::fs::remove_file(&path).map_err(|error| unwritable(&path, &error))?;
        stopped?;
        self.control(&["daemon-reload"])?;
        // It is not failed any more, if it was; a service that never failed cannot be reset.
        let _ = self.control(&["reset-failed", NAME]);
        restore::clean_up(&JournalFolder::usual()?, false).map(Uninstalled::Gone)
    }

    /// Hands a question about the service on to systemd, which answers on the terminal itself. `false`: it does not run, or it failed.
    ///
    /// # Errors
    /// There is no systemd.
    pub fn ask(&self, what: Ask) -> Result<bool, Failure> {
        let mut command = match what {
            Ask::Logs => {
                let mut command = Command::new("journalctl");
                command.args([if self.is_user { "--user-unit" } else { "--unit" }, NAME, "--lines", "200"]);
                command
            }
            Ask::Status => self.command(&["status", NAME]),
            Ask::Stop => self.command(&["stop", NAME]),
            Ask::Start => self.command(&["start", NAME]),
        };
        let status = command.arg("--no-pager").status().map_err(|error| no_systemd(&command, &error))?;
        Ok(status.success())
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

/// The text of a unit that we wrote; one of somebody else's is a failure.
fn own_unit(path: &Path) -> std::io::Result<Result<String, Failure>> {
    std::fs::read_to_string(path).map(|text| {
        if text.starts_with(OURS) {
            return Ok(text);
        }
        let message = format!("`{}` is not by biopsy, and stays as it is", path.display());
        Err(Failure::new(FailureKind::Output, message))
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let made = std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")));
    made.and_then(|()| whole::write(path, text, Some(0o644))).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
}
