//! Rebuilds `fixtures/`; fixtures/README.md says what each file is.

use std::path::Path;
use std::process::Command;

use biopsy_testkit::{Program, TargetProcess, temp_dir};

use crate::run::{Outcome, output_of, release_program, root};

/// Records small, known programs with the release program. Needs root and a C compiler.
///
/// Recordings of released format versions are never replaced: they show that old ones can still be read.
pub(crate) fn run() -> Outcome {
    let folder = root().join("fixtures/recordings");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    // Copies with neutral names in a folder of their own: the paths of this machine stay out of the recordings.
    let neutral = temp_dir("fixtures");
    let biopsy = neutral.path().join("biopsy");
    std::fs::copy(release_program()?, &biopsy).map_err(|error| format!("cannot copy biopsy: {error}"))?;
    for program in [Program::HotFunction, Program::LockConvoy] {
        record(&biopsy, program, neutral.path(), &folder)?;
    }
    Ok(())
}

fn record(biopsy: &Path, program: Program, neutral: &Path, folder: &Path) -> Outcome {
    let copy = neutral.join(program.name());
    std::fs::copy(program.path(), &copy)
        .map_err(|error| format!("cannot copy {}: {error}", program.name()))?;
    let mut target = Command::new(copy);
    target.env_clear().current_dir(neutral);
    let mut target = TargetProcess::spawn(target);
    let made = neutral.join(format!("{}.zip", program.name()));
    let mut trace = Command::new(biopsy);
    trace.args(["trace", &target.pid().to_string(), "--for", "1s", "--quiet", "--output"]).arg(&made);
    output_of(trace.env_clear().current_dir(neutral))?;
    target.stop();
    let version = format_version(&made)?;
    let kept = folder.join(format!("{}-{version}.zip", program.name()));
    if kept.exists() && is_released(&version) {
        println!("kept {}: its version is released", kept.display());
        return Ok(());
    }
    std::fs::copy(&made, &kept).map_err(|error| format!("cannot write `{}`: {error}", kept.display()))?;
    println!("made fixtures/recordings/{}-{version}.zip", program.name());
    Ok(())
}

/// Versions of the recording format that a released biopsy has written.
const RELEASED: &[&str] = &[];

fn is_released(version: &str) -> bool {
    RELEASED.contains(&version)
}

fn format_version(recording: &Path) -> Outcome<String> {
    let mut unzip = Command::new("unzip");
    unzip.arg("-p").arg(recording).arg("biopsy.json");
    let header: serde_json::Value =
        serde_json::from_str(&output_of(&mut unzip)?).map_err(|error| format!("`biopsy.json`: {error}"))?;
    header["version"].as_str().map(str::to_owned).ok_or_else(|| "`biopsy.json` has no version".to_owned())
}
