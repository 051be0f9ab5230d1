//! Kernels of Debian's releases, by apt from where this machine has its packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, output_of};

/// Debian's archive as this machine's apt knows it.
pub(crate) fn debian_archive() -> Outcome<String> {
    let mut list = Command::new("apt-get");
    list.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let all = output_of(&mut list)?;
    let archive = all.lines().find(|line| line.trim_end_matches('/').ends_with("/debian"));
    archive
        .map(|line| line.trim_end_matches('/').to_owned())
        .ok_or_else(|| "apt knows no archive of Debian".to_owned())
}

/// The image of a kernel; kept in `folder` once it is there.
pub(crate) fn image(folder: &Path, version: &str) -> Outcome<PathBuf> {
    let image = folder.join(format!("vmlinuz-{version}"));
    if image.exists() {
        return Ok(image);
    }
    let suite = match version {
        "5.10" => "bullseye",
        "6.1" => "bookworm",
        "6.12" => "trixie",
        other => return Err(format!("no release of Debian is known to have kernel {other}")),
    };
    let problem = |error: std::io::Error| format!("cannot prepare `{}`: {error}", folder.display());
    for name in ["lists/partial", "archives/partial"] {
        std::fs::create_dir_all(folder.join(name)).map_err(problem)?;
    }
    let list = folder.join(format!("{suite}.list"));
    std::fs::write(&list, format!("deb {} {suite} main\n", debian_archive()?)).map_err(problem)?;
    // This machine's own lists and packages stay as they are.
    let options = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::lists={}", folder.join("lists").display()),
        format!("Dir::Cache={}", folder.display()),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder).args(options.iter().flat_map(|option| ["-o", option]));
        command
    };
    output_of(apt("apt-get").args(["-qq", "update"]))?;
    let search = format!("^linux-image-{}[.0-9+a-z-]*-cloud-amd64$", version.replace('.', "\\."));
    let found = output_of(apt("apt-cache").args(["search", "--names-only", &search]))?;
    let mut names: Vec<&str> = found.lines().filter_map(|line| line.split(' ').next()).collect();
    names.retain(|name| !name.contains("-rt-"));
    names.sort_by_key(|name| numbers(name));
    let name = names.last().ok_or_else(|| format!("{suite} has no package that matches {search}"))?;
    output_of(apt("apt-get").args(["-qq", "download", name]))?;
    let unpacked = folder.join(format!("unpacked-{version}"));
    let mut unpack = Command::new("sh");
    // The version in the file's name is not in the package's.
    unpack.current_dir(folder).args([
        "-ec",
        "dpkg-deb -x \"$0\"_*.deb \"$1\"; mv \"$1\"/boot/vmlinuz-* \"$2\"; rm -r \"$1\" \"$0\"_*.deb",
    ]);
    output_of(unpack.arg(name).arg(unpacked).arg(&image))?;
    Ok(image)
}

/// `linux-image-6.1.0-18-cloud-amd64` is [6, 1, 0, 18, 64].
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}
