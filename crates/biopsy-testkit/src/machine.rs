//! Tests that load the machine or measure it run one after the other, also across test programs.

use std::fs::File;

/// Held by one test at a time.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

/// Waits until no other test holds the machine. A file lock, because test runners like nextest run each test in a
/// process of its own; the kernel gives it back however the test ends.
///
/// # Panics
///
/// Where the lock file cannot be made.
#[must_use]
pub fn machine_to_myself() -> MachineLock {
    let path = crate::compile::programs_folder().join("machine.lock");
    let made = path.parent().map(std::fs::create_dir_all);
    let file = File::create(&path)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}, {made:?}", path.display()));
    file.lock().unwrap_or_else(|error| panic!("cannot lock {}: {error}", path.display()));
    MachineLock { _file: file }
}
