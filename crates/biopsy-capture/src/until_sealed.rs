//! Where a recording is until it is sealed: in memory alone, where that can be had.

use std::path::{Path, PathBuf};

use biopsy_sys::memory_folder::MemoryFolder;
use biopsy_target::freeze::own_headroom;

use crate::words::size;

/// Most memory that a recording and its bundle take together.
const MOST: u64 = 1 << 30;
/// With less it is not tried: three minutes of a busy server have some 12 MB, logs come to it.
const LEAST: u64 = 64 << 20;

/// Where it is.
#[derive(Debug)]
pub enum UntilSealed {
    /// In memory: nothing of it is on a disk in clear, whatever ends this process.
    Memory(MemoryFolder, u64),
    /// On the disk, in clear, and why.
    Disk(String),
}

impl UntilSealed {
    /// The better one that can be had.
    #[must_use]
    pub fn choose(is_on_disk_wished: bool) -> Self {
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

    /// A line for what is agreed to; `on_disk`: the bundle, if it is made on the disk.
    #[must_use]
    pub fn line(&self, on_disk: &Path) -> String {
        match self {
            Self::Memory(folder, most) => {
                let swap = if folder.stays_in_memory { "" } else { "; the kernel may swap it out" };
                format!("until sealed  in memory alone, at most {}{swap}", size(*most))
            }
            Self::Disk(why) => format!(
                "until sealed  in clear at `{}`, readable by its owner alone ({why})",
                on_disk.display()
            ),
        }
    }

    /// The bundle that is to be made; `on_disk`: what it is there.
    #[must_use]
    pub fn bundle(&self, on_disk: &Path) -> PathBuf {
        match self {
            Self::Memory(folder, _) => {
                folder.path().join(on_disk.file_name().unwrap_or(std::ffi::OsStr::new("recording.zip")))
            }
            Self::Disk(_) => on_disk.to_owned(),
        }
    }

    /// Most megabytes of a timeline: what is packed from it, and logs, have to fit beside it.
    #[must_use]
    pub fn most_megabytes(&self) -> Option<u64> {
        match self {
            Self::Memory(_, most) => Some((most >> 20) * 2 / 5),
            Self::Disk(_) => None,
        }
    }

    /// Removes what is not sealed; gives a sentence where it cannot.
    #[must_use]
    pub fn remove(self, bundle: &Path) -> Option<String> {
        match self {
            Self::Memory(..) => None,
            Self::Disk(_) => std::fs::remove_file(bundle).err().map(|error| {
                format!("`{}` is not sealed, and could not be removed: {error}", bundle.display())
            }),
        }
    }
}
