//! Any event that a timeline can have.

use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{
    Allocation, AllocationCount, AllocationWatch, Release, Sample, StateSlice, TimelineEvent, TraceSettings,
    Wait, WaitSample, WaitState,
};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};
use proptest::prelude::*;

fn time() -> impl Strategy<Value = MonoNanos> {
    prop_oneof![8 => (1_u64 << 40..(1 << 40) + 10_000_000_000).prop_map(MonoNanos), 1 => any::<u64>().prop_map(MonoNanos)]
}

fn nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        Just(Nanos(1_001_001)),
        any::<u32>().prop_map(|n| Nanos(n.into())),
        any::<u64>().prop_map(Nanos)
    ]
}

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![4 => (0_u32..40).prop_map(Tid), 1 => any::<u32>().prop_map(Tid)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z(:) ]{1,30}", "\\PC{0,8}"]
}

fn end() -> impl Strategy<Value = StackEnd> {
    prop_oneof![
        Just(StackEnd::Root),
        Just(StackEnd::Truncated),
        Just(StackEnd::FramePointers),
        Just(StackEnd::NoUnwindInfo),
        Just(StackEnd::Skipped),
        Just(StackEnd::KernelOnly),
    ]
}

fn state() -> impl Strategy<Value = WaitState> {
    prop_oneof![
        Just(WaitState::Sleep),
        Just(WaitState::Disk),
        Just(WaitState::Stopped),
        Just(WaitState::Preempted),
        Just(WaitState::Other),
    ]
}

fn stack() -> impl Strategy<Value = Option<StackHandle>> {
    proptest::option::of(any::<u32>().prop_map(|n| StackHandle(n >> 1)))
}

