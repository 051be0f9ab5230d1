//! Sums stay true, and no recording makes an analysis panic or run on.

mod build;

use biopsy_analyze::FlameTree;
use biopsy_analyze::{FlameKind, analyze};
use biopsy_model::capture::Capture;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource, place_name};
use biopsy_model::timeline::{Sample, StateSlice, Wait, WaitSample, WaitState};
use biopsy_model::{LookupAddress, MonoNanos, Nanos, Tid};
use build::{Build, IDLE, IN_LOCK, START, Waiting};

/// A small generator (splitmix64), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Mostly small, sometimes as large as can be.
    fn wild(&mut self, limit: u64) -> u64 {
        match self.below(8) {
            0 => u64::MAX - self.below(3),
            1 => self.next(),
            _ => self.below(limit),
        }
    }
}

fn check_sums(tree: &FlameTree, limit: usize) {
    let drawn = tree.nodes.iter().filter(|node| node.kind != FlameKind::Pruned).count();
    assert!(drawn <= limit, "{drawn} nodes");
    for (at, node) in tree.nodes.iter().enumerate() {
        let children: u64 = node.children.iter().map(|&child| tree.nodes[child as usize].total.0).sum();
        assert_eq!(node.total.0, node.own.0 + children, "node {at}");
        assert!(node.children.iter().all(|&child| child as usize > at));
    }
}

/// Calls at random depths and places, so that pruning has something to prune.
fn bushy() -> Capture {
    let mut random = Random(7);
    let mut build = Build::new("bushy", 4, 4);
    let names: Vec<String> = (0..40).map(|number| format!("server!f{number}")).collect();
    for tid in 1..30 {
        build.thread(tid, &format!("worker-{tid}"));
        for _ in 0..400 {
            let depth = 1 + random.below(30);
            let stack: Vec<&str> = (0..depth).map(|_| names[random.below(40) as usize].as_str()).collect();
            build.cpu(tid, 0.0005, &stack);
        }
    }
    build.done()
}

#[test]
fn sums_stay_true_when_trees_are_pruned() {
    let capture = bushy();
    let analysis = analyze(&capture);
    let all: u64 =
        capture.timeline.iter().flat_map(|timeline| &timeline.samples).map(|sample| sample.weight.0).sum();
    let cpu = &analysis.flames.all.cpu;
    assert!(cpu.pruned_nodes > 0);
    assert_eq!(cpu.total().0, all);
    check_sums(cpu, biopsy_analyze::limits::FLAME_NODES);
    assert_eq!(analysis.flames.threads.len(), biopsy_analyze::limits::FLAME_THREADS);
    for thread in &analysis.flames.threads {
        check_sums(&thread.flames.cpu, biopsy_analyze::limits::THREAD_FLAME_NODES);
        let row = analysis.threads.rows.iter().find(|row| row.tid == thread.tid).expect("its row");
        assert_eq!(thread.flames.cpu.total(), row.sampled);
    }
    let own: u64 = analysis.functions.iter().map(|row| row.cpu_self.0).sum();
    assert_eq!(own, all);
    assert!(analysis.functions.iter().all(|row| row.cpu_self <= row.cpu_total && row.cpu_total.0 <= all));
}

