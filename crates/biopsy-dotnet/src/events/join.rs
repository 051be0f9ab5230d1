//! Two stretches of one process's events, one behind the other, as one.

use biopsy_model::order::Order as _;
use std::hash::Hash;

use biopsy_model::metric::MetricTable;
use biopsy_model::runtime_trace::{
    AllocationGroup, AllocationSampling, CommandGroup, Compiled, ContentionGroup, ExceptionGroup, Kept,
    MessageGroup, ProviderCount, RequestGroup, RuntimeStack, RuntimeTrace,
};
use biopsy_model::symbol::Function;
use biopsy_model::{MonoNanos, Nanos};
use rustc_hash::FxHashMap;

fn is_random(trace: &RuntimeTrace) -> bool {
    trace.allocation_sampling == AllocationSampling::Random
}

/// Puts what was said first before what was said later, of the same process. Totals add up; groups that are the same become one,
/// and equal stacks are one stack. What reaches from the first stretch into the second (a collection, a wait) is in neither, or in the
/// first without an end.
#[must_use]
pub fn join(earlier: RuntimeTrace, later: RuntimeTrace) -> RuntimeTrace {
    let mut stacks = Stacks::default();
    let (mut first, mut second) = (stacks.renumber(earlier), stacks.renumber(later));
    if is_random(&first) != is_random(&second) {
        // As within one stream: samples at random replace ticks.
        let ticks = if is_random(&first) { &mut second } else { &mut first };
        ticks.allocation_groups.clear();
        ticks.allocation_sampling = AllocationSampling::default();
    }
    if first.allocation_sampling == AllocationSampling::default() {
        first.allocation_sampling = second.allocation_sampling;
    }
    first.runtime.version = second.runtime.version.or(first.runtime.version);
    first.runtime.entry = second.runtime.entry.or(first.runtime.entry);
    first.source = second.source;
    first.span = span(first.span, second.span);
    merge(&mut first.providers, second.providers, provider_key, |one, other| one.count += other.count);
    first
        .providers
        .order_by(|a, b| b.count.cmp(&a.count).then_with(|| provider_key(a).cmp(&provider_key(b))));
    append(&mut first.collections, second.collections);
    append(&mut first.exceptions, second.exceptions);
    append(&mut first.contentions, second.contentions);
    append(&mut first.thread_pool, second.thread_pool);
    append(&mut first.requests, second.requests);
    append(&mut first.outgoing, second.outgoing);
    append(&mut first.commands, second.commands);
    append(&mut first.messages, second.messages);
    append(&mut first.loads, second.loads);
    merge(&mut first.exception_groups, second.exception_groups, exception_key, |one, other| {
        one.count += other.count;
        one.last = one.last.max(other.last);
    });
    first.exception_groups.order_by_key(|group| std::cmp::Reverse(group.count));
    merge(
        &mut first.contention_groups,
        second.contention_groups,
        |one: &ContentionGroup| one.stack,
        |one, other| {
            one.count += other.count;
            one.total = sum(one.total, other.total);
            one.longest = one.longest.max(other.longest);
        },
    );
    first.contention_groups.order_by_key(|group| std::cmp::Reverse(group.total));
    merge(&mut first.request_groups, second.request_groups, request_key, add_requests);
    merge(&mut first.outgoing_groups, second.outgoing_groups, request_key, add_requests);
    merge(
        &mut first.command_groups,
        second.command_groups,
        |one: &CommandGroup| (one.text.clone(), one.source.clone()),
        |one, other| {
            one.count += other.count;
            one.failed += other.failed;
            one.total = sum(one.total, other.total);
            one.longest = one.longest.max(other.longest);
            one.most_in_one_request = one.most_in_one_request.max(other.most_in_one_request);
        },
    );
    merge(
        &mut first.message_groups,
        second.message_groups,
        |one: &MessageGroup| (one.category.clone(), one.level_name.clone()),
        |one, other| one.count += other.count,
    );
    merge(
        &mut first.allocation_groups,
        second.allocation_groups,
        |one: &AllocationGroup| (one.type_name.clone(), one.stack, one.large),
        |one, other| {
            one.bytes += other.bytes;
            one.samples += other.samples;
        },
    );
    first.allocation_groups.order_by_key(|group| std::cmp::Reverse(group.bytes));
    add_compiled(&mut first.compiled, second.compiled);
    add_tables(&mut first.counters, second.counters);
    first.sampled.extend(second.sampled);
    first.lost += second.lost;
    first.unknown += second.unknown;
    first.cut = second.cut;
    (first.functions, first.stacks) = (stacks.functions, stacks.stacks);
    first
}

