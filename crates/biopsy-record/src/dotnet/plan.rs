//! Which sessions a process gets, and what is asked for in each.
//!
//! What is recorded is in kinds, [`Lane`]s; a session takes some of them. No provider is in two sessions at a time: the runtime
//! tells a source that a session has ended on the thread of that session, and where two end at the same instant, as those of a
//! killed process do, the message of the one (“the other one still listens”) may come after that of the other (“nobody
//! listens”) and leave the source enabled (`disable_helper` in the runtime's `ep.c`).
//!
//! | runtime | sessions |
//! | --- | --- |
//! | 9 and later | with stacks: what the runtime does, methods, counters, allocations; without: meters, requests, messages |
//! | 8 | the same where there are meters; otherwise one with everything, as all events have stacks anyway |
//! | before 8 | one for each kind, each with the counters of `System.Runtime` as a sign of life |
//!
//! Walking a stack is the costly part of an event, and the number of requests and messages is up to the load: a session that has
//! them is replaced by one without when there are too many.

use std::collections::BTreeSet;

use biopsy_dotnet::ipc::{EventFilter, EventLevel, Provider, Rundown, SessionConfig};
use biopsy_dotnet::nettrace::EventMetadata;

use super::options::{AppLogLevel, DotNetOptions};

/// The runtime's own provider.
pub(crate) const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// Collections.
pub(crate) const GC: u64 = 0x1;
const LOADER: u64 = 0x8;
const JIT: u64 = 0x10;
const CONTENTION: u64 = 0x4000;
/// Exceptions.
pub(crate) const EXCEPTION: u64 = 0x8000;
const THREADING: u64 = 0x1_0000;
/// Events of the runtime that say nothing here: a worker that waits for work, and blocks that catch and finish.
const CHATTER: [u32; 8] = [57, 250, 251, 252, 253, 254, 255, 256];
/// The same at level Verbose: pinned objects, items of the thread pool, memory for code, phases of collections.
const VERBOSE_CHATTER: [u32; 10] = [33, 56, 60, 61, 62, 63, 64, 65, 146, 203];
/// About every 100 KB of allocations.
const ALLOCATION: u32 = 10;

/// MiB that the runtime may use for events that were not fetched yet.
const BUFFER_MB: u32 = 16;
const REQUEST_BUFFER_MB: u32 = 64;
/// .NET 3.1 sends nothing of its methods before it has told all of them: what does not fit is lost.
const RUNDOWN_BUFFER_MB: u32 = 256;

/// EventSources of the framework with counters.
pub(crate) const COUNTER_SOURCES: [&str; 9] = [
    "System.Runtime",
    "Microsoft.AspNetCore.Hosting",
    "Microsoft-AspNetCore-Server-Kestrel",
    "Microsoft.AspNetCore.Http.Connections",
    "System.Net.Http",
    "System.Net.NameResolution",
    "System.Net.Security",
    "System.Net.Sockets",
    "Microsoft.Data.SqlClient.EventSource",
];

/// Meters of the framework. `System.Runtime` is not among them: its counters say the same on all versions.
pub(crate) const METERS: [&str; 11] = [
    "Microsoft.AspNetCore.Hosting",
    "Microsoft.AspNetCore.Server.Kestrel",
    "Microsoft.AspNetCore.Routing",
    "Microsoft.AspNetCore.Diagnostics",
    "Microsoft.AspNetCore.RateLimiting",
    "Microsoft.AspNetCore.Http.Connections",
    "System.Net.Http",
    "System.Net.NameResolution",
    "Microsoft.EntityFrameworkCore",
    "Microsoft.Data.SqlClient",
    "Npgsql",
];

/// Every session has something to write each second: a runtime finds that nobody reads any more when it writes, and a
/// session without events would stay on after a kill of this process. Meters are another sign of life: the source of them, which
/// is there from the start since .NET 9, tells each second that it has collected.
const HEARTBEAT: &str = "System.Runtime";

/// Provider of meters.
pub(crate) const METRICS: &str = "System.Diagnostics.Metrics";
/// Values, and which instruments there are.
const METRICS_KEYWORDS: u64 = 0x2 | 0x4;

