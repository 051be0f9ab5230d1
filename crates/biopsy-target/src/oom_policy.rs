//! Whether the kernel or systemd take all of a service when the out-of-memory killer takes one of its processes.
//!
//! A frozen copy counts to the control groups of its process and is marked to go first. That protects the process only where one
//! process goes alone: `memory.oom.group` of a group, or systemd's `OOMPolicy` of a unit (systemd.service(5)), end the rest with it.
//! systemd is not asked, which on a sick machine may take long, but its files are read.

use crate::process::cgroup::{self, Cgroup};
use crate::process::proc_root::ProcRoot;

/// Most levels of control groups above a process that are looked at.
const LEVELS: usize = 64;
/// Most bytes of a unit file, and most files that add to it.
const UNIT: usize = 256 << 10;
const DROP_INS: usize = 256;

/// Why none of the processes beside it would live when one of them is ended for want of memory, in words. `None`: they would.
pub(crate) fn one_for_all(root: &ProcRoot, cgroup: &Cgroup) -> Option<String> {
    if let (Some(path), Some(mount)) = (cgroup.v2.as_deref(), cgroup::v2_mount(root)) {
        for level in cgroup::levels(path).take(LEVELS) {
            let folder = format!("{mount}{level}");
            if root.number(&format!("{folder}/memory.oom.group")) == Some(1) {
                return Some(format!(
                    "`memory.oom.group` of `/{folder}` is 1: the kernel would end all of it together"
                ));
            }
        }
        // With the older hierarchy systemd does not hear of it.
        if cgroup.memory_v1.is_none()
            && let Some((unit, policy)) = stopped_unit(root, path)
        {
            return Some(format!(
                "systemd would end all of `{}` with it (OOMPolicy={policy})",
                crate::printable(unit)
            ));
        }
    }
    let path = cgroup.memory_v1.as_deref()?;
    cgroup::levels(path).take(LEVELS).map(|level| format!("sys/fs/cgroup/memory{level}")).find_map(|folder| {
        let text = root.text(&format!("{folder}/memory.oom_control")).ok()?;
        let disabled = text.lines().any(|line| line == "oom_kill_disable 1");
        disabled.then(|| format!("`memory.oom_control` of `/{folder}` keeps the kernel from ending anybody: all of it would stand still"))
    })
}

/// The innermost unit on the path of a control group that is ended with one of its processes, and its policy.
fn stopped_unit<'a>(root: &ProcRoot, path: &'a str) -> Option<(&'a str, String)> {
    let parts: Vec<&str> = path.split('/').collect();
    parts.iter().enumerate().rev().take(LEVELS).find_map(|(at, part)| {
        let kind = [".service", ".scope"]
            .into_iter()
            .find(|kind| part.ends_with(kind) && part.len() > kind.len())?;
        // systemd puts `_` before names that would mean something to the kernel.
        let name = part.strip_prefix('_').unwrap_or(part);
        let user = parts
            .get(..at)?
            .iter()
            .rev()
            .find_map(|above| above.strip_prefix("user@")?.strip_suffix(".service"));
        let policy = policy(root, name, kind, user);
        (policy != "continue").then_some((name, policy))
    })
}

/// What systemd does: by the unit's own files, by what goes for all units, else by default.
fn policy(root: &ProcRoot, name: &str, kind: &str, user: Option<&str>) -> String {
    let folders = folders(user);
    let mut settings = Settings::default();
    let names = names(name, kind);
    // The first file of a unit hides the others; files that add to it count all, by their names.
    let fragment = names.iter().take(2).find_map(|name| {
        folders.iter().find_map(|folder| root.bytes(&format!("{folder}/{name}"), UNIT).ok())
    });
    settings.read(&fragment.unwrap_or_default());
    let mut added: Vec<(String, String)> = Vec::new();
    for folder in &folders {
        for name in names.iter().map(String::as_str).chain([kind.trim_start_matches('.')]) {
            for file in files_in(root, &format!("{folder}/{name}.d")) {
                // The same name in a folder that comes first hides the others.
                if added.len() < DROP_INS && !added.iter().any(|(known, _)| *known == file) {
                    added.push((file.clone(), format!("{folder}/{name}.d/{file}")));
                }
            }
        }
    }
    added.sort();
    for (_, path) in added {
        settings.read(&root.bytes(&path, UNIT).unwrap_or_default());
    }
    settings.policy.unwrap_or_else(|| {
        // A service that looks after groups of its own decides for itself, and so does what others have started.
        if settings.delegate || kind == ".scope" { "continue".to_owned() } else { default_policy(root, user) }
    })
}

fn default_policy(root: &ProcRoot, user: Option<&str>) -> String {
    let name = if user.is_some() { "user.conf" } else { "system.conf" };
    let mut settings = Settings::default();
    for folder in ["usr/lib/systemd", "run/systemd", "etc/systemd"] {
        settings.read(&root.bytes(&format!("{folder}/{name}"), UNIT).unwrap_or_default());
        for file in files_in(root, &format!("{folder}/{name}.d")) {
            settings.read(&root.bytes(&format!("{folder}/{name}.d/{file}"), UNIT).unwrap_or_default());
        }
    }
    settings.of_all.unwrap_or_else(|| "stop".to_owned())
}

