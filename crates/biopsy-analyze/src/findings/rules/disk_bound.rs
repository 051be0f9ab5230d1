//! Disk-bound.

use crate::findings::evidence::{at, fact, grade, metric, steps, thread_of_key};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, ThreadWait};
use crate::findings::spent::on;
use crate::metrics::series::Series;
use crate::trace::cost_names::Cost;
use crate::trace::waits::WaitReason;
use crate::words::{number, percent, seconds, threads_wait};
use biopsy_model::{Nanos, Tid};
use std::collections::BTreeMap;

/// Share of the time that one thread waits for disks. Half of one thread's time: a database's log writer gets there on a healthy
/// machine, so it takes more to warn.
const ONE_THREAD: [f64; 3] = [0.75, 0.5, 0.3];
/// The same by the kernel's account, which counts what a thread of the page cache waits for too.
const BY_METRICS: [f64; 3] = [0.8, 0.5, 0.3];
/// Mean number of threads that wait for disks, and behind those that do: one thread's worth is where work begins to queue.
const THROUGH_OTHERS: [f64; 3] = [4.0, 1.0, 0.5];
/// Of these, how many wait themselves, and how many behind them, so that the disk is the cause and not a chance.
const DIRECT: f64 = 0.2;
const INDIRECT: f64 = 0.3;
/// Share of the waits at one site that others' disk accesses stand behind.
const EXPLAINED: f64 = 0.2;
/// System calls that end when what was written is on the disk.
const FLUSHES: [&str; 6] = ["fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync"];
/// Waits a second of a thread that flushes: a log that is flushed now and then is below.
const FLUSHES_A_SECOND: f64 = 50.0;
/// CPU time of a flushing thread in the kernel, as share of the time: less, and waiting alone tells all.
const FLUSH_CPU: f64 = 0.02;
/// Share of the CPU time in flushes from which on they are what it does: most of the rest is then writing what is flushed. What that weighs.
const FLUSH_COST: f64 = 0.2;
/// It stands before what says only that CPU time is used.
const OF_COST: f64 = 0.9;
/// CPUs that it uses, or wants, below which it harms nobody.
const LEAST_CORES: f64 = 0.3;
/// What a disk says of itself is worth a line from here on.
const WORTH_A_LINE: f64 = 0.05;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let waits = scene.thread_waits(|reason| reason == WaitReason::Disk);
    let found = match waits.first() {
        // Three threads that flush in turn are each at a third, and wait for each other's flushes else.
        Some(worst) => [behind(scene, &waits), by_trace(scene, &waits, *worst)],
        None if scene.facts.waits.by_thread.is_empty() => [by_metrics(scene), None],
        None => [None, None],
    };
    // The worst; of equals the last, which says more.
    let found = found.into_iter().flatten().chain(by_flushes(scene)).max_by_key(|found| found.severity);
    found.or_else(|| by_cost(scene))
}

/// A flush behind each record: the time in it is partly waiting, partly CPU time of the kernel that hands the pages to the disk.
fn by_flushes(scene: &Scene<'_>) -> Option<Finding> {
    let calls = scene.facts.waits.calls.iter().filter(|row| FLUSHES.contains(&row.call));
    let mut threads: BTreeMap<Tid, Nanos> = BTreeMap::new();
    for row in calls.clone() {
        let sum = threads.entry(row.tid).or_default();
        *sum = *sum + row.time;
    }
    let longest = calls.max_by_key(|row| row.time)?;
    let cost = scene.facts.costs.iter().find(|row| row.cost == Cost::Flush);
    let cpu = cost.map_or(0.0, |row| row.time.as_secs_f64()) / scene.seconds;
    // Its CPU time is not known by thread.
    let each = cpu / (threads.len().max(1) as f64);
    let (tid, waited) = threads.iter().max_by_key(|(_, time)| **time)?;
    let row = scene.thread(*tid);
    // Of the time that it got: what others keep from it is neither waiting nor work.
    let kept = row.map_or(0.0, |row| row.ready.as_secs_f64() / scene.seconds).min(0.9);
    let share = ((waited.as_secs_f64() / scene.seconds + each) / (1.0 - kept)).min(1.0);
    let switches = row.map_or(0, |row| row.voluntary);
    let rate = switches as f64 / scene.seconds;
    // The same of what would be where others did not keep it from the CPU.
    if rate / (1.0 - kept) < FLUSHES_A_SECOND || each / (1.0 - kept) < FLUSH_CPU {
        return None;
    }
    let severity = grade(share, ONE_THREAD)?;
    let function =
        cost.and_then(|row| row.callers.first().map(|(function, _)| *function)).or(longest.function);
    let place = scene.function_name(function).map_or(String::new(), |place| format!(" in {place}"));
    let call = longest.call;
    let mut evidence = vec![
        at(
            function.map_or(Reference::Thread(*tid), Reference::WaitFunction),
            format!(
                "{} is in `{call}` for {} of the time that it is not kept from the CPU{place}: {} of the time waiting for the disk, else handing \
                 pages to it",
                scene.thread_name(*tid),
                percent(share),
                percent(waited.as_secs_f64() / scene.seconds)
            ),
            Some(Value::Share(share)),
        ),
        fact(
            format!(
                "it waits {} times a second, so most likely it flushes behind each small write",
                number(rate)
            ),
            Some(Value::PerSecond(rate)),
        ),
    ];
    if threads.len() > 1 {
        evidence
            .push(fact(format!("{} threads flush", threads.len()), Some(Value::Count(threads.len() as f64))));
    }
    evidence.extend(disks(scene));
    let title = format!(
        "Disk-bound{place}: {} spends {} of the time flushing to the disk (`{call}`), again and again",
        scene.name,
        percent(share)
    );
    Some(finding(severity, share, title, evidence))
}

