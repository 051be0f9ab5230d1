//! Cgroups with little of something, on either version of cgroups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Puts processes under a CPU limit until dropped.
#[derive(Debug)]
pub struct CpuLimit {
    group: PathBuf,
    home: PathBuf,
}

/// Period of the quota in microseconds, the kernel's default.
const PERIOD_US: u64 = 100_000;

impl CpuLimit {
    /// A new group that may use `percent` of one CPU.
    ///
    /// # Errors
    ///
    /// Where no cpu controller can be written to.
    pub fn new(percent: u64) -> io::Result<Self> {
        let version = Version::find().ok_or_else(|| io::Error::other("no cpu controller is mounted"))?;
        let group = version.root().join(format!("biopsy-test-{}-{}", std::process::id(), unique()));
        if let Version::Two(root) = &version {
            // Refused where it is already so and processes are in the root's children: the write below decides.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        }
        fs::create_dir(&group)?;
        let limit = Self { home: version.root().to_path_buf(), group };
        let quota = PERIOD_US * percent / 100;
        match version {
            Version::One(_) => {
                fs::write(limit.group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(limit.group.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            Version::Two(_) => fs::write(limit.group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?,
        }
        Ok(limit)
    }

    /// Moves `pid` with all its threads into the group.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.group.join("cgroup.procs"), pid.to_string())
    }

    /// The folder of the group.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.group
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        // A group with processes cannot be removed: give them back first. Nothing more can be done about an error here.
        for pid in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

/// Puts processes under a limit of memory or of tasks until dropped.
#[derive(Debug)]
pub struct GroupLimit {
    group: PathBuf,
    home: PathBuf,
}

impl GroupLimit {
    /// A new group that may use so many bytes of memory, without swap.
    ///
    /// # Errors
    ///
    /// Where no memory controller can be written to.
    pub fn memory(bytes: u64) -> io::Result<Self> {
        let limit = Self::new("memory", "memory.limit_in_bytes", "memory.max", bytes)?;
        // Refused where the kernel does not count swap.
        for name in ["memory.memsw.limit_in_bytes", "memory.swap.max"] {
            let file = limit.group.join(name);
            if file.exists() {
                let bytes = if name == "memory.swap.max" { 0 } else { bytes };
                let _ = fs::write(file, bytes.to_string());
            }
        }
        Ok(limit)
    }

    /// A new group that may have so many processes and threads.
    ///
    /// # Errors
    ///
    /// Where no pids controller can be written to.
    pub fn tasks(count: u64) -> io::Result<Self> {
        Self::new("pids", "pids.max", "pids.max", count)
    }

    fn new(controller: &str, file_of_v1: &str, file_of_v2: &str, value: u64) -> io::Result<Self> {
        let two = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(two.join("cgroup.controllers")).unwrap_or_default();
        let is_two = controllers.split_ascii_whitespace().any(|name| name == controller);
        let home = if is_two { two.to_path_buf() } else { two.join(controller) };
        if is_two {
            // Refused where it is already so and processes are in the root's children: the write below decides.
            let _ = fs::write(two.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        let group = home.join(format!("biopsy-test-{}-{}", std::process::id(), unique()));
        fs::create_dir(&group)?;
        let limit = Self { group, home };
        fs::write(limit.group.join(if is_two { file_of_v2 } else { file_of_v1 }), value.to_string())?;
        Ok(limit)
    }

    /// Moves `pid` with all its threads into the group.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.group.join("cgroup.procs"), pid.to_string())
    }

    /// The folder of the group.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.group
    }
}

impl Drop for GroupLimit {
    fn drop(&mut self) {
        // A group with processes cannot be removed: give them back first. Nothing more can be done about an error here.
        for pid in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

/// Keeps processes from running, as a paused container does, until it is thawed or dropped.
#[derive(Debug)]
pub struct FreezerGroup {
    group: PathBuf,
    home: PathBuf,
    file: &'static str,
    words: [&'static str; 2],
}

impl FreezerGroup {
    /// A new group for each version of control groups that is mounted here and can freeze; they run.
    #[must_use]
    pub fn of_each_version() -> Vec<Self> {
        let places = [
            ("/sys/fs/cgroup/freezer", "freezer.state", ["FROZEN", "THAWED"]),
            ("/sys/fs/cgroup", "cgroup.freeze", ["1", "0"]),
            ("/sys/fs/cgroup/unified", "cgroup.freeze", ["1", "0"]),
        ];
        let make = |(home, file, words): (&str, &'static str, _)| {
            let home = PathBuf::from(home);
            let group = home.join(format!("biopsy-test-{}-{}", std::process::id(), unique()));
            fs::create_dir(&group).ok()?;
            let made = Self { group, home, file, words };
            // A folder of something else, and not of control groups of that version.
            made.group.join(made.file).exists().then_some(made)
        };
        places.into_iter().filter_map(make).collect()
    }

    /// Moves `pid` with all its threads into the group.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.group.join("cgroup.procs"), pid.to_string())
    }

    /// Freezes all that is in it, and waits until the kernel says that it is frozen.
    ///
    /// # Errors
    ///
    /// What the kernel says, or that it took too long.
    pub fn freeze(&self) -> io::Result<()> {
        fs::write(self.group.join(self.file), self.words[0])?;
        for _ in 0..1000 {
            let state = fs::read_to_string(self.group.join("freezer.state")).unwrap_or_default();
            let events = fs::read_to_string(self.group.join("cgroup.events")).unwrap_or_default();
            if state.trim() == "FROZEN" || events.lines().any(|line| line == "frozen 1") {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(io::Error::other("the group did not freeze within ten seconds"))
    }

    /// Lets them run again.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn thaw(&self) -> io::Result<()> {
        fs::write(self.group.join(self.file), self.words[1])
    }
}

impl Drop for FreezerGroup {
    fn drop(&mut self) {
        // Nothing more can be done about an error here.
        let _ = self.thaw();
        for pid in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

enum Version {
    One(PathBuf),
    Two(PathBuf),
}

impl Version {
    fn find() -> Option<Self> {
        let two = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(two.join("cgroup.controllers")).unwrap_or_default();
        if controllers.split_ascii_whitespace().any(|name| name == "cpu") {
            return Some(Self::Two(two.to_path_buf()));
        }
        ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
            .iter()
            .map(Path::new)
            .find(|folder| folder.join("cpu.cfs_quota_us").exists() || folder.join("cgroup.procs").exists())
            .map(|folder| Self::One(folder.to_path_buf()))
    }

    fn root(&self) -> &Path {
        match self {
            Self::One(root) | Self::Two(root) => root,
        }
    }
}

/// Why no group can be made; `None`: one can.
pub(crate) fn missing() -> Option<String> {
    CpuLimit::new(50).err().map(|error| error.to_string())
}

fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
