//! What is asked of each source of events, and their names.

use biopsy_dotnet::nettrace::EventMetadata;
use biopsy_dotnet_ipc::{EventLevel, Provider};

use super::options::{AppLogLevel, DotNetOptions};

/// The runtime's own provider.
pub(crate) const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// Collections.
pub(crate) const GC: u64 = 0x1;
pub(super) const LOADER: u64 = 0x8;
pub(super) const JIT: u64 = 0x10;
pub(super) const CONTENTION: u64 = 0x4000;
/// Exceptions.
pub(crate) const EXCEPTION: u64 = 0x8000;
pub(super) const THREADING: u64 = 0x1_0000;
/// Allocations at random, since .NET 10: their only event, at level Informational.
pub(super) const ALLOCATION_SAMPLING: u64 = 0x800_0000_0000;
/// Events of the runtime that say nothing here: a worker that waits for work, and blocks that catch and finish.
pub(super) const CHATTER: [u32; 8] = [57, 250, 251, 252, 253, 254, 255, 256];
/// The same at level Verbose: pinned objects, items of the thread pool, memory for code, phases of collections.
pub(super) const VERBOSE_CHATTER: [u32; 10] = [33, 56, 60, 61, 62, 63, 64, 65, 146, 203];
/// About every 100 KB of allocations.
pub(super) const ALLOCATION: u32 = 10;
/// About one for 100 KB of allocations, each byte with the same chance.
pub(super) const ALLOCATION_SAMPLED: u32 = 303;

/// EventSources of the framework with counters that cost next to nothing.
pub(crate) const COUNTER_SOURCES: [&str; 5] = [
    "System.Runtime",
    "Microsoft-AspNetCore-Server-Kestrel",
    "Microsoft.AspNetCore.Http.Connections",
    "System.Net.NameResolution",
    "System.Net.Security",
];

/// The same, but asked at each request, command, or piece that is sent, whether somebody listens.
pub(crate) const RATE_SOURCES: [&str; 4] = [HOSTING, HTTP_CLIENT, SQL_CLIENT, "System.Net.Sockets"];

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
pub(super) const HEARTBEAT: &str = "System.Runtime";

/// Provider of meters.
pub(crate) const METRICS: &str = "System.Diagnostics.Metrics";
/// Values, and which instruments there are.
pub(super) const METRICS_KEYWORDS: u64 = 0x2 | 0x4;

/// Taken at once, not in order with the others: triggers and naming wait for them.
pub(crate) fn is_at_once(metadata: &EventMetadata) -> bool {
    match metadata.provider.as_str() {
        METRICS => true,
        RUNTIME => matches!(metadata.id, 141..=145 | 149 | 152 | 190),
        _ => metadata.name == "EventCounters",
    }
}

/// Meters of the application, and with `framework` those that measure each request.
pub(super) fn meters(options: &DotNetOptions, found: &[String], framework: bool) -> Vec<Provider> {
    let own = || options.counters.iter().map(String::as_str);
    // While a meter is listened to, each request is measured several times over: at saturation that costs more than its
    // events. The counters of the same sources say most of it for less.
    let framework = METERS.into_iter().filter(|_| options.requests && framework);
    let found = found.iter().map(String::as_str).filter(|name| own().all(|own| own != *name));
    let mut providers = vec![metrics(framework.chain(own()).chain(found))];
    // Those that another session has are there already; whoever names one of those that cost each request something has it always.
    let is_there = |name: &str| COUNTER_SOURCES.contains(&name) || name == METRICS || name == RUNTIME;
    let sources = own().filter(|name| !is_there(name));
    sources.for_each(|source| add(&mut providers, counters(source)));
    providers
}

/// Counters that each request pays for.
pub(super) fn rates() -> Vec<Provider> {
    RATE_SOURCES.into_iter().map(counters).collect()
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
pub(super) fn client_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("biopsy-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Ids of activities, by which the start and the end of a request, and what was done for it, belong together. It has
/// events of its own too, of which none has this keyword and level.
pub(crate) fn activities() -> Provider {
    Provider::new(ACTIVITIES, 0x80, EventLevel::Informational)
}

pub(super) fn requests(options: &DotNetOptions) -> Vec<Provider> {
    let mut providers = vec![
        Provider::new(HOSTING, u64::MAX, EventLevel::Informational),
        Provider::new(HTTP_CLIENT, 0x1, EventLevel::Informational),
        Provider::new(SQL_CLIENT, 0x1, EventLevel::Informational),
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
/// EventSource of requests that are sent.
pub(crate) const HTTP_CLIENT: &str = "System.Net.Http";
/// Source of what DiagnosticSources know.
pub(super) const DIAGNOSTIC_SOURCE: &str = "Microsoft-Diagnostics-DiagnosticSource";
/// Source of log messages.
pub(super) const LOGGING: &str = "Microsoft-Extensions-Logging";
/// Sources of requests and commands, and of the ids that tie them together.
pub(super) const REQUEST_SOURCES: [&str; 4] = [HOSTING, HTTP_CLIENT, SQL_CLIENT, ACTIVITIES];
const SQL_CLIENT: &str = "Microsoft.Data.SqlClient.EventSource";
pub(super) const ACTIVITIES: &str = "System.Threading.Tasks.TplEventSource";

/// What is taken of DiagnosticSources: status, route and ids of requests.
pub(super) const DIAGNOSTIC_SOURCES: &str = concat!(
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
pub(super) fn logs(options: &DotNetOptions) -> Provider {
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
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', ""))
}

/// A provider can be in a session once: a second one adds what it asks for.
pub(super) fn add(providers: &mut Vec<Provider>, provider: Provider) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