/// Where the disk is so fast, or the CPU so short, that no wait for it stands out: what flushing costs.
fn by_cost(scene: &Scene<'_>) -> Option<Finding> {
    scene.wanted_cores().filter(|&wanted| wanted >= LEAST_CORES)?;
    let spent = on(scene, &[(Cost::Flush, "flushing files to the disk")])?;
    let place = spent.place.filter(|_| spent.share >= FLUSH_COST)?;
    let rows = scene.analysis.threads.rows.iter();
    let rate = rows.map(|row| {
        let kept = (row.ready.as_secs_f64() / scene.seconds).min(0.9);
        row.voluntary as f64 / scene.seconds / (1.0 - kept)
    });
    let rate = rate.fold(0.0, f64::max);
    if rate < FLUSHES_A_SECOND {
        return None;
    }
    let name = scene.function_name(Some(place))?;
    let mut evidence = spent.evidence;
    evidence.push(fact(
        format!(
            "a thread of it goes to sleep {} times in each second that it is not kept from the CPU, so most likely it flushes behind each \
             small write",
            number(rate)
        ),
        Some(Value::PerSecond(rate)),
    ));
    evidence.extend(disks(scene));
    let title = format!(
        "Disk-bound in {name}: {} of the CPU time of {} is flushing to the disk, again and again",
        percent(spent.share),
        scene.name
    );
    Some(finding(Severity::Notice, OF_COST, title, evidence))
}

fn by_trace(scene: &Scene<'_>, waits: &[ThreadWait], worst: ThreadWait) -> Option<Finding> {
    let mean: f64 = waits.iter().map(|wait| wait.share).sum();
    let severity = grade(worst.share, ONE_THREAD)?;
    let place = scene.function_name(worst.function);
    let calls = calls(scene);
    let mut evidence = vec![at(
        worst.function.map_or(Reference::Thread(worst.tid), Reference::WaitFunction),
        format!(
            "{} waits {} of the time for the disk{}, {} times",
            scene.thread_name(worst.tid),
            percent(worst.share),
            place.as_ref().map_or(String::new(), |place| format!(" in {place}")),
            number(worst.count as f64)
        ),
        Some(Value::Share(worst.share)),
    )];
    if waits.len() > 1 {
        evidence.push(fact(
            format!(
                "on average {mean:.1} of {} threads wait for the disk",
                scene.analysis.threads.rows.len()
            ),
            Some(Value::Count(mean)),
        ));
    }
    if let Some(row) = scene.analysis.waits.reasons.iter().find(|row| row.reason == WaitReason::Disk) {
        evidence.push(fact(
            format!("the longest such wait took {}", seconds(row.longest.as_secs_f64())),
            Some(Value::Time(row.longest)),
        ));
    }
    evidence.extend(disks(scene));
    let in_place = place.map_or(String::new(), |place| format!(" in {place}"));
    let by = calls.map_or(String::new(), |calls| format!(" (`{calls}`)"));
    Some(finding(
        severity,
        worst.share,
        format!(
            "Disk-bound{in_place}: {} waits {} of the time for the disk{by}",
            scene.name,
            percent(worst.share)
        ),
        evidence,
    ))
}

