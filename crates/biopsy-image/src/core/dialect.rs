//! Which program wrote a core, as far as its notes and segments tell.

use biopsy_elf::raw::{NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO};

use super::notes::Notes;
use super::segments::Headers;
use crate::storage::Storage;

/// Programs whose cores are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    Biopsy,
    Gdb,
    /// createdump of .NET.
    Createdump,
    Kernel,
    Unknown,
}

impl Writer {
    /// Its name, if it is known and does not say its own.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Biopsy => Some("biopsy"),
            Self::Gdb => Some("gdb"),
            Self::Createdump => Some("createdump"),
            Self::Kernel => Some("linux"),
            Self::Unknown => None,
        }
    }

    /// Whether `pr_sighold` is what the thread blocks; the others leave it at zero.
    pub(super) fn knows_blocked_signals(self) -> bool {
        matches!(self, Self::Kernel | Self::Biopsy)
    }

    /// Whether `pr_cursig` of the first thread is the signal the process died of. Debuggers write the signal that they
    /// stopped it with.
    pub(super) fn first_thread_has_the_signal(self) -> bool {
        matches!(self, Self::Kernel | Self::Unknown | Self::Createdump)
    }
}

/// Where createdump puts a page about the runtime (`specialdiaginfo.h` of dotnet/runtime), and how it begins.
const DIAG_INFO: u64 = 0x7fff_fff1_0000;
const DIAG_INFO_MAGIC: &[u8] = b"DIAGINFOHEADER";

pub(super) fn writer(storage: &dyn Storage, headers: &Headers, notes: &Notes) -> Writer {
    if notes.dump.is_some() {
        return Writer::Biopsy;
    }
    if notes.of_gdb {
        return Writer::Gdb;
    }
    if has_diag_info(storage, headers) {
        return Writer::Createdump;
    }
    match notes.first_types.as_slice() {
        // `fill_note_info` of the kernel: status of the crashed thread, process, signal, vector, files.
        [NT_PRSTATUS, NT_PRPSINFO, NT_SIGINFO | NT_AUXV, ..] => Writer::Kernel,
        // `write_psinfo`, vector and files before all threads, and no signal.
        [NT_PRPSINFO, NT_AUXV, NT_FILE, ..] => Writer::Createdump,
        [NT_PRPSINFO, NT_PRSTATUS, ..] => Writer::Gdb,
        _ => Writer::Unknown,
    }
}

fn has_diag_info(storage: &dyn Storage, headers: &Headers) -> bool {
    let index = headers.loads.partition_point(|load| load.start < DIAG_INFO);
    let Some(load) = headers.loads.get(index).filter(|load| load.start == DIAG_INFO) else { return false };
    let mut magic = [0; DIAG_INFO_MAGIC.len()];
    storage.read_full(load.offset, &mut magic).is_ok() && magic == DIAG_INFO_MAGIC
}
