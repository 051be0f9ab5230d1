//! Accounts of runtimes in which everything may be wrong.

use super::Dice;
use biopsy_model::log::LogLevel;
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{
    AllocationGroup, AssemblyLoad, Collection, CollectionReason, CommandGroup, Compiled, Contention,
    ContentionGroup, DataCommand, Exception, ExceptionGroup, LogMessage, MessageGroup, ProviderCount,
    Request, RequestGroup, RuntimeStack, RuntimeTrace, Sampled, ThreadPoolChange, ThreadPoolEvent,
};
use biopsy_model::symbol::Function;
use biopsy_model::{Nanos, Pid, Tid};

impl Dice {
    fn nanos(&mut self) -> Nanos {
        Nanos(self.number())
    }

    fn at_stack(&mut self) -> Option<RuntimeStack> {
        let stack = RuntimeStack(self.small());
        self.some(stack)
    }

    fn request(&mut self) -> Request {
        let (route, duration, trace_id) = (self.name(), self.nanos(), self.name());
        let status = u16::try_from(self.below(70_000)).unwrap_or(0);
        Request {
            start: self.time(),
            duration: self.some(duration),
            method: self.name(),
            path: self.name(),
            route: self.some(route),
            status: self.some(status),
            children: self.small(),
            trace_id: self.some(trace_id),
        }
    }

    fn request_group(&mut self) -> RequestGroup {
        RequestGroup {
            method: self.name(),
            route: self.name(),
            count: self.number(),
            unanswered: self.number(),
            failed: self.number(),
            total: self.nanos(),
            longest: self.nanos(),
            durations: std::array::from_fn(|_| self.small()),
            children: (self.number(), self.small()),
        }
    }

    fn collection(&mut self) -> Collection {
        let (end, promoted, pinned, tid, stack) =
            (self.time(), self.number(), self.small(), Tid(self.small()), self.at_stack());
        let sizes = std::array::from_fn(|_| self.number());
        let words = self.name();
        Collection {
            number: self.small(),
            start: self.time(),
            end: self.some(end),
            generation: u8::try_from(self.below(256)).unwrap_or(0),
            reason: match self.below(5) {
                0 => CollectionReason::SmallObjects,
                1 => CollectionReason::Induced,
                2 => CollectionReason::LowMemory,
                3 => CollectionReason::LargeObjects,
                _ => CollectionReason::Other(words),
            },
            background: self.roll() < 0.5,
            pause: self.nanos(),
            longest_pause: self.nanos(),
            promoted: self.some(promoted),
            sizes_after: self.some(sizes),
            pinned: self.some(pinned),
            tid: self.some(tid),
            stack,
        }
    }

    fn many<T>(&mut self, make: impl Fn(&mut Dice) -> T) -> Vec<T> {
        let count = if self.roll() < 0.05 { 900 } else { self.below(9) };
        (0..count).map(|_| make(self)).collect()
    }

