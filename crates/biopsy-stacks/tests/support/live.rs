//! A blocked process looked at from outside, without stopping it: `/proc/PID/task/TID/syscall` gives a blocked
//! thread's stack pointer and instruction pointer, `/proc/PID/mem` its stack.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_model::{Avma, FileOffset};
use biopsy_stacks::elf::{ElfCache, ElfFile, Limits};
use biopsy_stacks::symbols::{ModuleSource, Symbolizer};
use biopsy_stacks::unwind::{ExecutableMapping, ProcessUnwinder, UserRegisters};

/// `pause(2)` on x86-64.
const SYS_PAUSE: &str = "34";

/// A child that is killed when the test ends, however it ends.
pub(crate) struct Target {
    child: Child,
    pub(crate) threads: Vec<(String, u32)>,
}

impl Target {
    /// Starts the program and reads `count` lines of "NAME TID"; each of those threads is then in `pause`.
    pub(crate) fn start(program: &Path, count: usize) -> Self {
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("program starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let threads = lines
            .take(count)
            .map(|line| {
                let line = line.expect("program writes text");
                let (name, tid) = line.split_once(' ').expect("NAME TID");
                (name.to_owned(), tid.parse().expect("a number"))
            })
            .collect();
        let target = Self { child, threads };
        for (_, tid) in &target.threads {
            target.wait_for_pause(*tid);
        }
        target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn syscall(&self, tid: u32) -> String {
        fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", self.pid())).expect("own child may be read")
    }

    fn wait_for_pause(&self, tid: u32) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.syscall(tid).split(' ').next() != Some(SYS_PAUSE) {
            assert!(Instant::now() < deadline, "thread {tid} does not reach pause: {}", self.syscall(tid));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stack pointer and instruction pointer of a blocked thread, and its stack from there to the end of the
    /// mapping. `rbp` is not shown by the kernel; none of these programs needs it in the innermost frame.
    pub(crate) fn state(&self, tid: u32) -> (UserRegisters, Vec<u8>) {
        let line = self.syscall(tid);
        let mut last = line.split_whitespace().rev();
        let mut hex = || u64::from_str_radix(last.next().unwrap().trim_start_matches("0x"), 16).unwrap();
        let (ip, sp) = (hex(), hex());
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let end = maps.lines().filter_map(range).find(|(start, end)| (*start..*end).contains(&sp)).unwrap().1;
        let mut stack = vec![0; usize::try_from(end - sp).unwrap()];
        let memory = File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        memory.read_exact_at(&mut stack, sp).unwrap();
        (UserRegisters::new(ip, sp, 0), stack)
    }

    /// An unwinder that knows all executable mappings, and the sources of their symbols by tag.
    pub(crate) fn unwinder(&self, cache: &ElfCache) -> (ProcessUnwinder, HashMap<u32, ModuleSource>) {
        let mut unwinder = ProcessUnwinder::new();
        let mut sources = HashMap::new();
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        for (tag, line) in maps.lines().enumerate() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let Some((start, end)) = range(line) else { continue };
            if fields[1].as_bytes()[2] != b'x' {
                continue;
            }
            let mapping = ExecutableMapping {
                start: Avma(start),
                end: Avma(end),
                file_offset: FileOffset(u64::from_str_radix(fields[2], 16).unwrap()),
                tag: u32::try_from(tag).unwrap(),
            };
            let file = match fields.get(5) {
                Some(&"[vdso]") => {
                    let mut image = vec![0; usize::try_from(end - start).unwrap()];
                    let memory = File::open(format!("/proc/{}/mem", self.pid())).unwrap();
                    memory.read_exact_at(&mut image, start).unwrap();
                    sources.insert(mapping.tag, ModuleSource::vdso(image.clone()));
                    ElfFile::from_bytes("[vdso]", image, &Limits::default()).ok().map(Into::into)
                }
                Some(path) if path.starts_with('/') => {
                    sources.insert(mapping.tag, ModuleSource::elf(path));
                    cache.open(path, &[PathBuf::from(path)]).ok()
                }
                _ => None,
            };
            unwinder.add_module(&mapping, file);
        }
        (unwinder, sources)
    }
}

/// Names of the real functions of frames.
pub(crate) fn names(
    frames: &[Avma],
    unwinder: &ProcessUnwinder,
    sources: &HashMap<u32, ModuleSource>,
    symbolizer: &mut Symbolizer,
) -> Vec<String> {
    let name = |frame: &Avma| {
        let module = unwinder.find(*frame)?;
        let resolved = symbolizer.elf(sources.get(&module.tag())?, &[module.svma(*frame)?]).pop()??;
        Some(resolved.functions.last()?.name.clone())
    };
    frames.iter().map(name).map(|name| name.unwrap_or_else(|| String::from("?"))).collect()
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
