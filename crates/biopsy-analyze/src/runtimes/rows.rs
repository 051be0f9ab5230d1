//! Exceptions, contention, messages and allocations by place.

use super::bounded::{cut, first};
use super::places::{RuntimePlace, place};
use crate::keyed::Keyed;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{RuntimeStack, RuntimeTrace};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Exceptions of one type from one place.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExceptionRow {
    /// Type.
    pub type_name: String,
    /// Message of the first one, redacted.
    pub message: String,
    /// Where they were thrown.
    pub place: RuntimePlace,
    /// A stack of one.
    pub stack: Option<RuntimeStack>,
    /// How many.
    pub count: u64,
    /// The first.
    pub first: MonoNanos,
    /// The last.
    pub last: MonoNanos,
}

/// Waits for monitors and locks at one place.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ContentionRow {
    /// Where.
    pub place: RuntimePlace,
    /// A stack of one.
    pub stack: Option<RuntimeStack>,
    /// How often.
    pub count: u64,
    /// Together.
    pub total: Nanos,
    /// Longest.
    pub longest: Nanos,
    /// Threads that waited there, of the waits that were kept.
    pub threads: usize,
    /// Different locks, of the waits that were kept and tell.
    pub locks: usize,
    /// Who held it most often, with how often, of the waits that were kept and tell.
    pub owner: Option<(Tid, u64)>,
}

/// Messages of one category and level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessageRow {
    /// Category.
    pub category: String,
    /// Level, in the application's words.
    pub level: String,
    /// How many.
    pub count: u64,
    /// One of them, redacted, where one was kept.
    pub example: Option<String>,
}

/// Allocations of one type at one place.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AllocationRow {
    /// Type.
    pub type_name: String,
    /// Where.
    pub place: RuntimePlace,
    /// A stack of one.
    pub stack: Option<RuntimeStack>,
    /// Estimated bytes.
    pub bytes: u64,
    /// Samples it is estimated from.
    pub samples: u64,
    /// Of the bytes, those on the large object heap.
    pub large: u64,
}

pub(super) fn exceptions(trace: &RuntimeTrace) -> Vec<ExceptionRow> {
    let mut rows: Keyed<(&str, RuntimePlace), ExceptionRow> = Keyed::default();
    for group in &trace.exception_groups {
        let place = place(trace, group.stack);
        let row = rows.of((&group.type_name, place.clone()), || ExceptionRow {
            type_name: cut(&group.type_name),
            message: cut(&group.message),
            place,
            stack: group.stack,
            count: 0,
            first: group.first,
            last: group.last,
        });
        if group.first < row.first {
            row.message = cut(&group.message);
            row.first = group.first;
        }
        row.count = row.count.saturating_add(group.count);
        row.last = row.last.max(group.last);
    }
    let mut rows = rows.into_rows();
    rows.order_by(|a, b| {
        (Reverse(a.count), &a.type_name, &a.place).cmp(&(Reverse(b.count), &b.type_name, &b.place))
    });
    first(rows)
}

#[derive(Default)]
struct Kept {
    threads: Vec<Tid>,
    locks: Vec<u64>,
    owners: FxHashMap<Tid, u64>,
}

pub(super) fn contention(trace: &RuntimeTrace) -> Vec<ContentionRow> {
    let mut rows: Keyed<RuntimePlace, ContentionRow> = Keyed::default();
    for group in &trace.contention_groups {
        let place = place(trace, group.stack);
        let new = |place| ContentionRow { place, stack: group.stack, ..ContentionRow::default() };
        let row = rows.of(place.clone(), || new(place));
        row.count = row.count.saturating_add(group.count);
        row.total = row.total + group.total;
        row.longest = row.longest.max(group.longest);
    }
    let mut rows = rows.into_rows();
    let mut kept: FxHashMap<RuntimePlace, Kept> = FxHashMap::default();
    for item in &trace.contentions.items {
        let entry = kept.entry(place(trace, item.stack)).or_default();
        entry.threads.push(item.tid);
        entry.locks.extend(item.lock);
        if let Some(owner) = item.owner.filter(|owner| owner.0 != 0) {
            *entry.owners.entry(owner).or_default() += 1;
        }
    }
    for row in &mut rows {
        let Some(kept) = kept.get_mut(&row.place) else { continue };
        row.threads = distinct(&mut kept.threads);
        row.locks = distinct(&mut kept.locks);
        row.owner = kept
            .owners
            .iter()
            .map(|(tid, count)| (*tid, *count))
            .max_by_key(|(tid, count)| (*count, Reverse(*tid)));
    }
    rows.order_by(|a, b| (Reverse(a.total), &a.place).cmp(&(Reverse(b.total), &b.place)));
    first(rows)
}

fn distinct<T: Ord>(values: &mut Vec<T>) -> usize {
    values.sort_unstable();
    values.dedup();
    values.len()
}

pub(super) fn messages(trace: &RuntimeTrace) -> Vec<MessageRow> {
    let mut rows: Vec<MessageRow> = trace
        .message_groups
        .iter()
        .map(|group| {
            let example = trace
                .messages
                .items
                .iter()
                .find(|item| item.category == group.category && item.level_name == group.level_name);
            MessageRow {
                category: cut(&group.category),
                level: cut(&group.level_name),
                count: group.count,
                example: example.map(|item| cut(&item.text)),
            }
        })
        .collect();
    rows.order_by(|a, b| {
        (Reverse(severity(&a.level)), Reverse(a.count), &a.category).cmp(&(
            Reverse(severity(&b.level)),
            Reverse(b.count),
            &b.category,
        ))
    });
    first(rows)
}

/// How grave a level is: 3 for errors and worse, 2 for warnings, 1 for information, 0 for the rest.
pub(crate) fn severity(level: &str) -> u8 {
    match level {
        "Critical" | "Error" | "Fatal" => 3,
        "Warning" => 2,
        "Information" | "Informational" | "Info" => 1,
        _ => 0,
    }
}

pub(super) fn allocations(trace: &RuntimeTrace) -> Vec<AllocationRow> {
    let mut rows: Keyed<(&str, RuntimePlace), AllocationRow> = Keyed::default();
    for group in &trace.allocation_groups {
        let place = place(trace, group.stack);
        let row = rows.of((&group.type_name, place.clone()), || AllocationRow {
            type_name: cut(&group.type_name),
            place,
            stack: group.stack,
            ..AllocationRow::default()
        });
        row.bytes = row.bytes.saturating_add(group.bytes);
        row.samples = row.samples.saturating_add(group.samples);
        row.large = row.large.saturating_add(if group.large { group.bytes } else { 0 });
    }
    let mut rows = rows.into_rows();
    rows.order_by(|a, b| {
        (Reverse(a.bytes), &a.type_name, &a.place).cmp(&(Reverse(b.bytes), &b.type_name, &b.place))
    });
    first(rows)
}
