//! What the runtime of a made-up server said: requests get slow while the pool starves, exceptions come in storms, the heap grows.

use super::{Dice, SECONDS, at};
use biopsy_model::log::LogLevel;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{
    AllocationGroup, Collection, CollectionReason, CommandGroup, Compiled, Contention, ContentionGroup,
    Exception, ExceptionGroup, LogMessage, MessageGroup, Request, RequestGroup, RuntimeStack, RuntimeTrace,
    Sampled, ThreadPoolChange, ThreadPoolEvent,
};
use biopsy_model::symbol::Function;
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};

const MS: u64 = 1_000_000;

/// Functions of the made-up server, by index.
const FUNCTIONS: &[&str] = &[
    "System.Number.ThrowFormatException",
    "System.Int32.Parse",
    "Shop.Versions.VersionParser.ParseMajorOrZero",
    "Shop.Versions.VersionParser.ParseAll",
    "System.Threading.Monitor.Enter_Slowpath",
    "Shop.Logging.LogWriter.AppendUnderLock",
    "Shop.Logging.LogWriter.Run",
    "System.String.Concat",
    "Shop.Logging.LogFormatter.FormatLine",
    "Shop.Audit.AuditTrail.Append",
    "System.Net.Sockets.NetworkStream.ReadAsync (async)",
    "Shop.Feeds.FeedClient.GetAsync (async)",
    "Shop.Feeds.FeedClient.GetPackageBlocking",
    "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol.ProcessRequests (async)",
];

const STACKS: &[&[u32]] = &[&[0, 1, 2, 3], &[4, 5, 6], &[7, 8, 6], &[9, 6, 13], &[10, 11, 12, 13]];

/// The account of one process.
pub fn runtime() -> RuntimeTrace {
    let runtime = Runtime {
        kind: RuntimeKind::DotNet,
        version: Some("10.0.12".into()),
        entry: Some("Shop.Server.dll".into()),
    };
    let mut trace = RuntimeTrace::new(Pid(4711), runtime, "dotnet/4711.json".into());
    let end = SECONDS as f64;
    trace.span = Some((at(0.0), at(end)));
    trace.functions =
        FUNCTIONS.iter().map(|name| Function { name: (*name).into(), file: None, line: None }).collect();
    trace.stacks = STACKS.iter().map(|stack| stack.to_vec()).collect();
    let mut dice = Dice(11);
    collections(&mut trace, &mut dice);
    exceptions(&mut trace, &mut dice);
    contention(&mut trace, &mut dice);
    requests(&mut trace, &mut dice);
    pool(&mut trace);
    rest(&mut trace, &mut dice);
    counters(&mut trace, &mut dice);
    trace
}

fn collections(trace: &mut RuntimeTrace, dice: &mut Dice) {
    for number in 0..240u32 {
        let when = f64::from(number) * 0.25 + dice.roll() * 0.1;
        let generation = if number % 40 == 39 { 2 } else { u8::from(number % 6 == 5) };
        let background = number % 80 == 79;
        let pause = Nanos(match generation {
            2 if !background => 180 * MS,
            1 => 9 * MS + (dice.roll() * 6e6) as u64,
            _ => 3 * MS + (dice.roll() * 5e6) as u64,
        });
        let old = 60_000_000 + (when * 4e6) as u64;
        trace.collections.items.push(Collection {
            number: number + 310,
            start: at(when),
            end: Some(at(when) + pause),
            generation,
            reason: if number == 120 { CollectionReason::Induced } else { CollectionReason::SmallObjects },
            background,
            pause,
            longest_pause: pause,
            promoted: Some(2_000_000 + (dice.roll() * 4e6) as u64),
            sizes_after: Some([400_000, 3_000_000 + (dice.roll() * 6e6) as u64, old, 18_000_000, 200_000]),
            pinned: Some(14),
            tid: Some(Tid(4720)),
            stack: Some(RuntimeStack(2)),
        });
    }
    trace.collections.total = trace.collections.items.len() as u64;
}

fn exceptions(trace: &mut RuntimeTrace, dice: &mut Dice) {
    for number in 0..300u32 {
        trace.exceptions.items.push(Exception {
            time: at(22.0 + f64::from(number) * 0.04 + dice.roll() * 0.02),
            tid: Tid(4725),
            type_name: "System.FormatException".into(),
            message: "The input string 'latest' was not in a correct format.".into(),
            code: 0x8013_1537,
            stack: Some(RuntimeStack(0)),
        });
    }
    trace.exceptions.total = 21_307;
    trace.exception_groups = vec![
        ExceptionGroup {
            type_name: "System.FormatException".into(),
            message: "The input string 'latest' was not in a correct format.".into(),
            stack: Some(RuntimeStack(0)),
            count: 21_290,
            first: at(22.0),
            last: at(34.0),
        },
        ExceptionGroup {
            type_name: "System.Net.Http.HttpRequestException".into(),
            message: "Connection refused (feed.example:443)".into(),
            stack: Some(RuntimeStack(4)),
            count: 17,
            first: at(3.0),
            last: at(57.0),
        },
    ];
}

