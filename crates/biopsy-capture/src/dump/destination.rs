//! Where dumps go: a recording, one core file, or standard output.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, FailureKind};
use crate::place::{Place, ends_with};

use super::plan::{DumpPlan, is_minidump_name};

/// Where.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// A folder or bundle, with context and report.
    Recording(Place),
    /// The core alone.
    File(PathBuf),
    /// The core alone, as it comes; through to this file.
    Stream(Option<PathBuf>),
}

impl Destination {
    /// From the plan, or from the target's name and the time.
    pub(super) fn choose(plan: &DumpPlan, target: &str) -> Result<Self, Failure> {
        let destination = match plan.output.as_deref() {
            _ if plan.sealed.is_some() => Self::Stream(plan.sealed.clone()),
            Some(path) if path.as_os_str() == "-" => Self::Stream(None),
            Some(path) if is_core_name(path, plan.minidump) => Self::File(path.to_owned()),
            output => Self::Recording(Place::folder_or_bundle(output, target)),
        };
        destination.check(plan)?;
        Ok(destination)
    }

    /// The path whose disk it fills.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Recording(place) => Some(&place.folder),
            Self::File(path) => Some(path),
            Self::Stream(path) => path.as_deref(),
        }
    }

    fn check(&self, plan: &DumpPlan) -> Result<(), Failure> {
        let several = plan.tree || plan.count > 1 || plan.looks > 1 || plan.wait_for.is_some();
        match self {
            Self::Recording(place) => place.check(),
            Self::File(_) | Self::Stream(_) if several => {
                let message = "several dumps do not fit one file";
                Err(Failure::new(FailureKind::Usage, message)
                    .with_hint(Some("name a folder with `--output`, or leave it out")))
            }
            Self::File(path) | Self::Stream(Some(path)) => Place::alone(path.clone()).check(),
            Self::Stream(None) => Ok(()),
        }
    }
}

fn is_core_name(path: &Path, minidump: bool) -> bool {
    if minidump {
        return is_minidump_name(path);
    }
    [".core", ".zst"].iter().any(|ending| ends_with(path, ending))
}
