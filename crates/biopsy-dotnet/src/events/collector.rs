//! The collector: events in, a `RuntimeTrace` out.

use super::activity::path_of;
use super::allocations::Allocations;
use super::collections::Collections;
use super::commands::{CommandKey, Commands};
use super::contention::Contentions;
use super::counters::Counters;
use super::diagnostic_source::{self, Edge, Subject, Told};
use super::exceptions::Exceptions;
use super::kept::First;
use super::kind::{Kind, kind_of};
use super::limits::Limits;
use super::messages::Messages;
use super::names::event_name;
use super::requests::{Identity, Requests, Started, outgoing_route};
use super::runtime::{
    Allocation, AssemblyLoaded, ContentionStart, ContentionStop, ExceptionThrown, GcEnd, GcHeapStats,
    GcStart, GcSuspendBegin, MethodLoad, PoolAdjustment, RuntimeStart, pool_reason, tier,
};
use super::stacks::StackTable;
use crate::methods::NameAddresses;
use crate::nettrace::{Event, Text, Value};
use biopsy_bytes::Cursor;
use biopsy_model::order::Order as _;
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{
    AllocationSampling, AssemblyLoad, Compiled, ProviderCount, RuntimeTrace, Sampled, SampledKind,
    ThreadPoolChange, ThreadPoolEvent,
};
use biopsy_model::{MonoNanos, Pid, Tid};
use rustc_hash::FxHashMap;

/// Collects what the runtime of one process and the application on it say.
///
/// Give it the events in order of time ([`crate::nettrace::Reader::sort_by_time`]): starts and stops of requests are on
/// different threads, and the stream has them thread by thread.
pub struct Collector<F> {
    state: State,
    redact: F,
}

impl<F> std::fmt::Debug for Collector<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("pid", &self.state.pid).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    pid: Pid,
    source: String,
    runtime: Runtime,
    limits: Limits,
    span: Option<(MonoNanos, MonoNanos)>,
    stacks: StackTable,
    /// By fingerprint of the description: what to do, how often it came, and where its name is.
    kinds: FxHashMap<u64, (Kind, usize)>,
    counts: Vec<ProviderCount>,
    collections: Collections,
    exceptions: Exceptions,
    contentions: Contentions,
    pool: First<ThreadPoolEvent>,
    served: Requests,
    /// `Microsoft.AspNetCore.Hosting` told of a request: what diagnostic sources say only adds to it then.
    hosting_speaks: bool,
    sent: Requests,
    http_speaks: bool,
    commands: Commands,
    /// What diagnostic sources tell of commands: counts where no event source does.
    source_commands: Commands,
    sql_speaks: bool,
    messages: Messages,
    allocations: Allocations,
    compiled: Compiled,
    tiers: FxHashMap<&'static str, u64>,
    compiling: FxHashMap<Tid, (u64, MonoNanos)>,
    loads: First<AssemblyLoad>,
    counters: Counters,
    sampled: Vec<Sampled>,
    lost: u64,
    unknown: u64,
    damaged: u64,
    cut: bool,
}

impl<F: FnMut(&str) -> String> Collector<F> {
    /// Of a process, or of a file (then `Pid(0)` until the stream says). `source` is the recording's member or the file;
    /// `redact` is given every text that the application made, and returns what may be kept of it.
    pub fn new(pid: Pid, source: String, limits: &Limits, redact: F) -> Self {
        let state = State {
            pid,
            source,
            runtime: Runtime { kind: RuntimeKind::DotNet, version: None, entry: None },
            limits: *limits,
            span: None,
            stacks: StackTable::new(limits),
            kinds: FxHashMap::default(),
            counts: Vec::new(),
            collections: Collections::new(limits),
            exceptions: Exceptions::new(limits),
            contentions: Contentions::new(limits),
            pool: First::new(limits.items.saturating_mul(2)),
            served: Requests::new(limits),
            hosting_speaks: false,
            sent: Requests::new(limits),
            http_speaks: false,
            commands: Commands::new(limits),
            source_commands: Commands::new(limits),
            sql_speaks: false,
            messages: Messages::new(limits),
            allocations: Allocations::new(limits),
            compiled: Compiled::default(),
            tiers: FxHashMap::default(),
            compiling: FxHashMap::default(),
            loads: First::new(limits.items),
            counters: Counters::new(pid, limits),
            sampled: Vec::new(),
            lost: 0,
            unknown: 0,
            damaged: 0,
            cut: false,
        };
        Self { state, redact }
    }

