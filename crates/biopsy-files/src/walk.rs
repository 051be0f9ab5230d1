//! Walking a path part by part.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Statx};

use crate::Refused;
use crate::file_system::{Mounts, look};

/// Links that are followed on one path: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Overlays over overlays that are looked through: the kernel allows no more (`FILESYSTEM_MAX_STACK_DEPTH`).
const MOST_OVERLAYS: usize = 2;

/// What to do with links on the way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Links {
    /// Follow them inside the root, as far as their makers may.
    #[default]
    Follow,
    /// None: paths that the kernel told have none, and those of a stranger's file must not lead anywhere else.
    Refuse,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Where the last part of the path led, if it was a link.
    pub link_to: Option<PathBuf>,
}

/// What a walk led to, not open for reading yet.
struct Found {
    handle: OwnedFd,
    facts: Statx,
    link_to: Option<PathBuf>,
}

/// Opens the regular file at a path that somebody else names.
///
/// `/proc/PID/root/...` is resolved inside the root of that process. `/proc/PID/map_files/...`, `/proc/PID/fd/...` and
/// `/proc/PID/exe` are what the kernel says they are, whatever became of the name.
///
/// # Errors
/// [`Refused`].
pub fn open(path: &Path, links: Links) -> Result<Opened, Refused> {
    if let Some(process) = is_kernels_link(path) {
        return open_kernels_link(path, &process).map(|file| Opened { file, link_to: None });
    }
    let (start, below) = match below_process_root(path) {
        Some(found) => found,
        None => (PathBuf::from("/"), std::path::absolute(path)?),
    };
    Root::at(&start)?.open(&below, links)
}

/// Opens for reading what an `O_PATH` descriptor stands for, if it is a regular file on a file system that does not keep its
/// readers waiting.
///
/// # Errors
/// [`Refused`].
pub fn open_handle(handle: &OwnedFd, mounts: &Mounts) -> Result<File, Refused> {
    let facts = look(handle)?;
    check_near(mounts, &facts, Path::new("it"), MOST_OVERLAYS)?;
    check_regular(&facts)?;
    Ok(reopen(handle)?)
}

/// Opens for reading what an `O_PATH` descriptor stands for, without a check.
///
/// # Errors
/// What the kernel says.
pub fn reopen(handle: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// A folder that paths are resolved in: none leads out of it.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    mounts: Mounts,
}

impl Root {
    /// Opens the folder. It is named by us or by our user: links on the way to it are followed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn at(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, folder, flags, Mode::empty())?;
        let process = below_process_root(folder).and_then(|(root, _)| root.parent().map(Path::to_owned));
        Ok(Self::of(handle, process.map_or_else(Mounts::own, |process| Mounts::of(&process))))
    }

    /// A folder that is open.
    #[must_use]
    pub fn of(handle: OwnedFd, mounts: Mounts) -> Self {
        Self { handle, mounts }
    }

    /// Whether there is something of that name, be it a link that leads nowhere. Nothing is opened.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return true };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = self.open_folder(folder);
        folder.is_ok_and(|folder| rustix::fs::openat(&folder, name, flags, Mode::empty()).is_ok())
    }

    /// Opens a regular file below it.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(&self, path: &Path, links: Links) -> Result<Opened, Refused> {
        let found = self.walk(path, links)?;
        check_regular(&found.facts)?;
        Ok(Opened { file: reopen(&found.handle)?, link_to: found.link_to })
    }

    /// Finds what is below it, without opening it for reading (`O_PATH`).
    ///
    /// # Errors
    /// [`Refused`].
    pub fn locate(&self, path: &Path, links: Links) -> Result<OwnedFd, Refused> {
        Ok(self.walk(path, links)?.handle)
    }

    /// Opens a folder below it, to be listed.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open_folder(&self, path: &Path) -> Result<OwnedFd, Refused> {
        Ok(self.walk(path, Links::Follow)?.handle)
    }

    fn walk(&self, path: &Path, links: Links) -> Result<Found, Refused> {
        self.walk_through(path, links, MOST_OVERLAYS)
    }

    fn walk_through(&self, path: &Path, links: Links, overlays: usize) -> Result<Found, Refused> {
        // The folders on the way, for `..`; the root is not left.
        let mut folders: Vec<OwnedFd> = Vec::new();
        let mut todo: Vec<OsString> = Vec::new();
        push_parts(&mut todo, path);
        let mut trace = Trace::new(&look(&self.handle)?);
        let (mut followed, mut ends_with_link) = (0, false);
        let mut last: Option<(OwnedFd, Statx)> = None;
        while let Some(part) = todo.pop() {
            last = None;
            if part == ".." {
                folders.pop();
                continue;
            }
            let folder = folders.last().unwrap_or(&self.handle);
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = rustix::fs::openat(folder, &part, flags, Mode::empty())?;
            let facts = look(&handle)?;
            check_near(&self.mounts, &facts, Path::new(&part), overlays)?;
            match kind_of(&facts) {
                FileType::Symlink if links == Links::Refuse => {
                    return Err(Refused::Link { path: PathBuf::from(part) });
                }
                FileType::Symlink => {
                    followed += 1;
                    if followed > MOST_LINKS {
                        return Err(Refused::TooManyLinks { limit: MOST_LINKS });
                    }
                    trace.made_by(facts.stx_uid);
                    let target =
                        OsString::from_vec(rustix::fs::readlinkat(&handle, c"", Vec::new())?.into_bytes());
                    ends_with_link |= todo.is_empty();
                    if target.as_bytes().starts_with(b"/") {
                        folders.clear();
                    }
                    push_parts(&mut todo, Path::new(&target));
                }
                FileType::Directory => {
                    trace.passed(&facts);
                    if todo.is_empty() {
                        last = Some((handle, facts));
                    } else {
                        folders.push(handle);
                    }
                }
                _ if todo.is_empty() => last = Some((handle, facts)),
                _ => return Err(rustix::io::Errno::NOTDIR.into()),
            }
        }
        let (handle, facts) = match last {
            Some(last) => last,
            None => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let handle =
                    rustix::fs::openat(folders.last().unwrap_or(&self.handle), c".", flags, Mode::empty())?;
                let facts = look(&handle)?;
                (handle, facts)
            }
        };
        trace.check(&facts)?;
        let place = || std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok();
        let link_to = ends_with_link.then(place).flatten();
        Ok(Found { handle, facts, link_to })
    }
}

