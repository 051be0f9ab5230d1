//! Which programs cannot be counted, and why.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use biopsy_elf::raw::{DT_STRSZ, DT_STRTAB, EM_X86_64, PT_DYNAMIC, PT_INTERP};
use biopsy_elf::{Dynamic, FileHeader, place_of, read_up_to};

/// Why the allocations of a program cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CannotCount {
    /// It is not found.
    #[error("there is no program `{0}`")]
    NoProgram(String),
    /// It cannot be read.
    #[error("`{path}` cannot be read")]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The loader loads nothing else into it.
    #[error("`{path}` {why}")]
    Program {
        /// What.
        path: PathBuf,
        /// What it is.
        why: &'static str,
    },
    /// Memory that is only reserved counts as used.
    #[error(
        "the kernel gives out no more memory than there is (`vm.overcommit_memory` is 2), and counting reserves much that it does not touch"
    )]
    Overcommit,
    /// The library is not written for it.
    #[error("the library that counts them is for x86-64 processors only")]
    Processor,
    /// A file in memory cannot be made.
    #[error("a file in memory cannot be made")]
    Memory(#[from] io::Error),
}

/// As execvp finds it.
fn path_of(program: &Path) -> Result<PathBuf, CannotCount> {
    if program.components().count() > 1 || program.has_root() {
        return Ok(program.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let all = std::env::split_paths(&folders).map(|folder| folder.join(program));
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0);
    all.into_iter()
        .find(is_program)
        .ok_or_else(|| CannotCount::NoProgram(program.to_string_lossy().into_owned()))
}

/// Whether the loader would load the library into the program, and it could count there. Says whether it allocates with `new` of C++.
pub(super) fn check(program: &Path) -> Result<bool, CannotCount> {
    if biopsy_files::read_kernels("/proc/sys/vm/overcommit_memory")
        .is_ok_and(|text| text.trim_ascii() == b"2")
    {
        return Err(CannotCount::Overcommit);
    }
    let path = path_of(program)?;
    let one = Program::open(&path)?;
    if let Some(line) = one.head.strip_prefix(b"#!") {
        // A script's interpreter is what is loaded: it is looked at in its place, once.
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line).trim_ascii();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(line);
        if word.ends_with(b"/env") {
            let why = "is a script that `env` finds the interpreter for; start that interpreter by its own path, with the script behind it";
            return Err(CannotCount::Program { path, why });
        }
        let interpreter = PathBuf::from(String::from_utf8_lossy(word).into_owned());
        let one = Program::open(&interpreter)?;
        return one.check(&interpreter).map(|()| one.has_new);
    }
    one.check(&path).map(|()| one.has_new)
}

/// Bytes at the beginning that are looked at: headers of programs are there.
const HEAD: u64 = 64 << 10;
/// Most headers that a real program has, and more.
const SEGMENTS: u64 = 256;
/// Most bytes of names that are looked through.
const NAMES: u64 = 16 << 20;
/// Libraries of sanitizers, which end the program where another one is loaded before them.
const SANITIZERS: [&[u8]; 4] = [b"\0libasan.so", b"\0libtsan.so", b"\0liblsan.so", b"\0libclang_rt."];

struct Program {
    mode: u32,
    head: Vec<u8>,
    has_capabilities: bool,
    has_sanitizer: bool,
    /// `operator new`.
    has_new: bool,
}

impl Program {
    fn open(path: &Path) -> Result<Self, CannotCount> {
        let read = || -> io::Result<Self> {
            let file = biopsy_files::open(path, biopsy_files::Links::Follow)?.file;
            let head = read_up_to(&file, 0, HEAD)?;
            let has_capabilities =
                rustix::fs::fgetxattr(&file, "security.capability", &mut [0; 64]).is_ok_and(|size| size > 0);
            let names = names(&file).unwrap_or_default();
            let has = |with: &[u8]| names.windows(with.len()).any(|bytes| bytes == with);
            let has_sanitizer = SANITIZERS.iter().any(|library| has(library));
            let has_new = has(b"\0_Znwm\0");
            Ok(Self { mode: file.metadata()?.mode(), head, has_capabilities, has_sanitizer, has_new })
        };
        read().map_err(|source| CannotCount::Read { path: path.to_owned(), source })
    }

