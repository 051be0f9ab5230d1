//! For tests: a folder that looks like `/` with processes in `proc/`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::process::proc_root::ProcRoot;
use crate::process::seen::Seen;
use crate::process::stat;

/// A 64-bit and a 32-bit program, as far as they are looked at.
pub(crate) const ELF_64: &[u8] = b"\x7fELF\x02\x01\x01";
pub(crate) const ELF_32: &[u8] = b"\x7fELF\x01\x01\x01";

/// The folder; removed when dropped.
pub(crate) struct FakeProc {
    folder: tempfile::TempDir,
}

/// One process; written by [`Fake::write`].
#[derive(Clone)]
pub(crate) struct Fake<'a> {
    proc: &'a FakeProc,
    pid: u32,
    parent: u32,
    comm: Vec<u8>,
    state: char,
    threads: u64,
    start: u64,
    exe: Option<(Vec<u8>, Vec<u8>)>,
    arguments: Vec<Vec<u8>>,
    cgroup: String,
    inner_pids: Vec<u32>,
    tgid: u32,
    maps: Vec<String>,
}

impl FakeProc {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let random = folder.path().join("proc/sys/kernel/random");
        std::fs::create_dir_all(&random).unwrap();
        std::fs::write(random.join("boot_id"), "11111111-2222-3333-4444-555555555555\n").unwrap();
        std::fs::create_dir_all(folder.path().join("etc")).unwrap();
        std::fs::write(folder.path().join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        Self { folder }
    }

    pub(crate) fn root(&self) -> ProcRoot {
        ProcRoot::at(self.folder.path())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn seen(&self, pid: u32) -> Seen {
        Seen::read(&self.root(), biopsy_model::Pid(pid)).unwrap()
    }

    /// A process with its name as only argument and as file name of its executable.
    pub(crate) fn process(&self, pid: u32, name: impl AsRef<[u8]>) -> Fake<'_> {
        let name = name.as_ref();
        let comm = name[..name.len().min(15)].to_vec();
        let mut exe = b"/usr/bin/".to_vec();
        exe.extend_from_slice(name);
        Fake {
            proc: self,
            pid,
            parent: 1,
            comm,
            state: 'S',
            threads: 1,
            start: 1000 + u64::from(pid),
            exe: Some((exe, ELF_64.to_vec())),
            arguments: vec![name.to_vec()],
            cgroup: "/".to_owned(),
            inner_pids: Vec::new(),
            tgid: pid,
            maps: Vec::new(),
        }
    }
}

impl Fake<'_> {
    pub(crate) fn parent(mut self, parent: u32) -> Self {
        self.parent = parent;
        self
    }

    pub(crate) fn comm(mut self, comm: &str) -> Self {
        self.comm = comm.into();
        self
    }

    pub(crate) fn state(mut self, state: char, threads: u64) -> Self {
        (self.state, self.threads) = (state, threads);
        self
    }

    pub(crate) fn start(mut self, ticks: u64) -> Self {
        self.start = ticks;
        self
    }

    /// Path of the executable inside the process's own root, and what the file holds.
    pub(crate) fn exe(mut self, path: &str, contents: &[u8]) -> Self {
        self.exe = Some((path.into(), contents.to_vec()));
        self
    }

    /// Like a process of somebody else.
    pub(crate) fn no_exe(mut self) -> Self {
        self.exe = None;
        self
    }

    pub(crate) fn command(mut self, line: &str) -> Self {
        self.arguments = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self
    }

    /// A command line that the program wrote over.
    pub(crate) fn title(mut self, title: &str) -> Self {
        self.arguments = vec![title.into()];
        self
    }

    pub(crate) fn cgroup(mut self, path: &str) -> Self {
        self.cgroup = path.to_owned();
        self
    }

    pub(crate) fn inner_pid(mut self, pid: u32) -> Self {
        self.inner_pids.push(pid);
        self
    }

    pub(crate) fn thread_of(mut self, tgid: u32) -> Self {
        self.tgid = tgid;
        self
    }

    pub(crate) fn maps(mut self, path: &str) -> Self {
        self.maps.push(path.to_owned());
        self
    }

    /// A file inside the process's own root.
    pub(crate) fn file(self, path: &str, contents: &[u8]) -> Self {
        write_below(&self.own_root(), path.as_bytes(), contents);
        self
    }

    fn own_root(&self) -> PathBuf {
        self.proc.folder.path().join("roots").join(self.pid.to_string())
    }

    pub(crate) fn write(self) {
        let dir = self.proc.folder.path().join("proc").join(self.pid.to_string());
        let own_root = self.own_root();
        std::fs::create_dir_all(dir.join(format!("task/{}", self.pid))).unwrap();
        std::fs::create_dir_all(&own_root).unwrap();
        symlink(&own_root, dir.join("root")).unwrap();
        std::fs::write(
            dir.join("stat"),
            stat::tests::line(self.pid, &self.comm, self.state, self.parent, self.threads, self.start),
        )
        .unwrap();
        let inner: String = self.inner_pids.iter().map(|pid| format!("\t{pid}")).collect();
        let status = format!("Tgid:\t{}\nUid:\t0\t0\t0\t0\nNSpid:\t{}{inner}\n", self.tgid, self.pid);
        std::fs::write(dir.join("status"), status).unwrap();
        let cmdline: Vec<u8> =
            self.arguments.iter().flat_map(|word| word.iter().copied().chain([0])).collect();
        std::fs::write(dir.join("cmdline"), if self.exe.is_some() { cmdline } else { Vec::new() }).unwrap();
        std::fs::write(dir.join("cgroup"), format!("0::{}\n", self.cgroup)).unwrap();
        let mut comm = self.comm.clone();
        comm.push(b'\n');
        std::fs::write(dir.join(format!("task/{}/comm", self.pid)), comm).unwrap();
        if let Some((path, contents)) = &self.exe {
            // The link of a real process reads as the path inside and opens the file; this one needs both to be one.
            let file = write_below(&own_root, path, contents);
            symlink(file, dir.join("exe")).unwrap();
        }
        let maps: String = self
            .maps
            .iter()
            .map(|path| {
                format!("7f0000000000-7f0000001000 r-xp 00000000 08:01 12                         {path}\n")
            })
            .collect();
        std::fs::write(dir.join("maps"), maps).unwrap();
    }
}

fn write_below(root: &Path, path: &[u8], contents: &[u8]) -> PathBuf {
    let below = path.strip_prefix(b"/").unwrap_or(path);
    let file = root.join(OsStr::from_bytes(below));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, contents).unwrap();
    file
}
