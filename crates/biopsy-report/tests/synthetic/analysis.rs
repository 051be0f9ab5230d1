//! An analysis of the made-up recording, made here by the simplest means, so that the tests of the renderers do not
//! move when the analysis learns something.

use super::{SECONDS, at, trace};
use biopsy_analyze::{
    Activation, Analysis, Behind, Completeness, Convoy, Evidence, Finding, FindingId, FlameKind, FlameNode,
    FlamePair, FlameTree, Flames, FunctionHandle, FunctionKind, FunctionRow, LogSummary, LogTopic, LongWait,
    LossTotal, MetricSummary, Notable, NotableKind, Party, Reference, Severity, StripBucket, ThreadFlames,
    ThreadGroup, ThreadRow, ThreadTable, Trend, Value, WaitFunctionRow, WaitReason, WaitReasonRow, Waits,
};
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::loss::LossKind;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use biopsy_model::{Nanos, Pid, Tid};
use std::collections::{BTreeMap, HashMap};

/// Functions by name, and the trees over them.
struct Builder<'a> {
    timeline: &'a Timeline,
    rows: Vec<FunctionRow>,
    by_name: HashMap<String, FunctionHandle>,
}

impl Builder<'_> {
    /// Functions of a stack, outermost first.
    fn functions(&mut self, stack: Option<StackHandle>) -> Vec<FunctionHandle> {
        let frames: Vec<_> = self.timeline.frames_of(stack).collect();
        let mut functions = Vec::new();
        for frame in frames {
            let module = self.timeline.module_of(frame).map(|(_, module)| module);
            let file = module.map_or("", |module| module.path.rsplit('/').next().unwrap_or("")).to_owned();
            let kind = match module.map(|module| module.kind) {
                Some(ModuleKind::Kernel) => FunctionKind::Kernel,
                Some(ModuleKind::Jit | ModuleKind::OtherFile | ModuleKind::Source) => FunctionKind::Jit,
                Some(ModuleKind::Elf | ModuleKind::Vdso) => FunctionKind::Native,
                None => FunctionKind::Unknown,
            };
            let names = match &self.timeline.symbols[frame.0 as usize] {
                Some(symbols) => {
                    symbols.functions.iter().map(|f| (f.name.clone(), f.file.clone(), f.line)).collect()
                }
                None => {
                    vec![(
                        format!("{file}+{:#x}", self.timeline.frames[frame.0 as usize].address),
                        None,
                        None,
                    )]
                }
            };
            let named = self.timeline.symbols[frame.0 as usize].is_some();
            for (name, source, line) in names {
                let next = FunctionHandle(self.rows.len() as u32);
                let handle = *self.by_name.entry(name.clone()).or_insert(next);
                if handle == next {
                    self.rows.push(FunctionRow {
                        name,
                        module: file.clone(),
                        kind,
                        named,
                        whose: biopsy_analyze::Whose::Program,
                        file: source,
                        line,
                        cpu_self: Nanos(0),
                        cpu_total: Nanos(0),
                        wait_self: Nanos(0),
                        wait_total: Nanos(0),
                    });
                }
                functions.push(handle);
            }
        }
        functions.reverse();
        functions
    }
}

fn tree(stacks: &[(Vec<FunctionHandle>, Nanos)]) -> FlameTree {
    let node = |kind| FlameNode { kind, total: Nanos(0), own: Nanos(0), children: Vec::new() };
    let mut nodes = vec![node(FlameKind::Root)];
    for (stack, weight) in stacks {
        let mut here = 0;
        nodes[0].total = nodes[0].total + *weight;
        for function in stack {
            let kind = FlameKind::Function(*function);
            let found =
                nodes[here].children.iter().copied().find(|child| nodes[*child as usize].kind == kind);
            here = if let Some(child) = found {
                child as usize
            } else {
                nodes.push(node(kind));
                let child = nodes.len() - 1;
                nodes[here].children.push(child as u32);
                child
            };
            nodes[here].total = nodes[here].total + *weight;
        }
        nodes[here].own = nodes[here].own + *weight;
    }
    let totals: Vec<u64> = nodes.iter().map(|node| node.total.0).collect();
    for node in &mut nodes {
        node.children.sort_by_key(|child| std::cmp::Reverse(totals[*child as usize]));
    }
    FlameTree { nodes, pruned_nodes: 0 }
}

