//! Reading ELF cores: of the kernel, gdb's gcore, .NET's createdump, systemd-coredump, and our own.
//!
//! ```text
//! ELF header ─► program headers ─► PT_NOTE: threads, process, mapped files, what we say ourselves
//!                               └► PT_LOAD: where in the file which memory is
//! ```
//!
//! What differs between writers is written down where it is handled: [`dialect`] and [`threads`].

mod dialect;
mod header;
mod image;
mod mappings;
mod modules;
mod notes;
mod process;
mod segments;
mod space;
mod threads;

pub use modules::find as find_modules;

use std::sync::Arc;

use biopsy_model::loss::Warning;

pub(crate) use image::CoreImage;

use crate::Limits;
use crate::problem::OpenProblem;
use crate::storage::Storage;

/// Opens a core. `cut`: the file that it was packed in is not whole.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    cut: bool,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<CoreImage, OpenProblem> {
    let (header, machine) = header::read(&*storage)?;
    let headers = segments::read(&*storage, &header, limits, warnings)?;
    let mut notes = notes::read(&*storage, &headers.notes, machine, limits, warnings);
    let end = notes::read_end(&*storage, &notes);
    if notes.dump.is_some() && end.is_none() && !cut {
        warnings.push(Warning::new(
            "dump.not-complete",
            "the writer of this core did not come to its end: bytes that it did not write may read as zeros",
        ));
    }
    warnings.extend(
        std::mem::take(&mut notes.warnings).into_iter().map(|message| Warning::new("dump.as-taken", message)),
    );
    let writer = dialect::writer(&*storage, &headers, &notes);
    let threads = threads::build(&mut notes, writer, machine, warnings);
    let mappings = mappings::build(&headers.loads, &mut notes, &threads, limits, warnings)?;
    let space = space::build(&space::Parts {
        loads: &headers.loads,
        mappings: &mappings,
        left_out: &notes.left_out,
        missing: end.as_ref().map_or(&[], |end| end.missing.as_slice()),
        zeros: notes.dump.as_ref().is_some_and(|dump| dump.absent_are_zeros),
        file_len: storage.len(),
    });
    if space.truncated_bytes > 0 {
        warnings.push(Warning::new(
            "dump.truncated",
            format!(
                "the core is cut off: {} bytes of memory that its headers announce are not in the file, which ends at {:#x}",
                space.truncated_bytes,
                storage.len()
            ),
        ));
    }
    if threads.is_empty() && space.regions.is_empty() {
        warnings.push(Warning::new("dump.empty", "the core has neither threads nor memory that can be read"));
    }
    let process = process::build(&notes, &mappings, writer);
    Ok(CoreImage::new(storage, mappings, threads, process, notes, space.regions, limits.modules))
}
