//! Whether the recording can be written, and fits.

use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags};

use super::check::Check;

const NAME: &str = "output";
/// A recording of some minutes of a busy server, at the promised half a megabyte a second, with some room.
const USUAL: u64 = 512 << 20;

/// Checks the folder in which a recording is to be made.
pub(super) fn check_folder(folder: &Path, needed: Option<u64>) -> Check {
    let shown = crate::printable(&folder.display().to_string());
    let filesystem = match rustix::fs::statvfs(folder) {
        Ok(filesystem) => filesystem,
        Err(error) => {
            let hint = Some("name a place that is there with `--output`".to_owned());
            return Check::missing(
                NAME,
                format!("cannot examine folder `{shown}`: {}", std::io::Error::from(error)),
                hint,
            );
        }
    };
    if filesystem.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Check::missing(NAME, format!("folder `{shown}` is on a read-only file system"), elsewhere());
    }
    if rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Check::missing(NAME, format!("folder `{shown}` is not writable for this user"), elsewhere());
    }
    let free = filesystem.f_bavail.saturating_mul(filesystem.f_frsize);
    let detail = format!("{} free in `{shown}`", bytes_text(free));
    match needed {
        Some(needed) if free < needed => {
            Check::missing(NAME, format!("{detail}, {} needed", bytes_text(needed)), elsewhere())
        }
        None if free < USUAL => {
            Check::limited(NAME, format!("{detail}: enough for a short recording only"), elsewhere())
        }
        _ => Check::ok(NAME, detail),
    }
}

fn elsewhere() -> Option<String> {
    Some("name another place with `--output`".to_owned())
}

/// Checks the path a recording is to be made at: it must not be there, and the folder above must be writable.
pub(super) fn check_output(output: &Path, needed: Option<u64>) -> Check {
    if output.symlink_metadata().is_ok() {
        let shown = crate::printable(&output.display().to_string());
        let hint = "nothing is overwritten: name another path with `--output`, or remove it";
        return Check::missing(NAME, format!("`{shown}` exists already"), Some(hint.to_owned()));
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_folder(folder, needed)
}

/// A size for people, in units of 1024: `512 B`, `1.5 MiB`, `120 GiB`.
#[must_use]
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for &larger in &UNITS[1..] {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_572_864, "1.5 MiB"),
            (130 << 30, "130 GiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn outputs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check_output(&folder.path().join("new"), Some(1)).status, Status::Ok);
        assert_eq!(check_output(&folder.path().join("new"), Some(u64::MAX)).status, Status::Missing);
        assert_eq!(check_output(folder.path(), None).status, Status::Missing);
        assert_eq!(check_output(&folder.path().join("no/such"), None).status, Status::Missing);
        // A link that leads nowhere is there all the same: writing would go through it.
        std::os::unix::fs::symlink("/nowhere", folder.path().join("link")).unwrap();
        assert_eq!(check_output(&folder.path().join("link"), None).status, Status::Missing);
    }
}
