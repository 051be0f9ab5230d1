//! `.gnu_debugdata`: Fedora and its relatives keep the names of local functions in stripped files, as an xz-packed
//! ELF file that holds nothing but a symbol table ("MiniDebugInfo").

use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::sync::Arc;

use xz4rust::{XzDecoder, XzReader};

use crate::elf::ElfFile;

/// Packed and unpacked bounds in bytes: libraries have 10 to 500 KB, the largest programs a few MB.
const PACKED: u64 = 16 << 20;
const UNPACKED: u64 = 64 << 20;
/// Dictionary of the decoder, in bytes: what `xz -9` uses.
const DICTIONARY: usize = 64 << 20;
/// Dictionary to begin with; it grows to what the data asks for.
const BUFFER: NonZeroUsize = NonZeroUsize::new(8 << 10).unwrap();
const FIRST_DICTIONARY: usize = 64 << 10;

pub(crate) fn read(file: &ElfFile) -> Option<Arc<ElfFile>> {
    let packed = file.section_bytes(".gnu_debugdata", PACKED).ok().flatten()?;
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(FIRST_DICTIONARY, DICTIONARY);
    let reader = XzReader::new_with_buffer_size_and_decoder(Cursor::new(packed), BUFFER, decoder);
    let mut unpacked = Vec::new();
    reader.take(UNPACKED).read_to_end(&mut unpacked).ok()?;
    ElfFile::from_bytes(".gnu_debugdata", unpacked, file.limits()).ok().map(Arc::new)
}
