//! Managed threads.

use biopsy_model::Avma;

use super::{Memory, RuntimeError};
use crate::layout::{Layout, LayoutError};

/// `TS_Dead`, `TS_Background`, `TS_TPWorkerThread` and `TS_Unstarted` of `ThreadState` (`threads.h`).
const DEAD: u32 = 0x0000_0800;
const BACKGROUND: u32 = 0x0000_0200;
const POOL_WORKER: u32 = 0x0100_0000;
const REPORT_DEAD: u32 = 0x0001_0000;

/// A thread that the runtime knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedThread {
    /// Address of the runtime's `Thread` structure.
    pub address: Avma,
    /// Managed id (`Environment.CurrentManagedThreadId`), which thin locks hold.
    pub id: u32,
    /// Id of the kernel; 0 when the thread has ended or has not started.
    pub os_id: u32,
    /// The same as the process itself knows it, and its memory has it: another one in a container.
    pub own_os_id: u32,
    /// Flags (`ThreadState` of `threads.h`).
    pub state: u32,
    /// It runs managed code, or was about to: not in a state in which the collector may work.
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
    /// Object `System.Threading.Thread`, where there is one.
    pub object: Option<Avma>,
    /// Object of the last exception that was thrown here and is still held.
    pub last_thrown: Option<Avma>,
    /// Object of the exception that is being handled right now; `None` also when the layout (8) does not say.
    pub current_exception: Option<Avma>,
    /// Head of the chain of explicit frames (`Frame*`); all bits set when it is empty.
    pub frame: Avma,
    /// Where the next object goes and where the room for objects ends; both 0 when the thread has no room.
    pub allocation: (Avma, Avma),
}

/// Offsets of what threads are found by.
#[derive(Clone, Debug)]
pub(super) struct ThreadPlaces {
    store: u64,
    first: u64,
    pub(super) count: Option<u64>,
    next: u64,
    id: u64,
    os_id: u64,
    state: u64,
    mode: u64,
    frame: u64,
    pub(super) handle: Option<u64>,
    pub(super) last_thrown: Option<u64>,
    tracker: Option<(u64, u64)>,
    finalizer: Option<u64>,
    /// In the thread itself (8).
    context: Option<u64>,
    /// Behind a pointer (9 and later).
    locals: Option<(u64, u64)>,
    pointer: u64,
    limit: u64,
}

impl ThreadPlaces {
    pub(super) fn of(layout: &Layout) -> Result<Self, LayoutError> {
        let must = |of: &str, field: &str| layout.field(of, field).map(u64::from);
        let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
        let context = may("Thread", "AllocContext");
        let locals = match context {
            Some(_) => None,
            None => Some((
                must("Thread", "RuntimeThreadLocals")?,
                // From 10 on the collector's part is inside of a larger one.
                must("RuntimeThreadLocals", "AllocContext")?
                    + may("EEAllocContext", "GCAllocationContext").unwrap_or(0),
            )),
        };
        Ok(Self {
            store: layout.global("ThreadStore")?,
            first: must("ThreadStore", "FirstThreadLink")?,
            count: may("ThreadStore", "ThreadCount"),
            next: must("Thread", "LinkNext")?,
            id: must("Thread", "Id")?,
            os_id: must("Thread", "OSId")?,
            state: must("Thread", "State")?,
            mode: must("Thread", "PreemptiveGCDisabled")?,
            frame: must("Thread", "Frame")?,
            // Renamed in 11.
            handle: may("Thread", "GCHandle").or_else(|| may("Thread", "ExposedObject")),
            last_thrown: may("Thread", "LastThrownObject"),
            tracker: may("Thread", "ExceptionTracker").zip(may("ExceptionInfo", "ThrownObject")),
            finalizer: layout.find_global("FinalizerThread"),
            context,
            locals,
            pointer: must("GCAllocContext", "Pointer")?,
            limit: must("GCAllocContext", "Limit")?,
        })
    }

    /// Address of the runtime's `ThreadStore`.
    pub(super) fn store(&self, memory: &Memory<'_>) -> Result<u64, RuntimeError> {
        Ok(memory.u64(self.store)?)
    }
}

/// All threads of the list, without names and with what is read as it is.
pub(super) fn read(
    memory: &Memory<'_>,
    places: &ThreadPlaces,
    limit: usize,
) -> Result<Vec<ManagedThread>, RuntimeError> {
    let store = places.store(memory)?;
    let finalizer = match places.finalizer {
        Some(global) => memory.u64(global).unwrap_or(0),
        None => 0,
    };
    let mut link = memory.u64(store.wrapping_add(places.first))?;
    let mut threads = Vec::new();
    while link != 0 {
        if threads.len() == limit {
            return Err(RuntimeError::TooMany { what: "the list of threads", limit: limit as u64 });
        }
        // Links are the addresses of the links of the others.
        let address = link.wrapping_sub(places.next);
        threads.push(read_one(memory, places, address, finalizer)?);
        link = memory.u64(link)?;
    }
    Ok(threads)
}

fn read_one(
    memory: &Memory<'_>,
    places: &ThreadPlaces,
    address: u64,
    finalizer: u64,
) -> Result<ManagedThread, RuntimeError> {
    let at = |offset: u64| address.wrapping_add(offset);
    let state = memory.u32(at(places.state))?;
    // What handles hold may be gone, in a damaged image for example: no reason to lose the thread.
    let target = |place: Option<u64>| {
        let handle = memory.u64(at(place?)).ok().filter(|&handle| handle > 1)?;
        memory.u64(handle).ok().filter(|&object| object != 0).map(Avma)
    };
    let context = match (places.context, places.locals) {
        (Some(offset), _) => Some(at(offset)),
        (None, Some((locals, context))) => Some(memory.u64(at(locals))?)
            .filter(|&locals| locals != 0)
            .map(|locals| locals.wrapping_add(context)),
        (None, None) => None,
    };
    let allocation = match context {
        Some(context) => (
            Avma(memory.u64(context.wrapping_add(places.pointer)).unwrap_or(0)),
            Avma(memory.u64(context.wrapping_add(places.limit)).unwrap_or(0)),
        ),
        None => (Avma(0), Avma(0)),
    };
    let current_exception = places.tracker.and_then(|(tracker, thrown)| {
        let tracker = memory.u64(at(tracker)).ok().filter(|&tracker| tracker != 0)?;
        memory.u64(tracker.wrapping_add(thrown)).ok().filter(|&thrown| thrown != 0).map(Avma)
    });
    // Thread ids of Linux have 22 bits; the field has 64.
    let own_os_id = (memory.u64(at(places.os_id))? & 0xffff_ffff) as u32;
    Ok(ManagedThread {
        address: Avma(address),
        id: memory.u32(at(places.id))?,
        os_id: own_os_id,
        own_os_id,
        state,
        cooperative: memory.u32(at(places.mode))? != 0,
        dead: state & (DEAD | REPORT_DEAD) != 0,
        background: state & BACKGROUND != 0,
        pool_worker: state & POOL_WORKER != 0,
        finalizer: address == finalizer,
        name: None,
        object: target(places.handle),
        last_thrown: target(places.last_thrown),
        current_exception,
        frame: Avma(memory.u64(at(places.frame))?),
        allocation,
    })
}
