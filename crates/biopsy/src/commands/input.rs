//! Opening whatever file a reading command was given.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use biopsy_model::capture::Capture;

use biopsy_capture::{Failure, FailureKind};

/// First bytes of a perf.data file (tools/perf/Documentation/perf.data-file-format.txt).
const PERF_MAGIC: &[u8; 8] = b"PERFILE2";

/// Opens a recording (folder or zip) or a file of another tool, told apart by what is in it. `roots`: folders below which files
/// may be looked for that it names.
pub(crate) fn open(path: &Path, roots: &[PathBuf]) -> Result<Capture, Failure> {
    if begins_with(path, biopsy_import::nettrace::MAGIC) {
        return biopsy_import::nettrace::read(path, &biopsy_import::nettrace::Limits::default())
            .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()));
    }
    if begins_with(path, PERF_MAGIC) {
        return biopsy_import::perf_data::read(path, roots, &biopsy_import::Limits::default())
            .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()));
    }
    biopsy_recording::open(path, &biopsy_recording::Limits::default())
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))
}

fn begins_with(path: &Path, expected: &[u8; 8]) -> bool {
    let mut magic = [0; 8];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && &magic == expected
}
