//! Notes of a core: walked without reading what is not needed, and taken apart.
//!
//! ```text
//! n_namesz u32 | n_descsz u32 | n_type u32 | name, padded to 4 bytes | contents, padded to 4 bytes
//! ```
//!
//! Notes of a thread follow its NT_PRSTATUS (elf(5), `fs/binfmt_elf.c`).

use biopsy_bytes::Cursor;
use biopsy_elf::NoteHead;
use biopsy_elf::raw::{
    NT_AUXV, NT_FILE, NT_FPREGSET, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO, NT_X86_XSTATE, NoteType,
};
use biopsy_model::Avma;
use biopsy_model::loss::Warning;

use super::header::Machine;
use crate::storage::Storage;
use crate::vendor::{self, DumpNote, EndNote, MissingRange, ThreadNote};
use crate::{GeneralRegisters, Limits, Mapping, ThreadSignal};

/// Notes whose types are kept, from the first one on: enough to tell the writer by their order.
const KEPT_TYPES: usize = 8;
/// Most entries of an auxiliary vector; the kernel has about 25.
const MOST_AUXILIARY: usize = 256;

/// A thread as its notes have it.
#[derive(Clone, Debug, Default)]
pub(super) struct RawThread {
    pub(super) tid: u32,
    /// `pr_cursig`: of the process in cores of the kernel and gdb, not of the thread.
    pub(super) signal_of_dump: i32,
    /// `pr_sighold`.
    pub(super) blocked: u64,
    pub(super) registers: Option<GeneralRegisters>,
    /// NT_FPREGSET.
    pub(super) floating: Vec<u8>,
    /// NT_X86_XSTATE.
    pub(super) extended: Vec<u8>,
    /// NT_SIGINFO behind its NT_PRSTATUS.
    pub(super) signal: Option<ThreadSignal>,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
}

/// NT_PRPSINFO.
#[derive(Clone, Debug)]
pub(super) struct ProcessNote {
    pub(super) user: u32,
    pub(super) group_id: u32,
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) name: Vec<u8>,
    pub(super) arguments: Vec<u8>,
}

/// An entry of NT_FILE.
#[derive(Clone, Debug)]
pub(super) struct FileEntry {
    pub(super) start: u64,
    pub(super) end: u64,
    /// In bytes.
    pub(super) offset: u64,
    pub(super) path: Vec<u8>,
}

/// Everything that the notes say.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(super) threads: Vec<RawThread>,
    pub(super) process: Option<ProcessNote>,
    pub(super) auxiliary: Vec<(u64, u64)>,
    /// `None`: there is no NT_FILE, so nobody knows what is anonymous.
    pub(super) files: Option<Vec<FileEntry>>,
    pub(super) first_types: Vec<NoteType>,
    /// A note with owner `GDB`.
    pub(super) of_gdb: bool,
    pub(super) dump: Option<DumpNote>,
    pub(super) named: Vec<ThreadNote>,
    pub(super) mappings: Option<Vec<Mapping>>,
    pub(super) left_out: Vec<MissingRange>,
    /// What our own note says that it lacks.
    pub(super) warnings: Vec<String>,
    extended_bytes: usize,
}

/// Reads the notes of all PT_NOTE segments. What cannot be read is a warning.
pub(super) fn read(
    storage: &dyn Storage,
    segments: &[(u64, u64)],
    machine: Machine,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Notes {
    let mut reader = NoteReader {
        storage,
        machine,
        limits,
        notes: Notes::default(),
        left: limits.notes,
        bytes_left: limits.note_bytes_of_all,
    };
    for &(offset, size) in segments {
        if let Err(what) = reader.segment(offset, size) {
            warnings
                .push(Warning::new("dump.notes", format!("not all notes of the core can be read: {what}")));
        }
    }
    reader.notes
}

/// The end note of our own cores, which is not in PT_NOTE: where the note about the dump says.
pub(super) fn read_end(storage: &dyn Storage, notes: &Notes) -> Option<EndNote> {
    let dump = notes.dump.as_ref()?;
    let size = usize::try_from(vendor::END_NOTE_SIZE).ok()?;
    let mut bytes = vec![0; size];
    let read = storage.read_full(dump.end_note_offset, &mut bytes).ok()?;
    bytes.truncate(read);
    let note = NoteHead::of(&bytes, 0)?;
    if note.kind != vendor::END || note.owner != vendor::OWNER {
        return None;
    }
    let contents = bytes.get(usize::try_from(note.contents_at).ok()?..)?;
    vendor::parse_end(contents.get(..note.size as usize).unwrap_or(contents))
}

struct NoteReader<'a> {
    storage: &'a dyn Storage,
    machine: Machine,
    limits: &'a Limits,
    notes: Notes,
    /// How many more notes are read.
    left: u64,
    /// How many more bytes of their contents.
    bytes_left: u64,
}

