//! Dumps by the runtime's own helper: only when asked for, and only where it can work.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use biopsy_model::Pid;

use crate::error::IpcError;
use crate::target::TargetFacts;

/// How much the runtime's helper writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpKind {
    /// Stacks, and what they point to.
    Normal = 1,
    /// The heaps too.
    WithHeap = 2,
    /// As normal, without what may be personal.
    Triage = 3,
    /// All memory. The only kind for single-file applications.
    Full = 4,
}

/// Refuses where the helper beside the runtime cannot be executed: the runtime forks for it, and with a file that is
/// there and cannot be executed its diagnostics server does not come back.
pub(crate) fn check(pid: Pid) -> Result<(), IpcError> {
    let facts = TargetFacts::read(Path::new("/proc"), pid).ok_or(IpcError::Ended { pid })?;
    // In a single file the helper is part of the program.
    let Some(library) = facts.mapped_path("libcoreclr.so") else { return Ok(()) };
    let Some(folder) = library.parent() else { return Ok(()) };
    let shown = folder.join("createdump");
    let inside = facts.path("root").join(shown.strip_prefix("/").unwrap_or(&shown));
    let executable =
        std::fs::metadata(&inside).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if executable { Ok(()) } else { Err(IpcError::NoCreateDump { pid, path: shown }) }
}
