//! What the numbers of a sample mean, by the names that their writers gave them.

use super::profile::{Profile, ValueType};

/// Where in a sample the numbers stand that are read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Kinds {
    /// CPU time, and what one unit is in nanoseconds.
    pub(super) cpu: Option<(usize, u64)>,
    /// Time of threads that need not run, the same.
    pub(super) wait: Option<(usize, u64)>,
    /// Threads were looked at by the clock, whether they ran or waited.
    pub(super) is_wall: bool,
    /// Single events (samples, waits) that the time is a sum of.
    pub(super) count: Option<usize>,
    /// Bytes allocated, ever; and how often.
    pub(super) allocated: Option<usize>,
    pub(super) allocations: Option<usize>,
    /// Bytes in use; and how many objects.
    pub(super) in_use: Option<usize>,
}

/// Names with their units.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) kinds: Kinds,
    /// What is not read: `goroutine (count)`.
    pub(super) others: Vec<String>,
    /// At least one name was there.
    pub(super) any: bool,
}

/// Tells the kinds apart.
pub(super) fn kinds(profile: &Profile<'_>) -> Named {
    let mut kinds = Kinds::default();
    let mut others = Vec::new();
    let mut any = false;
    for (at, of) in profile.types.iter().enumerate() {
        let (kind, unit) = names(profile, *of);
        any |= !kind.is_empty();
        let scale = nanoseconds(&unit);
        // Another name says what is said already; names that nobody reads are told of.
        let known = match (kind.as_str(), scale) {
            ("cpu", Some(scale)) => put(&mut kinds.cpu, (at, scale)),
            ("wall", Some(scale)) => {
                kinds.is_wall |= kinds.wait.is_none();
                put(&mut kinds.wait, (at, scale))
            }
            ("delay" | "wait" | "lock" | "off-cpu" | "off_cpu" | "offcpu", Some(scale)) => {
                put(&mut kinds.wait, (at, scale))
            }
            ("samples" | "sample" | "contentions", None) => put(&mut kinds.count, at),
            ("alloc_space" | "alloc-space", None) => put(&mut kinds.allocated, at),
            ("alloc_objects" | "alloc-objects" | "alloc-samples", None) => put(&mut kinds.allocations, at),
            ("inuse_space" | "inuse-space" | "heap-live-size" | "space", None) => put(&mut kinds.in_use, at),
            ("inuse_objects" | "inuse-objects" | "heap-live-samples" | "objects", None) => true,
            _ => false,
        };
        if !known && !kind.is_empty() {
            others.push(if unit.is_empty() { format!("`{kind}`") } else { format!("`{kind}` ({unit})") });
        }
    }
    by_period(profile, &mut kinds);
    if kinds.in_use.is_none() && kinds.allocated.take().is_some() {
        others.push("`alloc_space` (without what of it is in use)".to_owned());
    }
    Named { kinds, others, any }
}

/// Some write samples alone, and the time that lies between two of them.
fn by_period(profile: &Profile<'_>, kinds: &mut Kinds) {
    let (kind, unit) = names(profile, profile.period_type);
    let (Some(at), Some(unit)) = (kinds.count, nanoseconds(&unit)) else { return };
    let period = u64::try_from(profile.period).ok().and_then(|period| period.checked_mul(unit));
    let Some(period) = period.filter(|period| *period > 0) else { return };
    if kinds.cpu.is_some() || kinds.wait.is_some() {
        return;
    }
    match kind.as_str() {
        "cpu" => kinds.cpu = Some((at, period)),
        "wall" => (kinds.wait, kinds.is_wall) = (Some((at, period)), true),
        _ => (),
    }
}

/// The first one counts.
fn put<T>(slot: &mut Option<T>, value: T) -> bool {
    let is_first = slot.is_none();
    slot.get_or_insert(value);
    is_first
}

fn names(profile: &Profile<'_>, of: ValueType) -> (String, String) {
    let name = |index| {
        let text = profile.string(index).unwrap_or_default();
        String::from_utf8_lossy(text.get(..64).unwrap_or(text)).into_owned()
    };
    (name(of.kind), name(of.unit))
}

/// What one of a unit is; `None`: it is no unit of time.
pub(super) fn nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "nanoseconds" | "nanosecond" | "ns" => 1,
        "microseconds" | "microsecond" | "us" => 1_000,
        "milliseconds" | "millisecond" | "ms" => 1_000_000,
        "seconds" | "second" | "s" => 1_000_000_000,
        _ => return None,
    })
}
