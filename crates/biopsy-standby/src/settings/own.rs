//! The file of settings that is changed.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use biopsy_capture::{Failure, FailureKind};

use crate::{places, whole};

/// The file that is changed.
pub fn own_file(machine: bool) -> Result<PathBuf, Failure> {
    let folder = if machine { Some(places::machine_folder()) } else { places::user_folder() };
    let folder = folder.ok_or_else(|| {
        Failure::new(FailureKind::Usage, "this user has no home for settings")
            .with_hint(Some("`--machine` changes those of the machine"))
    })?;
    places::file_in(&folder)
}

/// Its text; empty: there is none yet.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    let text = biopsy_watch::file::read(path)
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
    Ok(text.unwrap_or_default())
}

/// Writes it, whole or not at all; what is a link stays one.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mode = path.metadata().map_or(0o644, |meta| meta.permissions().mode() & 0o755);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.and_then(|()| whole::write(&path, text, Some(mode))).map_err(|error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_one_and_rights_stay_as_they_are_but_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real/settings.json"), folder.path().join("settings.json"));
        let mode = || file.metadata().unwrap().permissions().mode() & 0o777;
        write(&file, "{}").unwrap();
        assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode()), ("{}", 0o644));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for (before, after) in [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644), (0o664, 0o644)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(before)).unwrap();
            write(&link, "[]").unwrap();
            assert_eq!(mode(), after, "{before:o}");
        }
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[]");
        assert!(write(folder.path(), "[]").is_err(), "a folder is no file");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "nothing is left of what failed");
    }
}
