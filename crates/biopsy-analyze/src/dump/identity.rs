//! Which process a dump is of.

use biopsy_image::Image;
use biopsy_image::process::auxiliary::{BASE, ENTRY, SYSINFO_EHDR};
use biopsy_model::{Nanos, Pid};

use super::facts::DumpFacts;

/// Which process, written by whom, when.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its pid.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Real user and group id.
    pub owner: Option<(u32, u32)>,
    /// Where the kernel put its program, differently for each that is started; equal for dumps of one process.
    pub address_space: Option<u64>,
    /// Path of the executable.
    pub executable: Option<String>,
    /// Command line, redacted by the caller.
    pub command_line: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// When it was taken, nanoseconds since 1970 in UTC.
    pub taken_at_unix_nanos: Option<i64>,
    /// The program that wrote it.
    pub writer: Option<String>,
    /// What the file is.
    pub format: String,
    /// What is in it.
    pub kind: Option<String>,
    /// Secrets were masked.
    pub scrubbed: Option<bool>,
    /// Size of the file in bytes.
    pub file_bytes: Option<u64>,
    /// How long the process was stopped for it.
    pub pause: Option<Nanos>,
    /// Why it was taken, by whoever took it.
    pub reason: Option<String>,
    /// It ends before everything was written.
    pub partial: bool,
    /// Threads.
    pub threads: usize,
}

/// Entry, linker and vdso by the auxiliary vector, mixed.
fn address_space(auxiliary: &[(u64, u64)]) -> Option<u64> {
    let told = auxiliary.iter().filter(|(kind, _)| [BASE, ENTRY, SYSINFO_EHDR].contains(kind));
    let mixed = told.fold(0_u64, |sum, (_, address)| sum.rotate_left(21) ^ address);
    (mixed != 0).then_some(mixed)
}

impl Identity {
    /// It is the same process, as far as both dumps tell: pids are used again, addresses are not.
    #[must_use]
    pub fn is_same_process(&self, other: &Self) -> bool {
        let same_space = match (self.address_space, other.address_space) {
            (Some(own), Some(other)) => own == other,
            _ => self.executable == other.executable,
        };
        self.pid == other.pid && self.pid.0 != 0 && same_space
    }

    pub(super) fn new(image: &dyn Image, facts: &DumpFacts<'_>) -> Self {
        let process = image.process();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let executable = process.executable.as_deref().map(text);
        let from_path = executable.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let name = if process.name.is_empty() { from_path.to_owned() } else { text(&process.name) };
        Self {
            name: if name.is_empty() { format!("process {}", process.pid) } else { name },
            pid: process.pid,
            parent: process.parent,
            owner: process.owner,
            address_space: address_space(&process.auxiliary),
            executable,
            command_line: facts.command_line.clone(),
            kernel: process.kernel.clone(),
            taken_at_unix_nanos: process.taken_at_unix_nanos,
            writer: process.writer.clone(),
            format: facts.format.clone(),
            kind: facts.kind.clone(),
            scrubbed: facts.scrubbed,
            file_bytes: facts.file_bytes,
            pause: facts.pause,
            reason: None,
            partial: false,
            threads: image.threads().len(),
        }
    }
}
