//! Who awaits whom.

use biopsy_model::Avma;
use biopsy_model::order::Order as _;
use rustc_hash::{FxHashMap, FxHashSet};

use super::machines::{Machines, Pending, method_of_box};
use super::objects::Fields;
use super::operations::{DELAY, FULL_CHANNEL, OperationGroup};
use crate::graph::Graph;
use crate::names::display_type;
use crate::runtime::{Runtime, TypeHandle};

/// Methods of one chain at most.
const DEEPEST: usize = 64;
/// Rows at most.
const GROUPS: usize = 2_000;
/// Waiters of one semaphore that are followed.
const NODES: usize = 1 << 20;

/// What equal chains have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    methods: Vec<u32>,
    awaits: String,
}

struct Row {
    count: u64,
    /// What the first waits for in the end, while all wait for the same.
    object: Option<Avma>,
}

pub(super) fn groups(runtime: &Runtime<'_>, graph: &Graph, machines: &Machines) -> Vec<OperationGroup> {
    let by_address: FxHashMap<Avma, u32> =
        machines.pending.iter().enumerate().map(|(index, one)| (one.address, index as u32)).collect();
    let mut awaiting: FxHashMap<Avma, u32> = FxHashMap::default();
    for (index, one) in machines.pending.iter().enumerate() {
        // Several may await one; the first stands for them.
        awaiting.entry(one.awaits).or_insert(index as u32);
    }
    let semaphores = semaphores(runtime, graph);
    let mut names: FxHashMap<TypeHandle, String> = FxHashMap::default();
    let mut rows: FxHashMap<Key, Row> = FxHashMap::default();
    for one in &machines.pending {
        // It awaits another machine, in whose chain it is.
        if by_address.contains_key(&one.awaits) {
            continue;
        }
        let methods = chain(machines, &awaiting, one);
        let awaits = awaited(runtime, one.awaits, &mut names);
        let object = semaphores.get(&one.awaits).copied().unwrap_or(one.awaits);
        let row = rows.entry(Key { methods, awaits }).or_insert(Row { count: 0, object: Some(object) });
        row.count += 1;
        row.object = row.object.filter(|known| *known == object);
    }
    let mut groups: Vec<OperationGroup> = rows
        .into_iter()
        .map(|(key, row)| OperationGroup {
            count: row.count,
            methods: key
                .methods
                .iter()
                .filter_map(|method| machines.methods.get(*method as usize).cloned())
                .collect(),
            awaits: key.awaits,
            object: row.object.filter(|object| *object != Avma(0)).and_then(|object| {
                let info = runtime.type_of_object(object).ok()?;
                Some((object, display_type(&info.name)))
            }),
        })
        .collect();
    groups.order_by(|a, b| {
        let key = |group: &OperationGroup| (group.has_own_code(), group.count);
        key(b).cmp(&key(a)).then_with(|| a.methods.cmp(&b.methods))
    });
    groups.truncate(GROUPS);
    groups
}

fn chain(machines: &Machines, awaiting: &FxHashMap<Avma, u32>, innermost: &Pending) -> Vec<u32> {
    let mut methods = vec![innermost.method];
    let mut seen: FxHashSet<Avma> = FxHashSet::default();
    let mut at = innermost.address;
    while methods.len() < DEEPEST && seen.insert(at) {
        let Some(outer) = awaiting.get(&at).and_then(|index| machines.pending.get(*index as usize)) else {
            break;
        };
        methods.push(outer.method);
        at = outer.address;
    }
    methods
}

fn awaited(runtime: &Runtime<'_>, object: Avma, names: &mut FxHashMap<TypeHandle, String>) -> String {
    const NOT_KNOWN: &str = "not known";
    let Ok(method_table) = runtime.method_table_of(object) else { return NOT_KNOWN.to_owned() };
    let name = || match runtime.type_of(method_table) {
        // Awaited and at no `await` itself: on a thread, or about to be.
        Ok(info) => match method_of_box(runtime, info.method_table) {
            Some(method) => format!("`{method}`, which runs or is about to"),
            None => words(&info.name),
        },
        Err(_) => NOT_KNOWN.to_owned(),
    };
    names.entry(method_table).or_insert_with(name).clone()
}

/// What it is to await an object of this type.
fn words(type_name: &str) -> String {
    const KNOWN: &[(&str, &str)] = &[
        ("System.Threading.SemaphoreSlim+TaskNode", "a SemaphoreSlim"),
        ("System.Threading.Tasks.Task+DelayPromise", DELAY),
        ("System.Threading.Tasks.Task+DelayPromiseWithCancellation", DELAY),
        ("System.Threading.Tasks.Task+WhenAllPromise", "several tasks (WhenAll)"),
        (
            "System.Threading.Tasks.Task+CancellationPromise",
            "a task, with time limit or cancellation (WaitAsync)",
        ),
    ];
    if let Some((_, words)) = KNOWN.iter().find(|(known, _)| *known == type_name) {
        return (*words).to_owned();
    }
    let begins = |prefix: &str| type_name.starts_with(prefix);
    // Who writes into a bounded channel waits on such an object while there is no room; the second name is that of .NET 10.
    if begins("System.Threading.Channels.VoidAsyncOperationWithData")
        || begins("System.Threading.Channels.BlockedWriteAsyncOperation")
        || begins("System.Threading.Channels.WaitingWriteAsyncOperation")
    {
        return FULL_CHANNEL.to_owned();
    }
    if begins("System.Threading.Channels.") {
        return format!("a channel ({})", display_type(type_name));
    }
    const KESTREL: &str = "Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets.Internal.Socket";
    if begins("System.Net.Sockets.Socket+AwaitableSocketAsyncEventArgs") || begins(KESTREL) {
        return "a socket".to_owned();
    }
    if begins("System.IO.Pipelines.Pipe") {
        return "a pipe".to_owned();
    }
    if begins("System.Threading.Tasks.Task<") || type_name == "System.Threading.Tasks.Task" {
        return "a task that something completes (TaskCompletionSource)".to_owned();
    }
    display_type(type_name)
}

/// The semaphore that each asynchronous waiter waits for.
fn semaphores(runtime: &Runtime<'_>, graph: &Graph) -> FxHashMap<Avma, Avma> {
    let mut waiters = FxHashMap::default();
    let is_semaphore: Vec<bool> =
        graph.types().iter().map(|of| of.name == "System.Threading.SemaphoreSlim").collect();
    if !is_semaphore.contains(&true) {
        return waiters;
    }
    let mut fields = Fields::new(runtime);
    for object in graph.objects() {
        if !is_semaphore.get(object.of.0 as usize).copied().unwrap_or(false) {
            continue;
        }
        let mut next = fields.reference(object.address, "m_asyncHead");
        while let Some(node) = next.filter(|_| waiters.len() < NODES) {
            if waiters.insert(node, object.address).is_some() {
                break;
            }
            next = fields.reference(node, "Next");
        }
    }
    waiters
}
