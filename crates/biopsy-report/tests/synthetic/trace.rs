//! The trace: frames, stacks, samples, waits, states.

use super::{Dice, SECONDS, at};
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{
    Sample, StateSlice, ThreadLife, Timeline, TimelineEvent, TraceSettings, Wait, WaitSample, WaitState,
};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};
use std::collections::HashMap;

/// One sampling period.
pub(super) const PERIOD: Nanos = Nanos(1_001_001);

/// CPU stacks, outermost first, with their weight. A prefix tells the module: `k:` kernel, `j:` JIT, `c:` libc,
/// `?:` unnamed, nothing: the server.
pub(super) const CPU: &[(&str, f64)] = &[
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_execute_command;mysql_select;JOIN::exec;sub_select;evaluate_join_record;handler::ha_index_read_map;ha_innobase::index_read;row_search_mvcc;btr_cur_t::search_leaf;page_cur_search_with_match;cmp_dtuple_rec_with_match_low",
        21.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_execute_command;mysql_select;JOIN::exec;sub_select;evaluate_join_record;handler::ha_index_read_map;ha_innobase::index_read;row_search_mvcc;row_sel_store_mysql_rec;c:__memmove_avx_unaligned_erms",
        9.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_execute_command;mysql_select;JOIN::optimize;make_join_statistics;best_access_path",
        6.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_parse;MYSQLparse;my_malloc;c:malloc;c:_int_malloc",
        5.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_parse;MYSQLparse;lex_one_token",
        8.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_execute_command;mysql_update;ha_innobase::update_row;row_upd_step;btr_cur_update_in_place;mtr_t::commit;log_t::append;k:entry_SYSCALL_64;k:do_syscall_64;k:ksys_write;k:ext4_file_write_iter;k:copy_user_enhanced_fast_string",
        11.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;net_read_packet;vio_read;c:recv;k:entry_SYSCALL_64;k:do_syscall_64;k:__sys_recvfrom;k:tcp_recvmsg;k:finish_task_switch",
        7.0,
    ),
    ("c:start_thread;srv_purge_coordinator;trx_purge;row_purge_step;?:4f3a10;?:4f3b88", 4.0),
    (
        "c:start_thread;uv_run;node::Start;j:LazyCompile:*collect /opt/exporter/index.js:41;j:Builtin:JSON.stringify",
        3.0,
    ),
];

/// Stacks of waiting threads.
pub(super) const WAITING: &[(&str, f64)] = &[
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;mysql_execute_command;mysql_update;ha_innobase::update_row;lock_wait;c:pthread_mutex_lock;c:__lll_lock_wait;k:entry_SYSCALL_64;k:do_syscall_64;k:__x64_sys_futex;k:futex_wait_queue;k:schedule",
        46.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;net_read_packet;vio_read;c:poll;k:entry_SYSCALL_64;k:do_syscall_64;k:__x64_sys_poll;k:schedule_hrtimeout_range",
        30.0,
    ),
    (
        "c:start_thread;handle_one_connection;do_command;dispatch_command;trans_commit;log_write_up_to;c:fsync;k:entry_SYSCALL_64;k:do_syscall_64;k:ext4_sync_file;k:blkdev_issue_flush;k:submit_bio_wait;k:io_schedule",
        18.0,
    ),
    (
        "c:start_thread;tpool::worker_main;c:pthread_cond_wait;k:entry_SYSCALL_64;k:do_syscall_64;k:__x64_sys_futex;k:futex_wait_queue;k:schedule",
        60.0,
    ),
];

/// Interns frames and stacks.
#[derive(Default)]
pub(super) struct Tape {
    pub(super) timeline: Timeline,
    frames: HashMap<String, FrameHandle>,
    stacks: HashMap<(Option<StackHandle>, FrameHandle), StackHandle>,
}

fn module(kind: ModuleKind, path: &str, start: u64) -> Module {
    Module {
        pid: Pid(if kind == ModuleKind::Kernel { 0 } else { 4711 }),
        kind,
        path: path.into(),
        build_id: (kind == ModuleKind::Elf).then(|| (0..20).map(|byte| byte ^ start as u8).collect()),
        start: Avma(start),
        end: Avma(start + 0x100_0000),
        offset: FileOffset(0x1000),
        since: at(0.0),
        deleted: false,
    }
}

