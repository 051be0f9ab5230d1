//! Loading the programs, and talking to them while they run.

use std::collections::HashSet;
use std::io;

use biopsy_runtimes::python::FrameWalk;
use biopsy_sys::bpf::btf::Btf;
use biopsy_sys::bpf::{Link, LoadError, Program, ProgramKind, RingBuf};
use biopsy_sys::clock::monotonic_nanos;
use biopsy_sys::limits::LockedMemoryRoom;
use biopsy_target::ProcRoot;
use biopsy_target::preflight::namespace::is_own_pid_namespace;

use super::allocations::{AllocationError, AllocationPrograms};
use super::error::KernelError;
use super::gone::Gone;
use super::in_turns::InTurns;
use super::layout::{KernelRecord, ThreadTimes, config, hint, thread, thread_state};
use super::maps::{FOLLOW_CHILDREN, MAYBE_SLOTS, Maps, limits_maps, word_of};
use super::slots::Slots;
use super::switches::TaskLayout;
use super::tracing::{Tracing, load_tracing};
use super::user_registers::UserRegisters;
use super::{languages, samples};

/// Counters of the kernel part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct KernelStats {
    /// Samples that did not fit the ring buffer.
    pub(crate) lost_samples: u64,
    /// Waits that did not fit the ring buffer.
    pub(crate) lost_waits: u64,
    /// Threads that did not fit the table.
    pub(crate) threads_not_counted: u64,
    /// Sampled allocations, or their releases, that did not fit.
    pub(crate) lost_allocations: u64,
}

/// The running programs. Everything ends when this is dropped.
#[derive(Debug)]
pub(crate) struct KernelSession {
    pub(super) maps: Maps,
    cpus: u32,
    ring: RingBuf,
    samples: Program,
    pub(super) programs: Tracing,
    pub(super) task: TaskLayout,
    forks: Option<Link>,
    /// While switches are watched.
    pub(super) switches: Vec<Link>,
    /// While that is in turns.
    pub(super) turns: Option<InTurns>,
    /// Wake-ups from interrupts can be told from those by threads.
    pub(crate) tells_interrupts: bool,
    /// The sampling program reads the frames of interpreters.
    reads_languages: bool,
    pub(super) keys: Vec<u8>,
    pub(super) values: Vec<u8>,
    in_slots: HashSet<u32>,
    gone: Gone,
}

impl KernelSession {
    /// Loads and attaches everything but the sampling program, which belongs to the caller's perf events.
    ///
    /// `threads`: how many threads there are now; the table has room for several times as many. `ring_bytes`: of the buffer of records, a power of two. `wakeups`: also who woke whom.
    pub(crate) fn start(
        cpus: u32,
        threads: u32,
        ring_bytes: u32,
        wakeups: bool,
    ) -> Result<Self, KernelError> {
        Self::start_as(cpus, threads, ring_bytes, wakeups, |_| true)
    }

