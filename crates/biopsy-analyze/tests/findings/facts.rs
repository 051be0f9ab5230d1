//! Tables that findings rest on: metrics, logs, and what a runtime said.

use crate::build::dotnet::Said;
use crate::build::{Build, IDLE, MS, PID, START};
use biopsy_analyze::{Analysis, Meanwhile, NotableKind, analyze};
use biopsy_model::MonoNanos;
use biopsy_model::log::LogLevel;
use biopsy_model::runtime_trace::CollectionReason;

/// 30 s of one column of metrics.
fn column(table: &str, keys: &[(&str, &str)], column: &str, value: &dyn Fn(f64) -> f64) -> Analysis {
    let mut build = Build::new("server", 30, 4);
    build.metric(table, keys, &[(column, value)]);
    analyze(&build.without_trace())
}

fn notables(analysis: &Analysis) -> Vec<(NotableKind, u64, u64)> {
    let second = |time: MonoNanos| (time.0 - START) / (1_000 * MS);
    analysis.metrics.notables.iter().map(|one| (one.kind, second(one.from), second(one.to))).collect()
}

#[test]
fn an_interval_is_notable_from_its_threshold_on() {
    let table: [(&str, &str, NotableKind, f64); 8] = [
        ("system", "cpu.busy", NotableKind::CpuSaturated, 0.95),
        ("system", "cpu.steal", NotableKind::Steal, 0.2),
        ("system", "pressure.cpu.some", NotableKind::CpuPressure, 0.4),
        ("system", "pressure.memory.some", NotableKind::MemoryPressure, 0.1),
        ("system", "pressure.io.some", NotableKind::IoPressure, 0.4),
        ("system", "swap.in", NotableKind::Swapping, 1e6),
        ("cgroups", "throttled.ratio", NotableKind::Throttled, 0.1),
        ("disks", "busy", NotableKind::DiskBusy, 0.9),
    ];
    for (table, name, kind, from) in table {
        let keys: &[(&str, &str)] = if table == "system" { &[] } else { &[("name", "it")] };
        let at = |factor: f64| {
            let inside = |second: f64| (10.0..=20.0).contains(&second);
            notables(&column(table, keys, name, &|second| if inside(second) { from * factor } else { 0.0 }))
        };
        // An interval begins with the reading before, which is where the first notable one was measured from.
        assert_eq!(at(1.001), [(kind, 9, 20)], "{table} {name}");
        assert_eq!(at(0.999), [], "{table} {name}");
    }
}

#[test]
fn one_reading_alone_is_noise_and_one_in_between_is_let_pass() {
    let busy = |seconds: &'static [u64]| {
        notables(&column("system", &[], "cpu.busy", &|second| f64::from(seconds.contains(&(second as u64)))))
    };
    let kind = NotableKind::CpuSaturated;
    assert_eq!(busy(&[]), []);
    assert_eq!(busy(&[10]), []);
    assert_eq!(busy(&[10, 11]), [(kind, 9, 11)]);
    assert_eq!(busy(&[10, 12]), [(kind, 9, 12)]);
    assert_eq!(busy(&[10, 13]), []);
    assert_eq!(busy(&[10, 11, 20, 21]), [(kind, 9, 11), (kind, 19, 21)]);
}

#[test]
fn a_trend_grows_in_a_line_by_enough_and_to_the_end() {
    type Course = fn(f64) -> f64;
    let table: [(&str, Course, bool); 9] = [
        ("straight", |second| 50e6 + 1e6 * second, true),
        ("falls", |second| 50e6 - 1e6 * second, false),
        ("stays", |_| 50e6, false),
        ("too little", |second| 50e6 + 0.2e6 * second, false),
        ("too little of much", |second| 1e9 + 1e6 * second, false),
        ("levels out", |second| 50e6 + 10e6 * second.min(8.0), false),
        ("saw", |second| 50e6 + 20e6 * (second % 5.0), false),
        ("steps", |second| 50e6 + 10e6 * (second / 5.0).floor(), true),
        ("one jump at the end", |second| if second > 28.0 { 200e6 } else { 50e6 }, false),
    ];
    for (name, course, growing) in table {
        let analysis = column("processes", &[("pid", "4711"), ("name", "server")], "memory.anon", &course);
        let [trend] = &analysis.metrics.trends[..] else { panic!("{name}: one trend") };
        assert_eq!(trend.growing, growing, "{name}: {trend:?}");
        assert!((0.0..=1.0 + 1e-9).contains(&trend.fit), "{name}: {trend:?}");
    }
}