    /// Takes one event.
    pub fn event(&mut self, event: &Event<'_>) {
        self.state.event(event, &mut self.redact);
    }

    /// What the runtime is, where it is known better than the stream tells.
    pub fn set_runtime(&mut self, runtime: Runtime) {
        self.state.runtime = runtime;
    }

    /// Events of a kind were not taken, or only a share of them.
    pub fn note_sampled(&mut self, sampled: Sampled) {
        self.state.sampled.push(sampled);
    }

    /// What the reader says in the end: events lost, things not understood, and whether the stream ends in the middle. Of
    /// several readers the numbers add up.
    pub fn lost(&mut self, lost: u64, unknown: u64, cut: bool) {
        self.state.lost = self.state.lost.saturating_add(lost);
        self.state.unknown = self.state.unknown.saturating_add(unknown);
        self.state.cut |= cut;
    }

    /// First and last moment so far.
    #[must_use]
    pub fn span(&self) -> Option<(MonoNanos, MonoNanos)> {
        self.state.span
    }

    /// No collection is under way: what ends here ends none in the middle.
    #[must_use]
    pub fn is_between_collections(&self) -> bool {
        self.state.collections.is_idle()
    }

    /// The result, with what `names` knows of code addresses.
    #[must_use]
    pub fn finish(mut self, names: &dyn NameAddresses) -> RuntimeTrace {
        self.state.finish(names, &mut self.redact)
    }
}

