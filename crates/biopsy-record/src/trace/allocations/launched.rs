//! `--allocations=full`: a program that biopsy starts counts its allocations by itself, with a library of ours ahead of the C library.
//!
//! Its numbers are in a file in memory that both have. It is read, never mapped: the program may fill it as it likes, and nothing but a
//! seal keeps it from being cut. The file has no name anywhere, so that it is gone with the last of both.

mod children;
mod refusals;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{AllocationCount, TimelineEvent};
use biopsy_model::{MonoNanos, Pid};
use biopsy_preload::{HEADER_BYTES, Header, SHARED_BYTES, Site, layout};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::super::frames::Frames;
use super::super::perf_records::PerfRecord;
use super::super::sink::Sink;
use children::Children;
pub use refusals::CannotCount;

/// Places are written down so often at least, in nanoseconds: a recording that is cut off has them up to then, and one of a program with very
/// many does not grow by all of them each second.
const EVERY: u64 = 10_000_000_000;
/// So often at most. In between it is when the time doubles: however long the recording becomes, there is a moment near its middle.
const FIRST: u64 = 1_000_000_000;
const VARIABLE: &str = "LD_PRELOAD";

/// The files that a program and biopsy share: the library, and what it counts.
#[derive(Clone, Debug)]
pub struct CountedProgram {
    library: Arc<File>,
    shared: Arc<File>,
    /// It allocates with `new` of C++, which some allocators serve by themselves.
    has_new: bool,
}

impl CountedProgram {
    /// Looks whether the program can be counted, and has the command load the library. Children of biopsy inherit both files until
    /// [`CountedProgram::started`].
    ///
    /// # Errors
    /// When the library could not do its work in this program.
    pub fn prepare(command: &mut Command) -> Result<Self, CannotCount> {
        let has_new = refusals::check(Path::new(command.get_program()))?;
        let shared = memory("biopsy-allocations")?;
        shared.set_len(SHARED_BYTES)?;
        // Cut by whoever finds it, it would end the program; the seals are not there in old kernels, which changes nothing else.
        let _ = fcntl_add_seals(&shared, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
        let library = memory("biopsy-preload")?;
        let number = |file: &File| u32::try_from(file.as_raw_fd()).unwrap_or(u32::MAX);
        let bytes =
            biopsy_preload::library(number(&library), number(&shared)).ok_or(CannotCount::Processor)?;
        library.write_all_at(&bytes, 0)?;
        let one = Self { library: Arc::new(library), shared: Arc::new(shared), has_new };
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
    // Nothing is executed from it; it is mapped. Before Linux 6.3 there is no such flag, and from then on some systems ask for it.
    let wanted = memfd_create(name, MemfdFlags::NOEXEC_SEAL | MemfdFlags::ALLOW_SEALING);
    Ok(File::from(wanted.or_else(|_| memfd_create(name, MemfdFlags::ALLOW_SEALING))?))
}

/// A program's counts, as they are read while it runs.
#[derive(Debug)]
pub(in super::super) struct Counted {
    program: CountedProgram,
    pid: Pid,
    /// By the number of a place: its stack once it is known, and the calls that were told of it.
    known: Vec<Known>,
    is_told: bool,
    children: Children,
    /// When places were told first.
    first: Option<u64>,
    /// From when on they are told again.
    next: u64,
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
        Self {
            program,
            pid,
            known: Vec::new(),
            is_told: false,
            children: Children::default(),
            first: None,
            next: 0,
            is_begun: false,
            is_over: false,
        }
    }

    /// Whatever else it starts.
    pub(in super::super) fn see(&mut self, record: &PerfRecord) {
        self.children.see(record, self.pid.0);
    }

    pub(in super::super) fn is_of(&self, pid: u32) -> bool {
        self.pid.0 == pid && !self.is_over
    }

    /// What has changed since the last time: the sum always, places now and then, and at the end (`all`).
    pub(in super::super) fn read(
        &mut self,
        all_places: bool,
        frames: &mut Frames,
        sink: &mut Sink,
    ) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        self.program.beat();
        let now = biopsy_sys::clock::monotonic_nanos();
        let time = MonoNanos(now);
        let tells_places = all_places || now >= self.next;
        if tells_places {
            let first = *self.first.get_or_insert(now);
            self.next = now + (now - first).clamp(FIRST, EVERY);
        }
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
        if header.own_new && std::mem::take(&mut self.program.has_new) {
            let text = "what C++ allocates with `new` is not counted: the allocator of the program serves it by itself, and not by `malloc`";
            sink.warn("allocations.new-not-counted", text.to_owned(), None)?;
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
        let file = Arc::clone(&self.program.shared);
        let read = |at, to: &mut [u8]| file.read_exact_at(to, at).is_ok();
        let is_whole = biopsy_preload::read_sites(&header, read, |number, site| {
            let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
            add(&mut all.calls, site.calls);
            add(&mut all.bytes, site.bytes);
            add(&mut all.released, site.released);
            add(&mut all.released_bytes, site.released_bytes);
            add(&mut all.temporary, site.temporary);
            self.site(number, site, tells_places.then_some(time), frames, sink)
        })?;
        if !is_whole {
            return self.give_up(sink, "the program has cut the file that they are counted in");
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
        time: Option<MonoNanos>,
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
        // What nobody can name is in the sum. Its modules may go: a stack is named as soon as it is there.
        let (Some(stack), Some(time)) = (known.stack, time) else { return Ok(()) };
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

    /// At the end: what was not counted because others did it, or because it did not come by.
    pub(in super::super) fn tell_what_is_missing(&mut self, sink: &mut Sink) -> io::Result<()> {
        if self.header().is_some_and(|header| header.is_there && header.sites == 0) {
            self.tell(
                sink,
                "none came by the library that counts them: the program made none, or has an allocator of its own",
            )?;
        }
        match self.children.said() {
            None => Ok(()),
            Some((text, hint)) => sink.warn("allocations.children-not-counted", text, hint),
        }
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
        if self.header().is_some_and(|header| header.is_there) {
            return Ok(());
        }
        self.tell(
            sink,
            "the loader did not load the library that counts them, or nothing was allocated that it could see",
        )
    }

    fn header(&self) -> Option<Header> {
        let mut head = vec![0; HEADER_BYTES];
        self.program.shared.read_exact_at(&mut head, 0).is_ok().then(|| Header::read(&head))
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
        layout::PROBLEM_BOUNDED => Some("its address space has a limit, of which counting would take a part"),
        layout::PROBLEM_GIVEN_UP => Some("biopsy was silent for a minute, and the program went on without"),
        _ => Some("for a reason that is not known"),
    }
}
