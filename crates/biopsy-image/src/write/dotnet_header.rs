//! The page by which .NET's debuggers recognise a dump that was made for them.
//!
//! `createdump` adds it at a fixed address (`src/coreclr/debug/createdump/specialdiaginfo.h` in the runtime): where the
//! runtime is, so that nobody has to search for it. Without it, `dotnet-dump analyze` warns that memory may be missing.

use std::ops::Range;

use crate::{
    Backing, Crash, Image, ImageModule, Mapping, PAGE_SIZE, ProcessFacts, Protection, ReadError, Thread,
};

/// Where the page is, on 64-bit Linux.
const ADDRESS: u64 = 0x7fff_fff1_0000;
/// First bytes, with a terminating zero and padding.
const SIGNATURE: [u8; 16] = *b"DIAGINFOHEADER\0\0";
/// Version with the base address of the runtime.
const VERSION: u32 = 2;
/// What its mapping is called.
const LABEL: &str = "[.NET diagnostics]";
/// File name of the runtime.
const RUNTIME: &[u8] = b"/libcoreclr.so";

/// An image with the page.
pub(super) struct Described<'a> {
    image: &'a dyn Image,
    mappings: Vec<Mapping>,
    page: Vec<u8>,
}

/// Adds the page where the process has the runtime and its place is free. `None`: it is no such process.
pub(super) fn describe(image: &dyn Image) -> Option<Described<'_>> {
    let runtime = image.modules().iter().find(|module| module.path.ends_with(RUNTIME))?;
    let place = ADDRESS..ADDRESS + PAGE_SIZE;
    let mut mappings = image.mappings().to_vec();
    let at = mappings.partition_point(|one| one.end <= place.start);
    if mappings.get(at).is_some_and(|next| next.start < place.end) {
        return None;
    }
    let mapping = Mapping {
        start: place.start,
        end: place.end,
        protection: Protection { read: true, write: false, execute: false },
        shared: false,
        backing: Backing::Anonymous { label: LABEL.to_owned() },
        not_frozen: false,
    };
    mappings.insert(at, mapping);
    // Signature, version with padding, address of an exception record (none), base of the runtime.
    let mut page = vec![0; usize::try_from(PAGE_SIZE).ok()?];
    page.get_mut(..16)?.copy_from_slice(&SIGNATURE);
    page.get_mut(16..20)?.copy_from_slice(&VERSION.to_le_bytes());
    page.get_mut(32..40)?.copy_from_slice(&runtime.start.to_le_bytes());
    Some(Described { image, mappings, page })
}

/// Whether the page is there.
pub(super) fn is_described(image: &dyn Image) -> bool {
    let at = image.mappings().partition_point(|one| one.start < ADDRESS);
    image.mappings().get(at).is_some_and(
        |one| matches!(&one.backing, Backing::Anonymous { label } if one.start == ADDRESS && label == LABEL),
    )
}

impl Image for Described<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let inside = address.checked_sub(ADDRESS).and_then(|at| usize::try_from(at).ok());
        let Some(rest) = inside.and_then(|at| self.page.get(at..)).filter(|rest| !rest.is_empty()) else {
            return self.image.read(address, buffer);
        };
        let length = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), rest.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(length)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        self.image.threads()
    }

    fn modules(&self) -> &[ImageModule] {
        self.image.modules()
    }

    fn process(&self) -> &ProcessFacts {
        self.image.process()
    }

    fn crash(&self) -> Option<&Crash> {
        self.image.crash()
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        around_page(range, runs, |part, runs| self.image.written(part, runs))
    }

    fn populated(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        around_page(range, runs, |part, runs| self.image.populated(part, runs))
    }
}

/// Asks the image for what is beside the page.
fn around_page(
    range: Range<u64>,
    runs: &mut Vec<Range<u64>>,
    ask: impl Fn(Range<u64>, &mut Vec<Range<u64>>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let page = ADDRESS..ADDRESS + PAGE_SIZE;
    if range.end <= page.start || range.start >= page.end {
        return ask(range, runs);
    }
    if range.start < page.start {
        ask(range.start..page.start, runs)?;
    }
    runs.push(range.start.max(page.start)..range.end.min(page.end));
    if range.end > page.end { ask(page.end..range.end, runs) } else { Ok(()) }
}
