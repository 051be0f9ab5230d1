//! Running programs, and where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An error in words; this program only ever shows them.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository").to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target_folder() -> Outcome<PathBuf> {
    Ok(metadata()?.target_directory.into_std_path_buf())
}

/// The release program, which `./x` has built.
pub(crate) fn release_program() -> Outcome<PathBuf> {
    let program = target_folder()?.join("release/biopsy");
    match program.exists() {
        true => Ok(program),
        false => Err(format!("`{}` is missing; run `cargo build --release -p biopsy`", program.display())),
    }
}

/// What cargo knows of the workspace, without the dependencies' own dependencies being needed from the network.
pub(crate) fn metadata() -> Outcome<cargo_metadata::Metadata> {
    cargo_metadata::MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .exec()
        .map_err(|error| format!("`cargo metadata`: {error}"))
}

/// `cargo` with arguments, in the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs it with our terminal; an error if it fails.
pub(crate) fn succeed(command: &mut Command) -> Outcome {
    println!("$ {}", words(command));
    let status = command.status().map_err(|error| format!("cannot run `{}`: {error}", words(command)))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{}` ended with {status}", words(command))),
    }
}

/// Runs it and returns what it printed; an error if it fails.
pub(crate) fn output_of(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("cannot run `{}`: {error}", words(command)))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "`{}` ended with {}: {}",
            words(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// The command as one would type it, for messages.
fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut words = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        words.push(' ');
        words.push_str(&argument.to_string_lossy());
    }
    words
}
