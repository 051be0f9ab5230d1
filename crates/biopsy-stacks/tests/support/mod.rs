//! What several tests need.

#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod live;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program of `tests/programs` with the given flags.
pub(crate) fn compile(folder: &Path, source: &str, output: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let output = folder.join(output);
    let compiler = match source.extension().and_then(|extension| extension.to_str()) {
        Some("cpp") => "c++",
        Some("rs") => "rustc",
        _ => "cc",
    };
    run(Command::new(compiler).args(flags).arg("-o").arg(&output).arg(&source));
    output
}

/// Runs a tool that must succeed; gives what it wrote.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
