//! Where the result goes: never over something that exists, readable by its owner only.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, FailureKind};

/// Names of a recording.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder that is written while recording.
    pub folder: PathBuf,
    /// The bundle; `None`: the folder stays as it is.
    pub bundle: Option<PathBuf>,
}

impl Place {
    /// Where a recording goes: to what was named, or to the target's name and the time. `folder`: it stays a folder.
    pub(crate) fn choose(output: Option<&Path>, folder: bool, target: &str) -> Result<Self, Failure> {
        let named = output.map_or_else(|| PathBuf::from(default_name(target)), Path::to_owned);
        let place =
            if folder { Self { folder: without_ending(&named), bundle: None } } else { Self::bundle(&named) };
        place.check()?;
        Ok(place)
    }

    /// Where dumps and snapshots go: a bundle, if its name ends in `.zip`; else a folder.
    pub(crate) fn folder_or_bundle(output: Option<&Path>, target: &str) -> Self {
        match output {
            None => Self::alone(PathBuf::from(default_stem(target))),
            Some(path) if ends_with(path, ".zip") => Self::bundle(path),
            Some(path) => Self::alone(path.to_owned()),
        }
    }

    /// A folder, or a file, that is the result itself.
    pub(crate) fn alone(path: PathBuf) -> Self {
        Self { folder: path, bundle: None }
    }

    /// A bundle, and the folder beside it that it is made from.
    pub(crate) fn bundle(named: &Path) -> Self {
        let mut folder = without_ending(named).into_os_string();
        folder.push(".recording");
        Self { folder: folder.into(), bundle: Some(named.to_owned()) }
    }

    /// Refuses names that are taken and folders that cannot be written to.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for path in self.bundle.iter().chain([&self.folder]) {
            if path.symlink_metadata().is_ok() {
                return Err(Failure::new(
                    FailureKind::Output,
                    format!("`{}` exists already", path.display()),
                )
                .with_hint(Some("name another file with `--output`; nothing is ever overwritten")));
            }
        }
        self.check_parent()
    }

    /// What there will be at the end.
    pub(crate) fn result(&self) -> &Path {
        self.bundle.as_deref().unwrap_or(&self.folder)
    }

    /// Where the `number`th snapshot of a running recording goes.
    pub(crate) fn snapshot(&self, number: u32) -> Self {
        let base = self.bundle.as_ref().map_or_else(|| self.folder.clone(), |bundle| without_ending(bundle));
        let name = |ending: &str| {
            let mut name = base.clone().into_os_string();
            name.push(format!(".snapshot-{number}{ending}"));
            PathBuf::from(name)
        };
        Self { folder: name(".recording"), bundle: Some(name(".biopsy.zip")) }
    }

    fn check_parent(&self) -> Result<(), Failure> {
        let parent = parent(&self.folder);
        let shown = parent.display();
        let meta = std::fs::metadata(&parent).map_err(|error| {
            Failure::new(FailureKind::Output, format!("cannot write into `{shown}`: {error}"))
        })?;
        if !meta.is_dir() {
            return Err(Failure::new(FailureKind::Output, format!("`{shown}` is not a folder")));
        }
        rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK).map_err(|error| {
            let error = io::Error::from(error);
            Failure::new(FailureKind::Output, format!("cannot write into `{shown}`: {error}"))
                .with_hint(Some("name another place with `--output`"))
        })
    }
}

pub(crate) fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}

/// The folder that something is in.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// `biopsy-mariadbd-20261121-104500.biopsy.zip`; with a random part where others may write into the folder too.
fn default_name(target: &str) -> String {
    format!("{}.biopsy.zip", default_stem(target))
}

/// The same without an ending, for folders.
fn default_stem(target: &str) -> String {
    let name: String = target
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .take(60)
        .collect();
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    let shared = std::fs::metadata(".").is_ok_and(|meta| meta.mode() & 0o022 != 0);
    let random = if shared { format!("-{:08x}", random_word()) } else { String::new() };
    format!("biopsy-{name}-{now}{random}")
}

fn random_word() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    let word = std::hash::RandomState::new().build_hasher().finish();
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
}

fn without_ending(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.strip_suffix(".zip").unwrap_or(&name);
    let stem = stem.strip_suffix(".biopsy").unwrap_or(stem);
    path.with_file_name(if stem.is_empty() { "biopsy" } else { stem })
}

/// Writes a new file of mode 0600. It must not exist.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_new_with(path, |file| file.write_all(bytes))
}

/// The same for what is written piece by piece.
///
/// # Errors
/// As [`write_new`].
pub fn write_new_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Failure> {
    create_new(path).and_then(|mut file| write(&mut file)).map_err(|error| {
        let failure =
            Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()));
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        failure.with_hint(exists.then_some("name another file with `--output`; nothing is ever overwritten"))
    })
}

/// A new file of mode 0600.
#[expect(clippy::disallowed_methods, reason = "it opens nothing that exists, and follows no link")]
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// A recording leaves this much of the disk to the server, or a twentieth of a small one.
pub(crate) const DISK_RESERVE: u64 = 256 << 20;

/// Bytes that are free for us on the disk of `path`, or of the folder that it will be in.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).or_else(|_| rustix::fs::statvfs(parent(path))).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether so little is left on the disk of `path` that recording should end.
pub(crate) fn disk_is_nearly_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|stat| {
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let all = stat.f_blocks.saturating_mul(stat.f_frsize);
        free < DISK_RESERVE.min(all / 20)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(without_ending(Path::new("a/b.biopsy.zip")), Path::new("a/b"));
        assert_eq!(without_ending(Path::new("b.zip")), Path::new("b"));
        assert_eq!(without_ending(Path::new("b")), Path::new("b"));
        let name = default_name("odd name/../(x)\n");
        assert!(name.starts_with("biopsy-odd_name_.._"), "{name}");
        assert!(!name.contains('/') && !name.contains('\n'));
    }

    #[test]
    fn snapshots_stand_beside_the_bundle() {
        let place = Place { folder: "x.recording".into(), bundle: Some("x.zip".into()) };
        assert_eq!(place.snapshot(2).bundle.unwrap(), Path::new("x.snapshot-2.biopsy.zip"));
    }
}