pub fn analysis(capture: &Capture) -> Analysis {
    let timeline = capture.timeline.as_ref().expect("the made-up recording has a trace");
    let mut builder = Builder { timeline, rows: Vec::new(), by_name: HashMap::new() };
    let mut cpu: Vec<(Tid, Vec<FunctionHandle>, Nanos)> = Vec::new();
    for sample in &timeline.samples {
        cpu.push((sample.tid, builder.functions(sample.stack), sample.weight));
    }
    let mut waiting = Vec::new();
    for look in &timeline.wait_samples {
        waiting.push((look.tid, builder.functions(look.stack), look.weight));
    }
    for (stacks, is_cpu) in [(&cpu, true), (&waiting, false)] {
        for (_, stack, weight) in stacks {
            let mut seen = Vec::new();
            for (position, function) in stack.iter().enumerate() {
                let row = &mut builder.rows[function.0 as usize];
                let (own, total) = if is_cpu {
                    (&mut row.cpu_self, &mut row.cpu_total)
                } else {
                    (&mut row.wait_self, &mut row.wait_total)
                };
                if !seen.contains(function) {
                    *total = *total + *weight;
                    seen.push(*function);
                }
                if position + 1 == stack.len() {
                    *own = *own + *weight;
                }
            }
        }
    }
    // Largest first, as an analysis promises; handles move with their rows.
    let mut order: Vec<usize> = (0..builder.rows.len()).collect();
    order.sort_by_key(|row| {
        std::cmp::Reverse((builder.rows[*row].cpu_total.0, builder.rows[*row].wait_total.0))
    });
    let mut moved = vec![FunctionHandle(0); order.len()];
    for (new, old) in order.iter().enumerate() {
        moved[*old] = FunctionHandle(new as u32);
    }
    let functions: Vec<FunctionRow> = order.iter().map(|old| builder.rows[*old].clone()).collect();
    for stacks in [&mut cpu, &mut waiting] {
        for (_, stack, _) in stacks.iter_mut() {
            for function in stack {
                *function = moved[function.0 as usize];
            }
        }
    }
    let of = |stacks: &[(Tid, Vec<FunctionHandle>, Nanos)], tid: Option<Tid>| {
        let chosen: Vec<_> = stacks
            .iter()
            .filter(|(of, _, _)| tid.is_none_or(|tid| tid == *of))
            .map(|(_, stack, weight)| (stack.clone(), *weight))
            .collect();
        tree(&chosen)
    };
    let flames = Flames {
        all: FlamePair { cpu: of(&cpu, None), waiting: of(&waiting, None) },
        threads: trace::threads()
            .iter()
            .filter(|(_, _, _, cores)| *cores > 0.05)
            .take(6)
            .map(|(pid, tid, name, _)| ThreadFlames {
                tid: Tid(*tid),
                pid: Pid(*pid),
                name: name.clone(),
                flames: FlamePair { cpu: of(&cpu, Some(Tid(*tid))), waiting: of(&waiting, Some(Tid(*tid))) },
            })
            .collect(),
    };
    let named = |name: &str| {
        functions
            .iter()
            .position(|row| row.name == name)
            .map(|index| FunctionHandle(index as u32))
            .expect("known")
    };
    let lock = named("lock_wait");
    let hot = named("cmp_data");
    Analysis {
        window: Some((at(0.0), at(SECONDS as f64))),
        completeness: completeness(timeline),
        flames,
        threads: threads(timeline, hot),
        waits: waits(lock, named("log_write_up_to"), named("tpool::worker_main")),
        metrics: metrics(),
        logs: logs(capture),
        findings: findings(lock, hot),
        functions,
        ..Analysis::default()
    }
}