/// Who had a say in where the path leads, and who may go there.
struct Trace {
    makers: Vec<u32>,
    /// All folders on the way can be entered by everybody.
    open_to_all: bool,
    /// Owner of the last folder.
    folder_owner: u32,
}

impl Trace {
    fn new(root: &Statx) -> Self {
        let mut this = Self { makers: Vec::new(), open_to_all: true, folder_owner: root.stx_uid };
        this.passed(root);
        this
    }

    fn made_by(&mut self, user: u32) {
        self.makers.push(user);
    }

    fn passed(&mut self, folder: &Statx) {
        self.open_to_all &= folder.stx_mode & 0o001 != 0;
        self.folder_owner = folder.stx_uid;
    }

    /// Whether all who made links on the way may read what they lead to: it is their own, or everybody's. Groups and access
    /// lists are not asked: what they would allow is refused, and that is said.
    fn check(mut self, file: &Statx) -> Result<(), Refused> {
        // A name given to somebody else's file by a hard link is as good as a link.
        if kind_of(file) == FileType::RegularFile && file.stx_nlink > 1 {
            self.makers.push(self.folder_owner);
        }
        let own = rustix::process::geteuid().as_raw();
        let for_all = self.open_to_all && file.stx_mode & 0o004 != 0;
        let may = |maker: u32| maker == 0 || maker == own || maker == file.stx_uid || for_all;
        match self.makers.into_iter().find(|maker| !may(*maker)) {
            Some(maker) => Err(Refused::Foreign { maker, owner: file.stx_uid }),
            None => Ok(()),
        }
    }
}

fn open_kernels_link(path: &Path, process: &Path) -> Result<File, Refused> {
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    open_handle(&handle, &Mounts::of(process))
}

/// Refuses what is on a file system that can make its readers wait, or laid over one. Layers are where whoever mounted it saw them;
/// those that are in neither root cannot be looked at.
fn check_near(mounts: &Mounts, facts: &Statx, path: &Path, overlays: usize) -> Result<(), Refused> {
    mounts.check(facts, path)?;
    let layers = mounts.layers(facts);
    let Some(overlays) = overlays.checked_sub(1).filter(|_| !layers.is_empty()) else { return Ok(()) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for (root, own) in mounts.roots() {
        let Ok(handle) = rustix::fs::openat(CWD, root, flags, Mode::empty()) else { continue };
        let root = Root::of(handle, own);
        for layer in &layers {
            if let Err(Refused::FileSystem { kind, .. }) = root.walk_through(layer, Links::Follow, overlays) {
                let kind = format!("overlay over {kind}");
                return Err(Refused::FileSystem { path: path.to_owned(), kind });
            }
        }
    }
    mounts.layers_are_near(facts);
    Ok(())
}

fn check_regular(facts: &Statx) -> Result<(), Refused> {
    match kind_of(facts) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Refused::NotRegular("a folder")),
        FileType::Fifo => Err(Refused::NotRegular("a FIFO")),
        FileType::Socket => Err(Refused::NotRegular("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(Refused::NotRegular("a device")),
        _ => Err(Refused::NotRegular("something else")),
    }
}

fn kind_of(facts: &Statx) -> FileType {
    FileType::from_raw_mode(facts.stx_mode.into())
}

/// Puts the parts of a path on the list of what is to do, the first on top.
fn push_parts(todo: &mut Vec<OsString>, path: &Path) {
    todo.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    }));
}

/// `/proc/PID/root` and what is below it.
fn below_process_root(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut parts = path.components();
    let root: PathBuf = parts.by_ref().take(4).collect();
    let [pid, name] = of_process(&root)?;
    (is_pid(pid) && name == "root").then(|| (root.clone(), parts.as_path().to_owned()))
}

/// `/proc/PID` where the path is a link that the kernel itself follows to the very file.
fn is_kernels_link(path: &Path) -> Option<PathBuf> {
    let first: PathBuf = path.components().take(4).collect();
    let [pid, name] = of_process(&first)?;
    let depth = path.components().count();
    let is_one = match name.to_str()? {
        "exe" => depth == 4,
        "map_files" | "fd" => depth == 5 && !path.ends_with(".."),
        _ => false,
    };
    (is_pid(pid) && is_one).then(|| Path::new("/proc").join(pid))
}

fn of_process(path: &Path) -> Option<[&OsStr; 2]> {
    let mut parts = path.strip_prefix("/proc").ok()?.components();
    match (parts.next()?, parts.next()?) {
        (Component::Normal(pid), Component::Normal(name)) => Some([pid, name]),
        _ => None,
    }
}

fn is_pid(name: &OsStr) -> bool {
    name == "self" || name.as_bytes().iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests;