/// Threads wait for each other, and who they wait for waits for the disk: a group commit, or a lock held while writing.
fn behind(scene: &Scene<'_>, waits: &[ThreadWait]) -> Option<Finding> {
    let rows: Vec<_> =
        scene.analysis.waits.behind.iter().filter(|row| row.cause == WaitReason::Disk).collect();
    let worst = rows.first()?;
    let direct: f64 = waits.iter().map(|wait| wait.share).sum();
    let indirect: f64 = rows.iter().map(|row| scene.mean_threads(row.time)).sum();
    // One thread's worth of waiting, of which a good part is for others' disk accesses.
    if direct < DIRECT || indirect < INDIRECT || worst.share < EXPLAINED {
        return None;
    }
    let severity = grade(direct + indirect, THROUGH_OTHERS)?;
    let place = scene.function_name(worst.function).map_or(String::new(), |name| format!(" in {name}"));
    let cause = scene.function_name(worst.cause_function).map_or(String::new(), |name| format!(" in {name}"));
    let mut evidence = vec![
        at(
            worst.function.map_or(Reference::Recording, Reference::WaitFunction),
            format!(
                "{}{place}; in {} of these waits the thread that ended it had itself waited for the disk{cause}",
                threads_wait(worst.threads),
                percent(worst.share)
            ),
            Some(Value::Share(worst.share)),
        ),
        fact(
            format!(
                "on average {direct:.1} threads wait for the disk, and at least {indirect:.1} more behind them"
            ),
            Some(Value::Count(direct + indirect)),
        ),
    ];
    evidence.extend(disks(scene));
    let by = calls(scene).map_or(String::new(), |calls| format!(" (`{calls}`)"));
    Some(finding(
        severity,
        (direct + indirect).min(1.0),
        format!(
            "Disk-bound through others: {}{place} for threads that wait for the disk{cause}{by}",
            threads_wait(worst.threads)
        ),
        evidence,
    ))
}

fn calls(scene: &Scene<'_>) -> Option<String> {
    let row = scene.analysis.waits.reasons.iter().find(|row| row.reason == WaitReason::Disk)?;
    row.syscalls.first().map(|(name, _)| name.clone())
}

/// Without a trace: the kernel's own account of threads in block I/O.
fn by_metrics(scene: &Scene<'_>) -> Option<Finding> {
    let series = scene.series("threads", "disk-wait");
    // A thread has no row when it did not run since its last one, so the mean is over the whole window.
    let most = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let readings = scene.system("cpu.busy").map_or(most, |busy| busy.points.len()).max(1) as f64;
    let mean = |series: &Series| series.points.iter().map(|point| point.1).sum::<f64>() / readings;
    let worst = series.iter().max_by(|a, b| mean(a).total_cmp(&mean(b)))?;
    let share = mean(worst).min(1.0);
    let severity = grade(share, BY_METRICS)?;
    let mut evidence = vec![at(
        metric("threads", "disk-wait", &worst.key),
        format!("{} waits {} of the time for block I/O", thread_of_key(&worst.key), percent(share)),
        Some(Value::Share(share)),
    )];
    evidence.extend(disks(scene));
    let title = format!("Disk-bound: {} waits {} of the time for the disk", scene.name, percent(share));
    Some(finding(severity, share, title, evidence))
}

fn finding(severity: Severity, impact: f64, title: String, evidence: Vec<Evidence>) -> Finding {
    Finding {
        id: FindingId::DiskBound,
        severity,
        impact,
        title,
        explanation: "Most likely the program waits for each write (or read) to finish before it goes on. If the disk is busy \
                      it is the disk's throughput that is short; if it is not, it is the latency of each single operation, \
                      and fewer or larger ones (one `fsync` for many records) help. It is not the CPU."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See the disk charts: busy, latency and queue in the same moments",
            "Batch the writes or the calls of `fsync`, or move the file to a faster disk",
        ]),
    }
}

/// What the disks themselves say.
fn disks(scene: &Scene<'_>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    let all = scene.series("disks", "busy");
    let busiest = all.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()));
    if let Some(busy) = busiest.filter(|busy| busy.mean() >= WORTH_A_LINE) {
        let mean = busy.mean();
        evidence.push(at(
            metric("disks", "busy", &busy.key),
            format!("disk `{}` is busy {} of the time", busy.key, percent(mean)),
            Some(Value::Share(mean)),
        ));
        for (column, words) in
            [("write.latency", "write"), ("flush.latency", "flush"), ("read.latency", "read")]
        {
            let all = scene.series("disks", column);
            if let Some(latency) = all.iter().find(|series| series.key == busy.key && series.mean() > 0.0) {
                evidence.push(at(
                    metric("disks", column, &busy.key),
                    format!("a {words} of `{}` takes {} on average", busy.key, seconds(latency.mean() / 1e3)),
                    Some(Value::Time(biopsy_model::Nanos((latency.mean() * 1e6) as u64))),
                ));
            }
        }
    }
    if let Some(pressure) =
        scene.system("pressure.io.some").filter(|pressure| pressure.mean() >= WORTH_A_LINE)
    {
        evidence.push(at(
            metric("system", "pressure.io.some", ""),
            format!("{} of the time some task of the machine was stalled on I/O", percent(pressure.mean())),
            Some(Value::Share(pressure.mean())),
        ));
    }
    evidence
}
