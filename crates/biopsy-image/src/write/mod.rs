//! Writes the image of a process as an ELF core: what goes in, notes, layout, and a pipeline over all cores allowed.
//!
//! Headers come first and are never touched again, so that the file can be streamed. Contents follow by importance: when
//! the disk is full or the process is gone midway, what is whole is the part that matters most. What could not be read
//! after the headers were written is listed in a note at the end (`docs/formats/core.md`).

mod contents;
mod copied;
mod dotnet_header;
mod error;
mod layout;
mod minidump;
mod notes;
mod options;
mod pending;
mod pipeline;
mod raw;
mod seekable;
mod summary;

pub use contents::{AROUND_THREAD_POINTER, module_ranges};
pub use copied::{CopiedImage, CopyRoom};
pub use error::CoreError;
pub use minidump::write_minidump;
pub use options::{Compression, CoreOptions, CoreOutput, CoreProgress, DEFAULT_LEVEL, NoProgress};
pub use pending::PendingFile;
pub use summary::{ClassBytes, CoreSummary};

pub use biopsy_model::dump::{CaptureMethod, Class, CoreKind, Reason};

pub use crate::vendor::MissingRange;

use crate::Image;
use contents::Contents;
use layout::Layout;

/// Writes `image` as a core.
///
/// Memory: some 4 MiB per thread used (at most [`CoreOptions::MAX_THREADS`]), and 100 bytes per mapping.
///
/// # Errors
/// [`CoreError::Image`] when the image cannot say what is there, before anything was written. [`CoreError::Output`] when the
/// output takes no more: what was written until then is whole, and lacks the mark of a complete file.
/// [`CoreError::Stopped`] when [`CoreProgress::keep_going`] said so.
/// Memory that cannot be read is no error: see [`CoreSummary::missing`].
pub fn write_core(
    image: &dyn Image,
    options: &CoreOptions,
    output: CoreOutput<'_>,
    progress: &dyn CoreProgress,
) -> Result<CoreSummary, CoreError> {
    let described = dotnet_header::describe(image);
    let image = described.as_ref().map_or(image, |described| described as &dyn Image);
    let layout = plan(image, options)?;
    pipeline::run(image, options, &layout, output, progress)
}

fn plan(image: &dyn Image, options: &CoreOptions) -> Result<Layout, CoreError> {
    let mut contents = Contents::select(image, options.kind)?;
    if options.compression == Compression::None {
        contents.cut_to(options.max_size, notes::size_hint(image));
    }
    Layout::new(image, options, contents)
}
