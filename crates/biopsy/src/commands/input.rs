//! Opening whatever file a reading command was given.

use std::path::Path;

use biopsy_capture::{Failure, FailureKind};
use biopsy_import::{Evidence, EvidenceError};

/// Looks what a file or folder holds.
pub(crate) fn look(path: &Path) -> Result<Evidence, Failure> {
    Evidence::look(path).map_err(bad_input)
}

/// It cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn bad_input(error: EvidenceError) -> Failure {
    Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint())
}
