//! The ELF header of a core, and which of them are read.

use biopsy_elf::raw::{EM_AARCH64, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64, ET_CORE};
use biopsy_elf::{FileHeader, Problem, Segment};

use crate::problem::OpenProblem;
use crate::storage::{Storage, StorageError};

/// Machines whose cores are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    X86_64,
    /// Threads, memory and modules, but no registers.
    Aarch64,
}

pub(super) fn read(storage: &dyn Storage) -> Result<(FileHeader, Machine), OpenProblem> {
    let header = FileHeader::read(storage, 0)?;
    if header.kind != ET_CORE {
        return Err(OpenProblem::NotACore { e_type: header.kind.0 });
    }
    let machine = match header.machine {
        EM_X86_64 => Machine::X86_64,
        EM_AARCH64 => Machine::Aarch64,
        EM_RISCV => return Err(unsupported("a RISC-V machine")),
        EM_S390 => return Err(unsupported("an s390 machine")),
        EM_PPC64 => return Err(unsupported("a PowerPC machine")),
        other => return Err(unsupported(&format!("a machine with number {} (`e_machine`)", other.0))),
    };
    // A header that says nothing of memory at all is damaged, whatever number of program headers it states.
    if u64::from(header.segments.row) < Segment::HEADER_SIZE {
        return Err(Problem::RowSize { what: "the program headers", size: header.segments.row }.into());
    }
    Ok((header, machine))
}

fn unsupported(what: &str) -> OpenProblem {
    OpenProblem::Unsupported { what: what.to_owned() }
}

impl From<Problem<StorageError>> for OpenProblem {
    fn from(problem: Problem<StorageError>) -> Self {
        let what = match problem {
            Problem::Source(error) => return error.into(),
            Problem::NotElf => return Self::NotADump { what: "it is no ELF file" },
            Problem::Unsupported { class: 1, .. } => return unsupported("a 32-bit process"),
            Problem::Unsupported { class: 2, encoding: 2, .. } => return unsupported("a big-endian machine"),
            Problem::Unsupported { class: 2, encoding, .. } => {
                format!("ELF data encoding {encoding} at offset 0x5")
            }
            Problem::Unsupported { class, .. } => format!("ELF class {class} at offset 0x4"),
            Problem::RowSize { size, .. } => {
                format!("program headers of {size} bytes (`e_phentsize` at offset 0x36), 56 are expected")
            }
            Problem::CutShort { .. } => problem.to_string(),
        };
        Self::Damaged { what }
    }
}