fn contention(trace: &mut RuntimeTrace, dice: &mut Dice) {
    for number in 0..120u32 {
        trace.contentions.items.push(Contention {
            start: at(10.0 + f64::from(number) * 0.2),
            duration: Nanos(12 * MS + (dice.roll() * 20e6) as u64),
            tid: Tid(4720 + number % 8),
            lock: Some(0x7f5a_0010_2238),
            owner: Some(Tid(4720 + (number + 1) % 8)),
            stack: Some(RuntimeStack(1)),
        });
    }
    trace.contentions.total = 8_044;
    trace.contention_groups = vec![ContentionGroup {
        stack: Some(RuntimeStack(1)),
        count: 8_044,
        total: Nanos(141_000 * MS),
        longest: Nanos(62 * MS),
    }];
}

/// Requests of one kind.
fn group(method: &str, route: &str, counts: &[(usize, u32)], unanswered: u64, failed: u64) -> RequestGroup {
    let mut durations = [0; 40];
    let (mut count, mut total) = (0u64, 0u64);
    for &(step, requests) in counts {
        durations[step] = requests;
        count += u64::from(requests);
        total += u64::from(requests) * (1 << step) * 750;
    }
    let longest = counts.last().map_or(0, |(step, _)| (1u64 << step) * 960);
    RequestGroup {
        method: method.into(),
        route: route.into(),
        count,
        unanswered,
        failed,
        total: Nanos(total),
        longest: Nanos(longest),
        durations,
        children: (0, 0),
    }
}

fn requests(trace: &mut RuntimeTrace, dice: &mut Dice) {
    let mut releases = group("GET", "/api/releases", &[(17, 4), (18, 311), (19, 22)], 1, 0);
    releases.children = (337 * 201, 201);
    let mut feeds = group("GET", "/api/feeds/{package}", &[(14, 220), (19, 40), (21, 131), (22, 77)], 22, 9);
    feeds.children = (468, 1);
    trace.request_groups = vec![
        feeds,
        releases,
        group("GET", "/healthz", &[(9, 1800), (10, 51_000), (11, 3_100), (14, 40)], 0, 0),
        group("POST", "/api/deployments", &[(12, 90), (13, 24)], 0, 3),
    ];
    trace.requests.total = trace.request_groups.iter().map(|group| group.count + group.unanswered).sum();
    for number in 0..220u32 {
        let when = 1.0 + f64::from(number) * 0.26;
        let slow = (20.0..44.0).contains(&when);
        let duration = if slow { 900.0 + dice.roll() * 3_200.0 } else { 20.0 + dice.roll() * 300.0 };
        let open = number > 214;
        trace.requests.items.push(Request {
            start: at(when),
            duration: (!open).then_some(Nanos((duration * 1e6) as u64)),
            method: "GET".into(),
            path: if number % 3 == 0 {
                "/api/releases".into()
            } else {
                format!("/api/feeds/web-{}", number % 7)
            },
            route: None,
            status: (!open).then_some(if number % 41 == 7 { 500 } else { 200 }),
            children: if number % 3 == 0 { 201 } else { 1 },
            trace_id: None,
        });
    }
    trace.outgoing_groups =
        vec![group("GET", "feed.example/feed/{}", &[(14, 200), (18, 30), (20, 140), (21, 98)], 8, 17)];
    trace.outgoing.total = 476;
    for number in 0..120u32 {
        let when = 20.0 + f64::from(number) * 0.2;
        trace.outgoing.items.push(Request {
            start: at(when),
            duration: Some(Nanos((400.0 * 1e6 + dice.roll() * 1.2e9) as u64)),
            method: "GET".into(),
            path: "https://feed.example/feed/web".into(),
            route: Some("feed.example".into()),
            status: Some(200),
            children: 0,
            trace_id: None,
        });
    }
    trace.command_groups = vec![
        CommandGroup {
            text: "SELECT Id, Version, Notes FROM Releases WHERE Id = ?".into(),
            source: "sql.example Shop".into(),
            count: 67_737,
            failed: 0,
            total: Nanos(88_000 * MS),
            longest: Nanos(31 * MS),
            most_in_one_request: 201,
        },
        CommandGroup {
            text: "INSERT INTO Audit (At, Who, What) VALUES (?, ?, ?)".into(),
            source: "sql.example Shop".into(),
            count: 114,
            failed: 2,
            total: Nanos(190 * MS),
            longest: Nanos(9 * MS),
            most_in_one_request: 1,
        },
    ];
}

