//! Pressure (PSI): the share of the time in which somebody stands still for want of a resource. Linux' `Documentation/accounting/psi.rst`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use biopsy_model::Pid;

use super::comparison::Resource;
use crate::metrics::cgroup_paths::own_unified_folder;
use crate::metrics::parse::parse_pressure;
use crate::metrics::procfile::{Buffer, ProcFile};

/// One pressure file, read again and again.
#[derive(Debug)]
struct Stall {
    resource: Resource,
    file: ProcFile,
    /// When it was read before, and the microseconds it told then.
    before: Option<(Instant, u64)>,
}

/// Per cent of the time by resource, in the order of [`Resource::ALL`].
pub(super) type Shares = [Option<f64>; Resource::ALL.len()];

/// The pressure files that triggers ask for: those of the process's own control group (version 2), which is its container or its
/// unit, and those of the machine where it has none.
#[derive(Debug)]
pub(super) struct Stalls {
    all: Vec<Stall>,
}

impl Stalls {
    /// Opens the files of these.
    ///
    /// # Errors
    /// The file of a resource and what the system said: a kernel without `CONFIG_PSI`, or started with `psi=0`.
    pub(super) fn open(
        proc_root: &Path,
        pid: Pid,
        resources: impl Iterator<Item = Resource>,
    ) -> Result<Self, (PathBuf, std::io::Error)> {
        let mut stalls = Self { all: Vec::new() };
        for resource in resources {
            if stalls.all.iter().any(|one| one.resource == resource) {
                continue;
            }
            let of_group = own_unified_folder(proc_root, pid)
                .map(|folder| folder.join(format!("{}.pressure", resource.word())));
            let readable = |path: &PathBuf| biopsy_files::read_kernels(path).is_ok();
            let path = match of_group.filter(readable) {
                Some(path) => path,
                None => proc_root.join("pressure").join(resource.word()),
            };
            // It can be opened where pressure is switched off, and not be read.
            if let Err(error) = biopsy_files::read_kernels(&path) {
                return Err((path, error));
            }
            stalls.all.push(Stall { resource, file: ProcFile::new(path, true), before: None });
        }
        Ok(stalls)
    }

    /// Reads all of them: per cent of the time since the reading before; `None` at the first one, and where a file is not asked for
    /// or not there any more.
    pub(super) fn read(&mut self, at: Instant, buffer: &mut Buffer) -> Shares {
        let mut shares = [None; Resource::ALL.len()];
        for stall in &mut self.all {
            let text = stall.file.read_ok(buffer).unwrap_or_default();
            let total = parse_pressure(text).0.total;
            let before = std::mem::replace(&mut stall.before, total.map(|total| (at, total)));
            if let Some(share) = shares.get_mut(stall.resource as usize) {
                *share = share_of(before, at, total);
            }
        }
        shares
    }
}

/// Per cent of the time between two readings of a total in microseconds. The kernel adds what it has counted of each processor now and then: a little more than all is
/// all.
#[expect(clippy::cast_precision_loss, reason = "microseconds between two readings are far below 2^53")]
fn share_of(before: Option<(Instant, u64)>, at: Instant, total: Option<u64>) -> Option<f64> {
    let ((then, before), total) = (before?, total?);
    let elapsed = at.duration_since(then).as_secs_f64();
    let stalled = total.checked_sub(before)? as f64 / 1e6;
    (elapsed > 0.0).then(|| (stalled / elapsed * 100.0).min(100.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn made(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    const QUIET: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

    #[test]
    fn a_share_needs_two_readings_and_is_never_more_than_all() {
        let start = Instant::now();
        let second = start + Duration::from_secs(2);
        assert_eq!(share_of(None, second, Some(1)), None);
        assert_eq!(share_of(Some((start, 1_000_000)), second, None), None);
        assert_eq!(share_of(Some((start, 1_000_000)), start, Some(2_000_000)), None, "no time has passed");
        assert_eq!(share_of(Some((start, 1_000_000)), second, Some(1_500_000)), Some(25.0));
        assert_eq!(share_of(Some((start, 1_000_000)), second, Some(9_000_000)), Some(100.0));
        assert_eq!(share_of(Some((start, 1_000_000)), second, Some(500_000)), None, "it was reset");
    }

    #[test]
    fn that_of_the_machine_where_the_process_has_no_group_of_its_own() {
        let proc = made(&[("pressure/memory", QUIET), ("7/cgroup", "0::/\n"), ("self/mountinfo", "")]);
        let wanted = [Resource::Memory, Resource::Memory];
        let mut stalls = Stalls::open(proc.path(), Pid(7), wanted.into_iter()).unwrap();
        let (start, mut buffer) = (Instant::now(), Buffer::default());
        assert_eq!(stalls.read(start, &mut buffer), [None; 3]);
        std::fs::write(proc.path().join("pressure/memory"), QUIET.replace("1000000", "1400000")).unwrap();
        let shares = stalls.read(start + Duration::from_secs(1), &mut buffer);
        assert!(matches!(shares, [None, Some(share), None] if (share - 40.0).abs() < 1e-6), "{shares:?}");
    }

    #[test]
    fn that_of_its_control_group_where_it_has_one() {
        let groups = made(&[("web.slice/io.pressure", QUIET), ("io.pressure", "some total=5\n")]);
        let mount = format!("30 24 0:26 / {} rw - cgroup2 cgroup2 rw\n", groups.path().display());
        let proc = made(&[
            ("pressure/io", "some total=5\n"),
            ("7/cgroup", "0::/web.slice\n"),
            ("self/mountinfo", &mount),
        ]);
        let stalls = Stalls::open(proc.path(), Pid(7), [Resource::Io].into_iter()).unwrap();
        let path = stalls.all[0].file.path();
        assert_eq!(path, groups.path().join("web.slice/io.pressure"));
    }

    #[test]
    fn a_kernel_that_tells_none_is_refused() {
        let proc = made(&[("7/cgroup", "0::/\n")]);
        let (path, error) = Stalls::open(proc.path(), Pid(7), [Resource::Cpu].into_iter()).unwrap_err();
        assert_eq!(path, proc.path().join("pressure/cpu"));
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(Stalls::open(proc.path(), Pid(7), std::iter::empty()).is_ok());
    }
}