impl Tape {
    fn frame(&mut self, name: &str) -> FrameHandle {
        if let Some(handle) = self.frames.get(name) {
            return *handle;
        }
        let handle = FrameHandle(self.timeline.frames.len() as u32);
        let (module, label) = match name.split_once(':') {
            Some(("k", rest)) => (1, rest),
            Some(("c", rest)) => (2, rest),
            Some(("j", rest)) => (3, rest),
            Some(("?", rest)) => (0, rest),
            _ => (0, name),
        };
        let space = if module == 1 { FrameSpace::Kernel } else { FrameSpace::User };
        let start = self.timeline.modules[module].start.0;
        let address = if module == 1 || module == 3 { start } else { 0x1000 } + 0x40 * u64::from(handle.0);
        self.timeline.frames.push(Frame {
            space,
            module: Some(ModuleHandle(module as u32)),
            address: LookupAddress(address),
        });
        let symbols = (!name.starts_with('?')).then(|| FrameSymbols {
            frame: handle,
            functions: if label == "cmp_dtuple_rec_with_match_low" {
                // An inlined function comes first, the real one last.
                vec![function("cmp_data", Some("rem0cmp.cc"), 343), function(label, Some("rem0cmp.cc"), 401)]
            } else {
                vec![function(label, None, 0)]
            },
            source: if module == 1 { SymbolSource::Kallsyms } else { SymbolSource::ElfSymbols },
        });
        self.timeline.symbols.push(symbols);
        self.frames.insert(name.to_owned(), handle);
        handle
    }

    pub(super) fn stack(&mut self, names: &str) -> StackHandle {
        let mut caller = None;
        for name in names.split(';') {
            let frame = self.frame(name);
            let next = StackHandle(self.timeline.stacks.len() as u32);
            let handle = *self.stacks.entry((caller, frame)).or_insert(next);
            if handle == next {
                self.timeline.stacks.push(StackNode { caller, frame });
            }
            caller = Some(handle);
        }
        caller.expect("a stack has frames")
    }
}

fn function(name: &str, file: Option<&str>, line: u32) -> Function {
    Function { name: name.into(), file: file.map(String::from), line: (line > 0).then_some(line) }
}

