//! Makes what a runtime said of itself, for tests.

use super::{MS, PID, START, Waiting, call};
use biopsy_model::log::LogLevel;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{
    AllocationGroup, Collection, CollectionReason, CommandGroup, Contention, ContentionGroup, Exception,
    ExceptionGroup, LogMessage, MessageGroup, Request, RequestGroup, RuntimeStack, RuntimeTrace,
    ThreadPoolChange, ThreadPoolEvent,
};
use biopsy_model::symbol::Function;
use biopsy_model::timeline::WaitState;
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};

/// What one process of .NET said over some seconds.
pub struct Said {
    pub trace: RuntimeTrace,
    seconds: u64,
}

impl Said {
    pub fn new(seconds: u64) -> Said {
        let runtime = Runtime {
            kind: RuntimeKind::DotNet,
            version: Some("10.0.12".to_owned()),
            entry: Some("server.dll".to_owned()),
        };
        let mut trace = RuntimeTrace::new(Pid(PID), runtime, format!("dotnet/{PID}.json"));
        trace.span = Some((MonoNanos(START), MonoNanos(START + seconds * 1_000 * MS)));
        Said { trace, seconds }
    }

    pub fn at(&self, share: f64) -> MonoNanos {
        MonoNanos(START + (self.seconds as f64 * 1e9 * share) as u64)
    }

    /// A stack, innermost first.
    pub fn stack(&mut self, names: &[&str]) -> Option<RuntimeStack> {
        let mut stack = Vec::new();
        for name in names {
            let known = self.trace.functions.iter().position(|function| function.name == *name);
            let at = known.unwrap_or_else(|| {
                self.trace.functions.push(Function { name: (*name).to_owned(), file: None, line: None });
                self.trace.functions.len() - 1
            });
            stack.push(at as u32);
        }
        self.trace.stacks.push(stack);
        Some(RuntimeStack(self.trace.stacks.len() as u32 - 1))
    }

    /// `per_second` exceptions.
    pub fn exceptions(&mut self, per_second: u64, type_name: &str, stack: &[&str]) -> &mut Self {
        let stack = self.stack(stack);
        let count = per_second * self.seconds;
        let (first, last) = (self.at(0.0), self.at(1.0));
        for number in 0..count.min(50) {
            self.trace.exceptions.items.push(Exception {
                time: self.at(number as f64 / 50.0),
                tid: Tid(200),
                type_name: type_name.to_owned(),
                message: "The input string was not in a correct format.".to_owned(),
                code: 0x8013_1537,
                stack,
            });
        }
        self.trace.exceptions.total += count;
        self.trace.exception_groups.push(ExceptionGroup {
            type_name: type_name.to_owned(),
            message: "The input string was not in a correct format.".to_owned(),
            stack,
            count,
            first,
            last,
        });
        self
    }

    /// One exception, at a share of the time.
    pub fn thrown(&mut self, share: f64, type_name: &str, stack: &[&str]) -> &mut Self {
        let (stack, time) = (self.stack(stack), self.at(share));
        let (type_name, message) = (type_name.to_owned(), "It broke.".to_owned());
        self.trace.exceptions.total += 1;
        self.trace.exceptions.items.push(Exception {
            time,
            tid: Tid(200),
            type_name: type_name.clone(),
            message: message.clone(),
            code: 0x8013_1509,
            stack,
        });
        let (count, first, last) = (1, time, time);
        self.trace.exception_groups.push(ExceptionGroup { type_name, message, stack, count, first, last });
        self
    }

    /// `per_second` collections with a pause each, and a heap that goes by `heap` (0 to 1 → bytes).
    pub fn collections(
        &mut self,
        per_second: f64,
        pause_ms: f64,
        pinned: u32,
        heap: &dyn Fn(f64) -> u64,
    ) -> &mut Self {
        let count = (per_second * self.seconds as f64) as u64;
        for number in 0..count {
            let share = number as f64 / count as f64;
            let start = self.at(share);
            let pause = Nanos((pause_ms * 1e6) as u64);
            self.trace.collections.items.push(Collection {
                number: number as u32 + 7,
                start,
                end: Some(start + pause),
                generation: 0,
                reason: CollectionReason::SmallObjects,
                background: false,
                pause,
                longest_pause: pause,
                promoted: Some(1 << 20),
                sizes_after: Some([1 << 20, 2 << 20, heap(share), 0, 0]),
                pinned: Some(pinned),
                tid: Some(Tid(200)),
                stack: None,
            });
        }
        self.trace.collections.total += count;
        self
    }

    pub fn allocations(&mut self, per_second: u64, type_name: &str, stack: &[&str]) -> &mut Self {
        let stack = self.stack(stack);
        let bytes = per_second * self.seconds;
        self.trace.allocation_groups.push(AllocationGroup {
            type_name: type_name.to_owned(),
            stack,
            bytes,
            samples: bytes / 102_400,
            large: false,
        });
        self
    }

    pub fn contention(&mut self, threads: u32, each_ms: u64, stack: &[&str]) -> &mut Self {
        let stack = self.stack(stack);
        let per_thread = self.seconds * 1_000 / each_ms;
        let count = u64::from(threads) * per_thread;
        for tid in 0..threads {
            self.trace.contentions.items.push(Contention {
                start: self.at(0.5),
                duration: Nanos(each_ms * MS),
                tid: Tid(300 + tid),
                lock: Some(0x7f00_1234),
                owner: Some(Tid(300 + (tid + 1) % threads)),
                stack,
            });
        }
        self.trace.contentions.total += count;
        self.trace.contention_groups.push(ContentionGroup {
            stack,
            count,
            total: Nanos(count * each_ms * MS),
            longest: Nanos(each_ms * MS * 2),
        });
        self
    }

