//! The file of settings that is changed.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use biopsy_capture::{Failure, FailureKind};

use crate::standing::places;

/// The file that is changed.
pub(super) fn own_file(machine: bool) -> Result<PathBuf, Failure> {
    let folder = if machine { Some(places::machine_folder()) } else { places::user_folder() };
    let folder = folder.ok_or_else(|| {
        Failure::new(FailureKind::Usage, "this user has no home for settings")
            .with_hint(Some("`--machine` changes those of the machine"))
    })?;
    places::file_in(&folder)
}

/// Its text; empty: there is none yet.
pub(super) fn text_of(path: &Path) -> Result<String, Failure> {
    let text = biopsy_watch::file::read(path)
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
    Ok(text.unwrap_or_default())
}

/// Writes it, whole or not at all; what is a link stays one.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let mode = path.metadata().map_or(0o644, |meta| meta.permissions().mode() & 0o755);
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_data()).map_err(failed)?;
    file.persist(&path).map(drop).map_err(|error| failed(error.error))
}
