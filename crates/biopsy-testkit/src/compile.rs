//! Small sources become programs on demand, once per content.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = include_str!("../programs/target.h");

/// Compiles a C source that may include `target.h`; the result is kept under its content's hash.
///
/// # Panics
///
/// Where `cc` cannot be run or refuses the source.
#[must_use]
pub fn compile_c(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    compile(name, source, flags, |folder, out| {
        let header = folder.join("target.h");
        replace_file(&header, HEADER);
        let file = folder.join(format!("{name}.c"));
        replace_file(&file, source);
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-Wall", "-g", "-pthread"]).args(flags).arg("-o").arg(out).arg(&file);
        command
    })
}

/// Compiles a C++ source.
///
/// # Panics
///
/// Where `c++` cannot be run or refuses the source.
#[must_use]
pub fn compile_cpp(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    compile(name, source, flags, |folder, out| {
        let file = folder.join(format!("{name}.cpp"));
        replace_file(&file, source);
        let mut command = Command::new("c++");
        command.args(["-std=c++17", "-Wall", "-g", "-pthread"]).args(flags).arg("-o").arg(out).arg(&file);
        command
    })
}

/// Compiles a Rust source without dependencies.
///
/// # Panics
///
/// Where `rustc` cannot be run or refuses the source.
#[must_use]
pub fn compile_rust(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    compile(name, source, flags, |folder, out| {
        let file = folder.join(format!("{name}.rs"));
        replace_file(&file, source);
        let mut command = Command::new("rustc");
        command.args(["--edition=2024", "-O", "-g"]).args(flags).arg("-o").arg(out).arg(&file);
        command
    })
}

fn compile(
    name: &str,
    source: &str,
    flags: &[&str],
    command: impl FnOnce(&Path, &Path) -> Command,
) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (name, source, flags, HEADER).hash(&mut hasher);
    let folder = programs_folder().join(format!("{name}-{:016x}", hasher.finish()));
    let program = folder.join(name);
    if program.exists() {
        return program;
    }
    // Tests run at the same time, also in several processes: each compiles in a folder of its own and gives the result its
    // name, so that nobody ever starts half a program. What has that name already stays: it may run, and the file of a
    // program that runs and is replaced is a deleted one, which tests take for harm.
    std::fs::create_dir_all(&folder)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
    let build =
        tempfile::Builder::new().prefix("build-").tempdir_in(&folder).expect("the folder was just made");
    let fresh = build.path().join(name);
    let mut command = command(build.path(), &fresh);
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    match std::fs::hard_link(&fresh, &program) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => panic!("cannot name {}: {error}", program.display()),
    }
    program
}

fn replace_file(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// `testkit-programs` in cargo's target folder, which is found as the ancestor of this test program that cargo tagged.
pub(crate) fn programs_folder() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let target = own.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.map_or_else(std::env::temp_dir, Path::to_path_buf).join("testkit-programs")
}