/// A kind of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Lane {
    /// What the runtime does.
    Runtime,
    /// Methods and counters.
    Base,
    /// Meters, and counters of sources that also tell of requests.
    Meters,
    /// Requests and commands.
    Requests,
    /// Log messages.
    Logs,
    /// Allocations.
    Allocations,
}

impl Lane {
    /// The kinds that a recording takes.
    pub(crate) fn wanted(options: &DotNetOptions) -> BTreeSet<Self> {
        let mut lanes = BTreeSet::from([Self::Runtime, Self::Base, Self::Meters, Self::Requests]);
        if options.log_level != AppLogLevel::None {
            lanes.insert(Self::Logs);
        }
        if options.allocations {
            lanes.insert(Self::Allocations);
        }
        lanes
    }

    /// Name in the recording of a session that begins with this kind; the first one has none.
    fn name(self) -> &'static str {
        match self {
            Self::Runtime => "",
            Self::Base => "counters",
            Self::Meters => "application",
            Self::Requests => "requests",
            Self::Logs => "logs",
            Self::Allocations => "allocations",
        }
    }

    /// What is missing while it is closed, in the words of [`biopsy_model::runtime_trace::Sampled`].
    pub(crate) fn sampled(self) -> &'static [&'static str] {
        match self {
            Self::Runtime => &["events of the runtime"],
            Self::Base | Self::Meters => &[],
            Self::Requests => &["requests", "commands"],
            Self::Logs => &["messages"],
            Self::Allocations => &["allocations"],
        }
    }

    /// Whether it is closed when it is above the budget.
    pub(crate) fn has_budget(self) -> bool {
        match self {
            Self::Runtime | Self::Base | Self::Meters => false,
            Self::Requests | Self::Logs | Self::Allocations => true,
        }
    }

    /// The kind that an event is counted as by the budget.
    pub(crate) fn of(metadata: &EventMetadata) -> Option<Self> {
        match metadata.provider.as_str() {
            RUNTIME => (metadata.id == ALLOCATION).then_some(Self::Allocations),
            LOGGING => Some(Self::Logs),
            DIAGNOSTIC_SOURCE => Some(Self::Requests),
            name if REQUEST_SOURCES.contains(&name) && metadata.name != "EventCounters" => {
                Some(Self::Requests)
            }
            _ => None,
        }
    }
}

/// How kinds are put into sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// Each in its own.
    Separate,
    /// All in one.
    United,
    /// Those with stacks, and those without.
    Split,
}

impl Layout {
    /// What a runtime begins with, by the first number of its version.
    pub(crate) fn of(major: Option<u32>) -> Self {
        match major {
            Some(9..) => Self::Split,
            Some(8) => Self::United,
            Some(_) | None => Self::Separate,
        }
    }

    /// The sessions for these kinds, the most telling first.
    pub(crate) fn groups(self, lanes: &BTreeSet<Lane>) -> Vec<Group> {
        let parts: &[&[Lane]] = match self {
            Self::Separate => &[
                &[Lane::Runtime],
                &[Lane::Base, Lane::Meters],
                &[Lane::Requests],
                &[Lane::Logs],
                &[Lane::Allocations],
            ],
            Self::United => {
                &[&[Lane::Runtime, Lane::Base, Lane::Meters, Lane::Requests, Lane::Logs, Lane::Allocations]]
            }
            Self::Split => &[
                &[Lane::Runtime, Lane::Base, Lane::Allocations],
                &[Lane::Meters, Lane::Requests, Lane::Logs],
            ],
        };
        let groups = parts
            .iter()
            .map(|part| Group(part.iter().copied().filter(|lane| lanes.contains(lane)).collect()));
        groups.filter(|group| !group.0.is_empty()).collect()
    }
}

/// What a session takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group(BTreeSet<Lane>);

/// What else decides about the providers of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) options: &'a DotNetOptions,
    /// First number of the version.
    pub(crate) major: Option<u32>,
    /// Meters of the application that are known.
    pub(crate) meters: &'a [String],
    /// The names of all methods at the end, for runtimes that cannot be read otherwise.
    pub(crate) rundown: bool,
}

impl Group {
    /// What the session of triggers counts as.
    pub(crate) fn of_triggers() -> Self {
        Self(BTreeSet::from([Lane::Base]))
    }