fn completeness(timeline: &Timeline) -> Completeness {
    Completeness {
        seconds: SECONDS as f64,
        partial: false,
        has_trace: true,
        has_metrics: true,
        has_logs: true,
        method: "bpf".into(),
        samples: timeline.samples.len() as u64,
        sampled: Nanos(timeline.samples.iter().map(|sample| sample.weight.0).sum()),
        waits: timeline.waits.len() as u64,
        off_cpu_samples: timeline.wait_samples.len() as u64,
        threads: timeline.threads.len(),
        losses: vec![
            LossTotal { kind: LossKind::Samples, count: 212, time: Nanos(600_000_000), share: Some(0.021) },
            LossTotal { kind: LossKind::Metrics, count: 0, time: Nanos(1_500_000_000), share: None },
        ],
        reaching_root: Some(0.994),
        unnamed_frames: Some(0.012),
        unnamed_modules: vec![("mariadbd".into(), 0.012)],
        clock_step_ms: 0.0,
        undetermined: vec![
            "212 CPU samples (2.1%) between 31.0 s and 31.6 s are lost: what ran then is not known".into(),
            "1.2% of the frames have no name: install mariadb-server-core-dbgsym to see them".into(),
            "hardware cycles were not counted: this machine shows no PMU".into(),
        ],
        ..Completeness::default()
    }
}

fn threads(timeline: &Timeline, hot: FunctionHandle) -> ThreadTable {
    let mut rows: Vec<ThreadRow> = trace::threads()
        .into_iter()
        .map(|(pid, tid, name, _)| {
            let life = timeline.threads.iter().find(|life| life.info.tid.0 == tid).expect("known");
            let mut row = ThreadRow {
                tid: Tid(tid),
                pid: Pid(pid),
                name,
                group: 0,
                start: life.start,
                born: life.born,
                by: life.by,
                exit: None,
                running: Nanos(0),
                ready: Nanos(0),
                waiting: Nanos(0),
                sampled: Nanos(0),
                samples: 0,
                voluntary: 0,
                involuntary: 0,
                wakeups: 0,
                top_function: Some(hot),
                top_share: 0.23,
                strip: vec![StripBucket::default(); 120],
            };
            for slice in timeline.states.iter().filter(|slice| slice.tid == row.tid) {
                row.running = row.running + slice.running;
                row.ready = row.ready + slice.ready;
                row.waiting = row.waiting + slice.waiting;
                row.voluntary += u64::from(slice.voluntary);
                row.involuntary += u64::from(slice.involuntary);
                row.wakeups += u64::from(slice.wakeups);
                let bucket = (slice.from.since(at(0.0)).0 / 500_000_000) as usize;
                row.strip[bucket] = StripBucket {
                    running: slice.running.0 as f32 / 5e8,
                    ready: slice.ready.0 as f32 / 5e8,
                    waiting: slice.waiting.0 as f32 / 5e8,
                };
            }
            for sample in timeline.samples.iter().filter(|sample| sample.tid == row.tid) {
                row.samples += 1;
                row.sampled = row.sampled + sample.weight;
            }
            row
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.running));
    let mut groups: BTreeMap<String, ThreadGroup> = BTreeMap::new();
    for row in &rows {
        let name = row.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let name = if name == row.name { name } else { format!("{name}*") };
        let group = groups.entry(name.clone()).or_insert_with(|| ThreadGroup {
            name,
            pid: row.pid,
            top_function: Some(hot),
            ..ThreadGroup::default()
        });
        group.threads += 1;
        group.running = group.running + row.running;
        group.ready = group.ready + row.ready;
        group.waiting = group.waiting + row.waiting;
        group.sampled = group.sampled + row.sampled;
        group.voluntary += row.voluntary;
        group.involuntary += row.involuntary;
        group.wakeups += row.wakeups;
    }
    let mut groups: Vec<ThreadGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.running));
    for row in &mut rows {
        let pattern = row.name.trim_end_matches(|c: char| c.is_ascii_digit());
        row.group =
            groups.iter().position(|group| group.name.trim_end_matches('*') == pattern).expect("grouped");
    }
    ThreadTable {
        count_at_start: rows.len() - 1,
        count_at_end: rows.len(),
        count_peak: rows.len(),
        born: 1,
        exited: 0,
        exact: true,
        bucket: Nanos(500_000_000),
        rows,
        groups,
        ..ThreadTable::default()
    }
}

fn seconds(value: f64) -> Nanos {
    Nanos((value * 1e9) as u64)
}

