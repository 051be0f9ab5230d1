//! Reading what was sent with `biopsy`, where it is: the key goes to that program in memory, and nothing is decrypted to a disk.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::cases;
use crate::error::LabError;
use crate::place::Lab;

/// Starts `program VERB FILE ARGUMENTS --identity KEY` for the newest thing that was sent, and waits for it. `words` are the verb, `analyze` where there is
/// none, and its arguments.
///
/// # Errors
/// Nothing was sent, the case was deleted, or the program cannot be started.
pub async fn with(
    lab: &Lab,
    program: &Path,
    id: &str,
    words: &[OsString],
    who: &str,
) -> Result<ExitStatus, LabError> {
    let case = cases::find(lab, id).await?;
    if case.is_sealed() && case.state != "deleted" {
        return Err(LabError::Sealed(case.id));
    }
    let objects = cases::objects(lab, id).await?;
    let Some(sent) = objects.iter().rev().find(|object| object.kind == "sent") else {
        return Err(match case.state.as_str() {
            "deleted" => LabError::Deleted(case.id),
            state => LabError::Usage(format!("nothing was sent for case `{id}` yet; it is {state}")),
        });
    };
    let analyze = OsString::from("analyze");
    let (verb, arguments) = words.split_first().unwrap_or((&analyze, &[]));
    let identity =
        cases::open(lab, id, who, &format!("what was sent, by `{}`", verb.to_string_lossy())).await?;
    // Without CLOEXEC: the program that is started has it, too.
    let key = memfd_create("key", MemfdFlags::empty())
        .map_err(|error| LabError::io("make", "a file in memory")(error.into()))?;
    let mut key = File::from(key);
    key.write_all(identity.secret_text().as_bytes()).map_err(LabError::io("write", "a file in memory"))?;
    let held = lab.storage.fetch(&sent.name).await?;
    Command::new(program)
        .arg(verb)
        .arg(held.as_ref())
        .args(arguments)
        .arg("--identity")
        .arg(format!("/proc/self/fd/{}", key.as_raw_fd()))
        .status()
        .map_err(LabError::io("start", program))
}