    /// One account.
    pub fn runtime(&mut self) -> RuntimeTrace {
        let (version, entry) = (self.name(), self.name());
        let runtime =
            Runtime { kind: RuntimeKind::DotNet, version: self.some(version), entry: self.some(entry) };
        let mut trace = RuntimeTrace::new(Pid(self.small()), runtime, self.name());
        let span = (self.time(), self.time());
        trace.span = self.some(span);
        trace.functions = self.many(|dice| Function { name: dice.name(), file: None, line: None });
        trace.stacks = self.many(|dice| dice.many(Dice::small));
        trace.providers = self.many(|dice| ProviderCount {
            provider: dice.name(),
            event: dice.name(),
            count: dice.number(),
        });
        trace.collections.items = self.many(Dice::collection);
        trace.collections.total = self.number();
        trace.exceptions.items = self.many(|dice| Exception {
            time: dice.time(),
            tid: Tid(dice.small()),
            type_name: dice.name(),
            message: dice.name(),
            code: dice.small(),
            stack: dice.at_stack(),
        });
        trace.exceptions.total = self.number();
        trace.exception_groups = self.many(|dice| ExceptionGroup {
            type_name: dice.name(),
            message: dice.name(),
            stack: dice.at_stack(),
            count: dice.number(),
            first: dice.time(),
            last: dice.time(),
        });
        trace.contentions.items = self.many(|dice| {
            let (lock, owner) = (dice.number(), Tid(dice.small()));
            Contention {
                start: dice.time(),
                duration: dice.nanos(),
                tid: Tid(dice.small()),
                lock: dice.some(lock),
                owner: dice.some(owner),
                stack: dice.at_stack(),
            }
        });
        trace.contentions.total = self.number();
        trace.contention_groups = self.many(|dice| ContentionGroup {
            stack: dice.at_stack(),
            count: dice.number(),
            total: dice.nanos(),
            longest: dice.nanos(),
        });
        trace.thread_pool.items = self.many(|dice| {
            let (reason, throughput, threads) = (dice.name(), dice.real(), dice.small());
            ThreadPoolEvent {
                time: dice.time(),
                threads: dice.some(threads),
                kind: match dice.below(4) {
                    0 => ThreadPoolChange::Workers,
                    1 => ThreadPoolChange::Minimum,
                    2 => ThreadPoolChange::Adjusted { reason: "Starvation".into(), throughput: None },
                    _ => ThreadPoolChange::Adjusted { reason, throughput: dice.some(throughput) },
                },
            }
        });
        trace.thread_pool.total = self.number();
        trace.requests.items = self.many(Dice::request);
        trace.requests.total = self.number();
        trace.request_groups = self.many(Dice::request_group);
        trace.outgoing.items = self.many(Dice::request);
        trace.outgoing_groups = self.many(Dice::request_group);
        trace.commands.items = self.many(|dice| {
            let (duration, trace_id) = (dice.nanos(), dice.name());
            DataCommand {
                start: dice.time(),
                duration: dice.some(duration),
                text: dice.name(),
                source: dice.name(),
                failed: dice.roll() < 0.5,
                trace_id: dice.some(trace_id),
            }
        });
        trace.command_groups = self.many(|dice| CommandGroup {
            text: dice.name(),
            source: dice.name(),
            count: dice.number(),
            failed: dice.number(),
            total: dice.nanos(),
            longest: dice.nanos(),
            most_in_one_request: dice.small(),
        });
        trace.messages.items = self.many(|dice| {
            let (event, exception) = (dice.name(), dice.name());
            LogMessage {
                time: dice.time(),
                tid: Tid(dice.small()),
                level: [LogLevel::Unknown, LogLevel::Info, LogLevel::Warning, LogLevel::Error][dice.below(4)],
                level_name: dice.name(),
                category: dice.name(),
                event: dice.some(event),
                text: dice.name(),
                exception: dice.some(exception),
            }
        });
        trace.message_groups = self.many(|dice| MessageGroup {
            category: dice.name(),
            level_name: if dice.roll() < 0.5 { "Error".into() } else { dice.name() },
            count: dice.number(),
        });
        trace.allocation_groups = self.many(|dice| AllocationGroup {
            type_name: dice.name(),
            stack: dice.at_stack(),
            bytes: dice.number(),
            samples: dice.number(),
            large: dice.roll() < 0.5,
        });
        trace.compiled = Compiled {
            methods: self.number(),
            time: self.nanos(),
            bytes: self.number(),
            tiers: self.many(|dice| (dice.name(), dice.number())),
        };
        trace.loads.items = self.many(|dice| AssemblyLoad { time: dice.time(), name: dice.name() });
        trace.counters = (0..self.below(4)).map(|_| super::table(self)).collect();
        trace.sampled = self.many(|dice| Sampled {
            what: dice.name().as_str().into(),
            from: dice.time(),
            to: dice.time(),
            share: dice.real(),
            why: dice.name(),
        });
        trace.lost = self.number();
        trace.unknown = self.number();
        trace.cut = self.roll() < 0.5;
        trace
    }
}