impl State {
    fn event(&mut self, event: &Event<'_>, redact: &mut dyn FnMut(&str) -> String) {
        let kind = self.count(event);
        let (time, tid, version) = (event.time, event.tid, event.metadata.version);
        let span = self.span.get_or_insert((time, time));
        *span = (span.0.min(time), span.1.max(time));
        if let Some(pid) = event.pid.filter(|_| self.pid == Pid(0)) {
            self.pid = pid;
            self.counters.set_pid(pid);
        }
        let payload = event.payload;
        // `None` below: the payload is shorter than its version says.
        let understood = match kind {
            Kind::Other => Some(()),
            Kind::GcStart => GcStart::read(version, payload).map(|start| {
                let stack = self.stacks.intern(event.stack);
                self.collections.start(time, start, Some(tid), stack);
            }),
            Kind::GcEnd => GcEnd::read(version, payload).map(|end| self.collections.end(time, end)),
            Kind::GcSuspendBegin => GcSuspendBegin::read(version, payload)
                .map(|begin| self.collections.suspend_begin(time, begin, tid)),
            Kind::GcRestartEnd => {
                self.collections.restart_end(time, tid);
                Some(())
            }
            Kind::GcHeapStats => {
                GcHeapStats::read(version, payload).map(|stats| self.collections.heap_stats(stats))
            }
            Kind::AllocationTick => Allocation::read_tick(version, payload).map(|allocation| {
                let stack = self.stacks.intern(event.stack);
                self.allocations.add(&allocation, stack, &AllocationSampling::Ticks);
            }),
            Kind::AllocationSample => Allocation::read_sample(payload).map(|allocation| {
                let stack = self.stacks.intern(event.stack);
                self.allocations.add(&allocation, stack, &AllocationSampling::Random);
            }),
            Kind::Exception => ExceptionThrown::read(payload).map(|thrown| {
                let stack = self.stacks.intern(event.stack);
                self.exceptions.thrown(time, tid, &thrown, stack, redact);
            }),
            Kind::ContentionStart => ContentionStart::read(version, payload).map(|start| {
                let stack = self.stacks.intern(event.stack);
                self.contentions.start(time, tid, start, stack);
            }),
            Kind::ContentionStop => {
                ContentionStop::read(version, payload).map(|stop| self.contentions.stop(time, tid, stop))
            }
            Kind::PoolWorkers => Cursor::new(payload).u32("ActiveWorkerThreadCount").ok().map(|threads| {
                let kind = ThreadPoolChange::Workers;
                self.pool.push(ThreadPoolEvent { time, threads: Some(threads), kind });
            }),
            Kind::PoolMinimum => {
                self.pool.push(ThreadPoolEvent { time, threads: None, kind: ThreadPoolChange::Minimum });
                Some(())
            }
            Kind::PoolAdjustment => PoolAdjustment::read(payload).map(|change| {
                let throughput = Some(change.throughput).filter(|value| value.is_finite());
                let reason = pool_reason(change.reason).to_owned();
                let kind = ThreadPoolChange::Adjusted { reason, throughput };
                self.pool.push(ThreadPoolEvent { time, threads: Some(change.threads), kind });
            }),
            Kind::JittingStarted => MethodLoad::read_jitting(payload).map(|method| {
                if self.compiling.len() < self.limits.open || self.compiling.contains_key(&tid) {
                    self.compiling.insert(tid, (method, time));
                }
            }),
            Kind::MethodLoad => MethodLoad::read(payload).map(|method| self.method(time, tid, method)),
            Kind::AssemblyLoad => AssemblyLoaded::read(version, payload).map(|assembly| {
                let name = assembly.name.to_string_of(self.limits.text);
                self.loads.push(AssemblyLoad { time, name });
            }),
            Kind::RuntimeStart => RuntimeStart::read(payload).map(|start| self.runtime_start(&start)),
            Kind::ProcessInfo | Kind::EventCounters | Kind::Metric | Kind::Message(_) => {
                self.described(kind, event);
                Some(())
            }
            Kind::ServedStart | Kind::ServedStop | Kind::ServedFailed => {
                self.served(kind, event, redact);
                Some(())
            }
            Kind::SentStart | Kind::SentStop | Kind::SentFailed | Kind::SentStatus => {
                self.sent(kind, event, redact);
                Some(())
            }
            Kind::CommandStart | Kind::CommandStop => {
                self.command(kind, event, redact);
                Some(())
            }
            Kind::Source => {
                if let Some((subject, told)) = diagnostic_source::read(&event.metadata.name, event.values()) {
                    self.source(subject, &told, event, redact);
                }
                Some(())
            }
        };
        self.damaged += u64::from(understood.is_none());
    }

    fn count(&mut self, event: &Event<'_>) -> Kind {
        let found = self.kinds.get(&event.metadata.fingerprint).copied();
        let (kind, index) = found.unwrap_or_else(|| {
            let kind = kind_of(event.metadata);
            let provider = event.metadata.provider.clone();
            let mut event_text = event_name(event.metadata);
            let place = |counts: &[ProviderCount], name: &str| {
                counts.iter().position(|count| count.provider == provider && count.event == name)
            };
            if self.counts.len() >= self.limits.groups {
                "(others)".clone_into(&mut event_text);
            }
            let index = place(&self.counts, &event_text).unwrap_or_else(|| {
                // One more of each provider where the limit is reached: providers are limited by descriptions.
                self.counts.push(ProviderCount { provider: provider.clone(), event: event_text, count: 0 });
                self.counts.len() - 1
            });
            if self.kinds.len() < self.limits.groups.saturating_mul(4) {
                self.kinds.insert(event.metadata.fingerprint, (kind, index));
            }
            (kind, index)
        });
        if let Some(count) = self.counts.get_mut(index) {
            count.count += 1;
        }
        kind
    }

    fn method(&mut self, time: MonoNanos, tid: Tid, method: MethodLoad) {
        const JITTED: u32 = 8;
        *self.tiers.entry(tier(method.flags)).or_default() += 1;
        if method.flags & JITTED == 0 {
            return;
        }
        self.compiled.methods += 1;
        self.compiled.bytes = self.compiled.bytes.saturating_add(method.size.into());
        if let Some((_, since)) = self.compiling.remove(&tid).filter(|(started, _)| *started == method.method)
        {
            self.compiled.time = self.compiled.time + time.since(since);
        }
    }

