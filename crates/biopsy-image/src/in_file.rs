//! What an image does not have and the file that was mapped there still has.

use biopsy_model::Avma;

use crate::{Absence, Backing, Mapping, PAGE_SIZE, mapping};

/// Where in a file stands what was at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFile<'a> {
    /// The file, as the process named it.
    pub path: &'a [u8],
    /// Bytes from its beginning.
    pub offset: u64,
    /// For how many bytes this is true: to the end of the page, for what follows may be in the image, and is then what the process
    /// had, or be missing for another reason. Reasons are of whole pages. At least 1.
    pub room: usize,
}

/// Where in a file stands what was at an address and is missing for this reason. Only of pages that the process cannot have
/// changed since, as far as the image tells: what the file has of the others is old, and looks like memory.
#[must_use]
pub fn in_file(mappings: &[Mapping], address: Avma, why: Absence) -> Option<InFile<'_>> {
    let Avma(address) = address;
    let found = mapping::find(mappings, address)?;
    let Backing::File { path, offset, .. } = &found.backing else { return None };
    // Writers of dumps keep what was written to a private mapping: what is missing of it is still as in the file, but for
    // what the loader wrote. A shared one may have been written by others since.
    if found.protection.write && found.shared {
        return None;
    }
    let may_be_changed = match why {
        // Most of what had no room, or no time, or was lost, is what the process wrote; nothing says which.
        Absence::OverLimit | Absence::NoTime | Absence::Truncated | Absence::Gone => true,
        Absence::NotOfKind => found.protection.write,
        Absence::LeftOut | Absence::Unmapped | Absence::Unreadable => false,
    };
    if may_be_changed {
        return None;
    }
    let page_end = address | (PAGE_SIZE - 1);
    let room = usize::try_from(page_end.min(found.end - 1) - address).ok()?.checked_add(1)?;
    Some(InFile { path, offset: offset.checked_add(address - found.start)?, room })
}
