//! Reading minidumps: of Windows, and of Breakpad and Crashpad on any system.
//!
//! The streams are read by the `minidump` crate, over the part of the file that is held in memory; the memory of the process
//! stays in the file and is read when it is asked for ([`memory`]), so that a full dump of tens of gigabytes opens at once.

mod context;
mod facts;
mod guard;
mod image;
mod linux_maps;
mod mappings;
mod memory;

use std::sync::Arc;

use ::minidump::{Error, Minidump};
use biopsy_model::loss::Warning;

use guard::Streams;
pub(crate) use image::MinidumpImage;

use crate::Limits;
use crate::problem::OpenProblem;
use crate::storage::Storage;

/// Opens a minidump.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<MinidumpImage, OpenProblem> {
    let memory = memory::read(&*storage, limits, warnings)?;
    let held = memory.streams_end.min(storage.len());
    if held > limits.minidump_bytes {
        warnings.push(Warning::new(
            "dump.large-minidump",
            format!(
                "the minidump has {held} bytes beside the memory of the process; what lies behind the first {} is not read",
                limits.minidump_bytes
            ),
        ));
    }
    let mut bytes = vec![0; usize::try_from(held.min(limits.minidump_bytes)).unwrap_or(0)];
    let read = storage.read_full(0, &mut bytes)?;
    bytes.truncate(read);
    let dump: Streams<'_> = Minidump::read(bytes.as_slice()).map_err(|error| problem(&error))?;
    let mut facts = facts::read(&dump, &bytes, limits, warnings);
    let (mappings, is_told) = mappings::build(&dump, &facts, &memory.ranges, limits, warnings);
    facts.process.mappings_not_told = !is_told;
    if facts.threads.is_empty() && memory.ranges.is_empty() {
        let what = "the minidump has neither threads nor memory that can be read".to_owned();
        return Err(OpenProblem::Damaged { what });
    }
    if memory.truncated_bytes > 0 {
        warnings.push(Warning::new(
            "dump.truncated",
            format!(
                "the minidump is cut off: {} bytes of memory that it announces are not in the file",
                memory.truncated_bytes
            ),
        ));
    }
    Ok(MinidumpImage::new(storage, memory.ranges, mappings, facts))
}

fn problem(error: &Error) -> OpenProblem {
    OpenProblem::Damaged { what: error.to_string() }
}
