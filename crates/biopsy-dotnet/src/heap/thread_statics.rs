//! Thread statics of .NET 9 and later, which no handle holds.
//!
//! Each thread has a `ThreadLocalData` (`threadstatics.h` of dotnet/runtime): one array of objects for types that stay, and a
//! list of handles for those that can be unloaded, which the handle tables have. Up to 8, all were held by handles.

use biopsy_image::MemoryExt;
use rustc_hash::FxHashSet;

use super::found_roots::Found;
use super::source::Source;
use crate::graph::{Graph, RootKind};
use crate::runtime::ManagedThread;

/// Where a `ThreadLocalData` points back to its thread (9 and 10).
const THREAD: u64 = 24;
/// Most thread statics of all threads that are not in the array yet.
const MOST_IN_FLIGHT: usize = 1 << 20;

pub(super) fn find(source: &dyn Source, threads: &[ManagedThread], graph: &Graph, found: &mut Found) {
    let (image, layout) = (source.image(), source.layout());
    let field = |of: &str, name: &str| layout.find_field(of, name).map(u64::from);
    let Some(pointer) = field("Thread", "ThreadLocalDataPtr") else { return };
    let Some(array) = field("ThreadLocalData", "NonCollectibleTlsArrayData") else { return };
    let in_flight = field("ThreadLocalData", "InFlightData");
    let (next, value) = (field("InFlightTLSData", "Next"), field("InFlightTLSData", "TLSData"));
    let mut wrong = 0u32;
    // Each belongs to one thread: lists that meet, or run in a circle, are damage.
    let mut seen = FxHashSet::default();
    for thread in threads.iter().filter(|thread| thread.os_id != 0) {
        let Ok(data) = image.read_u64(thread.address.0.wrapping_add(pointer)) else { continue };
        if data == 0 {
            continue;
        }
        if image.read_u64(data.wrapping_add(THREAD)).ok() != Some(thread.address.0) {
            wrong += 1;
            continue;
        }
        if let Ok(object) = image.read_u64(data.wrapping_add(array)) {
            found.add(graph, RootKind::ThreadStatic, data.wrapping_add(array), object, thread.os_id);
        }
        let (Some(in_flight), Some(next), Some(value)) = (in_flight, next, value) else { continue };
        let mut at = image.read_u64(data.wrapping_add(in_flight)).unwrap_or(0);
        while at != 0 && seen.len() < MOST_IN_FLIGHT && seen.insert(at) {
            if let Ok(object) = image.read_u64(at.wrapping_add(value)) {
                found.add(graph, RootKind::ThreadStatic, at.wrapping_add(value), object, thread.os_id);
            }
            at = image.read_u64(at.wrapping_add(next)).unwrap_or(0);
        }
    }
    if wrong > 0 {
        found.missing(format!("thread statics of {wrong} threads are not where they were expected"));
    }
}
