//! The CPU is what limits the process.

use crate::findings::answering::{Answering, answers};
use crate::findings::called;
use crate::findings::evidence::{at, fact, grade, metric, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::harm::harms;
use crate::findings::scene::{Scene, is_worth_naming};
use crate::findings::spent;
use crate::findings::want_of_cpu::kept_seconds;
use crate::trace::cost_names::Cost;
use crate::trace::flame::{FlameKind, FlameTree};
use crate::trace::frames::as_u32;
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::threads::ThreadRow;
use crate::whose::Whose;
use crate::words::{cores, cpus, percent, threads};

/// A thread that runs this much of the time waits for nothing worth mentioning.
const BUSY_THREAD: f64 = 0.7;
/// Share of the time that one thread runs, or of all CPUs that are used: from the first on it waits for nothing worth mentioning, from
/// the second on a person asks what it does.
const SHARE: [f64; 3] = [f64::INFINITY, BUSY_THREAD, 0.4];
/// A thread that runs less than this may wait for a CPU as long as it likes: it hardly wants one.
const WANTS_ONE: f64 = 0.03;
/// From this share of the CPU time in the scheduler on, switching is the finding.
const SWITCHING: f64 = 0.3;
/// The same of flushes to a disk, which the disk's finding tells.
const FLUSHING: f64 = 0.3;
/// A thread that wants a CPU for so much more of the time than it gets one is held back.
const HELD_BACK: f64 = 0.2;
/// A fifth of all CPU time in one function's own code is what people call a hot function.
const HOT: f64 = 0.2;
/// Of a runtime's loop the program's part may be small; below this it is chance.
const OWN: f64 = 0.05;
/// Share of the CPU time inside of the kernel, from which on that is worth a line.
const IN_KERNEL: f64 = 0.5;
/// As share of what all functions of the program have.
const OF_OWN: f64 = 0.4;
/// A caller is named from this share of the function's time on.
const CALLER: f64 = 0.3;
/// All CPUs are in use, but for what the rest of the machine needs.
const ALL_CPUS: f64 = 0.9;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let used = scene.cores?;
    // All threads together are none.
    let rows = if scene.tells_threads { scene.analysis.threads.rows.as_slice() } else { &[] };
    let busiest = rows.first();
    let share_of = |row: &ThreadRow| row.running.as_secs_f64() / scene.seconds;
    let busy_thread = busiest.map_or(0.0, share_of);
    // What it would use if it got it: a thread that others keep from the CPU is bound by the CPU all the same.
    let wanted = |row: &ThreadRow| (row.running.as_secs_f64() + kept_seconds(scene, row)) / scene.seconds;
    let wanting = rows.iter().filter(|row| share_of(row) >= WANTS_ONE).map(wanted).fold(0.0, f64::max);
    // Of how many CPUs is not known of other tools' profiles: then one that is in use counts as a thread that is busy.
    let of_machine = if scene.knows_cpus { used / scene.cpus } else { 0.0 };
    let of_one = if scene.knows_cpus { 0.0 } else { used };
    let impact = busy_thread.max(of_machine).max(of_one).max(wanting).min(1.0);
    // Several threads that others keep from the CPUs: together they would use them.
    let all = scene.wanted_cores().filter(|&all| scene.knows_cpus && all >= used + HELD_BACK);
    let together = all.unwrap_or(0.0) / scene.cpus;
    let (severity, impact) = match grade(impact, SHARE) {
        Some(severity) => (severity, impact),
        None => (grade(together, SHARE)?.min(Severity::Notice), together.min(1.0)),
    };
    // Where switching takes the CPU, that is the finding.
    let switching = scene.facts.scheduling.as_secs_f64() >= SWITCHING * scene.sampled && scene.sampled > 0.0;
    // A batch that computes does what it is there for.
    let harms = harms(scene);
    // Nor where it is the kernel that hands pages to a disk which somebody waits for.
    let flush = scene.facts.costs.iter().find(|row| row.cost == Cost::Flush);
    let flushing = flush.is_some_and(|row| row.time.as_secs_f64() >= FLUSHING * scene.sampled);
    // A server at full load does what it is there for too.
    let answering = answers(scene);
    let lowered = switching || flushing || !harms || answering.is_some();
    let lowered = lowered || !scene.tells_threads;
    let severity = if lowered { severity.min(Severity::Notice) } else { severity };
    let hot = hot_function(scene).or_else(|| most_of_its_own(scene));
    let busy = rows.iter().filter(|row| share_of(row) >= BUSY_THREAD).count();

    let mut evidence = vec![fact(
        if scene.knows_cpus {
            format!("{} used on average, of {}", cores(used), cpus(scene.cpus))
        } else {
            format!("{} used on average; of how many CPUs was not recorded", cores(used))
        },
        Some(Value::Cores(used)),
    )];
    let mut place = String::new();
    evidence.extend(answering.as_ref().map(Answering::evidence));
    if let Some(hot) = &hot {
        place = format!(" in {}", hot.words);
        evidence.extend(hot.evidence.iter().cloned());
    }
    if let Some(row) = busiest.filter(|_| busy_thread >= 0.3) {
        evidence.push(at(
            Reference::Thread(row.tid),
            format!("{} runs {} of the time", scene.thread_name(row.tid), percent(busy_thread)),
            Some(Value::Share(busy_thread)),
        ));
    }
    if busy > 1 {
        evidence.push(fact(
            format!("{} run more than {} of the time", threads(busy), percent(BUSY_THREAD)),
            None,
        ));
    }
    evidence.extend(spent::largest(scene));
    let kernel = scene.facts.kernel.as_secs_f64() / scene.sampled.max(f64::MIN_POSITIVE);
    if kernel >= IN_KERNEL {
        let text = format!(
            "{} of the CPU time is inside the kernel, in system calls that it makes",
            percent(kernel)
        );
        evidence.push(fact(text, Some(Value::Share(kernel))));
    }
    evidence.extend(machine(scene, used));
    let held_back = wanting.max(together) >= busy_thread + HELD_BACK;
    if held_back && wanting < together {
        evidence.push(fact(
            format!("its threads want {} together, and get {}", cores(together * scene.cpus), cores(used)),
            Some(Value::Cores(together * scene.cpus)),
        ));
    } else if held_back {
        evidence.push(fact(
            format!(
                "a thread of it wants a CPU {} of the time and gets one {}",
                percent(wanting),
                percent(busy_thread)
            ),
            Some(Value::Share(wanting)),
        ));
    }
    let extent = match (busy, of_machine >= ALL_CPUS) {
        (_, true) if scene.cpus < 2.0 => "it uses the only CPU of the machine".to_owned(),
        (_, true) => format!("it uses all {}", cpus(scene.cpus)),
        (1, _) => "one thread uses a whole core".to_owned(),
        _ if held_back => format!("it uses {} and would use more if it got them", cores(used)),
        _ => format!("it uses {}", cores(used)),
    };
    let uses = if held_back {
        format!("gets {} and wants more", cores(used))
    } else {
        format!("uses {}", cores(used))
    };
    let mut explanation = format!(
        "Most likely the code itself takes the time: {extent}, and waiting is not what holds it back. "
    );
    if answering.is_some() {
        explanation.push_str(
            "It answers connections, much of its time is sending and receiving, and no function stands out: that is what a server does \
             which gets as many requests as it can answer, and nothing in it need be wrong. Where that is too slow, it takes more CPUs or \
             fewer requests. ",
        );
    }
    if !harms {
        explanation.push_str(
            "Nobody was seen to wait for it: it answers no connections, and its threads do not wait for each other. A job that computes \
             does just this, and then nothing is wrong. ",
        );
    }
    if busy == 1 && of_machine < ALL_CPUS && scene.cpus > 1.0 {
        explanation.push_str(
            "More CPUs will not help while one thread does the work; a faster core or splitting the work will. ",
        );
    }
    explanation
        .push_str("Whether the work is needed, or done too often, the profile cannot tell: the callers may.");
    Some(Finding {
        id: FindingId::CpuBound,
        severity,
        // Behind what the disk's finding says.
        impact: if flushing { impact * 0.25 } else { impact },
        title: match &answering {
            Some(_) => format!("Busy answering: {} {uses}, and no function stands out", scene.name),
            None => format!("CPU-bound{place}: {} {uses}", scene.name),
        },
        explanation,
        evidence,
        next_steps: steps(&[
            "Look at the CPU flame graph: who calls the hot function, and how often it must be called at all",
            "Compare with a recording of the same work from when it was fast",
        ]),
    })
}

