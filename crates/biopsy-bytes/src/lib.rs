//! Cursor over untrusted bytes: bounds, limits, errors with offsets.
//!
//! The formats that biopsy reads itself (its own timeline, cores, perf maps, runtime traces) go through [`Cursor`], so that
//! slice indexing, length arithmetic and "how far did we get" exist once; those that a library reads go through the library. A cursor
//! - never panics and never allocates,
//! - knows where it stands in the *file* ([`Cursor::offset`]), also when it covers only a part of it,
//! - names the field in each error: *field, absolute offset, needed, found*.
//!
//! It does not interpret: no strings tables, no endian switch (all formats read so far are little-endian), no I/O.
//!
//! ```
//! use biopsy_bytes::Cursor;
//!
//! // A length-prefixed name, at offset 0x40 of some file.
//! let mut cursor = Cursor::at(b"\x05hello\x2a\x00", 0x40);
//! let length = cursor.varint_len("name length", 64)?;
//! let name = cursor.take("name", length)?;
//! assert_eq!(name, b"hello");
//! assert_eq!(cursor.u16("flags")?, 42);
//! let error = cursor.u32("checksum").unwrap_err();
//! assert_eq!(error.to_string(), "field `checksum` at offset 0x48 needs 4 bytes, 0 remain");
//! # Ok::<(), biopsy_bytes::ReadError>(())
//! ```

#![forbid(unsafe_code)]

mod cursor;
mod error;
mod varint;

pub use cursor::Cursor;
pub use error::{ReadError, ReadErrorKind};
pub use varint::{MAX_VARINT_LEN, put_varint, put_zigzag, unzigzag, zigzag};
