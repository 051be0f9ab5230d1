//! Where the debug information of a stripped file may lie (gdb manual, "Debugging Information in Separate Files").

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::elsewhere::{FilesElsewhere, Wanted};
use super::source::Options;
use crate::elf::bytes::u32_at;
use crate::elf::{ElfCache, ElfFile};

/// Checking a `.gnu_debuglink` by its checksum reads the whole file; above this size, in bytes, it is not tried.
const CHECKSUM_BYTES: u64 = 512 << 20;

/// Folders to look in, and the target's root.
#[derive(Clone, Debug)]
pub(crate) struct DebugPlaces<'a> {
    /// `/usr/lib/debug` and others.
    pub(crate) folders: &'a [PathBuf],
    /// `/proc/PID/root` of a target with a file system of its own; each folder is looked for there first.
    pub(crate) root: Option<&'a Path>,
    /// Who is asked last.
    elsewhere: Option<&'a dyn FilesElsewhere>,
}

impl<'a> DebugPlaces<'a> {
    pub(crate) fn of(options: &'a Options, root: Option<&'a Path>) -> Self {
        Self { folders: &options.debug_folders, root, elsewhere: options.elsewhere.as_deref() }
    }
}

impl DebugPlaces<'_> {
    fn roots(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let below =
            self.root.into_iter().flat_map(|root| self.folders.iter().map(|folder| below(root, folder)));
        below.chain(self.folders.iter().cloned())
    }

    /// The debug file of `file`, which the target knows as `label`: by build id, else by `.gnu_debuglink`, else from elsewhere.
    pub(crate) fn find(&self, cache: &ElfCache, file: &ElfFile, label: &str) -> Option<Arc<ElfFile>> {
        let id = file.build_id();
        self.by_build_id(cache, id)
            .or_else(|| self.by_link(cache, file, label))
            .or_else(|| self.elsewhere(cache, id, label))
    }

    fn elsewhere(&self, cache: &ElfCache, id: Option<&[u8]>, label: &str) -> Option<Arc<ElfFile>> {
        let path = self.elsewhere?.get(id?, Wanted::DebugFile, label)?;
        let found = cache.open_by_id(label, &path).ok()?;
        (found.build_id() == id).then_some(found)
    }

    fn by_build_id(&self, cache: &ElfCache, id: Option<&[u8]>) -> Option<Arc<ElfFile>> {
        let id = id.filter(|id| id.len() >= 2)?;
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!(".build-id/{}/{}.debug", &hex[..2], &hex[2..]);
        let candidates: Vec<PathBuf> = self.roots().map(|root| root.join(&name)).collect();
        candidates.iter().find_map(|path| {
            let found = cache.open_by_id(&name, path).ok()?;
            (found.build_id() == Some(id)).then_some(found)
        })
    }

    fn by_link(&self, cache: &ElfCache, file: &ElfFile, label: &str) -> Option<Arc<ElfFile>> {
        let section = file.section_bytes(".gnu_debuglink", 8 << 10).ok().flatten()?;
        let end = section.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&section[..end]).ok()?;
        let checksum = u32_at(&section, (end + 1).checked_next_multiple_of(4)?)?;
        // A bare file name: with folders in it it could point anywhere.
        if name.is_empty() || Path::new(name).file_name()? != name {
            return None;
        }
        let folder = Path::new(label).parent()?;
        // Beside it only where it may be looked for at all.
        let beside = self.root.map(|root| below(root, folder));
        let mut candidates: Vec<PathBuf> = beside
            .into_iter()
            .flat_map(|beside| [beside.join(name), beside.join(".debug").join(name)])
            .collect();
        candidates.extend(self.roots().map(|root| below(&root, folder).join(name)));
        candidates.iter().find_map(|path| {
            let found = cache.open(name, std::slice::from_ref(path)).ok()?;
            let same = match (file.build_id(), found.build_id()) {
                (Some(left), Some(right)) => left == right,
                _ => found.checksum(CHECKSUM_BYTES) == Some(checksum),
            };
            same.then_some(found)
        })
    }

    /// The supplementary file that `dwz` moved shared debug information to.
    pub(crate) fn supplement(&self, cache: &ElfCache, debug: &ElfFile) -> Option<Arc<ElfFile>> {
        let section = debug.section_bytes(".gnu_debugaltlink", 8 << 10).ok().flatten()?;
        let end = section.iter().position(|byte| *byte == 0)?;
        let path = Path::new(std::str::from_utf8(&section[..end]).ok()?);
        let id = section.get(end + 1..).filter(|id| !id.is_empty())?;
        let mut candidates = Vec::new();
        if path.is_absolute() {
            candidates.extend(self.root.map(|root| below(root, path)));
            candidates
                .extend(self.folders.iter().any(|folder| path.starts_with(folder)).then(|| path.to_owned()));
        } else if let Some(folder) = debug.path().parent() {
            candidates.push(folder.join(path));
            // Relative to where the link of the build-id folder leads.
            let real = std::fs::canonicalize(debug.path()).ok();
            candidates.extend(real.and_then(|real| Some(real.parent()?.join(path))));
        }
        candidates.retain(|path| {
            self.roots().chain(self.root.map(Path::to_owned)).any(|root| is_below(&root, path))
        });
        let direct = candidates.iter().find_map(|path| {
            let found = cache.open("dwz supplement", std::slice::from_ref(path)).ok()?;
            (found.build_id() == Some(id)).then_some(found)
        });
        let label = "dwz supplement";
        direct
            .or_else(|| self.by_build_id(cache, Some(id)))
            .or_else(|| self.elsewhere(cache, Some(id), label))
    }
}

/// Whether a path leads below a folder, with its `..` taken as written.
fn is_below(folder: &Path, path: &Path) -> bool {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain.starts_with(folder)
}

/// `path` as seen below `root`; `..` does not lead out.
fn below(root: &Path, path: &Path) -> PathBuf {
    let mut joined = root.to_owned();
    joined.extend(path.components().filter(|part| matches!(part, Component::Normal(_))));
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_root() {
        let joined = below(Path::new("/proc/7/root"), Path::new("/usr/../../etc/./x"));
        assert_eq!(joined, Path::new("/proc/7/root/usr/etc/x"));
    }

    #[test]
    fn a_supplement_is_not_looked_for_outside_of_the_folders_of_debug_information() {
        let below = |path: &str| is_below(Path::new("/usr/lib/debug"), Path::new(path));
        assert!(below("/usr/lib/debug/.build-id/ab/../../.dwz/x"));
        assert!(!below("/usr/lib/debug/.build-id/ab/../../../../../etc/shadow") && !below("/etc/shadow"));
    }
}
