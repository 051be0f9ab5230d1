//! How fast memory is gone over for secrets, on one core: of a .NET server, of libraries, and source text, which has
//! the most words that secrets could hang on.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_testkit::{DotNetServer, Privilege, require, temp_dir};

use super::options::Options;
use super::table::{Column, Table};
use crate::run::{Outcome, cargo, output_of};

const MEGABYTES: u64 = 150;
const QUICK_MEGABYTES: u64 = 10;

/// Measures each kind of memory that is to be had.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let most = if options.quick { QUICK_MEGABYTES } else { MEGABYTES } << 20;
    let folder = temp_dir("bench-scrub");
    let mut files = Vec::new();
    if require(Privilege::DotNetTargets) {
        let core = folder.path().join("server.core");
        let server = DotNetServer::start("net10.0", &[]);
        let mut dump = Command::new(biopsy);
        dump.args(["dump", &server.pid().to_string(), "--raw", "--quiet", "--output"]).arg(&core);
        let dumped = output_of(&mut dump);
        server.stop();
        dumped?;
        files.push(("D8a", "memory of a .NET server", core));
    } else {
        println!("note: without the .NET targets");
    }
    for (row, what, below, is_part) in [
        ("D8b", "libraries", PathBuf::from("/usr/lib"), is_library as fn(&Path) -> bool),
        ("D8c", "source text", sources(), is_source),
    ] {
        let path = folder.path().join(row);
        if joined(&below, is_part, most, &path)? > 0 {
            files.push((row, what, path));
        }
    }
    let mut command = cargo(&["run", "--release", "--quiet", "-p", "biopsy-redact"]);
    command.args(["--example", "memory_throughput", "--"]).args(files.iter().map(|(_, _, path)| path));
    let said = output_of(&mut command)?;
    println!("{said}");
    for (row, what, path) in files {
        let begin = format!("{} rules: ", path.display());
        let rate = said.lines().find_map(|line| line.strip_prefix(&begin)?.split(' ').next()?.parse().ok());
        table.judge(row, rate);
        let mut column = Column::new(what);
        column.set("GB/s of CPU", rate);
        table.add_column("scrubbing", column);
    }
    Ok(())
}

fn is_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "rs")
}

/// The sources of all that this repository depends on.
fn sources() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    home.unwrap_or_default().join("registry/src")
}

/// Writes the contents of files below a folder one after the other, and returns how many bytes.
fn joined(below: &Path, is_part: fn(&Path) -> bool, most: u64, path: &Path) -> Outcome<u64> {
    let failed = |error: std::io::Error| format!("cannot write `{}`: {error}", path.display());
    let mut file = std::fs::File::create(path).map_err(failed)?;
    let mut bytes = 0;
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        // The same in every run.
        entries.sort();
        for entry in entries {
            let Ok(kind) = entry.symlink_metadata() else { continue };
            if kind.is_dir() {
                folders.push(entry);
            } else if kind.is_file() && is_part(&entry) && bytes < most {
                let contents = std::fs::read(&entry).unwrap_or_default();
                file.write_all(&contents).map_err(failed)?;
                bytes += contents.len() as u64;
            }
        }
    }
    Ok(bytes)
}