    /// Whether it has a kind.
    pub(crate) fn has(&self, lane: Lane) -> bool {
        self.0.contains(&lane)
    }

    /// Its kinds.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.0.iter().copied()
    }

    /// Name in the recording.
    pub(crate) fn name(&self) -> &'static str {
        self.0.first().map_or("", |lane| lane.name())
    }

    /// Whether counters are taken from it; in other sessions they are only a sign of life.
    pub(crate) fn has_counters(&self) -> bool {
        self.has(Lane::Base) || self.has(Lane::Meters)
    }

    /// What is asked for.
    pub(crate) fn config(&self, ask: &Ask<'_>) -> SessionConfig {
        let stacks = self.has(Lane::Runtime) || self.has(Lane::Allocations);
        let rundown = ask.rundown && self.has(Lane::Runtime);
        let buffer_mb = match (rundown, self.has(Lane::Requests) || self.has(Lane::Logs)) {
            (true, _) => RUNDOWN_BUFFER_MB,
            (false, true) => REQUEST_BUFFER_MB,
            (false, false) => BUFFER_MB,
        };
        let mut providers: Vec<Provider> = self.runtime(ask.major).into_iter().collect();
        for lane in &self.0 {
            let more = match lane {
                Lane::Runtime | Lane::Allocations => Vec::new(),
                Lane::Base => COUNTER_SOURCES
                    .into_iter()
                    .filter(|name| !REQUEST_SOURCES.contains(name))
                    .map(counters)
                    .collect(),
                Lane::Meters => meters(ask),
                Lane::Requests => requests(ask.options),
                Lane::Logs => vec![logs(ask.options)],
            };
            more.into_iter().for_each(|provider| add(&mut providers, provider));
        }
        if !self.has_counters() {
            add(&mut providers, counters(HEARTBEAT));
        }
        let rundown = if rundown { Rundown::Default } else { Rundown::None };
        SessionConfig { buffer_mb, rundown, stacks, providers }
    }

    /// The runtime's own events, all that this session has of them.
    fn runtime(&self, major: Option<u32>) -> Option<Provider> {
        let mut keywords = 0;
        for (lane, its) in [
            (Lane::Runtime, GC | LOADER | CONTENTION | EXCEPTION | THREADING),
            (Lane::Base, JIT),
            (Lane::Allocations, GC),
        ] {
            keywords |= if self.has(lane) { its } else { 0 };
        }
        if keywords == 0 {
            return None;
        }
        // Methods have names, and the start of their compilation, at level Verbose only. So do allocations, so that before single
        // events can be left out (.NET 10) only memory names methods.
        let alone = !self.has(Lane::Runtime);
        let verbose = alone || self.has(Lane::Allocations) || major.is_some_and(|major| major >= 10);
        let level = if verbose { EventLevel::Verbose } else { EventLevel::Informational };
        let provider = Provider::new(RUNTIME, keywords, level);
        Some(provider.with_filter(match (alone, self.has(Lane::Base)) {
            (true, true) => EventFilter::Only(vec![141, 142, 143, 144, 145]),
            (true, false) => EventFilter::Only(vec![ALLOCATION]),
            (false, _) => {
                let mut without = [&CHATTER[..], &VERBOSE_CHATTER[..]].concat();
                without.extend((!self.has(Lane::Allocations)).then_some(ALLOCATION));
                EventFilter::Without(without)
            }
        }))
    }
}

/// A provider can be in a session once: a second one adds what it asks for.
fn add(providers: &mut Vec<Provider>, provider: Provider) {
    let Some(there) = providers.iter_mut().find(|there| there.name == provider.name) else {
        providers.push(provider);
        return;
    };
    there.keywords |= provider.keywords;
    there.level = there.level.max(provider.level);
    if there.arguments.is_empty() {
        there.arguments = provider.arguments;
    } else if !provider.arguments.is_empty() && !there.arguments.contains(&provider.arguments) {
        there.arguments = format!("{};{}", there.arguments, provider.arguments);
    }
}

