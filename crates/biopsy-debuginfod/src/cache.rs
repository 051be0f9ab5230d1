//! What was fetched before, and what nobody had: a folder laid out as those of debug files are (`.build-id/ab/cdef.debug`), for us alone.
//!
//! ```text
//!  .build-id/ab/cdef….debug           a debug file whose own build id was checked
//!  .build-id/ab/cdef….program         the program or library itself
//!  .build-id/ab/cdef….debug.none      which servers do not have it; believed for a while by the time it was written
//!  .build-id/ab/cdef….RANDOM.part     one that is being written
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use biopsy_stacks::symbols::Wanted;
use rustix::fs::{Mode, OFlags};

/// Bytes of a build id: fewer would lead to many files, more are none.
const SHORTEST_ID: usize = 4;
const LONGEST_ID: usize = 64;
/// A list of servers that does not have a file has no more bytes.
const LONGEST_LIST: u64 = 64 << 10;
/// What is still being written after this was given up, and what nobody had then may be there by now.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

const WANTED: [Wanted; 2] = [Wanted::DebugFile, Wanted::Program];

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Nobody says where it would be.
    #[error(
        "there is no folder for what is fetched: neither `XDG_CACHE_HOME` nor `HOME` is an absolute path"
    )]
    Nowhere,
    /// It cannot be made or opened.
    #[error("cannot use `{}` for what is fetched", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is somebody else's, or others may write into it.
    #[error("`{}` is not used for what is fetched: it is not a folder of this account alone (owner {owner}, mode {mode:o})", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Its owner's uid.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
}

/// `$XDG_CACHE_HOME/biopsy/debuginfod`, else `~/.cache/biopsy/debuginfod`.
///
/// # Errors
/// Neither is set to an absolute path.
pub fn default_folder() -> Result<PathBuf, CacheError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(base.ok_or(CacheError::Nowhere)?.join("biopsy/debuginfod"))
}

/// The folder, open.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    /// What is written is written through it: whoever may rename the folders above does not lead it elsewhere.
    handle: OwnedFd,
}

/// A file that is being written; without a name for good, it goes.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: File,
    path: PathBuf,
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has its name, or nobody wants it.
        let _ = fs::remove_file(&self.path);
    }
}

/// What is known of a build id.
#[derive(Debug)]
pub(crate) enum Known {
    /// It was fetched.
    File(PathBuf),
    /// None of these servers has it, a short time ago.
    Missing,
    /// Nothing.
    Nothing,
}

impl Cache {
    /// Opens the folder, or makes it, for this account alone.
    pub(crate) fn open(folder: PathBuf) -> Result<Self, CacheError> {
        let failed = |source| CacheError::Io { path: folder.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let handle = rustix::fs::open(&folder, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let found = rustix::fs::fstat(&handle).map_err(|error| failed(error.into()))?;
        let mode = found.st_mode & 0o777;
        if found.st_uid != rustix::process::geteuid().as_raw() || mode & 0o077 != 0 {
            return Err(CacheError::NotOurs { path: folder, owner: found.st_uid, mode });
        }
        Ok(Self { folder, handle })
    }

    /// The folder by its handle.
    fn reach(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }

    /// What is known of a build id, as servers were asked.
    pub(crate) fn known(&self, id: &[u8], wanted: Wanted, servers: &[String], miss: Duration) -> Known {
        let Some(name) = name_of(id) else { return Known::Missing };
        let ending = ending(wanted);
        let file = self.reach().join(format!("{name}.{ending}"));
        if fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
            // It was used: others go first.
            if let Ok(file) = OpenOptions::new().append(true).open(&file) {
                let _ = file.set_modified(SystemTime::now());
            }
            return Known::File(self.folder.join(format!("{name}.{ending}")));
        }
        let none = self.reach().join(format!("{name}.{ending}.none"));
        let is_known = fs::symlink_metadata(&none).is_ok_and(|found| {
            found.is_file() && found.len() < LONGEST_LIST && age(&found).is_some_and(|age| age < miss)
        });
        let lacks = |server: &String, list: &str| list.lines().any(|line| line == server);
        match is_known.then(|| fs::read_to_string(&none)) {
            Some(Ok(list)) if servers.iter().all(|server| lacks(server, &list)) => Known::Missing,
            _ => Known::Nothing,
        }
    }

    /// Remembers that none of these servers has it.
    pub(crate) fn remember_missing(&self, id: &[u8], wanted: Wanted, servers: &[String]) -> io::Result<()> {
        let Some(name) = name_of(id) else { return Ok(()) };
        let mut part = self.begin(id)?;
        part.file.write_all(servers.join("\n").as_bytes())?;
        fs::rename(&part.path, self.reach().join(format!("{name}.{}.none", ending(wanted))))
    }

    /// A file to write to.
    pub(crate) fn begin(&self, id: &[u8]) -> io::Result<Part> {
        let name = name_of(id).ok_or(io::ErrorKind::InvalidInput)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = self.reach().join(format!("{name}.{:016x}.part", u64::from_le_bytes(random)));
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Part { file, path })
    }

