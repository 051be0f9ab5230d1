//! Names of the kernel's functions, asked of the kernel for the addresses that were seen.
//!
//! `/proc/kallsyms` is made anew for whoever reads it: 40 ms of a processor and some 5 MB for all functions, where a short recording saw fifty. A
//! program that formats addresses (`%ps`) has the kernel look them up, twelve at a time.

use std::io;

use biopsy_sys::bpf::asm::{
    Assembler, Helper,
    Reg::{R0, R1, R2, R3, R4, R5},
};
use biopsy_sys::bpf::{LoadError, Map, MapKind, Program, ProgramKind, SharedBytes};

/// Arguments that a format may have (`MAX_BPRINTF_VARARGS`).
const AT_ONCE: usize = 12;
/// A name has 512 bytes at most (`KSYM_NAME_LEN`), that of a module 56 (`MODULE_NAME_LEN`).
const TEXT_BYTES: usize = AT_ONCE * 640;
/// Addresses stand before the text.
const TEXT: usize = AT_ONCE * 8;
const FORMAT: [u8; 4] = *b"%ps\n";

/// Why the kernel does not tell names.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum NamesError {
    #[error("what names are asked with cannot be made")]
    Map(#[source] io::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The program that asks, and the memory that it has in common with us. Nothing of it runs in between.
#[derive(Debug)]
pub(in super::super) struct KernelNames {
    shared: SharedBytes,
    program: Program,
}

impl KernelNames {
    /// Linux 5.13, and the privileges that a trace by the kernel needs.
    pub(in super::super) fn open() -> Result<Self, NamesError> {
        let mut format: Vec<u8> = FORMAT.repeat(AT_ONCE);
        format.push(0);
        let size = |bytes: usize| u32::try_from(bytes).expect("small");
        // The verifier reads the format, which must not change afterwards.
        let constants = Map::create(MapKind::Constants, "biopsy_format", 4, size(format.len()), 1)
            .map_err(NamesError::Map)?;
        constants.update(&[0; 4], &format, false).map_err(NamesError::Map)?;
        constants.freeze().map_err(NamesError::Map)?;
        let shared = SharedBytes::create("biopsy_names", size(TEXT + TEXT_BYTES)).map_err(NamesError::Map)?;
        let program = Program::load(
            ProgramKind::RawTracepoint,
            "biopsy_names",
            &names_program(shared.map(), &constants),
        )?;
        Ok(Self { shared, program })
    }

    /// Functions by addresses of their code, in their order; those of modules with these behind them, as in `/proc/kallsyms`.
    pub(in super::super) fn find(&self, addresses: &[u64]) -> io::Result<Vec<Option<String>>> {
        let mut names = Vec::with_capacity(addresses.len());
        let mut text = vec![0; TEXT_BYTES];
        for some in addresses.chunks(AT_ONCE) {
            for (place, address) in some.iter().enumerate() {
                self.shared.store(place * 8, *address);
            }
            self.program.run_once()?;
            self.shared.copy_out(TEXT, &mut text);
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            let mut lines = text[..end].split(|byte| *byte == b'\n');
            names.extend(some.iter().map(|_| name(lines.next()?)));
        }
        Ok(names)
    }
}

/// What is in no function is told as a number.
fn name(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    (!text.is_empty() && !text.starts_with("0x")).then(|| text.to_owned())
}

fn names_program(shared: &Map, format: &Map) -> Vec<u64> {
    let number = |bytes: usize| i32::try_from(bytes).expect("small");
    let mut asm = Assembler::new();
    asm.map_value(R1, shared, number(TEXT));
    asm.mov_imm(R2, number(TEXT_BYTES));
    asm.map_value(R3, format, 0);
    asm.map_value(R4, shared, 0);
    asm.mov_imm(R5, number(AT_ONCE * 8));
    asm.call(Helper::Snprintf);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

#[cfg(test)]
mod tests {
    use biopsy_testkit::{Privilege, require};

    use super::*;

    #[test]
    fn a_line_is_a_name_or_a_number() {
        assert_eq!(name(b"do_syscall_64"), Some("do_syscall_64".to_owned()));
        assert_eq!(name(b"ext4_foo [ext4]"), Some("ext4_foo [ext4]".to_owned()));
        for none in [&b"0x0"[..], b"0xffffffff00000000", b"", b"\xff\xfe"] {
            assert_eq!(name(none), None);
        }
    }

    #[test]
    fn the_kernel_tells_what_its_list_says() {
        if !require(Privilege::Perf) {
            return;
        }
        let list = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let code = list.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            if !matches!(fields.next()?, "t" | "T") || address == 0 {
                return None;
            }
            Some((address, fields.collect::<Vec<_>>().join(" ")))
        });
        let all: Vec<(u64, String)> = code.collect();
        let Ok(names) = KernelNames::open() else { return };
        let asked: Vec<u64> = all.iter().step_by(all.len() / 100 + 1).map(|(address, _)| *address).collect();
        let found = names.find(&asked).unwrap();
        assert_eq!(found.len(), asked.len());
        for (address, found) in asked.into_iter().zip(found) {
            let found = found.unwrap_or_else(|| panic!("{address:#x} has no name"));
            let listed: Vec<&String> =
                all.iter().filter(|(at, _)| *at == address).map(|(_, name)| name).collect();
            assert!(listed.contains(&&found), "{address:#x}: {found}, and the list has {listed:?}");
        }
        assert_eq!(names.find(&[0, 0x1000, u64::MAX]).unwrap(), [None, None, None]);
    }
}