/// Taken at once, not in order with the others: triggers and naming wait for them.
pub(crate) fn is_at_once(metadata: &EventMetadata) -> bool {
    match metadata.provider.as_str() {
        METRICS => true,
        RUNTIME => matches!(metadata.id, 141..=145 | 149 | 152 | 190),
        _ => metadata.name == "EventCounters",
    }
}

fn meters(ask: &Ask<'_>) -> Vec<Provider> {
    let own = || ask.options.counters.iter().map(String::as_str);
    // While a meter is listened to, each request is measured several times over: at saturation that costs more than its
    // events. The counters of the same sources say most of it for nothing.
    let framework = METERS.into_iter().filter(|_| ask.options.requests);
    let found = ask.meters.iter().map(String::as_str).filter(|name| own().all(|own| own != *name));
    let mut providers = vec![metrics(framework.chain(own()).chain(found))];
    // Those that another session has are there already.
    let taken = |name: &str| COUNTER_SOURCES.contains(&name) || name == METRICS || name == RUNTIME;
    let sources = REQUEST_SOURCES.into_iter().filter(|name| COUNTER_SOURCES.contains(name));
    let sources = sources.chain(own().filter(|name| !taken(name)));
    sources.for_each(|source| add(&mut providers, counters(source)));
    providers
}

/// Counters alone: they are above all levels, so that the other events of the source stay off.
pub(crate) fn counters(source: &str) -> Provider {
    Provider::new(source, u64::MAX, EventLevel::Critical).with_arguments("EventCounterIntervalSec=1")
}

/// Meters, in the session that all tools share: its settings must be those of `dotnet-counters`, or whoever comes second
/// gets an error instead of values.
pub(crate) fn metrics<'n>(meters: impl Iterator<Item = &'n str>) -> Provider {
    let meters: Vec<&str> = meters.filter(|name| is_meter_name(name)).collect();
    let arguments = format!(
        "SessionId=SHARED;Metrics={};RefreshInterval=1;MaxTimeSeries=1000;MaxHistograms=10;ClientId={}",
        meters.join(","),
        client_id(),
    );
    Provider::new(METRICS, METRICS_KEYWORDS, EventLevel::Informational).with_arguments(&arguments)
}

/// Whether it can be written in a list of meters.
pub(crate) fn is_meter_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 200 && !name.contains([',', ';', '=', '"', '\\', '\r', '\n'])
}

