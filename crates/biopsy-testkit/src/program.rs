//! The patients: programs with one known sickness each.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{compile_c, compile_rust};

/// A program of `programs/`, with the name of the function a right diagnosis says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Program {
    /// One CPU burnt in `compute_checksum_bit_by_bit`, called by `verify_package` (3 of 4 parts) and `verify_manifest`.
    HotFunction,
    /// The same, compiled with -O2 and without frame pointers.
    NoFramePointers,
    /// The same without `.symtab` and debug information: only offsets can be said.
    Stripped,
    /// The same in Rust: `PackageVerifier::compute_checksum_bit_by_bit`. Needs [`crate::Privilege::Rustc`].
    RustHotFunction,
    /// Threads `log-writer-N` (argument: how many, 8) queue for one mutex in `append_under_lock`.
    LockConvoy,
    /// Waits for the disk in `flush_journal`. Argument: the folder to write to.
    DiskBound,
    /// Waits 200 ms for each answer in `fetch_from_peer`; the peer is a child process.
    SlowPeer,
    /// 20 threads more a second by `spawn_watchdog`, up to 400 (argument).
    RunawayThreads,
    /// 10 MB more a second by `remember_forever`, up to 500 MB (argument).
    MemoryGrowth,
    /// Burns CPU in `count_some` (argument: threads, 1); see [`crate::CpuLimit`] for the throttled one.
    BusyLoop,
    /// Healthy, one thread, waits in `read`.
    Idle,
    /// 5,000 sleeping threads (argument).
    ManyThreads,
    /// Burns CPU in `burn_at_the_bottom` under 2,000 frames (argument) of `descend`.
    DeepStack,
    /// Ends by itself after 2,000 ms (argument).
    ExitsMidway,
    /// Executes itself anew after 2,000 ms (argument): `work_before_exec`, then `SECOND-LIFE pid` on stdout and
    /// `work_after_exec`.
    ExecsMidway,
    /// A child every 100 ms (argument) that burns CPU in `child_work`; its name is `build-step`.
    ForkChildren,
    /// Lives for a millisecond and never says READY: for [`Program::Launcher`] to start. Argument: how it ends.
    ShortLived,
    /// Starts what lines on its stdin name, as an agent does; see the head of its source.
    Launcher,
    /// Threads `ping` and `pong` switch some 100,000 times a second in `throw_and_catch`.
    SwitchStorm,
    /// Healthy: orders at a fixed pace, five functions for each. Arguments: which is slower (0 to 4: `parse_order`, `price_order`,
    /// `check_stock`, `render_invoice`, `compress_page`; 5: none), by how many percent, orders a second (800).
    PacedServer,
    /// Measures how long it was kept from running. Arguments: megabytes of memory (64), threads (20), `huge` or `small` pages;
    /// answers a line of stdin with `GAP nanoseconds EINTR count`.
    PauseProbe,
    /// Works while a timer sends it signals that it handles. Argument: signals a second (1000). Answers a line of stdin with
    /// `DID rounds of work SIGNALS handled LOST fell into one`, each since the line before.
    SignalStorm,
    /// Holds magic values in all registers and checks them for ever; see the source for its exit codes. Arguments: keepers
    /// (2) or `single`, megabytes (16). Answers a line of stdin with `INTACT ...`.
    Registers,
    /// The same, linked statically.
    StaticRegisters,
    /// One thread, no C library: not a single `syscall; ret` or rt_sigreturn. Answers a line of stdin with `INTACT`.
    NoGadgets,
    /// Threads that wait for each other for ever. Argument: `abba` (default), `ring`, `rwlock`, `self`, `gone`, `join`, `none`.
    Deadlock,
    /// Dies of a signal in `crash_here`, called by `middle_of_work`, in a thread `worker`. Arguments: how (`null`, `abort`,
    /// `stack-overflow` ..., see the source), after how many milliseconds (default: on a byte on stdin).
    Crashes,
    /// Idle, with a seccomp filter that kills it for a fork. Says `READY PID ADDRESS` of 64 KiB of `0x5a`.
    SeccompKill,
    /// The same, with a filter that makes a fork fail with EPERM.
    SeccompErrno,
    /// One area of memory of each kind. Argument: a file of 16 pages. Says `READY PID name=address,bytes ...`.
    Areas,
    /// Writes to all of its memory over and over. Arguments: MiB (64), `huge` or `can-be-huge`. Says `ROUNDS n` when asked by a line.
    WriteHeavy,
    /// Very many threads that wake often. Arguments: threads (8000), times a second (20), microseconds of work (10). Says `ROUNDS n`
    /// when asked by a line.
    WakeStorm,
    /// Idle, with memory of every kind whose words are known by their addresses. Argument: MiB of the two large areas (16).
    /// Says `READY PID name:start:end:step ...` (hexadecimal; one page of each `step` is written); ends with code 4 when a
    /// word has changed.
    SelfChecking,
}

