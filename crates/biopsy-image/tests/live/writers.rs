//! Programs that write cores.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A core by gdb.
pub(crate) fn gcore(pid: u32, folder: &Path) -> PathBuf {
    let output = Command::new("gcore")
        .arg("-o")
        .arg(folder.join("core"))
        .arg(pid.to_string())
        .output()
        .expect("gcore runs");
    let core = folder.join(format!("core.{pid}"));
    assert!(core.exists(), "gcore wrote nothing: {}", String::from_utf8_lossy(&output.stderr));
    core
}

/// All createdump programs below the .NET root of the targets.
pub(crate) fn createdumps() -> Vec<PathBuf> {
    let Some(root) = dotnet_root() else { return Vec::new() };
    let mut found: Vec<PathBuf> = std::fs::read_dir(root.join("shared/Microsoft.NETCore.App"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("createdump")))
        .filter(|program| program.is_file())
        .collect();
    found.sort();
    found
}

/// `unpack` beside the targets says where it is.
fn dotnet_root() -> Option<PathBuf> {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/targets");
    let output = Command::new(targets.join("unpack")).output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

/// A core by createdump.
pub(crate) fn createdump(program: &Path, kind: &str, pid: u32, core: &Path) {
    let output = Command::new(program)
        .arg(kind)
        .arg("-f")
        .arg(core)
        .arg(pid.to_string())
        .output()
        .expect("createdump runs");
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stdout));
}

/// A server of the targets that dies in this way, and leaves a core with its heap.
pub(crate) fn crash_dotnet(runtime: &str, way: &str, core: &Path) {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/targets/run");
    let output = Command::new(run)
        .args([runtime, "server", "--sick", way, "--port", "0"])
        .env("DOTNET_DbgEnableMiniDump", "1")
        .env("DOTNET_DbgMiniDumpType", "2")
        .env("DOTNET_DbgMiniDumpName", core)
        .output()
        .expect("the target starts");
    assert!(!output.status.success() && core.exists(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The only file in a folder.
pub(crate) fn only_file(folder: &Path) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let first = entries.next()?.path();
    entries.next().is_none().then_some(first)
}