    /// The same, of the ways to load programs only those that `may`.
    fn start_as(
        cpus: u32,
        threads: u32,
        ring_bytes: u32,
        wakeups: bool,
        may: impl Fn(&TaskLayout) -> bool,
    ) -> Result<Self, KernelError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(KernelError::Architecture);
        }
        if !in_initial_pid_namespace() {
            return Err(KernelError::PidNamespace);
        }
        let btf = Btf::of_kernel().map_err(KernelError::NoTypes)?;
        let mut task = task_layout(&btf)?;
        // Kernels before 5.11 charge maps and programs to RLIMIT_MEMLOCK when they are made. The processes that we start do not inherit it.
        let room = LockedMemoryRoom::raise().ok();
        let limit = room.as_ref().and_then(LockedMemoryRoom::bytes);

        let maps = Maps::create(cpus, threads, ring_bytes).map_err(|source| match limit {
            Some(limit) if limits_maps(&source) => KernelError::LockedMemory { limit, source },
            _ => KernelError::Map(source),
        })?;
        let ring = RingBuf::map(&maps.events).map_err(KernelError::Map)?;
        let (samples, user_registers, reads_languages) = load_samples(&maps, &btf)?;
        task.user_registers = user_registers;
        let (programs, task) = load_tracing(&maps, &btf, task, wakeups, may)?;
        let forks = Some(programs.attach_forks(task)?);
        let switches = programs.attach_switches(task)?;
        let tells_interrupts = programs.tells_interrupts;
        let (keys, values, in_slots) = (Vec::new(), Vec::new(), HashSet::new());
        Ok(Self {
            maps,
            cpus,
            ring,
            samples,
            programs,
            task,
            forks,
            switches,
            turns: None,
            tells_interrupts,
            reads_languages,
            keys,
            values,
            in_slots,
            gone: Gone::default(),
        })
    }

    /// No more records; what is in the ring buffer, and the threads' times, can still be read.
    pub(crate) fn stop(&mut self) {
        self.forks = None;
        self.switches.clear();
    }

    /// The program for the sampling events.
    pub(crate) fn sampling_program(&self) -> &Program {
        &self.samples
    }

    /// Loads the programs for functions that hand out memory.
    pub(crate) fn allocation_programs(&self) -> Result<AllocationPrograms, AllocationError> {
        let _room = LockedMemoryRoom::raise().ok();
        AllocationPrograms::load(&self.maps, self.cpus)
    }

    /// Records this process (and, if asked, its children from now on).
    pub(crate) fn add_target(&self, pid: u32, follow_children: bool) -> io::Result<()> {
        let flags = if follow_children { FOLLOW_CHILDREN } else { 0 };
        let slot = pid & (MAYBE_SLOTS - 1).cast_unsigned();
        self.maps.maybe.set_bits((slot & !7) as usize, 1 << (8 * (slot & 7)));
        self.maps.targets.update(&pid.to_ne_bytes(), &flags.to_ne_bytes(), false)
    }

    /// Says that a thread is known to be asleep since before the recording: unless it has run already, it counts as
    /// waiting from `times.since` on, and gone since `times.out_time`, with the registers that are known.
    pub(crate) fn add_sleeping_thread(&self, tid: u32, times: &ThreadTimes) -> io::Result<()> {
        let mut value = vec![0_u8; ThreadTimes::BYTES];
        let mut put = |field: i16, word: u64| {
            let at = usize::try_from(field).expect("offsets are positive");
            value[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        };
        put(thread::SINCE, times.since);
        put(thread::STATE, thread_state::WAITING);
        put(thread::OUT_TIME, times.out_time);
        put(thread::OUT_STATE, (times.out_state & 0xffff_ffff) | times.syscall << 32);
        put(thread::IP, times.ip);
        put(thread::SP, times.sp);
        put(thread::TGID, times.tgid.into());
        if self.slots().has(tid) {
            return Ok(());
        }
        match self.maps.threads.update(&tid.to_ne_bytes(), &value, true) {
            // EEXIST: it has run since, and the kernel part knows better.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits at least this long become records.
    pub(crate) fn set_wait_threshold(&self, nanos: u64) {
        self.maps.config.store(word_of(config::WAIT_THRESHOLD), nanos);
    }

    /// Tells the sampling program where a thread's stack ends, or that frame pointers suffice for it.
    pub(crate) fn set_hint(&self, tid: u32, stack_base: u64, frame_pointers: bool) -> io::Result<()> {
        let mut value = [0; hint::SIZE as usize];
        value[..8].copy_from_slice(&stack_base.to_ne_bytes());
        value[8..].copy_from_slice(&u64::from(frame_pointers).to_ne_bytes());
        self.maps.hints.update(&tid.to_ne_bytes(), &value, false)
    }

    /// Tells the sampling program where a process's interpreter has the frames of its language.
    pub(crate) fn set_language(&self, pid: u32, walk: &FrameWalk) -> io::Result<()> {
        if !self.reads_languages {
            return Err(io::Error::other("this kernel did not take the program that reads them"));
        }
        self.maps.languages.update(&pid.to_ne_bytes(), &languages::place(walk), false)
    }

    /// A process has no interpreter any more.
    pub(crate) fn forget_language(&self, pid: u32) -> io::Result<()> {
        self.maps.languages.delete(&pid.to_ne_bytes())
    }

    /// Forgets a thread that has ended.
    pub(crate) fn forget(&mut self, tid: u32) -> io::Result<()> {
        self.gone.add(tid, monotonic_nanos());
        self.slots().take_back(tid);
        self.maps.hints.delete(&tid.to_ne_bytes())?;
        self.maps.threads.delete(&tid.to_ne_bytes())
    }

    /// Hands the records that are there to `sink`, at most `most`.
    pub(crate) fn read(&mut self, most: usize, mut sink: impl FnMut(KernelRecord<'_>)) -> usize {
        self.ring.read(most, |bytes| {
            if let Some(record) = KernelRecord::parse(bytes) {
                sink(record);
            }
        })
    }

    /// How full the ring buffer is, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        let (used, size) = self.ring.fill();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = used as f64 / size as f64;
        share
    }

    pub(super) fn slots(&self) -> Slots<'_> {
        Slots::new(&self.maps)
    }

    /// One thread's times now.
    pub(crate) fn thread(&self, tid: u32) -> Option<ThreadTimes> {
        if let Some(turns) = &self.turns {
            return turns.thread(tid);
        }
        let mut value = [0; ThreadTimes::BYTES];
        let in_slot = |value: &mut [u8]| self.slots().read(tid, value);
        // It may move to its slot between the two.
        let found = in_slot(&mut value)
            || self.maps.threads.lookup(&tid.to_ne_bytes(), &mut value).ok()?
            || in_slot(&mut value);
        found.then(|| ThreadTimes::parse(&value)).flatten()
    }

    /// All threads' times. Those without a slot are given one that is free.
    pub(crate) fn threads(&mut self, mut sink: impl FnMut(u32, ThreadTimes)) -> io::Result<()> {
        if let Some(turns) = &mut self.turns {
            return turns.threads(sink);
        }
        let count = self.maps.threads.read_all(&mut self.keys, &mut self.values)?;
        // An entry that moves meanwhile is seen in both places, and the slot is right.
        let slots = Slots::new(&self.maps);
        self.gone.prune(monotonic_nanos());
        let mut left = Vec::new();
        slots.read_all(&mut self.in_slots, |tid, times| match self.gone.has_left(tid, &times) {
            true => left.push(tid),
            false => sink(tid, times),
        });
        let keys = self.keys.chunks_exact(4);
        let values = self.values.chunks_exact(ThreadTimes::BYTES);
        for (key, value) in keys.zip(values).take(count) {
            let tid = u32::from_ne_bytes(key.try_into().expect("chunks of 4"));
            if self.in_slots.contains(&tid) {
                continue;
            }
            let times = ThreadTimes::parse(value);
            if times.is_some_and(|times| self.gone.has_left(tid, &times)) {
                left.push(tid);
                continue;
            }
            slots.give(tid);
            if let Some(times) = times {
                sink(tid, times);
            }
        }
        for tid in left {
            slots.take_back(tid);
            self.maps.threads.delete(&tid.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Counters since the start.
    pub(crate) fn stats(&self) -> KernelStats {
        let counter = |index: i32| self.maps.config.load(word_of(index));
        KernelStats {
            lost_samples: counter(config::LOST_SAMPLES),
            lost_waits: counter(config::LOST_WAITS),
            threads_not_counted: counter(config::THREADS_FULL),
            lost_allocations: counter(config::LOST_ALLOCATIONS),
        }
    }
}

/// The program for samples, where it and the others find the registers of user mode, and whether it reads frames of languages.
/// Linux 5.15 tells the registers, before that they are taken from where they lie. Tried, for versions say little about the kernels of
/// some distributions; without languages, too, for no kernel that takes the rest should lose it for them.
fn load_samples(maps: &Maps, btf: &Btf) -> Result<(Program, UserRegisters, bool), KernelError> {
    let load = |registers, thread_pointer: Option<i32>| {
        let program = samples::program(maps, registers, thread_pointer);
        let loaded = Program::load(ProgramKind::PerfEvent, "biopsy_sample", &program)?;
        Ok::<_, LoadError>((loaded, registers, thread_pointer.is_some()))
    };
    let stack = btf.member_offset("task_struct", "stack").and_then(|stack| i32::try_from(stack).ok());
    let places = [Some(UserRegisters::Told), stack.map(|stack| UserRegisters::OnStack { stack })];
    let languages = thread_pointer(btf);
    let mut first = None;
    for registers in places.into_iter().flatten() {
        for thread_pointer in languages.map(Some).into_iter().chain([None]) {
            match load(registers, thread_pointer) {
                Ok(loaded) => return Ok(loaded),
                Err(refused) => {
                    ::tracing::debug!(%refused, ?registers, ?thread_pointer, "the sampling program was refused");
                    first = first.or(Some(refused));
                }
            }
        }
    }
    Err(first.map_or(KernelError::MissingType("stack"), KernelError::from))
}

/// Offset of the user's thread pointer in `task_struct`. Without it there are no frames of interpreted languages.
fn thread_pointer(btf: &Btf) -> Option<i32> {
    let thread = btf.member_offset("task_struct", "thread")?;
    i32::try_from(thread.checked_add(btf.member_offset("thread_struct", "fsbase")?)?).ok()
}

fn task_layout(btf: &Btf) -> Result<TaskLayout, KernelError> {
    let member = |name| {
        let offset = btf.member_offset("task_struct", name).ok_or(KernelError::MissingType(name))?;
        i16::try_from(offset).map_err(|_| KernelError::MissingType(name))
    };
    Ok(TaskLayout {
        typed: false,
        pid: member("pid")?,
        tgid: member("tgid")?,
        state: member("__state").or_else(|_| member("state"))?,
        user_registers: UserRegisters::Told,
        state_argument: btf.raw_tracepoint_arguments("sched_switch").is_some_and(|count| count >= 4),
    })
}

/// The kernel part sees the ids of the initial pid namespace.
fn in_initial_pid_namespace() -> bool {
    is_own_pid_namespace(&ProcRoot::live()) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::timeline::WaitState;

    fn own_tid() -> u32 {
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        own.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// How often a thread has left its CPU by itself; which one, as a path below /proc says.
    fn voluntary(thread: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn counts_states_and_records_waits_and_samples() {
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Bpf) {
            return;
        }
        let cpus = biopsy_sys::limits::online_cpus().unwrap();
        let mut session =
            KernelSession::start(u32::try_from(cpus.len()).unwrap(), 10, 8 << 20, true).unwrap();
        session.set_wait_threshold(1_000_000);
        session.add_target(std::process::id(), true).unwrap();
        let events: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                let config = crate::trace::events::sampling(biopsy_sys::perf::Source::CpuClock, 999);
                let event =
                    biopsy_sys::perf::Event::open(&config, biopsy_sys::perf::Scope::Cpu(cpu)).unwrap();
                event.set_bpf(session.sampling_program()).unwrap();
                event.enable().unwrap();
                event
            })
            .collect();
        // Waits of 20 ms, and some work.
        const WAITS: u64 = 20;
        let worker = std::thread::spawn(|| {
            let (tid, left) = (own_tid(), voluntary("thread-self"));
            let mut sum = 0_u64;
            for round in 0..WAITS {
                std::thread::sleep(std::time::Duration::from_millis(20));
                for i in 0..2_000_000_u64 {
                    sum = sum.wrapping_mul(31).wrapping_add(i ^ round);
                }
            }
            (tid, voluntary("thread-self") - left, std::hint::black_box(sum))
        });
        let (mut samples, mut with_stack) = (0, 0);
        let mut found = Vec::new();
        let mut take = |record: KernelRecord<'_>| match record {
            KernelRecord::Sample { tgid, stack, .. } => {
                assert_eq!(tgid, std::process::id());
                samples += 1;
                with_stack += usize::from(!stack.is_empty());
            }
            KernelRecord::Language { .. } => panic!("nobody was said to run an interpreter"),
            KernelRecord::Allocation { .. } | KernelRecord::Release { .. } => panic!("nobody asked for them"),
            KernelRecord::Wait { start, end, syscall, wakened, state, tid, .. } => {
                assert!(end - start >= 1_000_000);
                // On a busy machine the thread may also be preempted inside the call; nobody wakes it then.
                if syscall == Some(230) {
                    found.push((tid, state == WaitState::Preempted, wakened.is_some()));
                }
            }
        };
        // All the time: on an emulated machine the work takes a minute, and as many samples as that has do not fit the buffer.
        while !worker.is_finished() {
            session.read(usize::MAX, &mut take);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let (tid, left, _) = worker.join().unwrap();
        session.read(usize::MAX, take);
        found.retain(|(of, ..)| *of == tid);
        let waits = found.len() as u64;
        let preempted = found.iter().filter(|(_, preempted, _)| *preempted).count() as u64;
        let woken = found.iter().filter(|(_, preempted, woken)| !preempted && *woken).count() as u64;
        // Where the thread does not run between the moment in which it sets its alarm and that of the alarm, it does not leave the CPU, or
        // not for a millisecond.
        assert!(
            left > 0 && waits * 4 >= left * 3,
            "{waits} waits in clock_nanosleep, it has left {left} times"
        );
        // A wake-up between the moment in which a thread announces its sleep and that in which it leaves the CPU is not seen.
        assert!(
            woken > 0 && woken * 4 >= (waits - preempted) * 3,
            "{woken} of {waits} woken by somebody, {preempted} preempted"
        );
        // A thread that has just given back its memory, at its end, has none.
        assert!(
            samples > 5 && samples - with_stack <= 1 + samples / 100,
            "{with_stack} of {samples} samples have a stack"
        );
        let mut slept = 0;
        session.threads(|_, times| slept += times.waiting).unwrap();
        assert!(slept >= 100_000_000, "{slept} ns of waiting");
        assert_eq!(session.stats(), KernelStats::default());
        drop(events);
        // After the end nothing follows, however much is waited.
        session.stop();
        session.read(usize::MAX, |_| {});
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(session.read(usize::MAX, |_| {}), 0);
    }

    /// Whatever the kernel takes, and whether the entry of a thread lies in the table or in a slot: counts, registers and waits are the same.
    #[test]
    fn each_way_of_loading_counts_the_same() {
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Bpf) {
            return;
        }
        const WAITS: u64 = 20;
        let mut ways = 0;
        for (typed, loaded) in [(true, true), (true, false), (false, false)] {
            let may = |task: &TaskLayout| task.typed == typed && task.loads_current() == loaded;
            let way = format!("typed {typed}, loaded {loaded}");
            let mut session = match KernelSession::start_as(2, 10, 8 << 20, true, may) {
                Ok(session) => session,
                Err(error) => {
                    // Linux 6.2; all else is as old as the ring buffer.
                    assert!(loaded, "{way}: {error}");
                    continue;
                }
            };
            ways += 1;
            session.set_wait_threshold(1_000_000);
            session.add_target(std::process::id(), false).unwrap();
            let (sender, receiver) = std::sync::mpsc::channel();
            let worker = std::thread::spawn(move || {
                sender.send(u64::from(own_tid())).unwrap();
                let left = voluntary("thread-self");
                for _ in 0..WAITS {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                sender.send(voluntary("thread-self") - left).unwrap();
                std::thread::sleep(std::time::Duration::from_secs(2));
            });
            let tid = u32::try_from(receiver.recv().unwrap()).unwrap();
            let counted = || voluntary(&format!("self/task/{tid}"));
            // Looks meanwhile give it its slot.
            let look = |session: &mut KernelSession| {
                session.threads(|_, _| {}).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
            };
            let left = loop {
                match receiver.try_recv() {
                    Ok(left) => break left,
                    Err(_) => look(&mut session),
                }
            };
            // Into its last sleep.
            let sleeps = |times: ThreadTimes| {
                times.state == thread_state::WAITING && times.syscall_number() == Some(230)
            };
            while !session.thread(tid).is_some_and(sleeps) {
                look(&mut session);
            }
            let mut seen = Vec::new();
            session.threads(|thread, times| seen.extend((thread == tid).then_some(times))).unwrap();
            let [times] = seen[..] else { panic!("{way}: {} entries", seen.len()) };
            assert!(session.slots().has(tid), "{way}: it has not moved to its slot");
            assert_eq!(session.thread(tid), Some(times), "{way}");
            assert_eq!(times.state, thread_state::WAITING, "{way}");
            assert_eq!(times.voluntary, counted(), "{way}");
            assert_eq!(times.syscall_number(), Some(230), "{way}: {times:?}");
            assert!(times.ip != 0 && times.sp != 0 && times.tgid == std::process::id(), "{way}: {times:?}");
            assert!(times.waiting + times.ready >= left * 1_000_000, "{way}: {times:?}");
            let mut waits = 0;
            session.read(usize::MAX, |record| {
                if let KernelRecord::Wait { tid: of, syscall: Some(230), .. } = record {
                    waits += u64::from(of == tid);
                }
            });
            // One that comes too late to its own alarm does not leave the CPU, or not for long.
            assert!(left > 0 && waits * 4 >= left * 3, "{way}: {waits} waits, it has left {left} times");
            worker.join().unwrap();
            // It is joined before it leaves its CPU for the last time, and what that leaves is taken away by the looks behind it.
            session.forget(tid).unwrap();
            let is_known =
                |session: &KernelSession| session.thread(tid).is_some() || session.slots().has(tid);
            for _ in 0..1_000 {
                if !is_known(&session) {
                    break;
                }
                look(&mut session);
            }
            assert!(!is_known(&session), "{way}");
        }
        assert!(ways > 0, "no way was taken");
    }

    #[test]
    fn what_a_thread_leaves_behind_its_end_is_taken_away() {
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Bpf) {
            return;
        }
        let mut session = KernelSession::start(2, 10, 8 << 20, false).unwrap();
        let enter = |session: &KernelSession, tid: u32, out_state: u64| {
            let times = ThreadTimes { since: 1, out_time: 1, out_state, ..ThreadTimes::default() };
            session.add_sleeping_thread(tid, &times).unwrap();
        };
        // Above all numbers of threads (PID_MAX_LIMIT), so that nobody has them.
        let [ended, unknown, asleep] = [1 << 23, 1 << 24, 1 << 25];
        session.forget(ended).unwrap();
        session.forget(asleep).unwrap();
        enter(&session, ended, 0x80);
        enter(&session, unknown, 0x80);
        enter(&session, asleep, 1);
        let mut seen = Vec::new();
        session.threads(|tid, _| seen.push(tid)).unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [unknown, asleep]);
        assert!(session.thread(ended).is_none() && session.thread(unknown).is_some());
    }
}