#[test]
fn recursion_counts_once_and_inlined_functions_have_rows() {
    let mut build = Build::new("deep", 1, 1);
    build.thread(1, "deep");
    build.cpu(
        1,
        0.5,
        &["server!main", "server!descend", "server!descend", "server!descend", "server!leaf<middle<outer"],
    );
    let analysis = analyze(&build.done());
    let total = |name: &str| {
        analysis.functions.iter().find(|row| row.name == name).map(|row| (row.cpu_self.0, row.cpu_total.0))
    };
    assert_eq!(total("descend"), Some((0, 500_000_000)));
    assert_eq!(total("leaf"), Some((500_000_000, 500_000_000)));
    assert_eq!(total("outer"), Some((0, 500_000_000)));
    let names: Vec<&str> = analysis
        .flames
        .all
        .cpu
        .nodes
        .iter()
        .filter_map(|node| match node.kind {
            FlameKind::Function(function) => analysis.function(function).map(|row| row.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["main", "descend", "descend", "descend", "outer", "middle", "leaf"]);
}

#[test]
fn frames_without_names_are_shown_as_module_and_offset() {
    let mut build = Build::new("stripped", 1, 1);
    build.thread(1, "stripped").cpu(1, 0.5, &["server!main", "libfoo.so!"]);
    let analysis = analyze(&build.done());
    let row = analysis.functions.iter().find(|row| row.module == "libfoo.so").expect("the frame");
    assert!(!row.named && row.name.starts_with("libfoo.so+0x"), "{row:?}");
    assert_eq!(analysis.completeness.unnamed_frames, Some(0.5));
    assert_eq!(analysis.completeness.unnamed_modules, [("libfoo.so".to_owned(), 0.5)]);
}

#[test]
fn places_of_one_function_without_a_name_are_one_row() {
    let mut build = Build::new("stripped", 1, 1);
    build.thread(1, "stripped").cpu(1, 0.25, &["server!main", "libfoo.so!"]);
    build.thread(2, "stripped").cpu(2, 0.25, &["server!main", "libbar.so!"]);
    let mut capture = build.done();
    let timeline = capture.timeline.as_mut().expect("a timeline");
    for (number, symbols) in timeline.symbols.iter_mut().enumerate().filter(|(_, symbols)| symbols.is_none())
    {
        let frame = FrameHandle(u32::try_from(number).expect("few frames"));
        let name = place_name("/opt/app/libfoo.so (deleted)", 0x1234);
        let functions = vec![Function { name, file: None, line: None }];
        *symbols = Some(FrameSymbols { frame, functions, source: SymbolSource::FunctionStart });
        // Both are in the same file.
        timeline.frames[number].module = timeline.frames.iter().rev().find_map(|frame| frame.module);
    }
    let analysis = analyze(&capture);
    let rows: Vec<_> = analysis.functions.iter().filter(|row| !row.named).collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&*rows[0].name, rows[0].cpu_self), ("libfoo.so+0x1234", Nanos(500_000_000)));
    assert_eq!(analysis.completeness.named.native, Some(0.5));
    assert_eq!(analysis.completeness.named.managed, None);
}

#[test]
fn threads_are_grouped_and_have_strips() {
    let mut build = Build::new("server", 10, 4);
    for tid in 1..=4 {
        build.thread(tid, &format!("worker-{tid}")).cpu(tid, 0.5, &["server!work"]);
    }
    build.thread(9, "main").wait(9, IDLE);
    let analysis = analyze(&build.done());
    let groups: Vec<(&str, usize)> =
        analysis.threads.groups.iter().map(|group| (group.name.as_str(), group.threads)).collect();
    assert_eq!(groups, [("worker-*", 4), ("main", 1)]);
    assert_eq!(analysis.threads.rows[0].running.0, 5_000_000_000);
    for row in &analysis.threads.rows[..4] {
        assert!(row.strip.iter().all(|bucket| (bucket.running - 0.5).abs() < 0.01), "{:?}", row.strip);
    }
    assert_eq!(analysis.threads.count_peak, 5);
}

#[test]
fn who_wakes_whom() {
    let mut build = Build::new("server", 10, 4);
    build.thread(1, "dispatcher").cpu(1, 0.1, &["server!main"]);
    for tid in 100..104 {
        build
            .thread(tid, &format!("worker-{tid}"))
            .wait(tid, Waiting { waker: Some(1), ..build::IN_CONDITION });
    }
    let analysis = analyze(&build.done());
    let row = &analysis.waits.activations[0];
    assert_eq!(analysis.threads.groups[row.woken].name, "worker-*");
    let biopsy_analyze::Party::Group(waker) = row.waker else { panic!("{row:?}") };
    assert_eq!(analysis.threads.groups[waker].name, "dispatcher");
    assert_eq!(row.count, 2_400);
}