fn machine(scene: &Scene<'_>, used: f64) -> Option<Evidence> {
    let all = scene.machine_cores()?;
    let text = format!(
        "the whole machine uses {} of {}, so others use {}",
        cores(all),
        scene.cpus,
        cores((all - used).max(0.0))
    );
    Some(at(metric("system", "cpu.busy", ""), text, Some(Value::Cores(all))))
}

struct Hot {
    words: String,
    evidence: Vec<Evidence>,
}

/// The function to name: one with much time of its own, or else the deepest one below which most of the time is.
fn hot_function(scene: &Scene<'_>) -> Option<Hot> {
    let tree = &scene.analysis.flames.all.cpu;
    if scene.sampled <= 0.0 {
        return None;
    }
    let own = scene
        .analysis
        .functions
        .iter()
        .enumerate()
        .filter(|(_, row)| !matches!(row.kind, FunctionKind::Heading))
        .max_by(|a, b| a.1.cpu_self.cmp(&b.1.cpu_self).then(b.0.cmp(&a.0)))?;
    let handle = FunctionHandle(as_u32(own.0));
    let own_share = own.1.cpu_self.as_secs_f64() / scene.sampled;
    let name = scene.function_name(Some(handle))?;
    // What the program calls of a library or of its interpreter is named behind the function of its own that calls it.
    if own.1.whose != Whose::Program
        && let Some((of_program, share)) = scene.program_of(tree)
        && share >= HOT
        && let Some(program) = scene.function_name(Some(of_program))
    {
        let mut evidence = vec![at(
            Reference::Function(of_program),
            format!(
                "{} of the CPU time is in {program} and what it calls of libraries and the kernel",
                percent(share)
            ),
            Some(Value::Share(share)),
        )];
        let mut words = format!("{program} ({} of its CPU time)", percent(share));
        evidence.extend(called::largest(scene, of_program).map(|called| called.evidence("that")));
        if own_share >= HOT {
            evidence.push(at(
                Reference::Function(handle),
                format!("{} of the CPU time is in {name} itself ({})", percent(own_share), own.1.module),
                Some(Value::Share(own_share)),
            ));
            words = format!("{program} → {name} ({} of its CPU time)", percent(share));
        }
        return Some(Hot { words, evidence });
    }
    if own_share >= HOT {
        let mut evidence = vec![at(
            Reference::Function(handle),
            format!("{} of the CPU time is in {name} itself ({})", percent(own_share), own.1.module),
            Some(Value::Share(own_share)),
        )];
        let caller =
            scene.caller_of(tree, |function, _| function == handle).filter(|(_, share)| *share >= CALLER);
        let mut words = format!("{name} ({} of its CPU time)", percent(own_share));
        if let Some((caller, share)) = caller {
            let caller_name = scene.function_name(Some(caller)).unwrap_or_default();
            evidence.push(at(
                Reference::Function(caller),
                format!("{} of that is called from {caller_name}", percent(share)),
                Some(Value::Share(share)),
            ));
            // `memcpy` alone says little.
            if !is_worth_naming(own.1) {
                words = format!("{name} called from {caller_name} ({} of its CPU time)", percent(own_share));
            }
        }
        return Some(Hot { words, evidence });
    }
    let path = heaviest_path(tree, 0.5);
    let deepest =
        path.iter().rev().copied().find(|&function| scene.row(function).is_some_and(is_worth_naming))?;
    let row = scene.row(deepest)?;
    let total = row.cpu_total.as_secs_f64() / scene.sampled;
    let deepest_name = scene.function_name(Some(deepest))?;
    // A thread's outermost function holds all of its time; saying so helps nobody.
    if path.len() < 3 || row.cpu_self == row.cpu_total && total < 0.5 {
        return None;
    }
    let evidence = vec![
        at(
            Reference::Function(deepest),
            format!("{} of the CPU time is in {deepest_name} and what it calls", percent(total)),
            Some(Value::Share(total)),
        ),
        at(
            Reference::Function(handle),
            format!(
                "no single function stands out; the largest is {name} with {} of its own",
                percent(own_share)
            ),
            Some(Value::Share(own_share)),
        ),
    ];
    Some(Hot { words: format!("the calls of {deepest_name} ({} of its CPU time)", percent(total)), evidence })
}

