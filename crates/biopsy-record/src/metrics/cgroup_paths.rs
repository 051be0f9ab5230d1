//! Which control groups a process is in, and where their files are: versions 1 and 2, and mixed systems.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use biopsy_model::Pid;

/// The controllers that are read, in the order of [`GroupFiles::folders`].
pub(crate) const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "blkio"];

/// A path deeper than this is cut from its root side: nobody nests that deep, except in hostile input.
const DEEPEST: usize = 16;

/// Where one hierarchy is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    point: PathBuf,
    /// The group that is visible at `point`.
    root: String,
    /// Controllers of version 1; none: version 2.
    controllers: Vec<String>,
}

/// The mounted hierarchies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mounts {
    list: Vec<Mount>,
}

/// Folder of one controller of one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ControllerFolder {
    pub(crate) path: PathBuf,
    pub(crate) version2: bool,
}

/// Folders of the controllers of one group, in the order of [`CONTROLLERS`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct GroupFiles {
    pub(crate) folders: [Option<ControllerFolder>; 5],
}

impl Mounts {
    /// Parses a `mountinfo` (proc_pid_mountinfo(5)).
    pub(crate) fn parse(text: &[u8]) -> Mounts {
        let list = text.split(|byte| *byte == b'\n').filter_map(parse_mount).take(64).collect();
        Mounts { list }
    }

    /// The folder of `group` in the hierarchy of `controller`, as listed in one line of `/proc/PID/cgroup`.
    fn folder(&self, controller: Option<&str>, group: &str) -> Option<PathBuf> {
        let mount = self.list.iter().find(|mount| match controller {
            Some(name) => mount.controllers.iter().any(|controller| controller == name),
            None => mount.controllers.is_empty(),
        })?;
        // `/..` in a path: the group is outside of our cgroup namespace.
        if group.split('/').any(|part| part == "..") {
            return None;
        }
        let inside = if mount.root == "/" { group } else { strip_root(group, &mount.root)? };
        Some(mount.point.join(inside.trim_start_matches('/')))
    }
}

fn strip_root<'g>(group: &'g str, root: &str) -> Option<&'g str> {
    group.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = rest.next()?;
    let options = rest.nth(1).unwrap_or_default();
    let controllers = match kind {
        b"cgroup2" => Vec::new(),
        b"cgroup" => String::from_utf8_lossy(options)
            .split(',')
            .filter(|option| CONTROLLERS.contains(option))
            .map(str::to_owned)
            .collect(),
        _ => return None,
    };
    // A version 1 hierarchy without a controller of ours (systemd's own, freezer, devices) is of no use.
    if kind == b"cgroup" && controllers.is_empty() {
        return None;
    }
    Some(Mount {
        point: PathBuf::from(std::ffi::OsString::from_vec(unescape(point))),
        root: String::from_utf8_lossy(&unescape(root)).into_owned(),
        controllers,
    })
}

/// Undoes the octal escapes of blanks in `mountinfo`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        plain.push(code.unwrap_or(*first));
        rest = tail.get(if code.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    plain
}

/// The groups of some processes.
#[derive(Default)]
pub(crate) struct Groups {
    /// Their files, by path.
    pub(crate) found: BTreeMap<String, GroupFiles>,
    /// How many paths lie where no mounted hierarchy shows them.
    pub(crate) hidden: usize,
    /// Why the groups of a process that lives are not known.
    pub(crate) unreadable: Option<std::io::Error>,
}

/// The groups of the processes, and their parents up to the root.
pub(crate) fn find_groups(proc_root: &Path, mounts: &Mounts, tree: &[Pid], most: usize) -> Groups {
    let mut all = Groups::default();
    let Groups { found: groups, hidden, unreadable } = &mut all;
    for pid in tree {
        let text = match biopsy_files::read_kernels(proc_root.join(pid.to_string()).join("cgroup")) {
            Ok(text) => text,
            Err(error) => {
                // One that has ended has none.
                if proc_root.join(pid.to_string()).is_dir() {
                    *unreadable = Some(error);
                }
                continue;
            }
        };
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<(&str, &str)> = text.lines().filter_map(parse_line).collect();
        for (index, controller) in CONTROLLERS.iter().enumerate() {
            let first = lines.iter().find(|(names, _)| names.split(',').any(|name| name == *controller));
            let second = lines.iter().find(|(names, _)| names.is_empty());
            let candidates =
                [first.map(|line| (Some(*controller), line.1)), second.map(|line| (None, line.1))];
            let mounted = candidates.into_iter().flatten().find(|(controller, _)| {
                mounts.list.iter().any(|mount| match controller {
                    Some(name) => mount.controllers.iter().any(|own| own == name),
                    None => mount.controllers.is_empty(),
                })
            });
            let Some((version1, path)) = mounted else { continue };
            for group in ancestors(path) {
                let Some(folder) = mounts.folder(version1, group) else {
                    *hidden += usize::from(group == path);
                    continue;
                };
                if !groups.contains_key(group) && groups.len() >= most {
                    continue;
                }
                let files = groups.entry(group.to_owned()).or_default();
                if let Some(slot) = files.folders.get_mut(index) {
                    *slot = Some(ControllerFolder { path: folder, version2: version1.is_none() });
                }
            }
        }
    }
    all
}

/// The folder of the group (version 2) that a process is in; `None`: there is no such hierarchy, it or it is not mounted here.
pub(crate) fn own_unified_folder(proc_root: &Path, pid: Pid) -> Option<PathBuf> {
    let mounts = Mounts::parse(&biopsy_files::read_kernels(proc_root.join("self/mountinfo")).ok()?);
    let text = biopsy_files::read_kernels(proc_root.join(pid.to_string()).join("cgroup")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, group) = text.lines().filter_map(parse_line).find(|(controllers, _)| controllers.is_empty())?;
    mounts.folder(None, group)
}

/// `controllers` (none: version 2) and path of one line `4:cpu,cpuacct:/path`.
fn parse_line(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    path.starts_with('/').then_some((controllers, path))
}

/// The path itself and its parents, the root last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/') {
        Some(0) if path.len() > 1 => path.get(..1),
        Some(0) | None => None,
        Some(place) => path.get(..place),
    })
    .take(DEEPEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parents_up_to_the_root() {
        assert_eq!(ancestors("/a/b c").collect::<Vec<_>>(), ["/a/b c", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
    }

    #[test]
    fn mounts_of_a_mixed_system() {
        let text = b"30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            31 24 0:27 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,name=systemd\n\
            32 24 0:28 /docker/ab /sys/fs/my\\040unified rw shared:1 master:2 - cgroup2 cgroup2 rw\n\
            33 24 8:1 / / rw - ext4 /dev/sda rw\n";
        let mounts = Mounts::parse(text);
        assert_eq!(mounts.list.len(), 2);
        assert_eq!(
            mounts.folder(Some("cpuacct"), "/user.slice"),
            Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/user.slice"))
        );
        assert_eq!(mounts.folder(None, "/docker/ab/x"), Some(PathBuf::from("/sys/fs/my unified/x")));
        assert_eq!(mounts.folder(None, "/docker/abc"), None, "another group with a longer name");
        assert_eq!(mounts.folder(None, "/../outside"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mounts = Mounts::parse(&text);
            let text = String::from_utf8_lossy(&text);
            for (_, path) in text.lines().filter_map(parse_line) {
                let _ = mounts.folder(None, path);
            }
        }
    }
}
