//! What a process that waits in execve is about to execute.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use biopsy_model::{Avma, Pid};

use crate::find;
use crate::process::command::base_name;
use crate::process::proc_root::{ProcRoot, SMALL};

/// Longest path and longest single argument that is read.
const TEXT: usize = 4096;
/// How often to look whether the process sleeps in its call by now, and for how long to wait in between.
const TRIES: u32 = 300;
const NAP: Duration = Duration::from_micros(50);
/// Most arguments that are looked at: the name of an entry assembly comes before its own arguments.
const ARGUMENTS: usize = 64;
/// `execve` and `execveat` of `asm/unistd_64.h`.
const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;

/// The arguments of a call of execve, read from the process while it waits in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Launch {
    /// The name the process will have: that of the file as it was called, before links are followed.
    name: String,
    /// Where the file is for us, by way of the process's own folders.
    path: PathBuf,
    arguments: Vec<String>,
}

impl Launch {
    /// Reads it. `None` where it cannot be told: a call of another architecture, memory that cannot be read.
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let folder = ProcRoot::live().process(pid).ok()?;
        let mut found = None;
        // It may not have gone to sleep yet when we hear of it.
        for _ in 0..TRIES {
            let text = folder.read("syscall", SMALL).ok()?;
            if text != b"running\n" {
                found = addresses(&text);
                break;
            }
            std::thread::sleep(NAP);
        }
        let (at, path, list) = found?;
        let path = text_at(pid, Avma(path))?;
        let process = PathBuf::from(format!("/proc/{pid}"));
        let place = match (path.strip_prefix('/'), at) {
            (Some(path), _) => process.join("root").join(path),
            (None, Some(fd)) if path.is_empty() => process.join("fd").join(fd.to_string()),
            (None, Some(fd)) => process.join("fd").join(fd.to_string()).join(&path),
            (None, None) => process.join("cwd").join(&path),
        };
        let mut arguments = Vec::new();
        for index in 0..ARGUMENTS as u64 {
            let mut word = [0; 8];
            let address = Avma(list.checked_add(index * 8)?);
            if biopsy_sys::memory::read(pid, address, &mut word).ok()? != word.len() {
                return None;
            }
            match u64::from_ne_bytes(word) {
                0 => break,
                address => arguments.push(text_at(pid, Avma(address))?),
            }
        }
        Some(Self { name: base_name(&path).to_owned(), path: place, arguments })
    }

    /// The name that the process will have.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its command line.
    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Whether it will answer to `wanted`. `file` is the path of the file that is executed, links followed.
    pub(super) fn answers_to(&self, file: Option<&str>, wanted: &str) -> bool {
        let exe = file.map_or("", base_name);
        find::will_answer_to(&self.name, exe, &self.arguments, wanted)
    }

    /// Whether `file` is the very file that the call names, rather than the interpreter of a script or the dynamic linker,
    /// which are opened later in the same call.
    pub(super) fn names(&self, file: &Path) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let named = std::fs::metadata(&self.path).map(identity);
        matches!((named, std::fs::metadata(file).map(identity)), (Ok(named), Ok(file)) if named == file)
    }

    /// Whether it will be a program that traces others, which must find its victim untraced.
    pub(super) fn traces_others(&self) -> bool {
        is_tracer(&self.name)
    }
}

/// Programs that trace others: debuggers, and those that runtimes start to dump themselves.
pub(super) fn is_tracer(name: &str) -> bool {
    const TRACERS: [&str; 14] = [
        "createdump",
        "gdb",
        "gdbserver",
        "gcore",
        "lldb",
        "lldb-server",
        "strace",
        "ltrace",
        "netcoredbg",
        "vsdbg",
        "dlv",
        "rr",
        "eu-stack",
        "crashpad_handler",
    ];
    TRACERS.contains(&name)
}

/// Folder descriptor (where it is not the current one), and addresses of path and argument list, from `/proc/PID/syscall`: number, six arguments, stack, place.
fn addresses(text: &[u8]) -> Option<(Option<u32>, u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let mut hex = words.map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let at = match number {
        EXECVE => None,
        // The descriptor is an int; AT_FDCWD is negative.
        EXECVEAT => u32::try_from(hex.next()?? & 0xffff_ffff).ok().filter(|&fd| i32::try_from(fd).is_ok()),
        _ => return None,
    };
    Some((at, hex.next()??, hex.next()??))
}

/// The text at an address, up to its zero byte. Cut where it is longer than [`TEXT`] or memory ends.
fn text_at(pid: Pid, address: Avma) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 256];
    while bytes.len() < TEXT {
        let at = Avma(address.0.checked_add(bytes.len() as u64)?);
        let read = biopsy_sys::memory::read(pid, at, &mut piece).ok()?;
        let piece = piece.get(..read).filter(|piece| !piece.is_empty())?;
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            bytes.extend_from_slice(piece.get(..end)?);
            break;
        }
        bytes.extend_from_slice(piece);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls() {
        let call = b"59 0x7ffc10 0x7ffc20 0x7ffc30 0x0 0x0 0x0 0x7ffc00 0x7f0000\n";
        assert_eq!(addresses(call), Some((None, 0x7f_fc10, 0x7f_fc20)));
        let at = b"322 0xffffff9c 0x7ffc10 0x7ffc20 0x7ffc30 0x0 0x0 0x7ffc00 0x7f0000\n";
        assert_eq!(addresses(at), Some((None, 0x7f_fc10, 0x7f_fc20)));
        let fd = b"322 0x7 0x7ffc10 0x7ffc20 0x7ffc30 0x0 0x0 0x7ffc00 0x7f0000\n";
        assert_eq!(addresses(fd), Some((Some(7), 0x7f_fc10, 0x7f_fc20)));
        for odd in [
            &b"running\n"[..],
            b"-1 0x7ffc00 0x7f0000\n",
            b"0 0x1 0x2 0x3\n",
            b"59 x y\n",
            b"59 0x1\n",
            b"\xff",
        ] {
            assert_eq!(addresses(odd), None);
        }
    }

    #[test]
    fn names_of_what_will_run() {
        let launch = |path: &str, line: &str| Launch {
            name: base_name(path).to_owned(),
            path: PathBuf::from(path),
            arguments: line.split(' ').map(str::to_owned).collect(),
        };
        let dotnet = launch("/usr/bin/dotnet", "dotnet /opt/Calamari/Calamari.dll run -x");
        assert!(dotnet.answers_to(Some("/usr/lib/dotnet/dotnet"), "calamari"));
        assert!(dotnet.answers_to(Some("/usr/lib/dotnet/dotnet"), "Calamari.dll"));
        assert!(dotnet.answers_to(None, "dotnet"));
        assert!(!dotnet.answers_to(Some("/usr/lib/dotnet/dotnet"), "tentacle"));
        let link = launch("/usr/bin/python3", "python3 /srv/app.py");
        assert!(link.answers_to(Some("/usr/bin/python3.11"), "python3"));
        assert!(link.answers_to(Some("/usr/bin/python3.11"), "app.py"));
        let host = launch("/opt/Calamari", "/opt/Calamari deploy");
        assert!(host.answers_to(Some("/opt/Calamari"), "calamari.dll"));
    }

    #[test]
    fn reads_texts_of_this_process() {
        let myself = Pid(std::process::id());
        let text = *b"held before its first instruction\0";
        let address = text.as_ptr().expose_provenance() as u64;
        assert_eq!(text_at(myself, Avma(address)).unwrap(), "held before its first instruction");
        assert_eq!(text_at(myself, Avma(8)), None);
        assert_eq!(Launch::read(myself), None, "it executes nothing");
    }
}
