//! `/proc/PID/cgroup`: container id, systemd unit, and the limits of a control group (version 1 and 2).

use std::path::PathBuf;

use super::proc_root::{ProcRoot, ProcessDir, SMALL};

/// Length of a container id of docker, podman, containerd and CRI-O: SHA-256 in hexadecimal.
const CONTAINER_ID: usize = 64;

/// The control groups of one process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cgroup {
    /// Path in the version 2 hierarchy, or of the version 1 `cpu` controller where that is where the process is.
    pub path: String,
    /// Path of the version 1 `memory` controller, where there is one.
    pub memory_v1: Option<String>,
    /// Path in the version 2 hierarchy, where there is one.
    pub v2: Option<String>,
    /// Full container id (64 hexadecimal digits), when a path names one.
    pub container_id: Option<String>,
    /// systemd unit (service or scope), when a path names one; the innermost.
    pub unit: Option<String>,
}

impl Cgroup {
    /// Reads the groups of a process; empty where they cannot be read.
    #[must_use]
    pub fn read(process: &ProcessDir) -> Self {
        process.read("cgroup", SMALL).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Parses `/proc/PID/cgroup` (cgroups(7)): lines of `hierarchy:controllers:path`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut cgroup = Self::default();
        let mut cpu_v1 = None;
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            if controllers.is_empty() {
                cgroup.v2 = Some(path.to_owned());
            }
            for controller in controllers.split(',') {
                match controller {
                    "cpu" => cpu_v1 = Some(path.to_owned()),
                    "memory" => cgroup.memory_v1 = Some(path.to_owned()),
                    _ => {}
                }
            }
            cgroup.container_id = cgroup.container_id.or_else(|| container_id(path));
            cgroup.unit = cgroup.unit.or_else(|| unit(path));
        }
        // With both versions mounted ("hybrid"), version 2 holds no controllers and often no structure either.
        let v2 = cgroup.v2.clone().filter(|path| path != "/" || cpu_v1.is_none());
        cgroup.path = v2.or(cpu_v1).unwrap_or_default();
        cgroup
    }

    /// Memory limit and use of the group, where both can be read and a limit is set anywhere up the path.
    #[must_use]
    pub fn memory(&self, root: &ProcRoot) -> Option<MemoryLimit> {
        self.memory_v2(root).or_else(|| self.memory_of_v1(root))
    }

    fn memory_v2(&self, root: &ProcRoot) -> Option<MemoryLimit> {
        let path = self.v2.as_deref()?;
        let mounted = v2_mount(root)?;
        narrowest(levels(path).filter_map(|level| {
            let folder = format!("{mounted}{level}");
            let limit = root.number(&format!("{folder}/memory.max"))?.unsigned_abs();
            let used = root.number(&format!("{folder}/memory.current"))?.unsigned_abs();
            Some(MemoryLimit { limit, used, folder: PathBuf::from("/").join(folder) })
        }))
    }

    fn memory_of_v1(&self, root: &ProcRoot) -> Option<MemoryLimit> {
        /// Version 1 writes "no limit" as the largest number of whole pages.
        const NO_LIMIT: u64 = 0x7fff_ffff_ffff_0000;
        let path = self.memory_v1.as_deref()?;
        narrowest(levels(path).filter_map(|level| {
            let folder = format!("sys/fs/cgroup/memory{level}");
            let limit = root.number(&format!("{folder}/memory.limit_in_bytes"))?.unsigned_abs();
            let used = root.number(&format!("{folder}/memory.usage_in_bytes"))?.unsigned_abs();
            let limited = limit < NO_LIMIT;
            limited.then(|| MemoryLimit { limit, used, folder: PathBuf::from("/").join(folder) })
        }))
    }
}

/// Path of one version 1 controller (`pids`, `freezer`) in the text of `/proc/PID/cgroup`.
pub(crate) fn path_of_controller(text: &[u8], wanted: &str) -> Option<String> {
    String::from_utf8_lossy(text).lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == wanted).then(|| path.to_owned())
    })
}

/// Where version 2 of the control groups is mounted, if it is.
pub(crate) fn v2_mount(root: &ProcRoot) -> Option<&'static str> {
    ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        .into_iter()
        .find(|mount| root.path(mount).join("cgroup.controllers").exists())
}

/// A memory limit of a control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// Bytes allowed.
    pub limit: u64,
    /// Bytes in use, page cache included.
    pub used: u64,
    /// The group that sets the limit.
    pub folder: PathBuf,
}

