//! Looking at lists before the `minidump` crate reads them: what it would copy once for each entry must be short.
//!
//! A list of a million modules that all have the same name of 100 MB is a file of 200 MB, and 100 TB of work.

use ::minidump::Minidump;
use biopsy_bytes::Cursor;

/// What a stream reader may be given. Not the whole file, where that is large.
pub(super) type Streams<'a> = Minidump<'a, &'a [u8]>;

/// Longest name of a module or thread in bytes; Windows paths have at most 64 KiB.
const NAME_BYTES: u32 = 64 << 10;
/// Longest record about the debug information of a module.
const RECORD_BYTES: u32 = 64 << 10;
/// Most entries of a list.
const MOST: u32 = 1 << 16;

/// Size of MINIDUMP_MODULE.
const MODULE: usize = 108;
/// Size of MINIDUMP_THREAD_NAME.
const THREAD_NAME: usize = 12;
/// Size of MINIDUMP_THREAD.
const THREAD: usize = 48;
/// Longest context of a thread; AMD64 has 1,232 bytes, more with XSTATE.
const CONTEXT_BYTES: u32 = 64 << 10;

/// Whether the list of modules is one that can be read.
pub(super) fn modules(stream: &[u8], all: &[u8]) -> bool {
    entries(stream, MODULE).is_some_and(|mut entries| {
        entries.all(|entry| {
            let name = word(entry, 20);
            let records = [word(entry, 76), word(entry, 84)];
            is_short(all, name) && records.iter().all(|size| size.is_some_and(|size| size <= RECORD_BYTES))
        })
    })
}

/// Whether the list of thread names is one that can be read.
pub(super) fn thread_names(stream: &[u8], all: &[u8]) -> bool {
    entries(stream, THREAD_NAME).is_some_and(|mut entries| entries.all(|entry| is_short(all, word(entry, 4))))
}

/// Whether the list of threads is one that can be read.
pub(super) fn threads(stream: &[u8]) -> bool {
    entries(stream, THREAD).is_some_and(|mut entries| {
        entries.all(|entry| word(entry, 40).is_some_and(|size| size <= CONTEXT_BYTES))
    })
}

/// Entries of a list: number, perhaps four bytes of padding, entries.
fn entries(stream: &[u8], size: usize) -> Option<impl Iterator<Item = &[u8]>> {
    let mut cursor = Cursor::new(stream);
    let count = cursor.u32("count").ok()?;
    if count > MOST {
        return None;
    }
    let bytes = (count as usize).checked_mul(size)?;
    if cursor.remaining() == bytes.checked_add(4)? {
        cursor.skip("padding", 4).ok()?;
    }
    Some(cursor.take("entries", bytes).ok()?.chunks_exact(size))
}

/// The name at this offset (length in bytes, then UTF-16) is short, or not there at all.
fn is_short(all: &[u8], at: Option<u32>) -> bool {
    let length = at.and_then(|at| word(all, at as usize));
    length.is_none_or(|length| length <= NAME_BYTES)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of so many entries, each with these numbers at these places.
    fn list(padding: usize, size: usize, entries: &[&[(usize, u32)]]) -> Vec<u8> {
        let mut bytes = u32::try_from(entries.len()).unwrap().to_le_bytes().to_vec();
        bytes.resize(4 + padding, 0);
        for entry in entries {
            let mut row = vec![0; size];
            for (at, number) in *entry {
                row[*at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            bytes.extend(row);
        }
        bytes
    }

    #[test]
    fn lists_have_the_length_that_their_count_asks_for() {
        for padding in [0, 4] {
            let whole = list(padding, THREAD, &[&[], &[]]);
            assert!(threads(&whole), "{padding} bytes of padding");
            for end in 0..whole.len() {
                // Where the padding is not whole it is taken for bytes behind the list.
                assert_eq!(threads(&whole[..end]), end >= 4 + 2 * THREAD, "cut at {end} of {}", whole.len());
            }
        }
        assert!(threads(&list(0, THREAD, &[])));
        for count in [MOST + 1, u32::MAX] {
            assert!(!threads(&count.to_le_bytes()), "{count} threads");
        }
    }

    #[test]
    fn what_would_be_copied_for_each_entry_is_short() {
        for (size, fine) in [(CONTEXT_BYTES, true), (CONTEXT_BYTES + 1, false), (u32::MAX, false)] {
            assert_eq!(threads(&list(0, THREAD, &[&[], &[(40, size)]])), fine, "a context of {size} bytes");
        }
        // The name of both is at byte 8 of the file.
        for (length, fine) in [(0, true), (NAME_BYTES, true), (NAME_BYTES + 1, false), (u32::MAX, false)] {
            let all = [&[0; 8][..], &length.to_le_bytes()].concat();
            assert_eq!(
                modules(&list(4, MODULE, &[&[(20, 8)]]), &all),
                fine,
                "a module's name of {length} bytes"
            );
            assert_eq!(
                thread_names(&list(0, THREAD_NAME, &[&[(4, 8)]]), &all),
                fine,
                "a name of {length} bytes"
            );
        }
        for at in [76, 84] {
            assert!(modules(&list(0, MODULE, &[&[(at, RECORD_BYTES)]]), &[0; 8]));
            assert!(!modules(&list(0, MODULE, &[&[(at, RECORD_BYTES + 1)]]), &[0; 8]), "a record at {at}");
        }
        let nowhere = list(0, MODULE, &[&[(20, u32::MAX)]]);
        assert!(modules(&nowhere, &[0; 8]), "a name that is not there is not copied");
    }
}