    fn runtime_start(&mut self, start: &RuntimeStart<'_>) {
        let [major, minor, build, _] = start.version;
        if self.runtime.version.is_none() && major != 0 {
            // 10.0.1226.42308 is 10.0.12: the rest counts builds. 3.1 says 4.700.22.11601, from which no patch can be told.
            self.runtime.version = match major {
                4 => Some("3.1".to_owned()).filter(|_| build >= 21),
                _ => Some(format!("{major}.{minor}.{}", build / 100)),
            };
        }
        let command = start.command_line.to_string_of(self.limits.text);
        self.entry(&command);
    }

    fn entry(&mut self, command_line: &str) {
        if self.runtime.entry.is_none() {
            let is_entry = |word: &&str| word.ends_with(".dll") || word.ends_with(".exe");
            let entry = command_line.split_whitespace().find(is_entry);
            let name = entry.map(|path| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned());
            self.runtime.entry = name;
        }
    }

    fn described(&mut self, kind: Kind, event: &Event<'_>) {
        match kind {
            Kind::ProcessInfo => {
                if let Some(Value::Text(text)) = event.values().get("CommandLine") {
                    self.entry(&text.to_string_of(self.limits.text));
                }
            }
            Kind::EventCounters => {
                self.counters.event_counters(event.time, &event.metadata.provider, event.values());
            }
            Kind::Metric => self.counters.metric(event.time, &event.metadata.name, event.values()),
            Kind::Message(form) => self.messages.event(event.time, event.tid, form, event.values()),
            _ => (),
        }
    }

    fn served(&mut self, kind: Kind, event: &Event<'_>, redact: &mut dyn FnMut(&str) -> String) {
        let identity = identity_of(event);
        if kind == Kind::ServedStart {
            self.hosting_speaks = true;
            let mut what = Started::default();
            for (name, value) in event.values() {
                match (name, value) {
                    ("method", Value::Text(text)) => what.method = text.to_string_of(16),
                    ("path", Value::Text(text)) => what.path = text.to_string_of(self.limits.text),
                    _ => (),
                }
            }
            self.served.start(event.time, identity, what);
            return;
        }
        let Some(key) = self.served.exact(identity).or_else(|| self.served.around(identity)) else { return };
        if kind == Kind::ServedFailed {
            self.served.set_status(key, 500);
        } else if !self.served.is_by_source(key) {
            self.served.stop(key, event.time, redact);
        }
    }

    fn sent(&mut self, kind: Kind, event: &Event<'_>, redact: &mut dyn FnMut(&str) -> String) {
        let identity = identity_of(event);
        if kind == Kind::SentStart {
            self.http_speaks = true;
            let (mut scheme, mut host) = (Text::default(), Text::default());
            let (mut path, mut port) = (Text::default(), 0);
            for (name, value) in event.values() {
                match (name, value) {
                    ("scheme", Value::Text(text)) => scheme = text,
                    ("host", Value::Text(text)) => host = text,
                    ("pathAndQuery", Value::Text(text)) => path = text,
                    ("port", value) => port = value.int().unwrap_or(0),
                    _ => (),
                }
            }
            let host = format!("{}:{port}", host.to_string_of(256));
            let path = path.to_string_of(self.limits.text);
            let path = path.split(['?', '#']).next().unwrap_or_default();
            let what = Started {
                method: String::new(),
                path: format!("{}://{host}{path}", scheme.to_string_of(16)),
                route: Some(outgoing_route(&host, path)),
                by_source: false,
            };
            self.begin_sent(event.time, identity, what);
            return;
        }
        // `ResponseHeadersStop` is an activity of its own within the request.
        let exact = self.sent.exact(identity);
        let Some(key) = exact.or_else(|| self.sent.around(identity)) else { return };
        let status = event.values().get("statusCode").and_then(|value| value.int());
        if let Some(status) = status {
            self.sent.set_status(key, u16::try_from(status).unwrap_or(0));
        }
        match kind {
            Kind::SentFailed => self.sent.set_status(key, 0),
            Kind::SentStop if !self.sent.is_by_source(key) => self.sent.stop(key, event.time, redact),
            _ => (),
        }
    }

