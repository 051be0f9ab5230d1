//! `smaps.txt`: every mapping with what of it is in memory.
//!
//! Reading it walks the page tables while it holds the lock of the address space, which in a large process stops its
//! page faults for long. So it is never read from the target: only from a frozen copy of it, whose lock nobody needs.

use biopsy_model::Pid;
use biopsy_recording::{RecordingFolder, WriteError, layout};
use biopsy_target::ProcRoot;

use crate::masking::Masking;

/// A process with 65,530 mappings writes some 50 MB; what is above this is left out.
const MOST_BYTES: usize = 64 << 20;

/// Writes `target/PID/smaps.txt` of process `pid` from its frozen copy `copy`. A copy that is gone is no error.
///
/// # Errors
/// The recording cannot be written.
pub fn write_smaps(
    folder: &RecordingFolder,
    masking: &Masking,
    pid: Pid,
    copy: Pid,
) -> Result<(), WriteError> {
    let Some(bytes) = ProcRoot::live().process(copy).ok().and_then(|dir| dir.read("smaps", MOST_BYTES).ok())
    else {
        return Ok(());
    };
    let member = layout::process_member(pid, "smaps.txt");
    let text = String::from_utf8_lossy(&bytes);
    folder.write_text(&member, &masking.text(&member, &text))
}