fn pool(trace: &mut RuntimeTrace) {
    for number in 0..60u32 {
        let starved = (20..44).contains(&number);
        trace.thread_pool.items.push(ThreadPoolEvent {
            time: at(f64::from(number) + 0.4),
            threads: Some(if number < 20 { 8 } else { 8 + (number - 19).min(26) }),
            kind: ThreadPoolChange::Adjusted {
                reason: if starved { "CooperativeBlocking" } else { "ClimbingMove" }.into(),
                throughput: Some(120.0),
            },
        });
    }
    trace.thread_pool.total = 60;
}

fn rest(trace: &mut RuntimeTrace, dice: &mut Dice) {
    let levels =
        [("Error", LogLevel::Error), ("Warning", LogLevel::Warning), ("Information", LogLevel::Info)];
    for number in 0..90u32 {
        let (level_name, level) = levels[(dice.roll() * 3.0) as usize % 3];
        trace.messages.items.push(LogMessage {
            time: at(f64::from(number) * 0.66),
            tid: Tid(4721),
            level,
            level_name: level_name.into(),
            category: "Shop.Feeds.FeedClient".into(),
            event: Some("12 FeedFailed".into()),
            text: format!("Feed web-{} answered after {} ms", number % 7, number * 31),
            exception: (level == LogLevel::Error)
                .then(|| "System.Net.Http.HttpRequestException: refused".into()),
        });
    }
    trace.messages.total = 4_410;
    trace.message_groups = vec![
        MessageGroup { category: "Shop.Feeds.FeedClient".into(), level_name: "Error".into(), count: 31 },
        MessageGroup { category: "Shop.Feeds.FeedClient".into(), level_name: "Warning".into(), count: 130 },
        MessageGroup {
            category: "Microsoft.AspNetCore.Hosting".into(),
            level_name: "Information".into(),
            count: 4_249,
        },
    ];
    let allocation = |type_name: &str, stack, bytes: u64| AllocationGroup {
        type_name: type_name.into(),
        stack: Some(RuntimeStack(stack)),
        bytes,
        samples: bytes / 107_000,
        large: type_name == "System.Byte[]",
    };
    trace.allocation_groups = vec![
        allocation("System.String", 2, 9_100_000_000),
        allocation("System.Char[]", 2, 700_000_000),
        allocation("Shop.Audit.AuditEntry", 3, 410_000_000),
        allocation("System.Byte[]", 4, 96_000_000),
    ];
    trace.compiled = Compiled {
        methods: 412,
        time: Nanos(820 * MS),
        bytes: 390_000,
        tiers: vec![("QuickJitted".into(), 300), ("OptimizedTier1".into(), 112)],
    };
    trace.sampled = vec![Sampled {
        what: "allocations".into(),
        from: at(0.0),
        to: at(SECONDS as f64),
        share: 0.25,
        why: "32,000 a second, above the budget of 5,000".into(),
    }];
}

fn counters(trace: &mut RuntimeTrace, dice: &mut Dice) {
    let mut table = MetricTable {
        name: "counters".into(),
        keys: ["pid", "provider", "counter", "unit"].map(String::from).to_vec(),
        columns: vec![
            Column { name: "value".into(), unit: Unit::Count },
            Column { name: "per_second".into(), unit: Unit::PerSecond },
        ],
        rows: vec![],
    };
    for second in 1..=SECONDS {
        let starving = (20..44).contains(&second);
        let pool = if second < 20 { 8 } else { 8 + (second - 19).min(26) };
        let readings = [
            ("System.Runtime", "threadpool-thread-count", "", pool as f64, None),
            (
                "System.Runtime",
                "threadpool-queue-length",
                "",
                if starving { 60.0 + dice.roll() * 80.0 } else { 0.0 },
                None,
            ),
            (
                "System.Runtime",
                "exception-count",
                "",
                if (22..34).contains(&second) { 1_770.0 } else { 0.3 },
                Some(1.0),
            ),
            (
                "Microsoft.AspNetCore.Hosting",
                "requests-per-second",
                "",
                if starving { 40.0 } else { 1_300.0 + dice.roll() * 200.0 },
                Some(1.0),
            ),
            (
                "Microsoft.AspNetCore.Hosting",
                "current-requests",
                "",
                if starving { 64.0 } else { 3.0 + dice.roll() * 4.0 },
                None,
            ),
        ];
        for (provider, counter, unit, value, rate) in readings {
            table.rows.push(MetricRow {
                time: MonoNanos(at(second as f64).0),
                keys: vec!["4711".into(), provider.into(), counter.into(), unit.into()],
                values: vec![Some(value), rate.map(|_| value)],
            });
        }
    }
    trace.counters = vec![table];
}