/// Where all that stands out is a runtime's: the function of the program that has most of the rest.
fn most_of_its_own(scene: &Scene<'_>) -> Option<Hot> {
    let tree = &scene.analysis.flames.all.cpu;
    let (function, share) = scene.program_of(tree).filter(|(_, share)| *share >= OWN)?;
    if share < scene.program_share(tree) * OF_OWN {
        return None;
    }
    let name = scene.function_name(Some(function))?;
    let text = format!(
        "no function stands out; of the functions of the program itself {name} has most, {} of the CPU time with what it calls",
        percent(share)
    );
    let evidence = vec![at(Reference::Function(function), text, Some(Value::Share(share)))];
    Some(Hot { words: format!("{name} and around it ({} of its CPU time)", percent(share)), evidence })
}

/// From the root downwards as long as one child holds at least `share` of all time.
fn heaviest_path(tree: &FlameTree, share: f64) -> Vec<FunctionHandle> {
    let least = tree.total().as_secs_f64() * share;
    let mut path = Vec::new();
    let mut at = tree.nodes.first();
    while let Some(node) = at {
        let child = node.children.first().and_then(|&child| tree.nodes.get(child as usize));
        at = child.filter(|child| child.total.as_secs_f64() >= least);
        if let Some(FlameKind::Function(function)) = at.map(|node| node.kind) {
            path.push(function);
        }
    }
    path
}
