//! Where a recording for a request is until it is sealed: in memory alone, where that can be had.

use std::path::{Path, PathBuf};

use biopsy_capture::words::size;
use biopsy_deliver::Parcel;
use biopsy_sys::memory_folder::MemoryFolder;
use biopsy_target::freeze::own_headroom;

/// Most memory that a recording and its bundle take together.
const MOST: u64 = 1 << 30;
/// With less it is not tried: three minutes of a busy server have some 12 MB, logs come to it.
const LEAST: u64 = 64 << 20;

/// Where it is.
#[derive(Debug)]
pub(super) enum UntilSealed {
    /// In memory: nothing of it is on a disk in clear, whatever ends this process.
    Memory(MemoryFolder, u64),
    /// On the disk, in clear, and why.
    Disk(String),
}

impl UntilSealed {
    /// The better one that can be had.
    pub(super) fn choose(is_on_disk_wished: bool) -> Self {
        if is_on_disk_wished {
            return Self::Disk("as it was wished".to_owned());
        }
        // Others need memory too, the target first.
        let spare = own_headroom().map_or(0, |headroom| headroom.to_spare(0) / 4).min(MOST);
        if spare < LEAST {
            return Self::Disk(format!("{} of memory are to spare, which may be too little", size(spare)));
        }
        match MemoryFolder::new(spare) {
            Ok(folder) => Self::Memory(folder, spare),
            Err(error) => Self::Disk(format!("no folder in memory can be had: {error}")),
        }
    }

    /// A line for what is agreed to.
    pub(super) fn line(&self, parcel: &Parcel) -> String {
        match self {
            Self::Memory(folder, most) => {
                let swap = if folder.stays_in_memory { "" } else { "; the kernel may swap it out" };
                format!("until sealed  in memory alone, at most {}{swap}", size(*most))
            }
            Self::Disk(why) => format!(
                "until sealed  in clear at `{}`, readable by its owner alone ({why})",
                parcel.bundle().display()
            ),
        }
    }

    /// The bundle that is to be made.
    pub(super) fn bundle(&self, parcel: &Parcel) -> PathBuf {
        match self {
            Self::Memory(folder, _) => {
                let name = parcel.bundle();
                folder.path().join(name.file_name().unwrap_or(std::ffi::OsStr::new("recording.zip")))
            }
            Self::Disk(_) => parcel.bundle(),
        }
    }

    /// Most megabytes of a timeline: what is packed from it, and logs, have to fit beside it.
    pub(super) fn most_megabytes(&self) -> Option<u64> {
        match self {
            Self::Memory(_, most) => Some((most >> 20) * 2 / 5),
            Self::Disk(_) => None,
        }
    }

    /// Removes what is not sealed; gives a sentence where it cannot.
    pub(super) fn remove(self, bundle: &Path) -> Option<String> {
        match self {
            Self::Memory(..) => None,
            Self::Disk(_) => std::fs::remove_file(bundle).err().map(|error| {
                format!("`{}` is not sealed, and could not be removed: {error}", bundle.display())
            }),
        }
    }
}
