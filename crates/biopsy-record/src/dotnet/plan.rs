//! Which sessions a process gets, and what is asked for in each.
//!
//! What is recorded is in kinds, [`Lane`]s; a session takes some of them. No provider is in two sessions at a time: the runtime
//! tells a source that a session has ended on the thread of that session, and where two end at the same instant, as those of a
//! killed process do, the message of the one (“the other one still listens”) may come after that of the other (“nobody
//! listens”) and leave the source enabled (`disable_helper` in the runtime's `ep.c`).
//!
//! | runtime | sessions |
//! | --- | --- |
//! | 9 and later | with stacks: what the runtime does, methods, counters, allocations; without: meters, counters of requests, requests, messages |
//! | 8 | the same where there are meters; otherwise one with everything, as all events have stacks anyway |
//! | before 8 | one for each kind, each with the counters of `System.Runtime` as a sign of life |
//!
//! Walking a stack is the costly part of an event, and the number of requests and messages is up to the load: a session that has
//! them is replaced by one without when there are too many.

use std::collections::BTreeSet;

use biopsy_dotnet::nettrace::EventMetadata;
use biopsy_dotnet_ipc::{EventFilter, EventLevel, Provider, Rundown, SessionConfig};
use biopsy_model::runtime_trace::SampledKind;

use super::options::{AppLogLevel, DotNetOptions};
use super::providers::{
    ALLOCATION, ALLOCATION_SAMPLED, ALLOCATION_SAMPLING, CHATTER, CONTENTION, COUNTER_SOURCES,
    DIAGNOSTIC_SOURCE, EXCEPTION, GC, HEARTBEAT, JIT, LOADER, LOGGING, REQUEST_SOURCES, RUNTIME, THREADING,
    VERBOSE_CHATTER, add, counters, logs, meters, rates, requests,
};

/// MiB that the runtime may use for events that were not fetched yet.
const BUFFER_MB: u32 = 16;
const REQUEST_BUFFER_MB: u32 = 64;
/// .NET 3.1 sends nothing of its methods before it has told all of them: what does not fit is lost.
const RUNDOWN_BUFFER_MB: u32 = 256;

