//! Runs a program as another user or in namespaces of its own.

use std::ffi::OsString;
use std::process::Command;

/// `command` as the user `uid`, with that gid, without other groups and without capabilities. The pid stays the child's
/// pid, because `setpriv` becomes the program. The program file must be reachable for that user.
#[must_use]
pub fn as_user(uid: u32, command: &Command) -> Command {
    let mut wrapper = Command::new("setpriv");
    wrapper.args([format!("--reuid={uid}"), format!("--regid={uid}")]);
    wrapper.args(["--clear-groups", "--inh-caps=-all", "--"]);
    append(wrapper, command)
}

/// Which namespaces a program gets for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Namespaces {
    /// A pid namespace with its own `/proc`, thus a mount namespace too.
    PidAndMount,
    /// Only a mount namespace.
    Mount,
}

/// `command` in new namespaces; dies with its wrapper.
#[must_use]
pub fn in_namespaces(namespaces: Namespaces, command: &Command) -> Command {
    let mut wrapper = Command::new("unshare");
    match namespaces {
        Namespaces::PidAndMount => {
            wrapper.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--"]);
        }
        Namespaces::Mount => {
            wrapper.args(["--mount", "--"]);
        }
    }
    append(wrapper, command)
}

fn append(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program());
    wrapper.args(command.get_args().map(OsString::from));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapper.current_dir(folder);
    }
    wrapper
}
