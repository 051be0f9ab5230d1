//! What managed runtimes say, in the types of the output schema.

use biopsy_analyze::dump::{self, managed};

use crate::schema::managed::{
    Exception, Heap, HeapType, Managed, ManagedLock, ManagedThread, OperationGroup, Operations, Place,
    Runtime, ThreadPool,
};
use crate::units::hex;

/// Types that are written; all are counted.
const TYPES: usize = 500;
/// Locks that are written.
const LOCKS: usize = 1_000;
/// Chains of operations that are written.
const OPERATIONS: usize = 500;

pub(super) fn managed(from: &managed::Managed) -> Managed {
    Managed {
        runtimes: from
            .runtimes
            .iter()
            .map(|runtime| Runtime {
                name: runtime.name.clone(),
                path: runtime.path.clone(),
                single_file: runtime.single_file,
                problem: runtime.problem.clone(),
            })
            .collect(),
        locks: from.locks.iter().take(LOCKS).map(lock).collect(),
        thread_pool: from.pool.as_ref().map(|pool| ThreadPool {
            workers: pool.workers,
            idle: pool.idle,
            blocked: pool.blocked.iter().map(|tid| tid.0).collect(),
            waiting_for_tasks: pool.waiting_for_tasks.iter().map(|tid| tid.0).collect(),
            places: pool
                .places
                .iter()
                .map(|(function, threads)| Place { function: function.clone(), threads: *threads })
                .collect(),
            queued: from.operations.as_ref().and_then(|operations| operations.queued),
        }),
        operations: from.operations.as_ref().map(operations),
        heap: from.heap.as_ref().map(heap),
        collecting: from.collecting,
    }
}

fn lock(from: &managed::ManagedLock) -> ManagedLock {
    ManagedLock {
        object: hex(from.object),
        type_name: from.type_name.clone(),
        kind: if from.kind == dump::LockKind::SystemLock { "lock" } else { "monitor" }.to_owned(),
        owner: from.owner.map(|tid| tid.0),
        recursion: from.recursion,
        waiters: from.waiters.iter().map(|tid| tid.0).collect(),
        pulse_waiters: from.pulse_waiters.iter().map(|tid| tid.0).collect(),
    }
}

fn operations(from: &managed::Operations) -> Operations {
    Operations {
        pending: from.pending,
        running: from.running,
        completed: from.completed,
        timers: from.timers,
        requests: from.requests,
        groups: from
            .groups
            .iter()
            .take(OPERATIONS)
            .map(|group| OperationGroup {
                count: group.count,
                methods: group.methods.clone(),
                awaits: group.awaits.clone(),
                object: group.object.as_ref().map(|(address, _)| hex(address.0)),
                object_type: group.object.as_ref().map(|(_, name)| name.clone()),
            })
            .collect(),
    }
}

fn heap(from: &managed::HeapTable) -> Heap {
    Heap {
        objects: from.objects,
        bytes: from.bytes,
        free_bytes: from.free_bytes,
        type_count: from.types,
        server: from.is_server,
        types: from
            .rows
            .iter()
            .take(TYPES)
            .map(|row| HeapType {
                name: row.type_name.clone(),
                module: row.module.clone(),
                objects: row.objects,
                bytes: row.bytes,
            })
            .collect(),
    }
}

pub(super) fn managed_thread(from: &managed::ManagedThreadFacts) -> ManagedThread {
    ManagedThread {
        id: from.id,
        pool_worker: from.pool_worker,
        finalizer: from.finalizer,
        background: from.background,
        exception: from.exception.as_ref().map(exception),
    }
}

fn exception(from: &managed::ExceptionRow) -> Exception {
    Exception {
        type_name: from.type_name.clone(),
        hresult: from.hresult.map(|code| format!("{code:#010x}")),
        message: from.message.clone(),
        thrown_in: from.thrown_in.clone(),
        inner: from.inner.iter().map(exception).collect(),
    }
}
