//! What a runtime knows of a thread.

use biopsy_dotnet::runtime::{ManagedThread, Runtime};
use biopsy_model::Tid;
use rustc_hash::FxHashMap;

use super::exceptions::{self, ExceptionRow};
use crate::dump::facts::DumpFacts;

/// What a runtime knows of a thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ManagedThreadFacts {
    /// Managed id.
    pub id: u32,
    /// Name that the program gave it.
    pub name: Option<String>,
    /// It runs work items of the thread pool.
    pub pool_worker: bool,
    /// It runs finalizers.
    pub finalizer: bool,
    /// It does not keep the process alive.
    pub background: bool,
    /// The exception that it handles, or threw last and still holds.
    pub exception: Option<ExceptionRow>,
}

/// By kernel id; those of all runtimes.
pub(crate) fn facts(facts: &DumpFacts<'_>) -> FxHashMap<Tid, ManagedThreadFacts> {
    let mut found = FxHashMap::default();
    for runtime in facts.managed.iter().flat_map(|runtimes| runtimes.opened()) {
        for thread in runtime.threads().unwrap_or_default() {
            if thread.os_id != 0 && !thread.dead {
                found.insert(Tid(thread.os_id), of(runtime, &thread, facts));
            }
        }
    }
    found
}

fn of(runtime: &Runtime<'_>, thread: &ManagedThread, facts: &DumpFacts<'_>) -> ManagedThreadFacts {
    let object = thread.current_exception.or(thread.last_thrown);
    ManagedThreadFacts {
        id: thread.id,
        name: thread.name.as_deref().filter(|name| !name.is_empty()).map(biopsy_dotnet::names::clean),
        pool_worker: thread.pool_worker,
        finalizer: thread.finalizer,
        background: thread.background,
        exception: object.and_then(|object| exceptions::read(runtime, object, facts)),
    }
}
