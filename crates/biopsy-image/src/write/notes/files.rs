//! NT_FILE: which file is mapped where (`fs/binfmt_elf.c`, `fill_files_note`).

use crate::{Backing, Mapping, PAGE_SIZE};

/// Count and page size, three words per mapping (start, end, offset in pages), then all names with terminating zeros.
pub(super) fn mapped_files(mappings: &[Mapping]) -> Vec<u8> {
    let files = || {
        mappings.iter().filter_map(|mapping| match &mapping.backing {
            Backing::File { path, offset, deleted, .. } => Some((mapping, path, *offset, *deleted)),
            _ => None,
        })
    };
    let mut out = Vec::new();
    out.extend_from_slice(&(files().count() as u64).to_le_bytes());
    out.extend_from_slice(&PAGE_SIZE.to_le_bytes());
    for (mapping, _, offset, _) in files() {
        for word in [mapping.start, mapping.end, offset / PAGE_SIZE] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    for (_, path, _, deleted) in files() {
        // A path with a zero byte inside cannot come from a kernel; it would shift all names that follow.
        out.extend(path.iter().copied().filter(|&byte| byte != 0));
        if deleted {
            out.extend_from_slice(b" (deleted)");
        }
        out.push(0);
    }
    out
}