impl MemoryLimit {
    /// Bytes left. The kernel can reclaim page cache, so this is a lower bound.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

fn narrowest(limits: impl Iterator<Item = MemoryLimit>) -> Option<MemoryLimit> {
    limits.min_by_key(MemoryLimit::left)
}

/// The path and its parents, innermost first: `/a/b`, `/a`, and the root as an empty text.
pub(crate) fn levels(path: &str) -> impl Iterator<Item = &str> {
    // A path of another cgroup namespace begins with `/..`; it names nothing below our mount.
    let inside = !path.split('/').any(|part| part == "..");
    let mut rest = inside.then(|| path.trim_end_matches('/'));
    std::iter::from_fn(move || {
        let level = rest?;
        rest = level.rfind('/').and_then(|slash| level.get(..slash));
        Some(level)
    })
}

/// Finds a container id in any of the forms in use:
/// `/docker/ID`, `docker-ID.scope`, `libpod-ID.scope`, `libpod-payload-ID`, `cri-containerd-ID.scope`,
/// `crio-ID.scope`, `/kubepods/burstable/podUID/ID`, `...:cri-containerd:ID`, `/ecs/TASK/ID`.
fn container_id(path: &str) -> Option<String> {
    path.rsplit('/')
        // podman's monitor runs beside the container, not in it.
        .filter(|part| !part.contains("conmon"))
        .flat_map(|part| {
            part.split(|character: char| !character.is_ascii_hexdigit() || character.is_ascii_uppercase())
        })
        .find(|run| run.len() == CONTAINER_ID)
        .map(str::to_owned)
}

fn unit(path: &str) -> Option<String> {
    path.rsplit('/')
        .find(|part| {
            [".service", ".scope"].iter().any(|kind| part.len() > kind.len() && part.ends_with(kind))
        })
        // systemd puts `_` before names that would mean something to the kernel.
        .map(|part| part.strip_prefix('_').unwrap_or(part).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(path: &str, container: bool, unit: Option<&str>) {
        let cgroup = Cgroup::parse(format!("0::{path}\n").as_bytes());
        assert_eq!(cgroup.container_id.as_deref(), container.then_some(ID), "{path}");
        assert_eq!(cgroup.unit.as_deref(), unit, "{path}");
        assert_eq!(cgroup.path, path);
    }

    #[test]
    fn containers() {
        check(&format!("/docker/{ID}"), true, None);
        check(&format!("/system.slice/docker-{ID}.scope"), true, Some(&format!("docker-{ID}.scope")));
        check(
            &format!("/machine.slice/libpod-{ID}.scope/container"),
            true,
            Some(&format!("libpod-{ID}.scope")),
        );
        check(&format!("/libpod-payload-{ID}"), true, None);
        check(
            &format!("/machine.slice/libpod-conmon-{ID}.scope"),
            false,
            Some(&format!("libpod-conmon-{ID}.scope")),
        );
        check(&format!("/kubepods/burstable/podc0ffee00-1111-2222-3333-444455556666/{ID}"), true, None);
        check(&format!("/kubelet.slice/x.slice:cri-containerd:{ID}"), true, None);
        check(&format!("/ecs/{}/{ID}", &ID[..32]), true, None);
        check(&format!("/docker/{ID}/init.scope"), true, Some("init.scope"));
        check(&format!("/docker/{}", &ID[..63]), false, None);
        check(&format!("/docker/{ID}0"), false, None);
    }

    #[test]
    fn units() {
        check("/system.slice/nginx.service", false, Some("nginx.service"));
        check(
            "/system.slice/system-postgresql.slice/postgresql@15-main.service",
            false,
            Some("postgresql@15-main.service"),
        );
        check("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", false, Some("x.scope"));
        check("/system.slice/nginx.service/worker", false, Some("nginx.service"));
        check("/.service", false, None);
        check("/", false, None);
    }

    #[test]
    fn version_1_and_hybrid() {
        let text = format!(
            "9:name=systemd:/system.slice/a.service\n4:memory:/m\n2:cpu,cpuacct:/docker/{ID}\n0::/\n"
        );
        let cgroup = Cgroup::parse(text.as_bytes());
        assert_eq!(cgroup.path, format!("/docker/{ID}"));
        assert_eq!(cgroup.memory_v1.as_deref(), Some("/m"));
        assert_eq!(cgroup.container_id.as_deref(), Some(ID));
        assert_eq!(cgroup.unit.as_deref(), Some("a.service"));
    }

    #[test]
    fn the_narrowest_limit_of_the_path_counts() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("sys/fs/cgroup");
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::fs::write(base.join("cgroup.controllers"), "memory").unwrap();
        for (group, limit, used) in [("a", "1000", "900"), ("a/b", "max", "500")] {
            std::fs::write(base.join(group).join("memory.max"), limit).unwrap();
            std::fs::write(base.join(group).join("memory.current"), used).unwrap();
        }
        let memory = Cgroup::parse(b"0::/a/b\n").memory(&ProcRoot::at(folder.path())).unwrap();
        assert_eq!((memory.limit, memory.left()), (1000, 100));
        assert_eq!(memory.folder, PathBuf::from("/sys/fs/cgroup/a"));
        assert_eq!(Cgroup::parse(b"0::/../a\n").memory(&ProcRoot::at(folder.path())), None);
    }
}