/// Where systemd looks for units (systemd.unit(5)), first things first.
fn folders(user: Option<&str>) -> Vec<String> {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match user {
        None => own(&[
            "etc/systemd/system.control",
            "run/systemd/system.control",
            "run/systemd/transient",
            "run/systemd/generator.early",
            "etc/systemd/system",
            "run/systemd/system",
            "run/systemd/generator",
            "usr/local/lib/systemd/system",
            "usr/lib/systemd/system",
            "lib/systemd/system",
            "run/systemd/generator.late",
        ]),
        Some(user) => {
            let mut all = ["control", "transient", "generator.early"]
                .map(|part| format!("run/user/{user}/systemd/{part}"))
                .to_vec();
            all.extend(own(&[
                "etc/systemd/user",
                "run/systemd/user",
                "usr/local/lib/systemd/user",
                "usr/lib/systemd/user",
            ]));
            all
        }
    }
}

/// Names that files of a unit go by: its own, that of its template, and for additions those of its prefixes.
fn names(name: &str, kind: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    let stem = name.strip_suffix(kind).unwrap_or(name);
    names.push(
        stem.split_once('@').map_or_else(|| name.to_owned(), |(template, _)| format!("{template}@{kind}")),
    );
    names.extend(stem.match_indices('-').map(|(at, _)| format!("{}-{kind}", &stem[..at])));
    names
}

fn files_in(root: &ProcRoot, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".conf")).take(DROP_INS).collect();
    names.sort();
    names
}

#[derive(Default)]
struct Settings {
    policy: Option<String>,
    delegate: bool,
    of_all: Option<String>,
}

impl Settings {
    /// Later lines count; an empty value takes back what was said before.
    fn read(&mut self, text: &[u8]) {
        for line in String::from_utf8_lossy(text).lines() {
            let Some((name, value)) = line.split_once('=') else { continue };
            let value = value.trim();
            let said = || (!value.is_empty()).then(|| value.to_owned());
            match name.trim() {
                "OOMPolicy" => self.policy = said(),
                "DefaultOOMPolicy" => self.of_all = said(),
                "Delegate" => self.delegate = !matches!(value, "" | "0" | "no" | "false" | "off" | "n" | "f"),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.write("sys/fs/cgroup/cgroup.controllers", "memory");
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn of(&self, path: &str) -> Option<String> {
            let cgroup = Cgroup::parse(format!("0::{path}\n").as_bytes());
            one_for_all(&ProcRoot::at(self.0.path()), &cgroup)
        }
    }

    #[test]
    fn groups_that_go_together() {
        let machine = Machine::new();
        machine.write("sys/fs/cgroup/a/memory.oom.group", "0\n");
        machine.write("sys/fs/cgroup/a/b/memory.oom.group", "0\n");
        assert_eq!(machine.of("/a/b"), None);
        machine.write("sys/fs/cgroup/a/memory.oom.group", "1\n");
        assert!(machine.of("/a/b").unwrap().starts_with("`memory.oom.group` of `/sys/fs/cgroup/a` is 1"));
        assert_eq!(machine.of("/c"), None);
    }

    #[test]
    fn units_that_are_stopped() {
        let machine = Machine::new();
        let stopped = |path: &str| machine.of(path).is_some();
        assert!(stopped("/system.slice/a.service"), "by default, whatever is known of it");
        assert!(stopped("/system.slice/a.service/worker"));
        assert!(!stopped("/user.slice/user-1000.slice/session-1.scope"));
        machine.write("usr/lib/systemd/system/a.service", "[Service]\nOOMPolicy=continue\n");
        assert!(!stopped("/system.slice/a.service"));
        machine.write("run/systemd/transient/a.service", "[Service]\nOOMPolicy = kill\n");
        assert!(machine.of("/system.slice/a.service").unwrap().contains("OOMPolicy=kill"));
        machine.write("etc/systemd/system/a.service.d/50-x.conf", "[Service]\nOOMPolicy=continue\n");
        assert!(!stopped("/system.slice/a.service"), "what is added counts last");
        machine.write("usr/lib/systemd/system/pg@.service", "[Service]\nOOMPolicy=continue\n");
        assert!(!stopped("/system.slice/system-pg.slice/pg@main.service"));
        machine.write("usr/lib/systemd/system/d.service", "[Service]\nDelegate=yes\n");
        assert!(!stopped("/system.slice/d.service"));
        machine.write(
            "etc/systemd/system.conf",
            "[Manager]\n#DefaultOOMPolicy=kill\nDefaultOOMPolicy=continue\n",
        );
        assert!(!stopped("/system.slice/other.service"));
        machine.write("etc/systemd/system/service.d/all.conf", "[Service]\nOOMPolicy=stop\n");
        assert!(stopped("/system.slice/other.service"));
    }

    #[test]
    fn units_of_users() {
        let machine = Machine::new();
        machine.write("usr/lib/systemd/system/user@.service", "[Service]\nDelegate=pids memory\n");
        let path = "/user.slice/user-7.slice/user@7.service/app.slice/x.service";
        assert!(machine.of(path).unwrap().contains("`x.service`"));
        machine.write("run/user/7/systemd/transient/x.service", "[Service]\nOOMPolicy=continue\n");
        assert_eq!(machine.of(path), None);
    }

    #[test]
    fn version_1() {
        let machine = Machine::new();
        machine.write("sys/fs/cgroup/memory/m/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");
        let cgroup = Cgroup::parse(b"4:memory:/m\n0::/system.slice/a.service\n");
        let root = ProcRoot::at(machine.0.path());
        assert_eq!(one_for_all(&root, &cgroup), None, "systemd hears of nothing there");
        machine.write("sys/fs/cgroup/memory/m/memory.oom_control", "oom_kill_disable 1\nunder_oom 0\n");
        assert!(one_for_all(&root, &cgroup).unwrap().contains("memory.oom_control"));
    }
}
