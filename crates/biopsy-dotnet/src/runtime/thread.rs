//! Managed threads.

/// A thread that the runtime knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedThread {
    /// Address of the runtime's `Thread` structure.
    pub address: u64,
    /// Managed id (`Environment.CurrentManagedThreadId`), which thin locks hold.
    pub id: u32,
    /// Id of the kernel; 0 when the thread has ended or has not started.
    pub os_id: u32,
    /// Flags (`ThreadState` of `threads.h`).
    pub state: u32,
    /// 1 while it runs managed code.
    pub cooperative: bool,
    /// It has ended.
    pub dead: bool,
    /// It does not keep the process alive.
    pub background: bool,
    /// It runs work items of the thread pool.
    pub pool_worker: bool,
    /// It runs finalizers.
    pub finalizer: bool,
    /// Managed `Thread.Name`, where one was given.
    pub name: Option<String>,
    /// Object `System.Threading.Thread`; 0 when there is none.
    pub object: u64,
    /// Object of the last exception that was thrown here and is still held; 0 when there is none.
    pub last_thrown: u64,
    /// Object of the exception that is being handled right now; 0 when there is none.
    pub current_exception: u64,
    /// Head of the chain of explicit frames (`Frame*`); all bits set when it is empty.
    pub frame: u64,
    /// Where the next object goes and where the room for objects ends; both 0 when the thread has no room.
    pub allocation: (u64, u64),
}