/// Functions and stacks of both, each once.
#[derive(Default)]
struct Stacks {
    functions: Vec<Function>,
    stacks: Vec<Vec<u32>>,
    known_functions: FxHashMap<Function, u32>,
    known_stacks: FxHashMap<Vec<u32>, u32>,
}

impl Stacks {
    /// Takes the stacks of a trace over, and lets what refers to them say the new numbers.
    fn renumber(&mut self, mut trace: RuntimeTrace) -> RuntimeTrace {
        let functions: Vec<u32> = std::mem::take(&mut trace.functions)
            .into_iter()
            .map(|function| number(&mut self.known_functions, &mut self.functions, function))
            .collect();
        let stacks: Vec<u32> = std::mem::take(&mut trace.stacks)
            .into_iter()
            .map(|stack| {
                let frames = stack.iter().filter_map(|&frame| functions.get(usize::try_from(frame).ok()?));
                number(&mut self.known_stacks, &mut self.stacks, frames.copied().collect())
            })
            .collect();
        let change = |stack: &mut Option<RuntimeStack>| {
            *stack = stack.and_then(|RuntimeStack(old)| {
                stacks.get(usize::try_from(old).ok()?).copied().map(RuntimeStack)
            });
        };
        trace.collections.items.iter_mut().for_each(|one| change(&mut one.stack));
        trace.exceptions.items.iter_mut().for_each(|one| change(&mut one.stack));
        trace.exception_groups.iter_mut().for_each(|one| change(&mut one.stack));
        trace.contentions.items.iter_mut().for_each(|one| change(&mut one.stack));
        trace.contention_groups.iter_mut().for_each(|one| change(&mut one.stack));
        trace.allocation_groups.iter_mut().for_each(|one| change(&mut one.stack));
        trace
    }
}

/// The number of something, that is added where it is new.
fn number<T: Clone + Eq + Hash>(known: &mut FxHashMap<T, u32>, all: &mut Vec<T>, one: T) -> u32 {
    if let Some(&number) = known.get(&one) {
        return number;
    }
    // More are in no trace: each has been counted in 32 bits.
    let number = u32::try_from(all.len()).unwrap_or(u32::MAX);
    all.push(one.clone());
    known.insert(one, number);
    number
}

fn span(
    earlier: Option<(MonoNanos, MonoNanos)>,
    later: Option<(MonoNanos, MonoNanos)>,
) -> Option<(MonoNanos, MonoNanos)> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => Some((earlier.0.min(later.0), earlier.1.max(later.1))),
        (one, other) => one.or(other),
    }
}

fn append<T>(first: &mut Kept<T>, second: Kept<T>) {
    first.items.extend(second.items);
    first.total += second.total;
}

/// Adds what has the same key to what is there, and the rest behind it.
fn merge<T, K: Eq + Hash>(
    first: &mut Vec<T>,
    second: Vec<T>,
    key: impl Fn(&T) -> K,
    add: impl Fn(&mut T, T),
) {
    let mut known: FxHashMap<K, usize> = first.iter().enumerate().map(|(at, one)| (key(one), at)).collect();
    for other in second {
        match known.get(&key(&other)).and_then(|&at| first.get_mut(at)) {
            Some(one) => add(one, other),
            None => {
                known.insert(key(&other), first.len());
                first.push(other);
            }
        }
    }
}

fn provider_key(one: &ProviderCount) -> (String, String) {
    (one.provider.clone(), one.event.clone())
}

fn exception_key(one: &ExceptionGroup) -> (String, String, Option<RuntimeStack>) {
    (one.type_name.clone(), one.message.clone(), one.stack)
}

fn request_key(one: &RequestGroup) -> (String, String) {
    (one.method.clone(), one.route.clone())
}

fn add_requests(one: &mut RequestGroup, other: RequestGroup) {
    one.count += other.count;
    one.unanswered += other.unanswered;
    one.failed += other.failed;
    one.total = sum(one.total, other.total);
    one.longest = one.longest.max(other.longest);
    one.durations.iter_mut().zip(other.durations).for_each(|(own, its)| *own = own.saturating_add(its));
    one.children = (one.children.0 + other.children.0, one.children.1.max(other.children.1));
}

