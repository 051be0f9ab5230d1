//! Tests of opening: whole, partial, damaged, hostile and newer recordings.

use crate::testing::{sample_capture, write_capture};
use crate::{Limits, OpenError, RecordingFolder, bundle, open};

#[test]
fn a_recording_comes_back_as_it_was_written() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let capture = sample_capture();
    let folder = RecordingFolder::create(&path).unwrap();
    write_capture(&folder, &capture);
    assert_eq!(open(&path, &Limits::default()).unwrap(), capture);
    let out = scratch.path().join("r.zip");
    bundle(&path, &out).unwrap();
    assert_eq!(open(&out, &Limits::default()).unwrap(), capture);
    let _ = OpenError::NotFound { path };
}
