//! `--allocations=full`: a program that biopsy starts counts its allocations by itself, with a library of ours ahead of the C library.
//!
//! Its numbers are in a file in memory that both have. It is read, never mapped: the program may cut or fill it as it likes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{AllocationCount, TimelineEvent};
use biopsy_model::{MonoNanos, Pid};
use biopsy_preload::{HEADER_BYTES, Header, SHARED_BYTES, SITE_SIZE, Site, layout};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::super::frames::Frames;
use super::super::sink::Sink;

/// Places that are read at a time.
const BATCH: usize = 1024;
const VARIABLE: &str = "LD_PRELOAD";

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
    /// The library is not written for it.
    #[error("the library that counts them is for x86-64 processors only")]
    Processor,
    /// A file in memory cannot be made.
    #[error("a file in memory cannot be made")]
    Memory(#[from] io::Error),
}

/// The files that a program and biopsy share: the library, and what it counts.
#[derive(Clone, Debug)]
pub struct CountedProgram {
    library: Arc<File>,
    shared: Arc<File>,
}

impl CountedProgram {
    /// Looks whether the program can be counted, and has the command load the library. Children of biopsy inherit both files until
    /// [`CountedProgram::started`].
    ///
    /// # Errors
    /// When the library could not do its work in this program.
    pub fn prepare(command: &mut Command) -> Result<Self, CannotCount> {
        check(&path_of(Path::new(command.get_program()))?)?;
        let shared = memory("biopsy-allocations")?;
        shared.set_len(SHARED_BYTES)?;
        let library = memory("biopsy-preload")?;
        let number = |file: &File| u32::try_from(file.as_raw_fd()).unwrap_or(u32::MAX);
        let bytes =
            biopsy_preload::library(number(&library), number(&shared)).ok_or(CannotCount::Processor)?;
        library.write_all_at(&bytes, 0)?;
        let one = Self { library: Arc::new(library), shared: Arc::new(shared) };
        one.beat();
        let mut value = OsString::from(format!("/proc/self/fd/{}", one.library.as_raw_fd()));
        if let Some(before) = std::env::var_os(VARIABLE).filter(|before| !before.is_empty()) {
            value.push(":");
            value.push(before);
        }
        command.env(VARIABLE, value);
        Ok(one)
    }

    /// The program's process is there: whatever else is started does not get the files.
    ///
    /// # Errors
    /// None that is known.
    pub fn started(&self) -> io::Result<()> {
        for file in [&self.library, &self.shared] {
            fcntl_setfd(file, FdFlags::CLOEXEC)?;
        }
        Ok(())
    }

    /// The library gives up if nobody is there any more.
    fn beat(&self) {
        let seconds = biopsy_sys::clock::monotonic_nanos() / 1_000_000_000;
        self.put(layout::WORD_BEAT, seconds);
    }

    fn put(&self, word: usize, value: u64) {
        // A program that has cut the file is not counted any more, which is seen when it is read.
        let _ = self.shared.write_all_at(&value.to_le_bytes(), (word * 8) as u64);
    }
}

fn memory(name: &str) -> io::Result<File> {
    let wanted = memfd_create(name, MemfdFlags::EXEC);
    // Before Linux 6.3 there is no such flag, and all can be executed.
    Ok(File::from(wanted.or_else(|_| memfd_create(name, MemfdFlags::empty()))?))
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

/// A script's interpreter is what is loaded: it is looked at in its place, once.
fn check(path: &Path) -> Result<(), CannotCount> {
    let (about, head) = head_of(path)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line).trim_ascii();
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(line);
        if word.ends_with(b"/env") {
            let why = "is a script that `env` executes another program for; start that one by its name: \
                       `-- python3 SCRIPT`";
            return Err(CannotCount::Program { path: path.to_owned(), why });
        }
        let interpreter = PathBuf::from(String::from_utf8_lossy(word).into_owned());
        let (about, head) = head_of(&interpreter)?;
        return check_binary(&interpreter, about, &head);
    }
    check_binary(path, about, &head)
}

