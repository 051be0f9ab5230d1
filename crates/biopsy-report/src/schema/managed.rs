//! What managed runtimes say of themselves in a dump.

use serde::{Deserialize, Serialize};

/// What managed runtimes say beyond single threads.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Managed {
    /// The runtimes.
    pub runtimes: Vec<Runtime>,
    /// Locks that are held or waited for.
    pub locks: Vec<ManagedLock>,
    /// The thread pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_pool: Option<ThreadPool>,
    /// Asynchronous operations; absent when the heap was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// Objects by type; absent when the heap was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<Heap>,
    /// The garbage collector was at work at that moment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub collecting: bool,
}

/// A runtime.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// `.NET 8.0.31`.
    pub name: String,
    /// Path of its library, or of the executable it is linked into.
    pub path: String,
    /// It is linked into the executable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub single_file: bool,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A lock of managed code.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagedLock {
    /// Address of the object.
    pub object: String,
    /// Its type.
    pub type_name: String,
    /// `monitor`, `lock`.
    pub kind: String,
    /// The thread that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// How often its owner entered it again.
    pub recursion: u32,
    /// Threads that wait to enter.
    pub waiters: Vec<u32>,
    /// Threads that wait for a pulse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pulse_waiters: Vec<u32>,
}

/// The thread pool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadPool {
    /// Its threads.
    pub workers: usize,
    /// Of these: waiting for work.
    pub idle: usize,
    /// Of these: blocked in a work item.
    pub blocked: Vec<u32>,
    /// Of the blocked ones: until a task completes.
    pub waiting_for_tasks: Vec<u32>,
    /// Where blocked ones stand.
    pub places: Vec<Place>,
    /// Work items that wait for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
}

/// A method and how many threads stand in it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The method.
    pub function: String,
    /// How many.
    pub threads: usize,
}

/// Asynchronous operations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Operations {
    /// State machines at an `await`.
    pub pending: u64,
    /// That run, or have not begun.
    pub running: u64,
    /// That have ended and are still in memory.
    pub completed: u64,
    /// Active timers.
    pub timers: u64,
    /// Requests that Kestrel's application works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Equal chains, those with methods of the program first, of these the most frequent first.
    pub groups: Vec<OperationGroup>,
}

/// Equal chains of operations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationGroup {
    /// How many.
    pub count: u64,
    /// The innermost first; each awaits the one before it.
    pub methods: Vec<String>,
    /// What the innermost awaits.
    pub awaits: String,
    /// The one object that all wait for, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_type: Option<String>,
}

/// A managed heap.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heap {
    /// Objects, reachable or not.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of holes.
    pub free_bytes: u64,
    /// Types.
    pub type_count: u64,
    /// The server collector's.
    pub server: bool,
    /// By bytes.
    pub types: Vec<HeapType>,
}

/// A type.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapType {
    /// Its name.
    pub name: String,
    /// Its assembly's file.
    pub module: String,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a runtime knows of a thread.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagedThread {
    /// Managed id.
    pub id: u32,
    /// It runs work items of the thread pool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pool_worker: bool,
    /// It runs finalizers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub finalizer: bool,
    /// It does not keep the process alive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The exception that it handles, or threw last and still holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<Exception>,
}

/// An exception.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Exception {
    /// Its type.
    pub type_name: String,
    /// Its HRESULT, `0x80131509`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hresult: Option<String>,
    /// Its message, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Methods that it went through, the one that threw it first; the framework's own left out at the beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thrown_in: Vec<String>,
    /// The exceptions that led to it, the next cause first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<Exception>,
}