#[test]
fn lines_of_one_shape_are_one_topic() {
    let mut build = Build::new("server", 30, 4);
    build.log(&[
        (0.1, LogLevel::Error, "order 4711 failed"),
        (0.2, LogLevel::Error, "order 4712 failed"),
        (0.3, LogLevel::Warning, "order 4713 failed"),
        (0.4, LogLevel::Info, "order 4714 paid"),
        (0.5, LogLevel::Info, "connection reset by 10.0.0.7"),
    ]);
    build.log(&[(0.6, LogLevel::Error, "order 4715 failed")]);
    let logs = analyze(&build.without_trace()).logs;
    assert_eq!((logs.lines, logs.errors, logs.warnings), (6, 3, 1));
    let topics: Vec<(LogLevel, usize, usize, u64)> =
        logs.topics.iter().map(|topic| (topic.level, topic.log, topic.line, topic.count)).collect();
    // The same words in another log, or at another level, are another topic; what is said beside is left out.
    assert_eq!(topics[..2], [(LogLevel::Error, 0, 0, 2), (LogLevel::Error, 1, 0, 1)]);
    assert_eq!(topics.len(), 4, "{topics:?}");
    assert!(
        topics.contains(&(LogLevel::Info, 0, 4, 1)),
        "a connection that is reset is worth reading at any level"
    );
}

/// What a runtime says, as tables.
fn tables(said: &mut Said) -> biopsy_analyze::RuntimeSummary {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "dotnet").wait(PID, IDLE);
    let mut capture = build.done();
    capture.runtimes.push(said.done());
    analyze(&capture).runtimes.remove(0)
}

#[test]
fn collections_are_summed_by_generation_and_reason() {
    let mut said = Said::new(10);
    said.collections(3.0, 2.0, 40, &|share| 1_000 + (1_000.0 * share) as u64);
    for (number, item) in said.trace.collections.items.iter_mut().enumerate() {
        if number % 3 == 0 {
            (item.generation, item.reason, item.background) = (2, CollectionReason::Induced, true);
        }
        if number == 7 {
            item.longest_pause.0 = 90 * MS;
        }
    }
    let collections = tables(&mut said).collections;
    let rows: Vec<(u8, bool, u64)> =
        collections.generations.iter().map(|row| (row.generation, row.background, row.count)).collect();
    assert_eq!(rows, [(0, false, 20), (2, true, 10)]);
    let reasons: Vec<(&str, u64)> =
        collections.reasons.iter().map(|(words, count)| (words.as_str(), *count)).collect();
    assert_eq!(reasons, [("small objects allocated", 20), ("asked for by the application", 10)]);
    assert_eq!((collections.total, collections.induced, collections.pinned), (30, 10, Some(40)));
    assert!((collections.pause_share - 0.006).abs() < 1e-9, "{}", collections.pause_share);
    assert_eq!(collections.longest.map(|(pause, _)| pause.0), Some(90 * MS));
    let floor = collections.floor.expect("thirds of thirty");
    assert!(floor[0] < floor[1] && floor[1] < floor[2], "{floor:?}");
}

#[test]
fn the_pool_is_told_by_its_adjustments() {
    let mut said = Said::new(10);
    said.pool("Starvation", 4, &|share| 6 + (share * 8.0) as u32).pool("ClimbingMove", 2, &|_| 3);
    said.pool("CooperativeBlocking", 1, &|_| 20);
    let pool = tables(&mut said).pool;
    assert_eq!((pool.total, pool.starved, pool.blocked), (7, 4, 1));
    assert_eq!(pool.threads, Some([6, 20, 3, 20]), "first, last, fewest, most");
    assert_eq!(pool.reasons[0], ("Starvation".to_owned(), 4));
    assert_eq!(tables(&mut Said::new(10)).pool.threads, None);
}

#[test]
fn what_went_on_while_requests_were_slow() {
    // Requests of a second, at nought to five seconds, and what went on meanwhile.
    let with = |say: &dyn Fn(&mut Said)| {
        let mut said = Said::new(10);
        said.requests("/api/orders", 20, 1_000, 0, 1.0);
        say(&mut said);
        let found = tables(&mut said).coincidences;
        found.iter().map(|one| (one.what, one.hit, one.share, one.usual)).collect::<Vec<_>>()
    };
    assert_eq!(with(&|_| {}), []);
    let outgoing = with(&|said| drop_unit(said.outgoing("feed.test/{}", 20, 1_000, 0, 1.0)));
    let [(Meanwhile::Outgoing, 20, share, usual)] = outgoing[..] else { panic!("{outgoing:?}") };
    assert!(share > 0.99 && (0.5..0.7).contains(&usual), "{outgoing:?}");
    // What is over before a request begins, or only touches it, hits none.
    let late = with(&|said| drop_unit(said.outgoing("feed.test/{}", 0, 1, 3, 0.9)));
    let [(Meanwhile::Outgoing, 0, share, _)] = late[..] else { panic!("{late:?}") };
    assert!(share < 1e-9, "{late:?}");
    // Pauses of half of the time, everywhere: no more than chance.
    let pauses = with(&|said| drop_unit(said.collections(10.0, 50.0, 0, &|_| 1_000)));
    let [(Meanwhile::Collection, 20, share, usual)] = pauses[..] else { panic!("{pauses:?}") };
    assert!((share - usual).abs() < 0.05 && (usual - 0.5).abs() < 0.05, "{pauses:?}");
}

fn drop_unit(_: &mut Said) {}