/// A kind of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Lane {
    /// What the runtime does.
    Runtime,
    /// Methods and counters.
    Base,
    /// Meters of the application.
    Meters,
    /// Counters of requests, and the framework's meters: what costs each request something.
    Rates,
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
        if options.gentle {
            return BTreeSet::from([Self::Runtime, Self::Base]);
        }
        let mut lanes =
            BTreeSet::from([Self::Runtime, Self::Base, Self::Meters, Self::Rates, Self::Requests]);
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
            Self::Rates => "rates",
            Self::Requests => "requests",
            Self::Logs => "logs",
            Self::Allocations => "allocations",
        }
    }

    /// What is missing while it is closed.
    pub(crate) fn sampled(self) -> &'static [SampledKind] {
        match self {
            Self::Runtime => &[SampledKind::Runtime],
            Self::Base | Self::Meters => &[],
            Self::Rates => &[SampledKind::RequestCounters],
            Self::Requests => &[SampledKind::Requests, SampledKind::Commands],
            Self::Logs => &[SampledKind::Messages],
            Self::Allocations => &[SampledKind::Allocations],
        }
    }

    /// Whether it is closed when its events are above the budget.
    pub(crate) fn has_budget(self, options: &DotNetOptions) -> bool {
        match self {
            // An exception storm is what a capture was started for; who stands by for days must not add to it.
            Self::Runtime => options.gentle,
            // Counters of requests are closed by the rate that they tell, see `rates`.
            Self::Base | Self::Meters | Self::Rates => false,
            Self::Requests | Self::Logs | Self::Allocations => true,
        }
    }

    /// The kind that an event is counted as by the budget.
    pub(crate) fn of(metadata: &EventMetadata) -> Option<Self> {
        match metadata.provider.as_str() {
            RUNTIME => Some(match metadata.id {
                ALLOCATION | ALLOCATION_SAMPLED => Self::Allocations,
                _ => Self::Runtime,
            }),
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
                &[Lane::Base, Lane::Meters, Lane::Rates],
                &[Lane::Requests],
                &[Lane::Logs],
                &[Lane::Allocations],
            ],
            Self::United => &[&[
                Lane::Runtime,
                Lane::Base,
                Lane::Meters,
                Lane::Rates,
                Lane::Requests,
                Lane::Logs,
                Lane::Allocations,
            ]],
            Self::Split => &[
                &[Lane::Runtime, Lane::Base, Lane::Allocations],
                &[Lane::Meters, Lane::Rates, Lane::Requests, Lane::Logs],
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
    /// It has just begun to start, and what it compiles is what one wants to know.
    pub(crate) starting: bool,
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
        let mut providers: Vec<Provider> = self.runtime(ask).into_iter().collect();
        for lane in &self.0 {
            let more = match lane {
                Lane::Runtime | Lane::Allocations => Vec::new(),
                Lane::Base => COUNTER_SOURCES.into_iter().map(counters).collect(),
                Lane::Meters => meters(ask.options, ask.meters, self.has(Lane::Rates)),
                Lane::Rates => rates(),
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
    fn runtime(&self, ask: &Ask<'_>) -> Option<Provider> {
        // Each compiled method is two events with stacks: of a compile server that starts, 3,500 a second. Where memory names methods,
        // and counters tell how many there were and how long that took, that is too much for what it adds. Of versions to come only
        // events are sure to tell.
        let methods = ask.starting || ask.major != Some(10);
        // Since .NET 10 they are told at random, and at a level that has no chatter.
        let at_random = ask.major.is_some_and(|major| major >= 10);
        let mut keywords = 0;
        for (lane, its) in [
            (Lane::Runtime, GC | LOADER | CONTENTION | EXCEPTION | THREADING),
            (Lane::Base, if methods { JIT } else { 0 }),
            (Lane::Allocations, if at_random { ALLOCATION_SAMPLING } else { GC }),
        ] {
            keywords |= if self.has(lane) { its } else { 0 };
        }
        if keywords == 0 {
            return None;
        }
        // Methods have names, and the start of their compilation, at level Verbose only. Ticks of allocations are of that level too, so that
        // before single events can be left out (.NET 10) only memory names methods.
        let alone = !self.has(Lane::Runtime);
        let names = methods && ask.major.is_some_and(|major| major >= 10);
        let ticks = self.has(Lane::Allocations) && !at_random;
        let verbose = (alone && self.has(Lane::Base)) || ticks || names;
        let level = if verbose { EventLevel::Verbose } else { EventLevel::Informational };
        let provider = Provider::new(RUNTIME, keywords, level);
        let allocation = if at_random { ALLOCATION_SAMPLED } else { ALLOCATION };
        Some(provider.with_filter(if alone {
            let mut only = if self.has(Lane::Base) { vec![141, 142, 143, 144, 145] } else { Vec::new() };
            only.extend(self.has(Lane::Allocations).then_some(allocation));
            EventFilter::Only(only)
        } else {
            let mut without = [&CHATTER[..], &VERBOSE_CHATTER[..]].concat();
            without.extend((!ticks).then_some(ALLOCATION));
            EventFilter::Without(without)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::providers::{HOSTING, METRICS};
    use super::*;

    fn ask(options: &DotNetOptions, major: u32) -> Ask<'_> {
        Ask { options, major: Some(major), meters: &[], rundown: major < 8, starting: false }
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
            let closable: Vec<Lane> = all
                .iter()
                .copied()
                .filter(|lane| lane.has_budget(&options) || *lane == Lane::Rates)
                .collect();
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
            (false, 10, EventLevel::Informational),
            (true, 9, EventLevel::Verbose),
            (true, 10, EventLevel::Informational),
        ] {
            let options = DotNetOptions { allocations, ..DotNetOptions::default() };
            let first = sessions(&options, major).remove(0);
            let runtime = first.providers.iter().find(|one| one.name == RUNTIME).unwrap();
            assert_eq!(runtime.level, level);
            let Some(EventFilter::Without(without)) = &runtime.filter else { panic!("{runtime:?}") };
            // Since 10 they are told at random, and ticks are nothing but more of the same.
            let (ticks, random) = (allocations && major < 10, allocations && major >= 10);
            assert_eq!(without.contains(&ALLOCATION), !ticks);
            assert_eq!(runtime.keywords & ALLOCATION_SAMPLING != 0, random);
        }
    }
}
