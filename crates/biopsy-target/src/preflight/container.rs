//! Whether we run in a container, and of which kind: hints differ.

use super::namespace;
use crate::process::cgroup::Cgroup;
use crate::process::proc_root::ProcRoot;

/// What kind of container we run in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// A pod of Kubernetes, whatever runs it.
    Kubernetes,
    /// docker.
    Docker,
    /// podman.
    Podman,
    /// Another kind (LXC, systemd-nspawn ...), or one that cannot be told.
    Other,
}

impl Container {
    /// Looks for the marks that containers carry.
    ///
    /// A mark alone proves nothing: machines are made from container images, `/.dockerenv` included. Where
    /// we see host name, IPC and control groups of the machine itself, we are not in one.
    #[must_use]
    pub fn detect(root: &ProcRoot, in_kubernetes: bool) -> Option<Self> {
        if namespace::is_outermost(root) {
            return None;
        }
        let exists = |below: &str| root.path(below).exists();
        if in_kubernetes || exists("var/run/secrets/kubernetes.io/serviceaccount") {
            Some(Self::Kubernetes)
        } else if exists(".dockerenv") {
            Some(Self::Docker)
        } else if exists("run/.containerenv") {
            Some(Self::Podman)
        } else {
            let named = exists("run/systemd/container");
            let by_cgroup = root.myself().is_ok_and(|process| Cgroup::read(&process).container_id.is_some());
            (named || by_cgroup).then_some(Self::Other)
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "a Kubernetes pod",
            Self::Docker => "a docker container",
            Self::Podman => "a podman container",
            Self::Other => "a container",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::at(folder.path());
        assert_eq!(Container::detect(&root, false), None);
        assert_eq!(Container::detect(&root, true), Some(Container::Kubernetes));
        std::fs::create_dir(folder.path().join("run")).unwrap();
        std::fs::write(folder.path().join("run/.containerenv"), "").unwrap();
        assert_eq!(Container::detect(&root, false), Some(Container::Podman));
        std::fs::write(folder.path().join(".dockerenv"), "").unwrap();
        assert_eq!(Container::detect(&root, false), Some(Container::Docker));
    }
}