impl NoteReader<'_> {
    fn segment(&mut self, offset: u64, size: u64) -> Result<(), String> {
        let end = offset.saturating_add(size);
        let mut at = offset;
        while end.saturating_sub(at) >= 12 {
            self.left = self.left.checked_sub(1).ok_or("there are more than the limit")?;
            let mut head = [0; 12 + 8];
            let wanted = usize::try_from(end - at).map_or(head.len(), |rest| rest.min(head.len()));
            let read = self.bytes(at, &mut head[..wanted])?;
            // A name that is cut is another name, and what it names would be left out without a word.
            let note = NoteHead::of(&head[..read], at)
                .filter(|_| read == wanted)
                .ok_or_else(|| format!("the file ends in the note at {at:#x}"))?;
            if note.contents_at.saturating_add(u64::from(note.size)) > end {
                return Err(format!(
                    "the note at {at:#x} claims {} bytes, which is more than its segment has",
                    note.size
                ));
            }
            self.note(at, &note)?;
            at = note.next();
        }
        Ok(())
    }

    fn note(&mut self, at: u64, note: &NoteHead<'_>) -> Result<(), String> {
        let &NoteHead { owner, kind, contents_at, size } = note;
        if self.notes.first_types.len() < KEPT_TYPES {
            self.notes.first_types.push(kind);
        }
        let wanted = match (owner, kind) {
            (b"CORE", NT_PRSTATUS | NT_PRPSINFO) => true,
            (b"CORE" | b"LINUX", NT_FPREGSET | NT_X86_XSTATE) => self.machine == Machine::X86_64,
            (b"CORE", NT_AUXV | NT_SIGINFO | NT_FILE) => true,
            (
                vendor::OWNER,
                vendor::DUMP | vendor::THREADS | vendor::MAPPINGS | vendor::LEFT_OUT | vendor::WARNINGS,
            ) => true,
            (b"GDB", _) => {
                self.notes.of_gdb = true;
                false
            }
            _ => false,
        };
        if !wanted {
            return Ok(());
        }
        if u64::from(size) > self.limits.note_bytes {
            return Err(format!(
                "the note at {at:#x} claims {size} bytes, the limit is {}",
                self.limits.note_bytes
            ));
        }
        self.bytes_left = self
            .bytes_left
            .checked_sub(u64::from(size))
            .ok_or_else(|| format!("with the note at {at:#x} they are larger than the limit"))?;
        let mut contents = vec![0; size as usize];
        let read = self.bytes(contents_at, &mut contents)?;
        if read < contents.len() {
            return Err(format!("the file ends in the note at {at:#x}"));
        }
        if owner == vendor::OWNER {
            self.ours(kind, &contents);
        } else {
            self.usual(kind, contents)?;
        }
        Ok(())
    }

    fn ours(&mut self, kind: NoteType, contents: &[u8]) {
        let notes = &mut self.notes;
        match kind {
            vendor::DUMP => notes.dump = DumpNote::parse(contents).ok(),
            vendor::WARNINGS => notes.warnings = vendor::parse_warnings(contents),
            vendor::THREADS => notes.named = vendor::parse_threads(contents),
            vendor::MAPPINGS => notes.mappings = Some(vendor::parse_mappings(contents)),
            _ => notes.left_out = vendor::parse_left_out(contents),
        }
    }

    fn usual(&mut self, kind: NoteType, contents: Vec<u8>) -> Result<(), String> {
        let notes = &mut self.notes;
        match kind {
            NT_PRSTATUS => {
                if notes.threads.len() >= self.limits.threads {
                    return Err("there are more threads than the limit".to_owned());
                }
                notes.threads.extend(prstatus(&contents, self.machine));
            }
            NT_PRPSINFO => notes.process = prpsinfo(&contents),
            NT_AUXV => notes.auxiliary = auxv(&contents),
            NT_SIGINFO => {
                if let Some(thread) = notes.threads.last_mut() {
                    thread.signal = siginfo(contents);
                }
            }
            NT_FILE => notes.files = Some(files(&contents)),
            NT_FPREGSET | NT_X86_XSTATE => {
                let all = notes.extended_bytes.saturating_add(contents.len());
                let fits =
                    contents.len() <= self.limits.extended_bytes && all <= self.limits.extended_bytes_of_all;
                if let Some(thread) = notes.threads.last_mut().filter(|_| fits) {
                    notes.extended_bytes = all;
                    if kind == NT_FPREGSET {
                        thread.floating = contents;
                    } else {
                        thread.extended = contents;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn bytes(&self, at: u64, buffer: &mut [u8]) -> Result<usize, String> {
        self.storage.read_full(at, buffer).map_err(|error| error.to_string())
    }
}

/// `struct elf_prstatus` (`linux/elfcore.h`); the registers are at the same place on all 64-bit machines.
fn prstatus(contents: &[u8], machine: Machine) -> Option<RawThread> {
    let mut cursor = Cursor::new(contents);
    cursor.skip("pr_info", 12).ok()?;
    let signal = cursor.u16("pr_cursig").ok()?;
    cursor.skip("padding and pr_sigpend", 2 + 8).ok()?;
    let blocked = cursor.u64("pr_sighold").ok()?;
    let tid = cursor.u32("pr_pid").ok()?;
    let parent = cursor.u32("pr_ppid").ok()?;
    let group = cursor.u32("pr_pgrp").ok()?;
    let session = cursor.u32("pr_sid").ok()?;
    cursor.skip("times", 4 * 16).ok()?;
    let registers = match machine {
        Machine::X86_64 => GeneralRegisters::from_bytes(cursor.rest()),
        Machine::Aarch64 => None,
    };
    Some(RawThread {
        tid,
        signal_of_dump: i32::from(signal),
        blocked,
        registers,
        parent,
        group,
        session,
        ..RawThread::default()
    })
}

/// `struct elf_prpsinfo` (`linux/elfcore.h`).
fn prpsinfo(contents: &[u8]) -> Option<ProcessNote> {
    let mut cursor = Cursor::new(contents);
    cursor.skip("pr_state to pr_flag", 16).ok()?;
    let mut word = |field| cursor.u32(field).ok();
    let (user, group_id) = (word("pr_uid")?, word("pr_gid")?);
    let (pid, parent) = (word("pr_pid")?, word("pr_ppid")?);
    let (group, session) = (word("pr_pgrp")?, word("pr_sid")?);
    let name = until_zero(cursor.take("pr_fname", 16).ok()?).to_vec();
    let arguments = until_zero(cursor.take("pr_psargs", 80).ok()?).to_vec();
    Some(ProcessNote { user, group_id, pid, parent, group, session, name, arguments })
}

fn auxv(contents: &[u8]) -> Vec<(u64, u64)> {
    let mut cursor = Cursor::new(contents);
    let mut entries = Vec::new();
    while let (Ok(kind), Ok(value)) = (cursor.u64("a_type"), cursor.u64("a_val")) {
        if kind == 0 || entries.len() >= MOST_AUXILIARY {
            break;
        }
        entries.push((kind, value));
    }
    entries
}

/// `siginfo_t` (sigaction(2)): number, errno, code, and for faults the address.
fn siginfo(contents: Vec<u8>) -> Option<ThreadSignal> {
    let mut cursor = Cursor::new(&contents);
    let number = cursor.u32("si_signo").ok()?.cast_signed();
    cursor.skip("si_errno", 4).ok()?;
    let code = cursor.u32("si_code").ok()?.cast_signed();
    cursor.skip("padding", 4).ok()?;
    let address = cursor.u64("si_addr").ok().map(Avma);
    // SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, raised by the kernel and not by kill(2).
    let is_fault = matches!(number, 4 | 5 | 7 | 8 | 11) && code > 0 && code != 0x80;
    let address = address.filter(|_| is_fault);
    (number != 0).then_some(ThreadSignal { number, code: Some(code), address, info: Some(contents) })
}

/// NT_FILE (`fs/binfmt_elf.c`): count, page size, then start, end and offset in pages of each, then the names.
fn files(contents: &[u8]) -> Vec<FileEntry> {
    let mut cursor = Cursor::new(contents);
    let mut entries = Vec::new();
    let (Ok(count), Ok(page)) = (cursor.u64("count"), cursor.u64("page_size")) else { return entries };
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(cursor.remaining() / 24);
    let Ok(mut table) = cursor.sub("entries", count * 24) else { return entries };
    let mut names = cursor.rest().split(|byte| *byte == 0);
    let mut entry = || Some((table.u64("start").ok()?, table.u64("end").ok()?, table.u64("file_ofs").ok()?));
    while let Some((start, end, pages)) = entry() {
        let path = names.next().unwrap_or_default().to_vec();
        if start < end {
            entries.push(FileEntry { start, end, offset: pages.saturating_mul(page), path });
        }
    }
    entries
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
