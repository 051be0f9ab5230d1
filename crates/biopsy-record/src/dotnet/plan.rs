//! Which sessions a process gets, and what is asked for in each.
//!
//! | session | stacks | what |
//! | --- | --- | --- |
//! | runtime | yes | collections, exceptions, contention, thread pool, assemblies |
//! | base | no | compiled methods with names, EventCounters, Meters |
//! | requests | no | requests in and out, commands to data bases |
//! | logs | no | messages of `ILogger` |
//! | allocations | yes | a sample of allocations |
//!
//! Events with stacks are apart because walking a stack is the costly part, and requests and messages because their
//! number is up to the load: they are closed alone when it is too high. Compiled methods are apart because they have names
//! at level Verbose only, at which the other kinds say too much.

use biopsy_dotnet::ipc::{EventFilter, EventLevel, Provider, Rundown, SessionConfig};

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
/// session without events would stay on after a kill of this process.
const HEARTBEAT: &str = "System.Runtime";

/// Provider of meters.
pub(crate) const METRICS: &str = "System.Diagnostics.Metrics";
/// Values, and which instruments there are.
const METRICS_KEYWORDS: u64 = 0x2 | 0x4;

/// A kind of session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Lane {
    /// What the runtime does.
    Runtime,
    /// Methods and counters.
    Base,
    /// Meters of the application that were found meanwhile.
    Meters,
    /// Requests and commands.
    Requests,
    /// Log messages.
    Logs,
    /// Allocations.
    Allocations,
}

impl Lane {
    /// The lanes that a recording opens at its start, the most telling first.
    pub(crate) fn wanted(options: &DotNetOptions) -> Vec<Self> {
        let mut lanes = vec![Self::Runtime, Self::Base, Self::Requests];
        if options.log_level != AppLogLevel::None {
            lanes.push(Self::Logs);
        }
        if options.allocations {
            lanes.push(Self::Allocations);
        }
        lanes
    }

    /// Whether counters come by this lane; by the others they are only a sign of life.
    pub(crate) fn has_counters(self) -> bool {
        matches!(self, Self::Base | Self::Meters)
    }

    /// Name in the recording; the first one has none.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Runtime => "",
            Self::Base => "counters",
            Self::Meters => "meters",
            Self::Requests => "requests",
            Self::Logs => "logs",
            Self::Allocations => "allocations",
        }
    }

    /// Starts and ends are on different threads, and a stream has them thread by thread: events are put in order of time,
    /// which delays them by up to ten seconds. Methods are wanted at once.
    pub(crate) fn is_sorted(self) -> bool {
        match self {
            Self::Runtime | Self::Requests | Self::Logs | Self::Allocations => true,
            Self::Base | Self::Meters => false,
        }
    }

    /// What is sampled when it is above the budget, in the words of [`biopsy_model::runtime_trace::Sampled`]; empty: it is
    /// never closed.
    pub(crate) fn sampled(self) -> &'static [&'static str] {
        match self {
            Self::Runtime | Self::Base | Self::Meters => &[],
            Self::Requests => &["requests", "commands"],
            Self::Logs => &["messages"],
            Self::Allocations => &["allocations"],
        }
    }

    /// What is asked for. `rundown`: the names of all methods at the end, for runtimes that cannot be read otherwise.
    pub(crate) fn config(self, options: &DotNetOptions, meters: &[String], rundown: bool) -> SessionConfig {
        let (stacks, buffer_mb, mut providers) = match self {
            Self::Runtime => (true, BUFFER_MB, vec![runtime()]),
            Self::Base => (false, BUFFER_MB, base(options)),
            Self::Meters => (false, BUFFER_MB, vec![metrics(meters.iter().map(String::as_str))]),
            Self::Requests => (false, REQUEST_BUFFER_MB, requests(options)),
            Self::Logs => (false, REQUEST_BUFFER_MB, vec![logs(options)]),
            Self::Allocations => (true, BUFFER_MB, vec![allocations()]),
        };
        if !matches!(self, Self::Base | Self::Meters) {
            providers.push(counters(HEARTBEAT));
        }
        let rundown = rundown && self == Self::Runtime;
        let buffer_mb = if rundown { RUNDOWN_BUFFER_MB } else { buffer_mb };
        let rundown = if rundown { Rundown::Default } else { Rundown::None };
        SessionConfig { buffer_mb, rundown, stacks, providers }
    }
}

