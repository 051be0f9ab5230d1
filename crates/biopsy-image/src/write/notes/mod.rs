//! The notes of a core.

mod files;
mod process;
mod thread;

use super::{CoreOptions, dotnet_header};
use crate::Image;
use crate::vendor::{self, DumpNote, MissingRange, ThreadNote};

/// Types of notes (`linux/elf.h`).
const NT_PRSTATUS: u32 = 1;
const NT_FPREGSET: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_X86_XSTATE: u32 = 0x202;

const CORE: &[u8] = b"CORE\0";
const LINUX: &[u8] = b"LINUX\0";

/// All notes that come before memory. The size does not depend on `end_note_offset`.
pub(super) fn build(
    image: &dyn Image,
    options: &CoreOptions,
    left_out: &[MissingRange],
    end_note_offset: u64,
) -> Vec<u8> {
    let process = image.process();
    // ClrMD takes the id of the process from where the group is, because createdump puts it there. The true group is in
    // NT_PRPSINFO, where everybody else looks.
    let group = match process.group {
        _ if dotnet_header::is_described(image) => process.pid.0,
        group => group.unwrap_or_default().0,
    };
    let mut notes = Notes::default();
    let mut first = true;
    for one in image.threads() {
        // A thread without registers would be shown with zeros in them.
        if let Some(registers) = &one.registers {
            notes.add(CORE, NT_PRSTATUS, &thread::status(process, group, one, registers));
        }
        if first {
            notes.add(CORE, NT_PRPSINFO, &process::information(image));
        }
        if first || one.signal.as_ref().is_some_and(|signal| signal.number != 0) {
            notes.add(CORE, NT_SIGINFO, &thread::signal_information(one));
        }
        if first {
            notes.add(CORE, NT_AUXV, &process::auxiliary_vector(process));
            notes.add(CORE, NT_FILE, &files::mapped_files(image.mappings()));
        }
        first = false;
        if one.registers.is_some() {
            if let Some(legacy) = one.extended.get(..thread::FXSAVE) {
                notes.add(CORE, NT_FPREGSET, legacy);
            }
            // The header of XSAVE is behind the legacy area.
            if one.extended.len() >= thread::FXSAVE + 64 {
                notes.add(LINUX, NT_X86_XSTATE, thread::extended_state(&one.extended));
            }
        }
    }
    if first {
        notes.add(CORE, NT_PRPSINFO, &process::information(image));
        notes.add(CORE, NT_AUXV, &process::auxiliary_vector(process));
        notes.add(CORE, NT_FILE, &files::mapped_files(image.mappings()));
    }
    let dump = DumpNote {
        version: vendor::VERSION,
        kind: Some(options.kind),
        scrubbed: options.scrubbed,
        absent_are_zeros: true,
        method: options.method,
        taken_at_unix_nanos: process.taken_at_unix_nanos,
        pause_nanos: options.pause.map(|pause| u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)),
        end_note_offset,
        writer: options.writer.clone(),
        kernel: process.kernel.clone(),
        executable: process.executable.clone(),
    };
    notes.add(vendor::OWNER, vendor::DUMP, &dump.encode());
    let threads: Vec<_> = image
        .threads()
        .iter()
        .map(|one| ThreadNote {
            tid: one.tid.0,
            has_registers: one.registers.is_some(),
            name: one.name.clone(),
        })
        .collect();
    notes.add(vendor::OWNER, vendor::THREADS, &vendor::encode_threads(&threads));
    notes.add(vendor::OWNER, vendor::MAPPINGS, &vendor::encode_mappings(image.mappings()));
    if !options.warnings.is_empty() {
        notes.add(vendor::OWNER, vendor::WARNINGS, &vendor::encode_warnings(&options.warnings));
    }
    notes.add(vendor::OWNER, vendor::LEFT_OUT, &vendor::encode_left_out(left_out));
    notes.bytes
}

/// About how many bytes headers and notes take.
pub(super) fn size_hint(image: &dyn Image) -> u64 {
    let threads: usize = image.threads().iter().map(|one| 1024 + one.extended.len()).sum();
    let mappings = image.mappings().len() * 256;
    (threads + mappings) as u64 + vendor::END_NOTE_SIZE + 16 * 1024
}

/// Notes one behind the other.
#[derive(Default, Debug)]
struct Notes {
    bytes: Vec<u8>,
}

impl Notes {
    fn add(&mut self, owner: &[u8], kind: u32, contents: &[u8]) {
        // 4 GiB of notes would need 10^7 mappings; a length that lies would hide all that follows.
        let Ok(length) = u32::try_from(contents.len()) else { return };
        for word in [owner.len() as u32, length, kind] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.put_padded(owner);
        self.put_padded(contents);
    }

    fn put_padded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