fn pick<'a>(of: &'a [(&'a str, f64)], dice: &mut Dice) -> &'a str {
    let mut left = dice.roll() * of.iter().map(|(_, weight)| weight).sum::<f64>();
    for (name, weight) in of {
        left -= weight;
        if left < 0.0 {
            return name;
        }
    }
    of[0].0
}

/// Threads: id, name, cores used, share of waiting.
pub(super) fn threads() -> Vec<(u32, u32, String, f64)> {
    let mut threads = vec![(4711, 4711, "mariadbd".to_owned(), 0.004)];
    threads.extend((0..8).map(|worker| (4711, 4720 + worker, format!("conn-{worker}"), 0.26)));
    threads.extend((0..4).map(|worker| (4711, 4740 + worker, format!("ib_io_rd-{worker}"), 0.02)));
    threads.push((4711, 4750, "ib_purge_coord".into(), 0.06));
    threads.push((4802, 4802, "node".into(), 0.09));
    threads
}

pub(super) fn timeline() -> Timeline {
    let mut tape = Tape::default();
    tape.timeline.modules = vec![
        module(ModuleKind::Elf, "/usr/sbin/mariadbd", 0x5600_0000_0000),
        module(ModuleKind::Kernel, "[kernel.kallsyms]", 0xffff_ffff_8100_0000),
        module(ModuleKind::Elf, "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x7f00_0000_0000),
        module(ModuleKind::Jit, "[jit]", 0x7f10_0000_0000),
    ];
    tape.timeline.settings = TraceSettings {
        frequency_hz: 999,
        sampling_event: "cpu-clock".into(),
        method: "bpf".into(),
        wait_threshold: Nanos(1_000_000),
        wait_sample_period: Nanos(10_000_000),
        has_states: true,
        has_wakeups: true,
        has_kernel_stacks: true,
        follows_children: true,
    };
    let mut dice = Dice(7);
    for (pid, tid, name, cores) in threads() {
        thread(&mut tape, &mut dice, pid, tid, &name, cores);
    }
    let timeline = &mut tape.timeline;
    timeline.samples.sort_by_key(|sample| sample.time);
    timeline.waits.sort_by_key(|wait| wait.end);
    timeline.process_events =
        vec![TimelineEvent::ProcessStart { time: at(4.2), pid: Pid(4802), parent: Pid(4711) }];
    timeline.losses = vec![
        Loss { kind: LossKind::Samples, from: at(31.0), to: at(31.6), count: 212, pid: None, tid: None },
        Loss { kind: LossKind::Metrics, from: at(50.0), to: at(51.5), count: 0, pid: None, tid: None },
    ];
    timeline.marks =
        vec![(at(12.0), "deploy 2024-11 started".into()), (at(40.5), "user reports errors".into())];
    timeline.span = Some((at(0.0), at(SECONDS as f64)));
    tape.timeline
}

fn thread(tape: &mut Tape, dice: &mut Dice, pid: u32, tid: u32, name: &str, cores: f64) {
    let info = ThreadInfo { tid: Tid(tid), pid: Pid(pid), name: name.into() };
    let born = tid == 4802;
    let start = if born { 4.2 } else { 0.0 };
    tape.timeline.threads.push(ThreadLife {
        info,
        start: at(start),
        born,
        by: born.then_some(Tid(4711)),
        exit: None,
    });
    for slice in (start as u64 * 2)..SECONDS * 2 {
        let from = at(slice as f64 / 2.0);
        let busy = if (60..76).contains(&slice) { 0.4 } else { 1.0 };
        let running = (cores * busy * (0.7 + 0.6 * dice.roll())).min(1.0);
        let ready = running * 0.15;
        let nanos = |share: f64| Nanos((share * 5e8) as u64);
        tape.timeline.states.push(StateSlice {
            tid: Tid(tid),
            from,
            to: MonoNanos(from.0 + 500_000_000),
            running: nanos(running),
            ready: nanos(ready),
            waiting: nanos(1.0 - running - ready),
            voluntary: (running * 2000.0) as u32,
            involuntary: (running * 90.0) as u32,
            wakeups: (running * 2000.0) as u32,
        });
        for _ in 0..(running * 40.0) as usize {
            let names = stack_of(name, CPU, dice);
            let stack = tape.stack(&names);
            tape.timeline.samples.push(Sample {
                time: MonoNanos(from.0 + (dice.roll() * 5e8) as u64),
                tid: Tid(tid),
                cpu: (dice.roll() * 4.0) as u32,
                stack: Some(stack),
                end: StackEnd::Root,
                weight: Nanos(PERIOD.0 * 12),
            });
        }
        let names = stack_of(name, WAITING, dice);
        let stack = Some(tape.stack(&names));
        let state = if names.contains("io_schedule") { WaitState::Disk } else { WaitState::Sleep };
        tape.timeline.wait_samples.push(WaitSample {
            time: MonoNanos(from.0 + 250_000_000),
            tid: Tid(tid),
            stack,
            end: StackEnd::Root,
            weight: nanos(1.0 - running - ready),
            syscall: Some(202),
            state,
        });
        if dice.roll() < 0.6 {
            let begin = from.0 + (dice.roll() * 2e8) as u64;
            tape.timeline.waits.push(Wait {
                tid: Tid(tid),
                start: MonoNanos(begin),
                end: MonoNanos(begin + 180_000_000),
                ready: Some(MonoNanos(begin + 179_000_000)),
                waker: Some(Tid(if state == WaitState::Disk {
                    0
                } else {
                    4720 + (dice.roll() * 8.0) as u32
                })),
                state,
                syscall: Some(if state == WaitState::Disk { 74 } else { 202 }),
                stack,
            });
        }
    }
}

/// A stack that fits the thread.
fn stack_of(name: &str, of: &'static [(&'static str, f64)], dice: &mut Dice) -> String {
    let fits = |names: &str| match name {
        "node" => names.contains("uv_run") || names.contains("worker_main"),
        "ib_purge_coord" => names.contains("srv_purge") || names.contains("worker_main"),
        _ if name.starts_with("conn") => names.contains("handle_one_connection"),
        _ => names.contains("worker_main") || names.contains("ext4_file_write_iter"),
    };
    let fitting: Vec<_> = of.iter().copied().filter(|(names, _)| fits(names)).collect();
    pick(if fitting.is_empty() { of } else { &fitting }, dice).to_owned()
}