fn runtime() -> Provider {
    let keywords = GC | LOADER | CONTENTION | EXCEPTION | THREADING;
    Provider::new(RUNTIME, keywords, EventLevel::Informational)
        .with_filter(EventFilter::Without(CHATTER.to_vec()))
}

fn allocations() -> Provider {
    // AllocationTick: one event each 100 KB.
    Provider::new(RUNTIME, GC, EventLevel::Verbose).with_filter(EventFilter::Only(vec![10]))
}

fn base(options: &DotNetOptions) -> Vec<Provider> {
    let methods = Provider::new(RUNTIME, JIT, EventLevel::Verbose)
        .with_filter(EventFilter::Only(vec![141, 142, 143, 144, 145]));
    let own = options.counters.iter().map(String::as_str);
    let mut providers = vec![methods];
    providers.extend(COUNTER_SOURCES.into_iter().chain(own.clone()).map(counters));
    // While a meter is listened to, each request is measured several times over: at saturation that costs more than its
    // events. The counters of the same sources say most of it for nothing.
    let framework = METERS.into_iter().filter(|_| options.requests);
    providers.push(metrics(framework.chain(own)));
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
    Provider::new("System.Threading.Tasks.TplEventSource", 0x80, EventLevel::Informational)
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
    Provider::new("Microsoft-Diagnostics-DiagnosticSource", 0x1 | 0x2, EventLevel::Verbose)
        .with_arguments(&format!("FilterAndPayloadSpecs={}", quoted(DIAGNOSTIC_SOURCES)))
}

/// EventSource of requests that are served.
pub(crate) const HOSTING: &str = "Microsoft.AspNetCore.Hosting";

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
    Provider::new("Microsoft-Extensions-Logging", FORMATTED, level)
        .with_arguments(&format!("FilterSpecs={}", quoted(&rules.join(";"))))
}

/// A value with semicolons in the arguments of a provider.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(lane: Lane, options: &DotNetOptions) -> Vec<Provider> {
        lane.config(options, &[], false).providers
    }

    #[test]
    fn the_default_leaves_levels_and_other_tools_alone() {
        let options = DotNetOptions::default();
        let all: Vec<Provider> =
            Lane::wanted(&options).into_iter().flat_map(|lane| named(lane, &options)).collect();
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
        assert_eq!(named(Lane::Requests, &options).len(), 6);
    }

    #[test]
    fn names_that_would_change_the_arguments_are_left_out() {
        let provider = metrics(["Good.Meter", "Bad;Metrics=*", "", "a,b"].into_iter());
        assert!(provider.arguments.starts_with("SessionId=SHARED;Metrics=Good.Meter;RefreshInterval=1;"));
    }

    #[test]
    fn every_session_writes_each_second_and_has_each_provider_once() {
        let options = DotNetOptions { allocations: true, requests: true, ..DotNetOptions::default() };
        for lane in Lane::wanted(&options).into_iter().chain([Lane::Meters]) {
            let mut names: Vec<String> = named(lane, &options).into_iter().map(|one| one.name).collect();
            assert!(names.iter().any(|name| name == HEARTBEAT || name == METRICS), "{lane:?}");
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{lane:?}");
        }
    }

    #[test]
    fn no_events_are_taken_twice() {
        let options = DotNetOptions { allocations: true, ..DotNetOptions::default() };
        let mut of_runtime = 0;
        for lane in Lane::wanted(&options) {
            for provider in named(lane, &options).iter().filter(|one| one.name == RUNTIME) {
                // The allocations are the same keyword at another level.
                if lane != Lane::Allocations {
                    assert_eq!(of_runtime & provider.keywords, 0);
                    of_runtime |= provider.keywords;
                }
            }
        }
    }
}
