//! Profiles of pprof (`profile.proto`, gzipped or not), as Go's `net/http/pprof` and `runtime/pprof`, gperftools, jemalloc, profilers of Rust,
//! Python, Java and JavaScript, and biopsy itself write them.
//!
//! ```text
//!  message Profile {                              all fields may come in any order, the table of strings usually last
//!    1 sample_type: ValueType { 1 type, 2 unit }  what the numbers of a sample are
//!    2 sample:      Sample    { 1 location_id.. (innermost first), 2 value.., 3 label { 1 key, 2 str, 3 num } }
//!    3 mapping:     Mapping   { 1 id, 2 start, 3 limit, 4 offset, 5 file, 6 build id }
//!    4 location:    Location  { 1 id, 2 mapping, 3 address, 4 line { 1 function, 2 line } (innermost inlined call first) }
//!    5 function:    Function  { 1 id, 2 name, 3 system name, 4 file }
//!    6 string_table  9 time (ns)  10 duration (ns)  11 period type  12 period
//!  }
//! ```
//!
//! (github.com/google/pprof, `proto/profile.proto`.) A profile has sums by stack and no times of single samples, so:
//!
//! | numbers | become |
//! | --- | --- |
//! | `cpu`, or `samples` where the period is of CPU time | CPU samples, spread evenly over the duration |
//! | `delay` (Go's block and mutex), `wait`, `wall`, `off-cpu` | off-CPU samples |
//! | `alloc_space` and `inuse_space` (`space`, of older ones) | allocations; what is not in use any more was given back |
//! | others (`goroutine`, `threadcreate`, ...) | are named in a warning; where there is nothing else, the profile is refused |
//!
//! Of labels only threads and processes are read: others are texts of the application, which nobody masked.

mod assemble;
mod error;
mod kinds;
mod limits;
mod places;
mod profile;
mod spread;
mod unpack;
mod wire;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use biopsy_model::capture::Capture;
use flate2::bufread::MultiGzDecoder;

use crate::ImportError;
pub use error::PprofError;
pub use limits::Limits;
use unpack::{Cut, GZIP, unpack};

/// So much of a file is looked at to tell what it is.
const HEAD: u64 = 4_096;

/// Whether a file is a profile, packed or not: it begins as one.
pub(crate) fn is_one(path: &Path) -> bool {
    let mut head = Vec::new();
    if !path.is_file() || File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head)).is_err() {
        return false;
    }
    if head.starts_with(&GZIP) {
        let mut start = Vec::new();
        // It ends in the middle, and says so.
        let _ = MultiGzDecoder::new(&head[..]).take(HEAD).read_to_end(&mut start);
        head = start;
    }
    profile::begins(&head)
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, is none, is larger than the limits, or holds nothing of time or bytes.
pub fn read(path: &Path, limits: &Limits) -> Result<Capture, ImportError> {
    let io = |source| ImportError::Io { path: path.to_owned(), source };
    let (bytes, cut) = unpack(BufReader::new(File::open(path).map_err(io)?), limits).map_err(io)?;
    Ok(read_unpacked(&bytes, cut, limits)?)
}

/// Reads the bytes of a file.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8], limits: &Limits) -> Result<Capture, PprofError> {
    match unpack(bytes, limits) {
        Ok((bytes, cut)) => read_unpacked(&bytes, cut, limits),
        // A slice is read without errors; what gzip says is in `cut`.
        Err(_) => Err(PprofError::Empty),
    }
}

fn read_unpacked(bytes: &[u8], cut: Option<Cut>, limits: &Limits) -> Result<Capture, PprofError> {
    let profile = profile::Profile::parse(bytes, limits)?;
    assemble::capture(&profile, cut, limits)
}

/// Reads arbitrary bytes, packed or not.
pub fn fuzz(bytes: &[u8]) {
    let _ = read_bytes(bytes, &Limits::small());
    let _ = profile::begins(bytes);
}