    /// Gives what was written its name, and makes room for it. It was checked that its build id is `id`.
    pub(crate) fn keep(&self, id: &[u8], wanted: Wanted, part: Part, most: u64) -> io::Result<PathBuf> {
        let name = format!("{}.{}", name_of(id).ok_or(io::ErrorKind::InvalidInput)?, ending(wanted));
        self.make_room(part.file.metadata()?.len(), most);
        fs::rename(&part.path, self.reach().join(&name))?;
        let _ = fs::remove_file(self.reach().join(format!("{name}.none")));
        Ok(self.folder.join(&name))
    }

    /// Removes what was not used for longest until `bytes` more fit, and what is of no use any more.
    fn make_room(&self, bytes: u64, most: u64) {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        let folders = fs::read_dir(self.reach().join(".build-id")).into_iter().flatten().flatten();
        for folder in folders {
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let path = file.path();
                let Ok(found) = file.metadata() else { continue };
                let kind = path.extension().and_then(|kind| kind.to_str());
                if matches!(kind, Some("part" | "none")) && age(&found).is_some_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(&path);
                } else if kind.is_some_and(|kind| WANTED.map(ending).contains(&kind)) {
                    files.push((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), found.len(), path));
                }
            }
        }
        let mut sum: u64 = files.iter().map(|(_, size, _)| size).sum();
        files.sort_unstable();
        for (_, size, path) in files {
            if sum.saturating_add(bytes) <= most {
                break;
            }
            let _ = fs::remove_file(&path);
            sum -= size;
        }
    }
}

/// How the file's name ends.
fn ending(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::DebugFile => "debug",
        Wanted::Program => "program",
    }
}

/// How long ago it was written; `None`: the clock went back.
fn age(found: &fs::Metadata) -> Option<Duration> {
    found.modified().ok()?.elapsed().ok()
}

/// Path below the folder without its ending; `None`: that is no build id.
fn name_of(id: &[u8]) -> Option<String> {
    (SHORTEST_ID..=LONGEST_ID).contains(&id.len()).then(|| {
        let hex = hexadecimal(id);
        let (first, rest) = hex.split_at(2);
        Path::new(".build-id").join(first).join(rest).to_string_lossy().into_owned()
    })
}

/// As the web API and folders of debug files write it.
pub(crate) fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn kept(cache: &Cache, id: &[u8], bytes: usize, most: u64) -> PathBuf {
        let mut part = cache.begin(id).unwrap();
        part.file.write_all(&vec![7; bytes]).unwrap();
        cache.keep(id, Wanted::DebugFile, part, most).unwrap()
    }

    #[test]
    fn what_was_kept_lies_where_debug_files_are_looked_for_and_is_for_us_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        let cache = Cache::open(folder.clone()).unwrap();
        let id = [0xab, 0xcd, 0xef, 0x01, 0x02];
        let path = kept(&cache, &id, 10, 1000);
        assert_eq!(path, folder.join(".build-id/ab/cdef0102.debug"));
        assert!(
            matches!(cache.known(&id, Wanted::DebugFile, &[], HOUR), Known::File(found) if found == path)
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&folder), mode(path.parent().unwrap()), mode(&path)], [0o700, 0o700, 0o600]);
        drop(cache.begin(&id).unwrap());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "what was given up is gone");
        for wrong in [&[][..], &[1, 2, 3], &[0; 65]] {
            assert!(cache.begin(wrong).is_err());
        }
    }

    #[test]
    fn what_nobody_has_is_remembered_for_the_servers_that_were_asked_and_for_a_while() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::open(scratch.path().join("cache")).unwrap();
        let (id, [one, other]) = ([9; 20], ["https://one", "https://other"].map(str::to_owned));
        cache.remember_missing(&id, Wanted::DebugFile, std::slice::from_ref(&one)).unwrap();
        let is_missing = |servers: &[String], miss| {
            matches!(cache.known(&id, Wanted::DebugFile, servers, miss), Known::Missing)
        };
        assert!(is_missing(std::slice::from_ref(&one), HOUR));
        assert!(!is_missing(&[one.clone(), other], HOUR), "the other was not asked");
        assert!(!is_missing(std::slice::from_ref(&one), Duration::ZERO), "it was long ago");
        let program = cache.known(&id, Wanted::Program, std::slice::from_ref(&one), HOUR);
        assert!(matches!(program, Known::Nothing), "nobody was asked for the program");
        kept(&cache, &id, 1, 1000);
        assert!(matches!(cache.known(&id, Wanted::DebugFile, &[one], HOUR), Known::File(_)));
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::open(scratch.path().join("cache")).unwrap();
        let ids: Vec<[u8; 20]> = (1..5).map(|number| [number; 20]).collect();
        let paths: Vec<PathBuf> = ids[..3].iter().map(|id| kept(&cache, id, 100, 1000)).collect();
        for (path, seconds) in paths.iter().zip([300, 100, 200]) {
            let file = OpenOptions::new().append(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        }
        assert!(
            matches!(cache.known(&ids[0], Wanted::DebugFile, &[], HOUR), Known::File(_)),
            "the oldest is used"
        );
        kept(&cache, &ids[3], 150, 350);
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [true, true, false]);
        kept(&cache, &ids[3], 10_000, 350);
        assert!(!paths.iter().any(|path| path.exists()), "one that is larger than all alone stays alone");
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let open = scratch.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Cache::open(open.clone()), Err(CacheError::NotOurs { mode: 0o777, .. })));
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(matches!(Cache::open(link), Err(CacheError::Io { .. })));
    }
}