    pub fn pool(&mut self, reason: &str, times: u32, threads: &dyn Fn(f64) -> u32) -> &mut Self {
        for number in 0..times {
            let share = f64::from(number) / f64::from(times);
            let time = self.at(share);
            self.trace.thread_pool.items.push(ThreadPoolEvent {
                time,
                threads: Some(threads(share)),
                kind: ThreadPoolChange::Adjusted { reason: reason.to_owned(), throughput: Some(12.0) },
            });
        }
        self.trace.thread_pool.total += u64::from(times);
        self
    }

    /// Requests that each take `each_ms`; `open` more have no answer yet and began at `since`.
    pub fn requests(&mut self, route: &str, count: u64, each_ms: u64, open: u64, since: f64) -> &mut Self {
        let (group, items) = self.group("GET", route, count, each_ms, open, since);
        self.trace.request_groups.push(group);
        self.trace.requests.total += count + open;
        self.trace.requests.items.extend(items);
        self
    }

    pub fn outgoing(&mut self, host: &str, count: u64, each_ms: u64, open: u64, since: f64) -> &mut Self {
        let (group, items) = self.group("GET", host, count, each_ms, open, since);
        self.trace.outgoing_groups.push(group);
        self.trace.outgoing.total += count + open;
        self.trace.outgoing.items.extend(items);
        self
    }

    fn group(
        &self,
        method: &str,
        route: &str,
        count: u64,
        each_ms: u64,
        open: u64,
        since: f64,
    ) -> (RequestGroup, Vec<Request>) {
        let each = Nanos(each_ms * MS);
        let mut durations = [0; 40];
        durations[(64 - (each_ms * 1_000).leading_zeros()) as usize] = count as u32;
        let group = RequestGroup {
            method: method.to_owned(),
            route: route.to_owned(),
            count,
            unanswered: open,
            failed: 0,
            total: Nanos(count * each.0),
            longest: each,
            durations,
            children: (0, 0),
        };
        let request = |start: MonoNanos, duration| Request {
            start,
            duration,
            method: method.to_owned(),
            path: route.to_owned(),
            route: Some(route.to_owned()),
            status: Some(200),
            children: 0,
            trace_id: None,
        };
        let answered = (0..count.min(20)).map(|n| request(self.at(n as f64 / 40.0), Some(each)));
        let unanswered = (0..open.min(20)).map(|_| request(self.at(since), None));
        (group, answered.chain(unanswered).collect())
    }

    pub fn commands(&mut self, text: &str, requests: u64, in_one: u32) -> &mut Self {
        let count = requests * u64::from(in_one);
        self.trace.command_groups.push(CommandGroup {
            text: text.to_owned(),
            source: "sql.example.test Deployments".to_owned(),
            count,
            failed: 0,
            total: Nanos(count * 1_200_000),
            longest: Nanos(9 * MS),
            most_in_one_request: in_one,
        });
        if let Some(group) = self.trace.request_groups.first_mut() {
            group.children = (count, in_one);
        }
        self
    }

    pub fn message(
        &mut self,
        level_name: &str,
        level: LogLevel,
        category: &str,
        text: &str,
        count: u64,
    ) -> &mut Self {
        self.trace.message_groups.push(MessageGroup {
            category: category.to_owned(),
            level_name: level_name.to_owned(),
            count,
        });
        self.trace.messages.total += count;
        self.trace.messages.items.push(LogMessage {
            time: self.at(0.4),
            tid: Tid(200),
            level,
            level_name: level_name.to_owned(),
            category: category.to_owned(),
            event: None,
            text: text.to_owned(),
            exception: None,
        });
        self
    }

    pub fn counter(&mut self, provider: &str, counter: &str, value: &dyn Fn(f64) -> f64) -> &mut Self {
        let rows = (1..=self.seconds).map(|second| MetricRow {
            time: MonoNanos(START + second * 1_000 * MS),
            keys: vec![PID.to_string(), provider.to_owned(), counter.to_owned()],
            values: vec![Some(value(second as f64 / self.seconds as f64))],
        });
        self.trace.counters.push(MetricTable {
            name: "counters".to_owned(),
            keys: ["pid", "provider", "counter"].map(str::to_owned).to_vec(),
            columns: vec![Column { name: "value".to_owned(), unit: Unit::Count }],
            rows: rows.collect(),
        });
        self
    }

    pub fn done(&mut self) -> RuntimeTrace {
        self.trace.clone()
    }
}

/// What is below every wait of a managed thread.
const FUTEX: &[&str] = &["k:do_syscall_64", "k:do_futex", "k:futex_wait", "k:schedule", "k:__schedule"];

/// A managed stack (outermost first) that waits in the runtime's own condition.
pub fn waits_in_runtime<'a>(managed: &[&'a str]) -> Vec<&'a str> {
    let mut stack = vec!["libc.so.6!start_thread", "libcoreclr.so!"];
    stack.extend(managed);
    stack.extend(["libcoreclr.so!", "libc.so.6!pthread_cond_wait"]);
    stack.extend(FUTEX);
    stack
}

/// A wait with such a stack.
pub fn waiting<'a>(stack: &'a [&'a str], share: f64, each_ms: f64) -> Waiting<'a> {
    Waiting { stack, syscall: call::FUTEX, state: WaitState::Sleep, share, each_ms, waker: None }
}