    fn begin_sent(&mut self, time: MonoNanos, identity: Identity<'_>, what: Started) {
        if let Some(request) = self.served.around(identity) {
            self.served.add_child(request);
        }
        self.sent.start(time, identity, what);
    }

    fn command(&mut self, kind: Kind, event: &Event<'_>, redact: &mut dyn FnMut(&str) -> String) {
        let (mut text, mut server, mut database) = (Text::default(), Text::default(), Text::default());
        let (mut object, mut state, mut error) = (0, 1, 0);
        for (name, value) in event.values() {
            // Names differ in case between the two libraries.
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            match &value {
                Value::Text(found) if is("commandText") => text = *found,
                Value::Text(found) if is("dataSource") => server = *found,
                Value::Text(found) if is("databaseName") => database = *found,
                Value::Int(found) if is("objectId") => object = *found,
                Value::Int(found) if is("compositestate") => state = *found,
                Value::Int(found) if is("sqlExceptionNumber") => error = *found,
                _ => (),
            }
        }
        let key = CommandKey::Object(object);
        if kind == Kind::CommandStop {
            // Bit 0: succeeded.
            self.commands.stop(event.time, &key, state & 1 == 0 || error != 0);
            return;
        }
        self.sql_speaks = true;
        let identity = identity_of(event);
        self.commands.start(event.time, key, text, server, database, identity, &mut self.served, redact);
    }

    fn source(
        &mut self,
        subject: Subject,
        told: &Told<'_>,
        event: &Event<'_>,
        redact: &mut dyn FnMut(&str) -> String,
    ) {
        let mut identity = identity_of(event);
        identity.id = told.id.as_deref();
        identity.trace = told.trace.as_deref();
        match subject {
            Subject::Incoming(edge) => {
                let requests = &mut self.served;
                if edge == Edge::Start && !self.hosting_speaks {
                    let what = Started {
                        method: told.method.clone().unwrap_or_default(),
                        path: told.path.clone().or_else(|| told.url.clone()).unwrap_or_default(),
                        route: told.route.clone(),
                        by_source: true,
                    };
                    requests.start(event.time, identity, what);
                    return;
                }
                if let Some(key) = requests.exact(identity).or_else(|| requests.around(identity)) {
                    end_or_enrich(
                        requests,
                        key,
                        edge,
                        identity,
                        told.route.clone(),
                        told,
                        event.time,
                        redact,
                    );
                }
            }
            Subject::Outgoing(edge) => {
                if edge == Edge::Start && !self.http_speaks {
                    let url = told.url.clone().or_else(|| told.path.clone()).unwrap_or_default();
                    let behind = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                    let ends = behind.find(['/', '?', '#']).unwrap_or(behind.len());
                    let (host, path) = behind.split_at(ends);
                    // Whoever asks may be named in front of it, with a password.
                    let host = host.rsplit('@').next().unwrap_or_default();
                    let what = Started {
                        method: told.method.clone().unwrap_or_default(),
                        route: Some(outgoing_route(told.host.as_deref().unwrap_or(host), path)),
                        path: url,
                        by_source: true,
                    };
                    self.begin_sent(event.time, identity, what);
                    return;
                }
                let requests = &mut self.sent;
                if let Some(key) = requests.exact(identity).or_else(|| requests.around(identity)) {
                    end_or_enrich(requests, key, edge, identity, None, told, event.time, redact);
                }
            }
            Subject::Command(edge) => {
                // The event source tells the same, and the text too.
                let Some(operation) = told.operation.clone().filter(|_| !self.sql_speaks) else { return };
                let key = CommandKey::Operation(operation);
                let none = Text::default();
                match edge {
                    Edge::Start => {
                        let requests = &mut self.served;
                        let commands = &mut self.source_commands;
                        commands.start(event.time, key, told.text, none, none, identity, requests, redact);
                    }
                    Edge::Stop => self.source_commands.stop(event.time, &key, false),
                    Edge::Failed => self.source_commands.stop(event.time, &key, true),
                }
            }
        }
    }