fn waits(lock: FunctionHandle, flush: FunctionHandle, idle: FunctionHandle) -> Waits {
    let reason = |reason, time: f64, count, longest: f64, threads, syscalls: &[(&str, f64)]| WaitReasonRow {
        reason,
        time: seconds(time),
        count,
        longest: seconds(longest),
        threads,
        syscalls: syscalls.iter().map(|(name, time)| ((*name).to_owned(), seconds(*time))).collect(),
    };
    let function = |function, reason, time: f64, threads, group: &str| WaitFunctionRow {
        function,
        reason,
        time: seconds(time),
        count: 900,
        longest: seconds(0.18),
        threads,
        groups: vec![group.into()],
    };
    Waits {
        total: seconds(640.0),
        recorded: seconds(611.0),
        count: 41_200,
        sampled: seconds(640.0),
        reasons: vec![
            reason(WaitReason::Condition, 270.0, 5200, 30.0, 5, &[("futex", 270.0)]),
            reason(WaitReason::Lock, 190.0, 31_000, 0.18, 8, &[("futex", 190.0)]),
            reason(WaitReason::Peer, 96.0, 4100, 0.4, 8, &[("poll", 80.0), ("recvfrom", 16.0)]),
            reason(WaitReason::Disk, 60.0, 800, 0.9, 6, &[("fsync", 52.0), ("pread64", 8.0)]),
            reason(WaitReason::Preempted, 9.0, 70_000, 0.02, 14, &[]),
        ],
        functions: vec![
            function(Some(idle), WaitReason::Condition, 270.0, 5, "ib_io_rd-*"),
            function(Some(lock), WaitReason::Lock, 190.0, 8, "conn-*"),
            function(Some(flush), WaitReason::Disk, 52.0, 6, "conn-*"),
            function(None, WaitReason::Unknown, 11.0, 3, "node"),
        ],
        activations: vec![
            Activation {
                waker: Party::Group(0),
                woken: 0,
                count: 30_800,
                time: seconds(181.0),
                ready: seconds(4.0),
                reason: WaitReason::Lock,
            },
            Activation {
                waker: Party::Interrupt,
                woken: 0,
                count: 800,
                time: seconds(60.0),
                ready: seconds(0.3),
                reason: WaitReason::Disk,
            },
            Activation {
                waker: Party::Elsewhere,
                woken: 0,
                count: 4100,
                time: seconds(96.0),
                ready: seconds(0.9),
                reason: WaitReason::Peer,
            },
        ],
        convoys: vec![Convoy {
            function: Some(lock),
            reason: WaitReason::Lock,
            threads: 8,
            time: seconds(190.0),
            share: 0.396,
            mean_queue: 3.2,
            handed_on: Some(0.97),
        }],
        behind: vec![Behind {
            function: Some(lock),
            reason: WaitReason::Lock,
            cause_function: Some(flush),
            cause: WaitReason::Disk,
            count: 640,
            share: 0.31,
            time: seconds(44.0),
            threads: 8,
        }],
        longest: vec![LongWait {
            tid: Tid(4722),
            start: at(33.2),
            time: seconds(0.92),
            reason: WaitReason::Disk,
            function: Some(flush),
            waker: Some(Tid(0)),
        }],
        ..Waits::default()
    }
}

fn metrics() -> MetricSummary {
    let notable =
        |kind, from: f64, to: f64, table: &str, column: &str, key: &str, worst, text: &str| Notable {
            kind,
            from: at(from),
            to: at(to),
            table: table.into(),
            column: column.into(),
            key: key.into(),
            worst,
            mean: worst * 0.9,
            text: text.into(),
        };
    MetricSummary {
        notables: vec![
            notable(
                NotableKind::DiskBusy,
                30.0,
                38.0,
                "disks",
                "busy",
                "nvme0n1",
                0.97,
                "nvme0n1 was busy 97% of the time",
            ),
            notable(
                NotableKind::Throttled,
                44.0,
                52.0,
                "cgroups",
                "throttled.ratio",
                "/system.slice/mariadb.service",
                0.9,
                "mariadb.service was throttled in 80% of its periods",
            ),
        ],
        trends: vec![Trend {
            table: "processes".into(),
            column: "memory.rss".into(),
            key: "4711 mariadbd".into(),
            first: 2.1e9,
            last: 2.64e9,
            per_minute: 5.4e8,
            fit: 0.999,
            steady: true,
            growing: true,
        }],
        ..MetricSummary::default()
    }
}

