//! The root file system of the machines: busybox, biopsy, the programs to look at, and what all of them need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biopsy_testkit::dotnet_command;

use crate::run::{Outcome, output_of};

/// Makes an archive that kernels unpack as their first file system; `commands` is what they run.
pub(crate) fn make(
    folder: &Path,
    biopsy: &Path,
    programs: &[PathBuf],
    runtimes: &[&str],
    commands: &str,
) -> Outcome<PathBuf> {
    let root = folder.join("root");
    let problem = |error: std::io::Error| format!("cannot make `{}`: {error}", root.display());
    if root.exists() {
        std::fs::remove_dir_all(&root).map_err(problem)?;
    }
    for name in ["bin", "proc", "sys", "dev", "tmp", "etc", "root", "var/tmp"] {
        std::fs::create_dir_all(root.join(name)).map_err(problem)?;
    }
    let busybox = output_of(Command::new("sh").args(["-c", "command -v busybox"]))?;
    std::fs::copy(busybox.trim(), root.join("bin/busybox")).map_err(problem)?;
    // Without what only debuggers want it is a sixth of the size, and all of it is in the machine's memory.
    output_of(Command::new("strip").arg(biopsy).arg("-o").arg(root.join("bin/biopsy")))?;
    add_libraries(&root, biopsy)?;
    for program in programs {
        let name = program.file_name().ok_or_else(|| format!("`{}` has no name", program.display()))?;
        std::fs::copy(program, root.join("bin").join(name)).map_err(problem)?;
        add_libraries(&root, program)?;
    }
    if !runtimes.is_empty() {
        add_dotnet(&root, runtimes)?;
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").map_err(problem)?;
    std::fs::write(root.join("commands"), commands).map_err(problem)?;
    std::fs::write(root.join("init"), include_str!("init.sh")).map_err(problem)?;
    let archive = folder.join("root.cpio");
    // Not compressed: unpacking is what emulated processors are slow at.
    let pack = "chmod +x init; find . | cpio -o -H newc --quiet > \"$0\"";
    output_of(Command::new("sh").current_dir(&root).args(["-ec", pack]).arg(&archive))?;
    std::fs::remove_dir_all(&root).map_err(problem)?;
    Ok(archive)
}

/// Copies what a program is linked to.
fn add_libraries(root: &Path, program: &Path) -> Outcome {
    // A static program has none, and `ldd` fails.
    let listed = Command::new("ldd").arg(program).stderr(Stdio::null()).output();
    let listed = listed.map_err(|error| format!("cannot run `ldd`: {error}"))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for library in text.split_ascii_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        let folder = to.parent().ok_or_else(|| format!("`{library}` has no folder"))?;
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::copy(library, &to))
            .map_err(|error| format!("cannot copy `{library}`: {error}"))?;
    }
    Ok(())
}

/// The prebuilt .NET programs with their runtimes, where they are at hand: `/dotnet/dotnet /net/RUNTIME/holder.dll`.
fn add_dotnet(root: &Path, runtimes: &[&str]) -> Outcome {
    let Some(run) = dotnet_command(runtimes[0], "holder", &[]) else {
        println!("note: without the .NET targets");
        return Ok(());
    };
    let targets = Path::new(run.get_program()).parent().map(Path::to_path_buf).unwrap_or_default();
    let dotnet = output_of(&mut Command::new(targets.join("unpack")))?;
    let dotnet = Path::new(dotnet.trim());
    let copy = |from: &Path, to: &Path| {
        let parent = to.parent().map(Path::to_path_buf).unwrap_or_default();
        std::fs::create_dir_all(&parent)
            .map_err(|error| format!("cannot make `{}`: {error}", parent.display()))?;
        output_of(Command::new("cp").arg("-a").arg(from).arg(to)).map(drop)
    };
    copy(&dotnet.join("dotnet"), &root.join("dotnet/dotnet"))?;
    copy(&dotnet.join("host"), &root.join("dotnet/host"))?;
    let shared = dotnet.join("shared/Microsoft.NETCore.App");
    for runtime in runtimes {
        copy(&targets.join("bin").join(runtime).join("holder"), &root.join("net").join(runtime))?;
        let number = runtime.trim_start_matches("net").trim_end_matches('0');
        let versions = std::fs::read_dir(&shared)
            .map_err(|error| format!("cannot list `{}`: {error}", shared.display()))?;
        let newest =
            versions.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(number)).last();
        let newest = newest.ok_or_else(|| format!("no runtime for {runtime}"))?;
        copy(&newest.path(), &root.join("dotnet/shared/Microsoft.NETCore.App").join(newest.file_name()))?;
        for entry in std::fs::read_dir(newest.path()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "so") {
                add_libraries(root, &entry.path())?;
            }
        }
    }
    add_libraries(root, &dotnet.join("dotnet"))
}