/// Recordings with everything out of order, out of range and contradictory.
#[test]
fn wild_recordings_do_no_harm() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut build = Build::new("wild", random.below(5), random.below(3) as u32);
        build.thread(1, "a").thread(1, "b").wait(1, IDLE).wait(2, IN_LOCK).machine(f64::NAN);
        let states =
            [WaitState::Sleep, WaitState::Disk, WaitState::Stopped, WaitState::Preempted, WaitState::Other];
        let names =
            ["", "futex_wait", "schedule", "_raw_spin_unlock_irqrestore", "x", "(", "<", "a<b>::c(d)", "é"];
        for number in 0..random.below(60) {
            build.timeline.frames.push(Frame {
                space: if random.below(2) == 0 { FrameSpace::Kernel } else { FrameSpace::User },
                module: (random.below(2) == 0)
                    .then(|| biopsy_model::module::ModuleHandle(random.wild(4) as u32)),
                address: LookupAddress(random.next()),
            });
            let name = names[random.below(names.len() as u64) as usize].to_owned();
            build.timeline.symbols.push((random.below(2) == 0).then(|| FrameSymbols {
                frame: FrameHandle(number as u32),
                functions: vec![
                    Function { name, file: None, line: Some(random.wild(9) as u32) };
                    random.below(3) as usize
                ],
                source: SymbolSource::Dwarf,
            }));
            build.timeline.stacks.push(StackNode {
                caller: (random.below(4) > 0).then(|| StackHandle(random.wild(number + 2) as u32)),
                frame: FrameHandle(random.wild(number + 2) as u32),
            });
        }
        for _ in 0..random.below(60) {
            let tid = Tid(random.wild(4) as u32);
            let state = states[random.below(5) as usize];
            let stack = (random.below(3) > 0).then(|| StackHandle(random.wild(60) as u32));
            let end = biopsy_model::stack::StackEnd::Truncated;
            let time = MonoNanos(START.wrapping_add(random.wild(5_000_000_000)));
            let weight = Nanos(random.wild(9_000_000));
            let syscall = (random.below(2) == 0).then(|| random.wild(400) as u32);
            build.timeline.samples.push(Sample { time, tid, cpu: random.next() as u32, stack, end, weight });
            build.timeline.wait_samples.push(WaitSample { time, tid, stack, end, weight, syscall, state });
            build.timeline.waits.push(Wait {
                tid,
                start: time,
                end: MonoNanos(random.wild(START * 2)),
                ready: (random.below(2) == 0).then(|| MonoNanos(random.wild(START * 2))),
                waker: (random.below(2) == 0).then(|| Tid(random.wild(4) as u32)),
                state,
                syscall,
                stack,
            });
            build.timeline.states.push(StateSlice {
                tid,
                from: time,
                to: MonoNanos(random.wild(START * 2)),
                running: Nanos(random.wild(9)),
                ready: Nanos(random.wild(9)),
                waiting: Nanos(random.wild(9)),
                voluntary: random.wild(9) as u32,
                involuntary: random.wild(9) as u32,
                wakeups: random.wild(9) as u32,
            });
        }
        let mut capture = build.done();
        if random.below(2) == 0 {
            capture.header.start.mono = MonoNanos(random.wild(START * 2));
            capture.header.start.wall_unix_nanos = i128::MIN;
        }
        let analysis = analyze(&capture);
        assert!(!analysis.findings.is_empty());
        assert!(analysis.findings.iter().all(|finding| (0.0..=1.0).contains(&finding.impact)));
    }
}

/// A stack as deep as a hostile file can make it: no recursion, no quadratic time.
#[test]
fn a_very_deep_stack_does_no_harm() {
    let mut build = Build::new("deep", 1, 1);
    let stack = build.stack(&["server!descend"]).expect("a stack");
    let frame = build.timeline.stacks[stack.0 as usize].frame;
    for caller in 0..300_000 {
        build.timeline.stacks.push(StackNode { caller: Some(StackHandle(caller)), frame });
    }
    let end = biopsy_model::stack::StackEnd::Root;
    for depth in [1, 1_000, 299_999] {
        let time = MonoNanos(START + u64::from(depth));
        build.timeline.samples.push(Sample {
            time,
            tid: Tid(1),
            cpu: 0,
            stack: Some(StackHandle(depth)),
            end,
            weight: Nanos(7),
        });
    }
    let analysis = analyze(&build.done());
    assert_eq!(analysis.functions[0].cpu_total, Nanos(21));
    check_sums(&analysis.flames.all.cpu, biopsy_analyze::limits::FLAME_NODES);
}