    fn check(&self, path: &Path) -> Result<(), CannotCount> {
        let refused = self.refusal().or_else(|| {
            // Root has the rights anyway.
            if self.has_capabilities && !rustix::process::geteuid().is_root() {
                return Some("has capabilities of its own: the loader loads nothing else into it");
            }
            let why =
                "is built with a sanitizer, which has to be loaded first and watches allocations by itself";
            self.has_sanitizer.then_some(why)
        });
        match refused {
            None => Ok(()),
            Some(why) => Err(CannotCount::Program { path: path.to_owned(), why }),
        }
    }

    /// Why the loader would not load the library into it.
    fn refusal(&self) -> Option<&'static str> {
        if self.mode & 0o6000 != 0 {
            return Some("runs with the rights of its owner (setuid): the loader loads nothing else into it");
        }
        let head = self.head.as_slice();
        let header = FileHeader::read(head, 0).ok().filter(|header| header.machine == EM_X86_64);
        let Some(header) = header else { return Some("is no program for x86-64 processors") };
        let segments = header.read_segments(head, SEGMENTS).unwrap_or_default();
        let Some(interpreter) = segments.iter().find(|segment| segment.kind == PT_INTERP) else {
            return Some("is linked statically: there is no loader that would load anything into it");
        };
        let name = read_up_to(head, interpreter.offset, interpreter.file_size.min(HEAD)).unwrap_or_default();
        let is_musl = name.windows(8).any(|bytes| bytes == b"/ld-musl");
        is_musl.then_some(
            "is for the C library musl, whose loader does not hand over the environment: what the program starts would look for the library, too",
        )
    }
}

/// The names that the dynamic section refers to.
fn names(file: &File) -> Option<Vec<u8>> {
    let segments = FileHeader::read(file, 0).ok()?.read_segments(file, SEGMENTS).ok()?;
    let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let dynamic =
        Dynamic::parse(&read_up_to(file, dynamic.offset, dynamic.file_size.min(Dynamic::MOST)).ok()?);
    let (at, rest) = place_of(&segments, dynamic.value(DT_STRTAB)?)?;
    read_up_to(file, at, dynamic.value(DT_STRSZ)?.min(rest).min(NAMES)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a 64-bit program with these headers: type, and what it names.
    fn program(machine: u8, headers: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + headers.len() * 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        (bytes[54], bytes[56]) = (56, u8::try_from(headers.len()).unwrap());
        for (number, (kind, name)) in headers.iter().enumerate() {
            let (at, end) = (64 + number * 56, u16::try_from(bytes.len()).unwrap());
            bytes[at] = *kind;
            bytes[at + 8..at + 10].copy_from_slice(&end.to_le_bytes());
            bytes[at + 32] = u8::try_from(name.len()).unwrap();
            bytes.extend_from_slice(name);
        }
        bytes
    }

    #[test]
    fn what_the_loader_would_not_load_into_is_refused() {
        let glibc: (u8, &[u8]) = (3, b"/lib64/ld-linux-x86-64.so.2");
        for (mode, bytes, expected) in [
            (0o755, program(62, &[(1, b""), glibc]), None),
            (0o4755, program(62, &[glibc]), Some("setuid")),
            (0o2755, program(62, &[glibc]), Some("setuid")),
            (0o755, program(62, &[(1, b"")]), Some("statically")),
            (0o755, program(183, &[glibc]), Some("x86-64")),
            (0o755, program(62, &[(3, b"/lib/ld-musl-x86_64.so.1")]), Some("musl")),
            (0o755, b"text".to_vec(), Some("x86-64")),
        ] {
            let one =
                Program { mode, head: bytes, has_capabilities: false, has_sanitizer: false, has_new: false };
            let found = one.refusal();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?} {expected:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        }
    }
}