impl Program {
    /// All that say READY.
    pub const ALL: &[Self] = &[
        Self::HotFunction,
        Self::NoFramePointers,
        Self::Stripped,
        Self::RustHotFunction,
        Self::LockConvoy,
        Self::DiskBound,
        Self::SlowPeer,
        Self::RunawayThreads,
        Self::MemoryGrowth,
        Self::BusyLoop,
        Self::Idle,
        Self::ManyThreads,
        Self::DeepStack,
        Self::ExitsMidway,
        Self::ExecsMidway,
        Self::ForkChildren,
        Self::SwitchStorm,
        Self::PacedServer,
        Self::PauseProbe,
        Self::SignalStorm,
        Self::Registers,
        Self::StaticRegisters,
        Self::NoGadgets,
        Self::Deadlock,
        Self::Crashes,
        Self::Launcher,
        Self::SeccompKill,
        Self::SeccompErrno,
        Self::Areas,
        Self::WriteHeavy,
        Self::SelfChecking,
    ];

    /// Name of its file, and of its process up to 15 bytes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HotFunction => "hot-function",
            Self::NoFramePointers => "no-frame-ptr",
            Self::Stripped => "stripped",
            Self::RustHotFunction => "rust-hot",
            Self::LockConvoy => "lock-convoy",
            Self::DiskBound => "disk-bound",
            Self::SlowPeer => "slow-peer",
            Self::RunawayThreads => "runaway-threads",
            Self::MemoryGrowth => "memory-growth",
            Self::BusyLoop => "busy-loop",
            Self::Idle => "idle",
            Self::ManyThreads => "many-threads",
            Self::DeepStack => "deep-stack",
            Self::ExitsMidway => "exits-midway",
            Self::ExecsMidway => "execs-midway",
            Self::ForkChildren => "fork-children",
            Self::SwitchStorm => "switch-storm",
            Self::PacedServer => "paced-server",
            Self::ShortLived => "short-lived",
            Self::Launcher => "launcher",
            Self::PauseProbe => "pause-probe",
            Self::SignalStorm => "signal-storm",
            Self::Registers => "registers",
            Self::StaticRegisters => "static-regs",
            Self::NoGadgets => "no-gadgets",
            Self::Deadlock => "deadlock",
            Self::Crashes => "crashes",
            Self::SeccompKill => "seccomp-kill",
            Self::SeccompErrno => "seccomp-errno",
            Self::Areas => "areas",
            Self::WriteHeavy => "write-heavy",
            Self::WakeStorm => "wake-storm",
            Self::SelfChecking => "self-checking",
        }
    }

    /// Compiles it where that was not done yet, and says where it is.
    ///
    /// # Panics
    ///
    /// Where it cannot be compiled.
    #[must_use]
    pub fn path(self) -> PathBuf {
        let name = self.name();
        match self.source() {
            Source::Rust(text) => compile_rust(name, text, &[]),
            Source::C(text) => compile_c(name, text, self.flags()),
        }
    }

    /// A command that runs it, to which arguments can be added.
    #[must_use]
    pub fn command(self) -> Command {
        Command::new(self.path())
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::NoFramePointers => &["-O2", "-fomit-frame-pointer", "-momit-leaf-frame-pointer"],
            Self::Stripped => &["-O2", "-fomit-frame-pointer", "-s"],
            Self::SeccompKill => &["-O2", "-fno-omit-frame-pointer", "-DANSWER=SECCOMP_RET_KILL_PROCESS"],
            Self::SeccompErrno => &["-O2", "-fno-omit-frame-pointer", "-DANSWER=(SECCOMP_RET_ERRNO|1)"],
            Self::StaticRegisters => &["-O2", "-static"],
            Self::NoGadgets => {
                &["-O2", "-static", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none"]
            }
            // GCC would turn the recursion into a loop.
            Self::DeepStack => &["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"],
            _ => &["-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"],
        }
    }

    fn source(self) -> Source {
        match self {
            Self::HotFunction | Self::NoFramePointers | Self::Stripped => {
                Source::C(include_str!("../programs/hot-function.c"))
            }
            Self::RustHotFunction => Source::Rust(include_str!("../programs/hot_function.rs")),
            Self::LockConvoy => Source::C(include_str!("../programs/lock-convoy.c")),
            Self::DiskBound => Source::C(include_str!("../programs/disk-bound.c")),
            Self::SlowPeer => Source::C(include_str!("../programs/slow-peer.c")),
            Self::RunawayThreads => Source::C(include_str!("../programs/runaway-threads.c")),
            Self::MemoryGrowth => Source::C(include_str!("../programs/memory-growth.c")),
            Self::BusyLoop => Source::C(include_str!("../programs/busy-loop.c")),
            Self::Idle => Source::C(include_str!("../programs/idle.c")),
            Self::ManyThreads => Source::C(include_str!("../programs/many-threads.c")),
            Self::DeepStack => Source::C(include_str!("../programs/deep-stack.c")),
            Self::ExitsMidway => Source::C(include_str!("../programs/exits-midway.c")),
            Self::ExecsMidway => Source::C(include_str!("../programs/execs-midway.c")),
            Self::ForkChildren => Source::C(include_str!("../programs/fork-children.c")),
            Self::SwitchStorm => Source::C(include_str!("../programs/switch-storm.c")),
            Self::PacedServer => Source::C(include_str!("../programs/paced-server.c")),
            Self::ShortLived => Source::C(include_str!("../programs/short-lived.c")),
            Self::Launcher => Source::C(include_str!("../programs/launcher.c")),
            Self::PauseProbe => Source::C(include_str!("../programs/pause-probe.c")),
            Self::SignalStorm => Source::C(include_str!("../programs/signal-storm.c")),
            Self::Registers | Self::StaticRegisters => Source::C(include_str!("../programs/registers.c")),
            Self::NoGadgets => Source::C(include_str!("../programs/no-gadgets.c")),
            Self::Deadlock => Source::C(include_str!("../programs/deadlock.c")),
            Self::Crashes => Source::C(include_str!("../programs/crashes.c")),
            Self::SeccompKill | Self::SeccompErrno => Source::C(include_str!("../programs/seccomp.c")),
            Self::Areas => Source::C(include_str!("../programs/areas.c")),
            Self::WriteHeavy => Source::C(include_str!("../programs/write-heavy.c")),
            Self::WakeStorm => Source::C(include_str!("../programs/wake-storm.c")),
            Self::SelfChecking => Source::C(include_str!("../programs/self-checking.c")),
        }
    }
}

enum Source {
    C(&'static str),
    Rust(&'static str),
}

/// The folder of prebuilt .NET targets: `BIOPSY_DOTNET_TARGETS`, or `shared/targets` beside the repository's folder.
pub(crate) fn dotnet_targets() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("BIOPSY_DOTNET_TARGETS") {
        return Some(PathBuf::from(folder));
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let folder = repository.parent()?.join("shared/targets");
    folder.exists().then_some(folder)
}

/// The program that starts the .NET targets (see [`crate::Privilege::DotNetTargets`]): `run RUNTIME TARGET ARGUMENTS`.
#[must_use]
pub fn dotnet_run() -> Option<PathBuf> {
    dotnet_targets().map(|folder| folder.join("run")).filter(|program| program.exists())
}
