//! What would allow more: commands as they are to be typed on this machine.

use super::capabilities::{Capability, names};
use super::container::Container;
use super::facts::Facts;
use crate::printable::printable;

/// First kernel that knows CAP_PERFMON and CAP_BPF.
const NEW_CAPABILITIES: (u32, u32) = (5, 8);

/// How to get these capabilities; `None` when they are there already.
pub(crate) fn get_capabilities(facts: &Facts, wanted: &[Capability]) -> Option<String> {
    let lacking: Vec<Capability> =
        wanted.iter().copied().filter(|&capability| !facts.may(capability)).collect();
    if lacking.is_empty() {
        return None;
    }
    if facts.own_user_namespace == Some(true) {
        return Some(
            "biopsy runs in a user namespace (a rootless container?), where capabilities do not count for the \
             machine; run it on the host"
                .to_owned(),
        );
    }
    if let Some(container) = facts.container {
        return Some(in_container(container, &lacking));
    }
    if facts.no_new_privileges {
        return Some(
            "this session has no_new_privs, so sudo and file capabilities do nothing here; run biopsy as root from \
             another login"
                .to_owned(),
        );
    }
    if facts.uid == 0 {
        return Some(format!(
            "root lacks {} in this session; run biopsy from one that has it",
            names(&lacking)
        ));
    }
    let as_root =
        if facts.has_sudo { format!("`sudo {}`", program(facts)) } else { "run biopsy as root".to_owned() };
    Some(match setcap(facts, wanted) {
        Some(setcap) => format!("{as_root}, or {setcap}"),
        None => as_root,
    })
}

fn in_container(container: Container, lacking: &[Capability]) -> String {
    let docker_names =
        lacking.iter().map(|capability| capability.name.trim_start_matches("cap_").to_uppercase());
    match container {
        Container::Docker | Container::Podman => {
            let tool = if container == Container::Docker { "docker" } else { "podman" };
            let caps: Vec<_> = docker_names.map(|name| format!("--cap-add {name}")).collect();
            // The usual seccomp profiles differ in which capability unlocks which call; without one, all do.
            format!(
                "run biopsy on the host, or start this container with `{tool} run {} --security-opt \
                 seccomp=unconfined ...`",
                caps.join(" ")
            )
        }
        Container::Kubernetes => {
            let caps: Vec<_> = docker_names.collect();
            format!(
                "run biopsy on the node, or give the container `securityContext: {{capabilities: {{add: [{}]}}, \
                 seccompProfile: {{type: Unconfined}}}}`",
                caps.join(", ")
            )
        }
        Container::Other => "run biopsy on the host".to_owned(),
    }
}

/// The command that gives the program file the capabilities, where that would work.
fn setcap(facts: &Facts, wanted: &[Capability]) -> Option<String> {
    let kernel_knows = kernel_version(&facts.kernel)? >= NEW_CAPABILITIES;
    // A program whose file asks for more than the bounding set holds cannot be started at all.
    let allowed = wanted.iter().all(|&capability| facts.bounding.contains(capability));
    if !kernel_knows || !allowed || !facts.program_takes_capabilities || !facts.has_setcap {
        return None;
    }
    facts.program.as_ref()?;
    let caps: Vec<_> = wanted.iter().map(|capability| capability.name).collect();
    let command = format!("setcap {}+ep {}", caps.join(","), program(facts));
    Some(if facts.has_sudo {
        format!("once: `sudo {command}`")
    } else {
        format!("once, as root: `{command}`")
    })
}

/// The running program as a word of a shell.
fn program(facts: &Facts) -> String {
    let Some(path) = facts.program.as_ref().and_then(|path| path.to_str()) else {
        return "biopsy".to_owned();
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", printable(path).replace('\'', r"'\''"))
    }
}

/// The command that sets a kernel setting, or how to get there.
pub(super) fn sysctl(facts: &Facts, setting: &str) -> String {
    match facts.container {
        _ if facts.own_user_namespace == Some(true) => format!("as root of the machine: `sysctl {setting}`"),
        Some(_) => format!("on the host: `sysctl {setting}`"),
        None if facts.uid == 0 => format!("`sysctl {setting}`"),
        None if facts.has_sudo && !facts.no_new_privileges => format!("`sudo sysctl {setting}`"),
        None => format!("as root: `sysctl {setting}`"),
    }
}

/// `6.1.0-18-amd64` is (6, 1).
pub(super) fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