    fn finish(mut self, names: &dyn NameAddresses, redact: &mut dyn FnMut(&str) -> String) -> RuntimeTrace {
        let end = self.span.map_or(MonoNanos(0), |(_, end)| end);
        let mut trace = RuntimeTrace::new(self.pid, self.runtime, self.source);
        trace.span = self.span;
        trace.providers = self.counts;
        trace.providers.order_by(|left, right| {
            (&left.provider, right.count, &left.event).cmp(&(&right.provider, left.count, &right.event))
        });
        trace.collections = self.collections.finish();
        (trace.exceptions, trace.exception_groups) = self.exceptions.finish();
        (trace.contentions, trace.contention_groups) = self.contentions.finish(end);
        trace.thread_pool = self.pool.kept;
        if let Some(to) =
            self.sampled.iter().filter(|one| one.what == SampledKind::Requests).map(|one| one.to).max()
        {
            self.served.forget_open_before(to);
            self.sent.forget_open_before(to);
        }
        (trace.requests, trace.request_groups) = self.served.finish(end, redact);
        (trace.outgoing, trace.outgoing_groups) = self.sent.finish(end, redact);
        let commands = if self.sql_speaks { self.commands } else { self.source_commands };
        (trace.commands, trace.command_groups) = commands.finish(end);
        (trace.messages, trace.message_groups) = self.messages.finish(redact);
        (trace.allocation_groups, trace.allocation_sampling) = self.allocations.finish();
        trace.compiled = self.compiled;
        trace.compiled.tiers = self.tiers.into_iter().map(|(tier, count)| (tier.to_owned(), count)).collect();
        trace.compiled.tiers.order_by(|left, right| (right.1, &left.0).cmp(&(left.1, &right.0)));
        trace.loads = self.loads.kept;
        if trace.compiled.methods == 0 {
            // Where methods are not reported (before .NET 10, at level Verbose only), they are counted.
            trace.compiled.methods = self.counters.rise("System.Runtime", "methods-jitted-count");
            let millis = self.counters.sum("System.Runtime", "time-in-jit");
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
            let nanos = (millis.max(0.0) * 1e6) as u64;
            trace.compiled.time.0 = nanos;
        }
        let refused = self.counters.refused;
        trace.counters = self.counters.finish(redact);
        trace.sampled = self.sampled;
        if let Some((from, to)) = trace.span.filter(|_| refused > 0) {
            trace.sampled.push(Sampled {
                what: SampledKind::Counters,
                from,
                to,
                share: 0.0,
                why: format!("{refused} readings above the limit of {}", self.limits.readings),
            });
        }
        trace.lost = self.lost;
        trace.unknown = self.unknown.saturating_add(self.damaged);
        trace.cut = self.cut;
        (trace.functions, trace.stacks) = self.stacks.name(names);
        trace
    }
}

fn identity_of<'a>(event: &Event<'a>) -> Identity<'a> {
    Identity { path: path_of(&event.activity), trace: None, id: None, tid: event.tid }
}

#[expect(clippy::too_many_arguments, reason = "what an event says, and to whom it belongs")]
fn end_or_enrich(
    requests: &mut Requests,
    key: u64,
    edge: Edge,
    identity: Identity<'_>,
    route: Option<String>,
    told: &Told<'_>,
    time: MonoNanos,
    redact: &mut dyn FnMut(&str) -> String,
) {
    requests.enrich(key, identity, route);
    if let Some(status) = told.status {
        requests.set_status(key, status);
    }
    // The event source's own stop comes some microseconds later, and without an activity where this one ended it.
    if edge == Edge::Stop {
        requests.stop(key, time, redact);
    }
}