pub(super) fn event() -> impl Strategy<Value = TimelineEvent> {
    let syscall = || proptest::option::of(any::<u32>());
    let hot = prop_oneof![
        (time(), tid(), any::<u32>(), stack(), end(), nanos()).prop_map(
            |(time, tid, cpu, stack, end, weight)| {
                TimelineEvent::Sample(Sample { time, tid, cpu, stack, end, weight })
            }
        ),
        (
            (tid(), time(), time(), proptest::option::of(time())),
            (proptest::option::of(tid()), state(), syscall(), stack())
        )
            .prop_map(|((tid, start, end, ready), (waker, state, syscall, stack))| {
                TimelineEvent::Wait(Wait { tid, start, end, ready, waker, state, syscall, stack })
            }),
        (time(), tid(), stack(), end(), nanos(), syscall(), state()).prop_map(
            |(time, tid, stack, end, weight, syscall, state)| {
                TimelineEvent::WaitSample(WaitSample { time, tid, stack, end, weight, syscall, state })
            }
        ),
        ((tid(), time(), time()), (nanos(), nanos(), nanos()), any::<(u32, u32, u32)>()).prop_map(
            |((tid, from, to), (running, ready, waiting), (voluntary, involuntary, wakeups))| {
                TimelineEvent::States(StateSlice {
                    tid,
                    from,
                    to,
                    running,
                    ready,
                    waiting,
                    voluntary,
                    involuntary,
                    wakeups,
                })
            }
        ),
    ];
    let definitions = prop_oneof![
        (any::<bool>(), proptest::option::of(0_u32..9), any::<u64>()).prop_map(
            |(kernel, module, address)| {
                let space = if kernel { FrameSpace::Kernel } else { FrameSpace::User };
                TimelineEvent::Frame(Frame {
                    space,
                    module: module.map(ModuleHandle),
                    address: LookupAddress(address),
                })
            }
        ),
        (stack(), any::<u32>()).prop_map(|(caller, frame)| {
            TimelineEvent::Stack(StackNode { caller, frame: FrameHandle(frame) })
        }),
        (
            (
                any::<u32>(),
                0_u8..5,
                text(),
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..24))
            ),
            (any::<u64>(), any::<u64>(), any::<u64>(), time(), any::<bool>())
        )
            .prop_map(|((pid, kind, path, build_id), (start, end, offset, since, deleted))| {
                TimelineEvent::Module(Module {
                    pid: Pid(pid),
                    kind: [
                        ModuleKind::Elf,
                        ModuleKind::Kernel,
                        ModuleKind::Vdso,
                        ModuleKind::Jit,
                        ModuleKind::OtherFile,
                        ModuleKind::Source,
                    ][usize::from(kind)],
                    path,
                    build_id,
                    start: Avma(start),
                    end: Avma(end),
                    offset: FileOffset(offset),
                    since,
                    deleted,
                })
            }),
        (
            any::<u32>(),
            proptest::collection::vec(
                (text(), proptest::option::of(text()), proptest::option::of(any::<u32>())),
                0..4
            ),
            0_u8..6
        )
            .prop_map(|(frame, functions, source)| {
                TimelineEvent::Symbols(FrameSymbols {
                    frame: FrameHandle(frame),
                    functions: functions
                        .into_iter()
                        .map(|(name, file, line)| Function { name, file, line })
                        .collect(),
                    source: [
                        SymbolSource::ElfSymbols,
                        SymbolSource::Dwarf,
                        SymbolSource::Kallsyms,
                        SymbolSource::PerfMap,
                        SymbolSource::JitDump,
                        SymbolSource::Imported,
                        SymbolSource::RuntimeMemory,
                        SymbolSource::RuntimeEvents,
                        SymbolSource::FunctionStart,
                    ][usize::from(source)],
                })
            }),
    ];
    let cold = prop_oneof![
        (any::<u32>(), text(), text(), nanos(), nanos(), any::<[bool; 4]>()).prop_map(
            |(frequency_hz, sampling_event, method, wait_threshold, wait_sample_period, flags)| {
                TimelineEvent::Settings(TraceSettings {
                    frequency_hz,
                    sampling_event: sampling_event.as_str().into(),
                    method: method.as_str().into(),
                    wait_threshold,
                    wait_sample_period,
                    has_states: flags[0],
                    has_wakeups: flags[1],
                    has_kernel_stacks: flags[2],
                    follows_children: flags[3],
                })
            }
        ),
        (time(), tid(), any::<u32>(), text(), any::<bool>(), proptest::option::of(tid())).prop_map(
            |(time, tid, pid, name, born, by)| TimelineEvent::ThreadStart {
                time,
                thread: ThreadInfo { tid, pid: Pid(pid), name },
                born,
                by,
            }
        ),
        (time(), tid(), text()).prop_map(|(time, tid, name)| TimelineEvent::ThreadName { time, tid, name }),
        (time(), tid(), any::<u32>()).prop_map(|(time, tid, pid)| TimelineEvent::ThreadExit {
            time,
            tid,
            pid: Pid(pid),
        }),
        (time(), any::<u32>(), any::<u32>()).prop_map(|(time, pid, parent)| TimelineEvent::ProcessStart {
            time,
            pid: Pid(pid),
            parent: Pid(parent),
        }),
        (time(), any::<u32>(), text()).prop_map(|(time, pid, name)| TimelineEvent::Exec {
            time,
            pid: Pid(pid),
            name
        }),
        (time(), any::<u32>()).prop_map(|(time, pid)| TimelineEvent::ProcessExit { time, pid: Pid(pid) }),
        (
            0_u8..8,
            time(),
            time(),
            any::<u64>(),
            proptest::option::of(any::<u32>()),
            proptest::option::of(tid())
        )
            .prop_map(|(kind, from, to, count, pid, tid)| {
                TimelineEvent::Loss(Loss {
                    kind: [
                        LossKind::Samples,
                        LossKind::Waits,
                        LossKind::SideBand,
                        LossKind::Throttled,
                        LossKind::StacksSkipped,
                        LossKind::Metrics,
                        LossKind::Disk,
                        LossKind::Allocations,
                        LossKind::Switches,
                    ][usize::from(kind)],
                    from,
                    to,
                    count,
                    pid: pid.map(Pid),
                    tid,
                })
            }),
        (time(), any::<[u32; 2]>(), proptest::option::of(any::<u32>()), any::<[u64; 3]>()).prop_map(
            |(time, [pid, tid], stack, [address, size, weight])| {
                TimelineEvent::Allocation(Allocation {
                    time,
                    pid: Pid(pid),
                    tid: Tid(tid),
                    stack: stack.map(StackHandle),
                    end: StackEnd::Truncated,
                    address: Avma(address),
                    size,
                    weight,
                })
            }
        ),
        (time(), any::<u32>(), any::<u64>()).prop_map(|(time, pid, address)| {
            TimelineEvent::Release(Release { time, pid: Pid(pid), address: Avma(address) })
        }),
        (time(), time(), time(), any::<[u64; 3]>()).prop_map(
            |(from, to, released_to, [calls, bytes, interval])| {
                TimelineEvent::AllocationWatch(AllocationWatch {
                    from,
                    to,
                    released_to,
                    calls,
                    bytes,
                    interval,
                })
            }
        ),
        (time(), any::<u32>(), proptest::option::of(any::<u32>()), any::<[u64; 6]>()).prop_map(
            |(time, pid, stack, [calls, bytes, released, released_bytes, temporary, peak])| {
                TimelineEvent::AllocationCount(AllocationCount {
                    time,
                    pid: Pid(pid),
                    stack: stack.map(StackHandle),
                    calls,
                    bytes,
                    released,
                    released_bytes,
                    temporary,
                    peak,
                })
            }
        ),
        (time(), text()).prop_map(|(time, label)| TimelineEvent::Mark { time, label }),
        (text(), text(), proptest::option::of(text()), proptest::option::of(time())).prop_map(
            |(code, message, hint, time)| TimelineEvent::Warning(Warning { code, message, hint, time })
        ),
    ];
    prop_oneof![4 => hot, 2 => definitions, 1 => cold]
}