/// Tells us from other tools in the shared session. Unique enough: one biopsy, one number.
fn client_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("biopsy-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Ids of activities, by which the start and the end of a request, and what was done for it, belong together. It has
/// events of its own too, of which none has this keyword and level.
pub(crate) fn activities() -> Provider {
    Provider::new(ACTIVITIES, 0x80, EventLevel::Informational)
}

fn requests(options: &DotNetOptions) -> Vec<Provider> {
    let mut providers = vec![
        Provider::new(HOSTING, u64::MAX, EventLevel::Informational),
        Provider::new("System.Net.Http", 0x1, EventLevel::Informational),
        Provider::new("Microsoft.Data.SqlClient.EventSource", 0x1, EventLevel::Informational),
        activities(),
    ];
    if options.requests {
        providers.push(diagnostic_sources());
    }
    providers
}

/// Starts and ends of requests with what DiagnosticSources know of them. Its filter is one for the whole process: another
/// tool that asks for it at the same time is given what was asked for last.
pub(crate) fn diagnostic_sources() -> Provider {
    Provider::new(DIAGNOSTIC_SOURCE, 0x1 | 0x2, EventLevel::Verbose)
        .with_arguments(&format!("FilterAndPayloadSpecs={}", quoted(DIAGNOSTIC_SOURCES)))
}

/// EventSource of requests that are served.
pub(crate) const HOSTING: &str = "Microsoft.AspNetCore.Hosting";
/// Source of what DiagnosticSources know.
const DIAGNOSTIC_SOURCE: &str = "Microsoft-Diagnostics-DiagnosticSource";
/// Source of log messages.
const LOGGING: &str = "Microsoft-Extensions-Logging";
/// Sources of requests and commands, and of the ids that tie them together.
const REQUEST_SOURCES: [&str; 4] =
    [HOSTING, "System.Net.Http", "Microsoft.Data.SqlClient.EventSource", ACTIVITIES];
const ACTIVITIES: &str = "System.Threading.Tasks.TplEventSource";

/// What is taken of DiagnosticSources: status, route and ids of requests.
const DIAGNOSTIC_SOURCES: &str = concat!(
    "Microsoft.AspNetCore/Microsoft.AspNetCore.Hosting.HttpRequestIn.Start@Activity1Start:-",
    "Request.Method;Request.Path;ActivityId=*Activity.Id;ActivityTraceId=*Activity.TraceId",
    "\r\n",
    "Microsoft.AspNetCore/Microsoft.AspNetCore.Hosting.HttpRequestIn.Stop@Activity1Stop:-",
    "Request.Method;Request.Path;Response.StatusCode;ActivityId=*Activity.Id;ActivityTraceId=*Activity.TraceId",
    ";ActivityDuration=*Activity.Duration.Ticks",
    "\r\n",
    "HttpHandlerDiagnosticListener/System.Net.Http.HttpRequestOut.Start@Activity2Start:-",
    "Request.Method;Request.RequestUri;ActivityId=*Activity.Id;ActivityTraceId=*Activity.TraceId",
    "\r\n",
    "HttpHandlerDiagnosticListener/System.Net.Http.HttpRequestOut.Stop@Activity2Stop:-",
    "Response.StatusCode;ActivityId=*Activity.Id;ActivityTraceId=*Activity.TraceId",
    ";ActivityDuration=*Activity.Duration.Ticks",
);

/// Formatted messages. Each session of this kind has its own levels; those of the application's other outputs stay.
fn logs(options: &DotNetOptions) -> Provider {
    const FORMATTED: u64 = 0x4;
    let level = options.log_level.word();
    let mut categories: Vec<&str> = options.log_categories.iter().map(String::as_str).collect();
    if categories.is_empty() {
        categories.push("");
    }
    let mut rules: Vec<String> = categories.iter().map(|category| format!("{category}*:{level}")).collect();
    if options.requests {
        // Web request logging, whatever the level of the rest.
        rules.push("Microsoft.AspNetCore.Hosting.Diagnostics*:Information".to_owned());
    }
    let level = match options.log_level {
        AppLogLevel::Trace | AppLogLevel::Debug => EventLevel::Verbose,
        AppLogLevel::Information => EventLevel::Informational,
        _ if options.requests => EventLevel::Informational,
        AppLogLevel::Warning => EventLevel::Warning,
        AppLogLevel::Error => EventLevel::Error,
        AppLogLevel::Critical | AppLogLevel::None => EventLevel::Critical,
    };
    Provider::new(LOGGING, FORMATTED, level)
        .with_arguments(&format!("FilterSpecs={}", quoted(&rules.join(";"))))
}

/// A value with semicolons in the arguments of a provider.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(options: &DotNetOptions, major: u32) -> Ask<'_> {
        Ask { options, major: Some(major), meters: &[], rundown: major < 8 }
    }

    fn sessions(options: &DotNetOptions, major: u32) -> Vec<SessionConfig> {
        let groups = Layout::of(Some(major)).groups(&Lane::wanted(options));
        groups.iter().map(|group| group.config(&ask(options, major))).collect()
    }

    #[test]
    fn the_default_leaves_levels_and_other_tools_alone() {
        let options = DotNetOptions::default();
        let all: Vec<Provider> = [3, 8, 9, 10]
            .into_iter()
            .flat_map(|major| sessions(&options, major))
            .flat_map(|one| one.providers)
            .collect();
        assert!(!all.iter().any(|one| one.name == "Microsoft-Diagnostics-DiagnosticSource"));
        assert!(!all.iter().any(|one| one.name.contains("SampleProfiler")));
        // A collection is never asked for.
        assert!(all.iter().all(|one| one.name != RUNTIME || one.keywords & 0x80_0000 == 0));
        let logs = all.iter().find(|one| one.name == "Microsoft-Extensions-Logging").unwrap();
        assert_eq!(logs.arguments, "FilterSpecs=\"*:Warning\"");
        assert_eq!(logs.level, EventLevel::Warning);
    }

    #[test]
    fn levels_and_categories_as_asked() {
        let options = DotNetOptions {
            log_level: AppLogLevel::Trace,
            log_categories: vec!["Octopus".to_owned(), "Npgsql".to_owned()],
            requests: true,
            ..DotNetOptions::default()
        };
        let logs = logs(&options);
        assert_eq!(
            logs.arguments,
            "FilterSpecs=\"Octopus*:Trace;Npgsql*:Trace;Microsoft.AspNetCore.Hosting.Diagnostics*:Information\""
        );
        assert_eq!(logs.level, EventLevel::Verbose);
        let requests = requests(&options);
        assert_eq!(requests.len(), 5);
    }

    #[test]
    fn names_that_would_change_the_arguments_are_left_out() {
        let provider = metrics(["Good.Meter", "Bad;Metrics=*", "", "a,b"].into_iter());
        assert!(provider.arguments.starts_with("SessionId=SHARED;Metrics=Good.Meter;RefreshInterval=1;"));
    }

    /// All that can be asked for, and every part of it that a budget leaves open.
    fn every_choice() -> Vec<(DotNetOptions, BTreeSet<Lane>)> {
        let own = vec!["System.Runtime".to_owned(), HOSTING.to_owned(), LOGGING.to_owned(), "Own".to_owned()];
        let mut choices = Vec::new();
        for bits in 0..16 {
            let options = DotNetOptions {
                requests: bits & 1 != 0,
                allocations: bits & 2 != 0,
                log_level: if bits & 4 != 0 { AppLogLevel::None } else { AppLogLevel::Debug },
                counters: if bits & 8 != 0 { own.clone() } else { Vec::new() },
                ..DotNetOptions::default()
            };
            let all = Lane::wanted(&options);
            let closable: Vec<Lane> = all.iter().copied().filter(|lane| lane.has_budget()).collect();
            for closed in 0..1_u32 << closable.len() {
                let is_open = |lane: &Lane| {
                    closable.iter().position(|one| one == lane).is_none_or(|at| closed >> at & 1 == 0)
                };
                choices.push((options.clone(), all.iter().copied().filter(is_open).collect()));
            }
        }
        choices
    }

    #[test]
    fn no_provider_is_in_two_sessions_since_8() {
        for (options, lanes) in every_choice() {
            for (layout, major) in
                [(Layout::United, 8), (Layout::Split, 8), (Layout::Split, 9), (Layout::Split, 10)]
            {
                let groups = layout.groups(&lanes);
                let configs = groups.iter().map(|group| group.config(&ask(&options, major)));
                let mut names: Vec<String> =
                    configs.flat_map(|config| config.providers).map(|one| one.name).collect();
                let count = names.len();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), count, "{layout:?} {major} {lanes:?}");
            }
        }
    }

    #[test]
    fn every_session_writes_each_second() {
        for (options, lanes) in every_choice() {
            for (layout, major) in [(Layout::Separate, 3), (Layout::United, 8), (Layout::Split, 9)] {
                for group in layout.groups(&lanes) {
                    let config = group.config(&ask(&options, major));
                    let is_sign = |one: &Provider| one.name == HEARTBEAT || one.name == METRICS;
                    assert!(config.providers.iter().any(is_sign), "{layout:?} {group:?}");
                    assert_eq!(config.rundown != Rundown::None, major < 8 && group.has(Lane::Runtime));
                }
            }
        }
    }

    #[test]
    fn requests_have_no_stacks_where_that_can_be_chosen() {
        for config in sessions(&DotNetOptions::default(), 9) {
            let has_requests = config.providers.iter().any(|one| one.name == HOSTING);
            assert_eq!(config.stacks, !has_requests);
        }
    }

    #[test]
    fn allocations_are_left_out_unless_asked_for() {
        for (allocations, major, level) in [
            (false, 8, EventLevel::Informational),
            (false, 10, EventLevel::Verbose),
            (true, 9, EventLevel::Verbose),
        ] {
            let options = DotNetOptions { allocations, ..DotNetOptions::default() };
            let first = sessions(&options, major).remove(0);
            let runtime = first.providers.iter().find(|one| one.name == RUNTIME).unwrap();
            assert_eq!(runtime.level, level);
            let Some(EventFilter::Without(without)) = &runtime.filter else { panic!("{runtime:?}") };
            assert_eq!(without.contains(&ALLOCATION), !allocations);
        }
    }
}
