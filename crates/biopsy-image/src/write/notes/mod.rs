//! The notes of a core.

mod files;
mod process;
mod thread;

use biopsy_elf::put_note;
use biopsy_elf::raw::{
    ELF_NOTE_CORE, ELF_NOTE_LINUX, NT_AUXV, NT_FILE, NT_FPREGSET, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO,
    NT_X86_XSTATE,
};

use super::{CoreOptions, dotnet_header};
use crate::Image;
use crate::vendor::{self, DumpNote, MissingRange, ThreadNote};

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
    let mut notes = Vec::new();
    let mut first = true;
    for one in image.threads() {
        // A thread without registers would be shown with zeros in them.
        if let Some(registers) = &one.registers {
            put_note(&mut notes, ELF_NOTE_CORE, NT_PRSTATUS, &thread::status(process, group, one, registers));
        }
        if first {
            put_note(&mut notes, ELF_NOTE_CORE, NT_PRPSINFO, &process::information(image));
        }
        if first || one.signal.as_ref().is_some_and(|signal| signal.number != 0) {
            put_note(&mut notes, ELF_NOTE_CORE, NT_SIGINFO, &thread::signal_information(one));
        }
        if first {
            put_note(&mut notes, ELF_NOTE_CORE, NT_AUXV, &process::auxiliary_vector(process));
            put_note(&mut notes, ELF_NOTE_CORE, NT_FILE, &files::mapped_files(image.mappings()));
        }
        first = false;
        if one.registers.is_some() {
            if let Some(legacy) = one.extended.get(..thread::FXSAVE) {
                put_note(&mut notes, ELF_NOTE_CORE, NT_FPREGSET, legacy);
            }
            // The header of XSAVE is behind the legacy area.
            if one.extended.len() >= thread::FXSAVE + 64 {
                put_note(&mut notes, ELF_NOTE_LINUX, NT_X86_XSTATE, thread::extended_state(&one.extended));
            }
        }
    }
    if first {
        put_note(&mut notes, ELF_NOTE_CORE, NT_PRPSINFO, &process::information(image));
        put_note(&mut notes, ELF_NOTE_CORE, NT_AUXV, &process::auxiliary_vector(process));
        put_note(&mut notes, ELF_NOTE_CORE, NT_FILE, &files::mapped_files(image.mappings()));
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
    put_note(&mut notes, vendor::OWNER, vendor::DUMP, &dump.encode());
    let threads: Vec<_> = image
        .threads()
        .iter()
        .map(|one| ThreadNote {
            tid: one.tid,
            has_registers: one.registers.is_some(),
            name: one.name.clone(),
        })
        .collect();
    put_note(&mut notes, vendor::OWNER, vendor::THREADS, &vendor::encode_threads(&threads));
    put_note(&mut notes, vendor::OWNER, vendor::MAPPINGS, &vendor::encode_mappings(image.mappings()));
    if !options.warnings.is_empty() {
        put_note(&mut notes, vendor::OWNER, vendor::WARNINGS, &vendor::encode_warnings(&options.warnings));
    }
    put_note(&mut notes, vendor::OWNER, vendor::LEFT_OUT, &vendor::encode_left_out(left_out));
    notes
}

/// About how many bytes headers and notes take.
pub(super) fn size_hint(image: &dyn Image) -> u64 {
    let threads: usize = image.threads().iter().map(|one| 1024 + one.extended.len()).sum();
    let mappings = image.mappings().len() * 256;
    (threads + mappings) as u64 + vendor::END_NOTE_SIZE + 16 * 1024
}
