//! The unit of systemd: what the watcher may do as a service, and what it is kept from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use biopsy_capture::{Failure, FailureKind};
use biopsy_watch::quantity::duration_text;

/// What the unit is called.
pub(crate) const NAME: &str = "biopsy-watch.service";
/// How a unit begins that we wrote.
pub(crate) const OURS: &str = "# Written by `biopsy watch --install`";

/// What is to stand in it.
pub(crate) struct Unit {
    pub(crate) program: PathBuf,
    pub(crate) config: Option<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) length: Option<Duration>,
    /// Of a user's own systemd, which gives nobody more than he has.
    pub(crate) is_user: bool,
}

/// Capabilities of the watcher and of the recorders that it starts: to look into processes (PTRACE, CHECKPOINT_RESTORE, and to reach their
/// files and sockets DAC), samples and switches (PERFMON, BPF, SYSLOG for the kernel's names, IPC_LOCK and RESOURCE for buffers), starts of processes
/// (NET_ADMIN), namespaces of containers (ADMIN), priorities (NICE), ends and users of targets (KILL, SETUID, SETGID).
const CAPABILITIES: &str = "CAP_SYS_PTRACE CAP_CHECKPOINT_RESTORE CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_PERFMON CAP_BPF CAP_SYSLOG CAP_IPC_LOCK \
CAP_SYS_RESOURCE CAP_NET_ADMIN CAP_SYS_ADMIN CAP_SYS_NICE CAP_KILL CAP_SETUID CAP_SETGID CAP_CHOWN CAP_FOWNER";

impl Unit {
    /// Its text (systemd.service(5), systemd.exec(5)).
    ///
    /// # Errors
    /// A path has a line break or is no text, which no unit can say.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let mut start = vec![word(&self.program)?, "watch".to_owned()];
        if let Some(config) = &self.config {
            start.extend(["--config".to_owned(), word(config)?]);
        }
        if let Some(output) = &self.output {
            start.extend(["--output".to_owned(), word(output)?]);
        }
        if let Some(length) = self.length {
            start.extend(["--for".to_owned(), duration_text(length).replace(' ', "")]);
        }
        let start = start.join(" ");
        let mut text = format!(
            "{OURS}; `biopsy watch --uninstall` takes it away.
[Unit]
Description=biopsy: records processes as its settings say
Documentation=man:biopsy-watch(1)
# Settings that make no sense do not become better by being tried again.
StartLimitIntervalSec=10min
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={start}
# The watcher ends by itself after `watch.for`; what was on ends with it, and it begins anew.
Restart=always
RestartSec=5s
RestartPreventExitStatus=2 5 6
WatchdogSec=2min
# It asks what it has begun to finish what there is.
KillMode=mixed
TimeoutStopSec=3min
MemoryMax=3G
CPUWeight=20
OOMScoreAdjust=500
NoNewPrivileges=yes
LockPersonality=yes
RestrictSUIDSGID=yes
UMask=0077
"
        );
        if !self.is_user {
            text.push_str(&format!(
                "# No file systems of its own: it sees files as its targets do, and their sockets in `/tmp`.
CapabilityBoundingSet={CAPABILITIES}
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @reboot @swap
SystemCallErrorNumber=EPERM
"
            ));
        }
        let target = if self.is_user { "default.target" } else { "multi-user.target" };
        text.push_str(&format!("\n[Install]\nWantedBy={target}\n"));
        Ok(text)
    }
}

/// A path as one word of a unit: in quotes, with what systemd would replace written so that it does not.
fn word(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control)).ok_or_else(|| {
        let message = format!("the path `{}` cannot stand in a unit of systemd", path.display());
        Failure::new(FailureKind::Usage, message)
    })?;
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' | '$' => quoted.extend([character, character]),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(is_user: bool) -> Unit {
        Unit {
            program: "/usr/local/bin/biopsy".into(),
            config: Some("/etc/my settings/50%.json".into()),
            output: None,
            length: Some(Duration::from_secs(5400)),
            is_user,
        }
    }

    #[test]
    fn a_unit_says_what_runs_and_what_it_may() {
        let text = unit(false).text().unwrap();
        for line in [
            "ExecStart=\"/usr/local/bin/biopsy\" watch --config \"/etc/my settings/50%%.json\" --for 1h30m",
            "KillMode=mixed",
            "WantedBy=multi-user.target",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.starts_with(OURS));
        let text = unit(true).text().unwrap();
        assert!(!text.contains("Capability") && !text.contains("SystemCall"), "{text}");
        assert!(text.ends_with("WantedBy=default.target\n"));
    }

    #[test]
    fn paths_are_one_word_whatever_stands_in_them() {
        for (path, wanted) in
            [("/a b", "\"/a b\""), ("/a\"b\\c", "\"/a\\\"b\\\\c\""), ("/50%$x", "\"/50%%$$x\"")]
        {
            assert_eq!(word(Path::new(path)).unwrap(), wanted);
        }
        assert!(word(Path::new("/a\nExecStartPre=/bin/x")).is_err());
    }
}