fn logs(capture: &Capture) -> LogSummary {
    let mut summary = LogSummary::default();
    for (log, file) in capture.logs.iter().enumerate() {
        for level in [LogLevel::Error, LogLevel::Warning] {
            let lines: Vec<_> =
                file.lines.iter().enumerate().filter(|(_, line)| line.level == level).collect();
            let Some((first, line)) = lines.first() else { continue };
            summary.topics.push(LogTopic {
                level,
                example: line.text.clone(),
                log,
                line: *first,
                count: lines.len() as u64,
                first: line.time,
                last: lines.last().and_then(|(_, line)| line.time),
            });
            *if level == LogLevel::Error { &mut summary.errors } else { &mut summary.warnings } +=
                lines.len() as u64;
        }
        summary.lines += file.lines.len() as u64;
        summary.without_time += file.lines.iter().filter(|line| line.time.is_none()).count() as u64;
    }
    summary.bursts = vec![(at(31.0), at(34.0), 3)];
    summary
}

fn findings(lock: FunctionHandle, hot: FunctionHandle) -> Vec<Finding> {
    let evidence = |text: &str, reference, value| Evidence { text: text.into(), reference, value };
    vec![
        Finding {
            id: FindingId::LockConvoy,
            severity: Severity::Critical,
            impact: 0.396,
            title: "8 threads queue for one lock in `lock_wait` for 39.6% of their time".into(),
            explanation: "Threads `conn-*` hand the same lock to each other: while one works, 3.2 wait on average. \
                          More threads or CPUs will not make this faster; a shorter critical section or a finer lock will."
                .into(),
            evidence: vec![
                evidence("190 s of waiting in `lock_wait`", Reference::WaitFunction(lock), Some(Value::Share(0.396))),
                evidence("threads `conn-*` (8 threads)", Reference::Group(0), None),
                evidence("97% of the wake-ups come from a thread that waits there too", Reference::Recording, Some(Value::Share(0.97))),
            ],
            next_steps: vec![
                "look at the waiting flame graph of one `conn-*` thread to see which statement takes the lock".into(),
            ],
        },
        Finding {
            id: FindingId::CgroupThrottled,
            severity: Severity::Warning,
            impact: 0.13,
            title: "The CPU quota of mariadb.service was used up for 8 s".into(),
            explanation: "The kernel stopped all threads of the group for the rest of each period.".into(),
            evidence: vec![
                evidence(
                    "throttled in up to 90% of the periods",
                    Reference::Metric {
                        table: "cgroups".into(),
                        column: "throttled.ratio".into(),
                        key: "/system.slice/mariadb.service".into(),
                    },
                    Some(Value::Share(0.9)),
                ),
                evidence("from 44 s to 52 s", Reference::Time { from: at(44.0), to: at(52.0) }, None),
            ],
            next_steps: vec!["raise CPUQuota= of mariadb.service, now 250%".into()],
        },
        Finding {
            id: FindingId::DiskBound,
            severity: Severity::Notice,
            impact: 0.1,
            title: "The disk nvme0n1 was saturated from 30 s to 38 s".into(),
            explanation: "Commits waited for `fsync` while the disk was busy 97% of the time.".into(),
            evidence: vec![
                evidence(
                    "busy 97%",
                    Reference::Metric { table: "disks".into(), column: "busy".into(), key: "nvme0n1".into() },
                    Some(Value::Share(0.97)),
                ),
                evidence("errors at that time in the log", Reference::Log { log: 0, line: 31 }, None),
            ],
            next_steps: vec![],
        },
        Finding {
            id: FindingId::CpuBound,
            severity: Severity::Info,
            impact: 0.29,
            title: "`cmp_data` takes 28.9% of the CPU time".into(),
            explanation: "It compares index records; it is called from `page_cur_search_with_match`.".into(),
            evidence: vec![
                evidence("self time", Reference::Function(hot), Some(Value::Time(Nanos(36_000_000_000)))),
                evidence("thread conn-0", Reference::Thread(Tid(4720)), None),
            ],
            next_steps: vec![],
        },
    ]
}