/// Its mode, and its beginning.
fn head_of(path: &Path) -> Result<(u32, Vec<u8>), CannotCount> {
    let read = || -> io::Result<(u32, Vec<u8>)> {
        let file = biopsy_files::open(path, biopsy_files::Links::Follow)?.file;
        let mode = file.metadata()?.mode();
        let mut head = Vec::new();
        file.take(64 << 10).read_to_end(&mut head)?;
        Ok((mode, head))
    };
    read().map_err(|source| CannotCount::Read { path: path.to_owned(), source })
}

fn check_binary(path: &Path, mode: u32, head: &[u8]) -> Result<(), CannotCount> {
    match refusal(mode, head) {
        None => Ok(()),
        Some(why) => Err(CannotCount::Program { path: path.to_owned(), why }),
    }
}

/// Why the loader would not load the library into it.
fn refusal(mode: u32, head: &[u8]) -> Option<&'static str> {
    let number = |at: usize, length: usize| -> Option<usize> {
        let bytes = head.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    if mode & 0o6000 != 0 {
        return Some("runs with the rights of its owner (setuid): the loader loads nothing else into it");
    }
    // 64 bits, least byte first; machine 62.
    if !head.starts_with(b"\x7fELF\x02\x01") || number(18, 2) != Some(62) {
        return Some("is no program for x86-64 processors");
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let header = |index: usize| table.checked_add(index.checked_mul(size)?);
    let interpreter = (0..count).filter_map(header).find(|at| number(*at, 4) == Some(3));
    let Some(at) = interpreter else {
        return Some("is linked statically: there is no loader that would load anything into it");
    };
    let name = || {
        let (from, length) = (number(at.checked_add(8)?, 8)?, number(at.checked_add(32)?, 8)?);
        head.get(from..from.checked_add(length)?)
    };
    let is_musl = name().is_some_and(|name| name.windows(8).any(|bytes| bytes == b"/ld-musl"));
    is_musl.then_some("is for the C library musl, which the library that counts was not tried with")
}

/// A program's counts, as they are read while it runs.
#[derive(Debug)]
pub(in super::super) struct Counted {
    program: CountedProgram,
    pid: Pid,
    /// By the number of a place: its stack once it is known, and the calls that were told of it.
    known: Vec<Known>,
    is_told: bool,
    /// It has executed the program that was asked for.
    is_begun: bool,
    is_over: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Known {
    stack: Option<StackHandle>,
    calls: u64,
    released: u64,
}

impl Counted {
    pub(in super::super) fn new(program: CountedProgram, pid: Pid) -> Self {
        Self { program, pid, known: Vec::new(), is_told: false, is_begun: false, is_over: false }
    }

    pub(in super::super) fn is_of(&self, pid: u32) -> bool {
        self.pid.0 == pid && !self.is_over
    }

    /// What has changed since the last time.
    pub(in super::super) fn read(&mut self, frames: &mut Frames, sink: &mut Sink) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        self.program.beat();
        let time = MonoNanos(biopsy_sys::clock::monotonic_nanos());
        let mut head = vec![0; HEADER_BYTES];
        if self.program.shared.read_exact_at(&mut head, 0).is_err() {
            return self.give_up(sink, "the program has cut the file that they are counted in");
        }
        let header = Header::read(&head);
        if !header.is_there {
            return Ok(());
        }
        if let Some(why) = problem(header.problem) {
            self.tell(sink, why)?;
        }
        let mut all = AllocationCount {
            time,
            pid: self.pid,
            stack: None,
            calls: 0,
            bytes: 0,
            released: 0,
            released_bytes: 0,
            temporary: 0,
            peak: header.peak,
        };
        let mut bytes = vec![0; BATCH * SITE_SIZE];
        for first in (0..header.sites).step_by(BATCH) {
            let length = (header.sites - first).min(BATCH) * SITE_SIZE;
            let Some(part) = bytes.get_mut(..length) else { break };
            if self.program.shared.read_exact_at(part, biopsy_preload::site_at(first)).is_err() {
                return self.give_up(sink, "the program has cut the file that they are counted in");
            }
            for (number, line) in part.chunks_exact(SITE_SIZE).enumerate() {
                let Some(site) = Site::read(line) else { continue };
                let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
                add(&mut all.calls, site.calls);
                add(&mut all.bytes, site.bytes);
                add(&mut all.released, site.released);
                add(&mut all.released_bytes, site.released_bytes);
                add(&mut all.temporary, site.temporary);
                self.site(first + number, &site, time, frames, sink)?;
            }
        }
        if header.lost > 0 && !self.is_told {
            let message = format!(
                "{} allocations of native code were not counted: there are more stacks than fit, or addresses that are out of reach",
                header.lost
            );
            self.is_told = true;
            sink.warn("allocations.not-counted", message, None)?;
        }
        sink.push(&TimelineEvent::AllocationCount(all))
    }

    fn site(
        &mut self,
        number: usize,
        site: &Site,
        time: MonoNanos,
        frames: &mut Frames,
        sink: &mut Sink,
    ) -> io::Result<()> {
        if self.known.len() <= number {
            self.known.resize(number + 1, Known::default());
        }
        let Some(known) = self.known.get_mut(number) else { return Ok(()) };
        if (known.calls, known.released) == (site.calls, site.released) {
            return Ok(());
        }
        if known.stack.is_none() {
            let (at, count) = site.frames;
            let mut bytes = vec![0; count * 8];
            if self.program.shared.read_exact_at(&mut bytes, at).is_err() {
                return Ok(());
            }
            known.stack = frames.return_addresses(self.pid.0, &biopsy_preload::addresses(&bytes), sink)?;
        }
        // What nobody can name is in the sum.
        let Some(stack) = known.stack else { return Ok(()) };
        (known.calls, known.released) = (site.calls, site.released);
        sink.push(&TimelineEvent::AllocationCount(AllocationCount {
            time,
            pid: self.pid,
            stack: Some(stack),
            calls: site.calls,
            bytes: site.bytes,
            released: site.released,
            released_bytes: site.released_bytes,
            temporary: site.temporary,
            peak: site.peak,
        }))
    }

    /// The program goes on without being counted.
    pub(in super::super) fn stop(&mut self) {
        self.program.put(layout::WORD_STOP, 1);
        self.is_over = true;
    }

    /// It executes a program. `true`: another one than it was started for. Events are read late: by the first, it may have counted much already.
    pub(in super::super) fn executes_another(&mut self) -> bool {
        std::mem::replace(&mut self.is_begun, true)
    }

    /// The process has ended, or executed another program, which the library is not in.
    pub(in super::super) fn end(&mut self, is_exec: bool, sink: &mut Sink) -> io::Result<()> {
        self.is_over = true;
        if is_exec {
            return self.tell(sink, "it executed another program, and what that allocates is not counted");
        }
        if self.is_loaded() {
            return Ok(());
        }
        self.tell(
            sink,
            "the loader did not load the library that counts them, or nothing was allocated that it could see",
        )
    }

    fn is_loaded(&self) -> bool {
        let mut head = vec![0; HEADER_BYTES];
        self.program.shared.read_exact_at(&mut head, 0).is_ok() && Header::read(&head).is_there
    }

    fn give_up(&mut self, sink: &mut Sink, why: &str) -> io::Result<()> {
        self.is_over = true;
        self.tell(sink, why)
    }

    fn tell(&mut self, sink: &mut Sink, why: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.is_told, true) {
            return Ok(());
        }
        sink.warn(
            "allocations.not-counted",
            format!("allocations of native code are not all counted: {why}"),
            None,
        )
    }
}

fn problem(number: u64) -> Option<&'static str> {
    match number {
        0 => None,
        layout::PROBLEM_NO_FUNCTIONS => Some("no allocator is behind the library that counts them"),
        layout::PROBLEM_NO_MEMORY => Some("the program may not have the address space that counting needs"),
        layout::PROBLEM_OLD_KERNEL => Some("the kernel is older than Linux 4.14"),
        layout::PROBLEM_GIVEN_UP => Some("biopsy was silent for a minute, and the program went on without"),
        _ => Some("for a reason that is not known"),
    }
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
            let found = refusal(mode, &bytes);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?} {expected:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        }
    }
}
