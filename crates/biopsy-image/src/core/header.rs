//! The ELF header (elf(5); `linux/elf.h`).

use biopsy_bytes::Cursor;

use crate::open::OpenProblem;
use crate::storage::Storage;

/// Size of the ELF header of 64-bit files.
const HEADER_SIZE: usize = 64;
/// Size of a section header of 64-bit files.
const SECTION_SIZE: usize = 64;
/// Type of a core.
const ET_CORE: u16 = 4;
/// Number of program headers that says: the number is in the first section header.
const PN_XNUM: u16 = 0xffff;
/// Smallest size of a program header of 64-bit files.
pub(super) const PROGRAM_HEADER_SIZE: u64 = 56;

/// Largest size that is believed; no writer has more than the smallest.
const LARGEST_PROGRAM_HEADER: u64 = 256;

/// Machines whose cores are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    X86_64,
    /// Threads, memory and modules, but no registers.
    Aarch64,
}

/// What is needed of the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) machine: Machine,
    pub(super) program_headers_at: u64,
    pub(super) program_headers: u64,
    pub(super) program_header_size: u64,
}

pub(super) fn read(storage: &dyn Storage) -> Result<Header, OpenProblem> {
    let mut bytes = [0; HEADER_SIZE];
    let read = storage.read_full(0, &mut bytes)?;
    let mut cursor = Cursor::new(&bytes[..read]);
    let unsupported = |what: &str| OpenProblem::Unsupported { what: what.to_owned() };
    cursor.skip("e_ident magic", 4)?;
    match cursor.u8("e_ident class")? {
        2 => {}
        1 => return Err(unsupported("a 32-bit process")),
        other => return Err(OpenProblem::Damaged { what: format!("ELF class {other} at offset 0x4") }),
    }
    match cursor.u8("e_ident data")? {
        1 => {}
        2 => return Err(unsupported("a big-endian machine")),
        other => {
            return Err(OpenProblem::Damaged { what: format!("ELF data encoding {other} at offset 0x5") });
        }
    }
    cursor.skip("e_ident", 10)?;
    let e_type = cursor.u16("e_type")?;
    if e_type != ET_CORE {
        return Err(OpenProblem::NotACore { e_type });
    }
    let machine = match cursor.u16("e_machine")? {
        62 => Machine::X86_64,
        183 => Machine::Aarch64,
        243 => return Err(unsupported("a RISC-V machine")),
        22 => return Err(unsupported("an s390 machine")),
        21 => return Err(unsupported("a PowerPC machine")),
        other => return Err(unsupported(&format!("a machine with number {other} (`e_machine`)"))),
    };
    cursor.skip("e_version and e_entry", 12)?;
    let program_headers_at = cursor.u64("e_phoff")?;
    let sections_at = cursor.u64("e_shoff")?;
    cursor.skip("e_flags and e_ehsize", 6)?;
    let program_header_size = u64::from(cursor.u16("e_phentsize")?);
    let count = cursor.u16("e_phnum")?;
    if !(PROGRAM_HEADER_SIZE..=LARGEST_PROGRAM_HEADER).contains(&program_header_size) {
        return Err(OpenProblem::Damaged {
            what: format!(
                "program headers of {program_header_size} bytes (`e_phentsize` at offset 0x36), 56 are expected"
            ),
        });
    }
    let program_headers =
        if count == PN_XNUM { count_in_section(storage, sections_at)? } else { u64::from(count) };
    Ok(Header { machine, program_headers_at, program_headers, program_header_size })
}

/// The number of program headers where it does not fit 16 bits: `sh_info` of the first section.
fn count_in_section(storage: &dyn Storage, at: u64) -> Result<u64, OpenProblem> {
    let mut bytes = [0; SECTION_SIZE];
    let read = storage.read_full(at, &mut bytes)?;
    let mut cursor = Cursor::at(&bytes[..read], at);
    cursor.skip("section header", 44)?;
    Ok(u64::from(cursor.u32("sh_info")?))
}