fn sum(one: Nanos, other: Nanos) -> Nanos {
    Nanos(one.0.saturating_add(other.0))
}

fn add_compiled(one: &mut Compiled, other: Compiled) {
    one.methods += other.methods;
    one.time = sum(one.time, other.time);
    one.bytes += other.bytes;
    merge(&mut one.tiers, other.tiers, |(tier, _)| tier.clone(), |(_, own), (_, its)| *own += its);
}

/// Rows behind those of the same table; another with the same name but other columns stays beside it.
fn add_tables(first: &mut Vec<MetricTable>, second: Vec<MetricTable>) {
    for table in second {
        let is_same = |one: &&mut MetricTable| {
            (&one.name, &one.keys, &one.columns) == (&table.name, &table.keys, &table.columns)
        };
        match first.iter_mut().find(is_same) {
            Some(one) => one.rows.extend(table.rows),
            None => first.push(table),
        }
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::metric::{Column, MetricRow, Unit};
    use biopsy_model::process::{Runtime, RuntimeKind};
    use biopsy_model::runtime_trace::{Exception, Sampled, SampledKind};
    use biopsy_model::{Pid, Tid};

    use super::*;

    fn trace() -> RuntimeTrace {
        RuntimeTrace::new(
            Pid(7),
            Runtime { kind: RuntimeKind::DotNet, version: None, entry: None },
            String::new(),
        )
    }

    fn function(name: &str) -> Function {
        Function { name: name.to_owned(), file: None, line: None }
    }

    fn thrown(trace: &mut RuntimeTrace, time: u64, message: &str, stack: &[&str]) {
        let frames = stack.iter().map(|name| {
            let known = trace.functions.iter().position(|function| function.name == *name);
            let at = known.unwrap_or_else(|| {
                trace.functions.push(function(name));
                trace.functions.len() - 1
            });
            u32::try_from(at).unwrap()
        });
        let frames = frames.collect();
        trace.stacks.push(frames);
        let stack = Some(RuntimeStack(u32::try_from(trace.stacks.len() - 1).unwrap()));
        let (type_name, message) = ("E".to_owned(), message.to_owned());
        let time = MonoNanos(time);
        trace.exception_groups.push(ExceptionGroup {
            type_name: type_name.clone(),
            message: message.clone(),
            stack,
            count: 1,
            first: time,
            last: time,
        });
        trace.exceptions.items.push(Exception { time, tid: Tid(1), type_name, message, code: 0, stack });
        trace.exceptions.total += 1;
    }

    fn names(trace: &RuntimeTrace, stack: Option<RuntimeStack>) -> Vec<&str> {
        let stack = &trace.stacks[usize::try_from(stack.unwrap().0).unwrap()];
        stack.iter().map(|at| trace.functions[usize::try_from(*at).unwrap()].name.as_str()).collect()
    }

    #[test]
    fn equal_groups_become_one_although_their_stacks_had_other_numbers() {
        let (mut earlier, mut later) = (trace(), trace());
        thrown(&mut earlier, 1, "first", &["A", "Main"]);
        thrown(&mut earlier, 2, "same", &["B", "Main"]);
        thrown(&mut later, 3, "same", &["B", "Main"]);
        thrown(&mut later, 4, "last", &["C", "B", "Main"]);
        let both = join(earlier, later);
        assert_eq!(both.functions.len(), 4);
        assert_eq!(both.stacks.len(), 3);
        assert_eq!(both.exceptions.total, 4);
        let groups: Vec<(&str, u64, Vec<&str>)> = both
            .exception_groups
            .iter()
            .map(|group| (group.message.as_str(), group.count, names(&both, group.stack)))
            .collect();
        assert_eq!(
            groups,
            [
                ("same", 2, vec!["B", "Main"]),
                ("first", 1, vec!["A", "Main"]),
                ("last", 1, vec!["C", "B", "Main"])
            ]
        );
        assert_eq!(
            (both.exception_groups[0].first, both.exception_groups[0].last),
            (MonoNanos(2), MonoNanos(3))
        );
        let times: Vec<u64> = both.exceptions.items.iter().map(|one| one.time.0).collect();
        assert_eq!(times, [1, 2, 3, 4]);
        assert_eq!(names(&both, both.exceptions.items[3].stack), ["C", "B", "Main"]);
    }

    #[test]
    fn totals_add_up_and_nothing_is_lost_in_three_stretches() {
        let stretch = |count: u64, from: u64| {
            let mut one = trace();
            one.span = Some((MonoNanos(from), MonoNanos(from + 5)));
            one.providers =
                vec![ProviderCount { provider: "P".to_owned(), event: "E (1)".to_owned(), count }];
            one.compiled.methods = count;
            one.compiled.tiers = vec![("Tier0".to_owned(), count), (format!("only {count}"), 1)];
            one.lost = count;
            let mut durations = [0; 40];
            durations[3] = u32::try_from(count).unwrap();
            one.request_groups = vec![RequestGroup {
                method: "GET".to_owned(),
                route: "/".to_owned(),
                count,
                unanswered: 0,
                failed: 1,
                total: Nanos(count * 10),
                longest: Nanos(count),
                durations,
                children: (count, 2),
            }];
            one.counters = vec![MetricTable {
                name: "counters".to_owned(),
                keys: vec!["counter".to_owned()],
                columns: vec![Column { name: "value".to_owned(), unit: Unit::Count }],
                rows: vec![MetricRow {
                    time: MonoNanos(from),
                    keys: vec!["heap".to_owned()],
                    values: vec![Some(1.0)],
                }],
            }];
            one.sampled = vec![Sampled {
                what: SampledKind::Runtime,
                from: MonoNanos(from),
                to: MonoNanos(from + 1),
                share: 0.0,
                why: String::new(),
            }];
            one
        };
        let all = join(join(stretch(1, 10), stretch(2, 20)), stretch(4, 30));
        assert_eq!(all.span, Some((MonoNanos(10), MonoNanos(35))));
        assert_eq!((all.providers.len(), all.providers[0].count), (1, 7));
        assert_eq!((all.compiled.methods, all.compiled.tiers[0].1, all.compiled.tiers.len()), (7, 7, 4));
        let group = &all.request_groups[0];
        assert_eq!((group.count, group.failed, group.total, group.longest), (7, 3, Nanos(70), Nanos(4)));
        assert_eq!((group.durations[3], group.children), (7, (7, 2)));
        assert_eq!((all.counters.len(), all.counters[0].rows.len()), (1, 3));
        assert_eq!((all.sampled.len(), all.lost), (3, 7));
        // In the other order of joining the same.
        let other = join(stretch(1, 10), join(stretch(2, 20), stretch(4, 30)));
        assert_eq!(all.counters, other.counters);
        assert_eq!(all.request_groups, other.request_groups);
    }

    #[test]
    fn allocations_sampled_at_random_replace_ticks_of_the_other_stretch() {
        let stretch = |sampling: AllocationSampling, bytes| {
            let mut one = trace();
            one.allocation_sampling = sampling;
            one.allocation_groups = vec![AllocationGroup {
                type_name: "App.One".to_owned(),
                stack: None,
                bytes,
                samples: 1,
                large: false,
            }];
            one
        };
        let nothing = || stretch(AllocationSampling::default(), 0);
        let (ticks, random) =
            (|| stretch(AllocationSampling::Ticks, 10), || stretch(AllocationSampling::Random, 7));
        for (first, second, sampling, bytes) in [
            (ticks(), ticks(), AllocationSampling::Ticks, 20),
            (random(), random(), AllocationSampling::Random, 14),
            (ticks(), random(), AllocationSampling::Random, 7),
            (random(), ticks(), AllocationSampling::Random, 7),
            (nothing(), random(), AllocationSampling::Random, 7),
            (ticks(), nothing(), AllocationSampling::Ticks, 10),
        ] {
            let both = join(first, second);
            assert_eq!(both.allocation_sampling, sampling);
            assert_eq!(both.allocation_groups.iter().map(|group| group.bytes).sum::<u64>(), bytes);
        }
    }

    #[test]
    fn a_stack_that_is_not_there_is_none() {
        let (mut earlier, later) = (trace(), trace());
        thrown(&mut earlier, 1, "x", &["A"]);
        earlier.exception_groups[0].stack = Some(RuntimeStack(9));
        earlier.stacks[0] = vec![0, 77];
        let both = join(earlier, later);
        assert_eq!(both.exception_groups[0].stack, None);
        assert_eq!(names(&both, both.exceptions.items[0].stack), ["A"]);
    }
}
