//! The list of assemblies that are loaded.

use std::sync::Arc;

use biopsy_model::Avma;
use rustc_hash::FxHashSet;

use super::{Module, Runtime, RuntimeError};

/// Bytes of `AppDomain` that are searched for the list where no layout says where it is.
const DOMAIN: u64 = 4096;
/// Words of an entry of the list that are looked at.
const WORDS: u64 = 16;
/// Blocks of the list.
const BLOCKS: usize = 1 << 16;
/// Entries of one block.
const ENTRIES: u64 = 1 << 20;
/// Entries that are followed while looking, of all lists and on all ways together: real lists have some hundred, and two ways.
const FOLLOWED: usize = 1 << 17;

impl Runtime<'_> {
    /// All assemblies that are loaded.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn modules(&self) -> Result<Vec<Arc<Module>>, RuntimeError> {
        list(self, self.options.modules)
    }
}

/// All assemblies of the application's domain, in the order they were loaded.
///
/// `AppDomain` has an `ArrayList` {u32 count; first block {next, u64 entries, entries...}} of `DomainAssembly*` (8, 9) or
/// `Assembly*`. Where it is, is said by 10's descriptor, and found by looking in the others: the first entry of the right one
/// leads to the module of `System.Object`.
fn list(runtime: &Runtime<'_>, limit: usize) -> Result<Vec<Arc<Module>>, RuntimeError> {
    let memory = runtime.memory();
    let domain = memory.u64(runtime.layout().global("AppDomain")?)?;
    let core = memory.u64(runtime.known.object.at(runtime.places.method_table.module))?;
    let known = runtime.layout().find_field("AppDomain", "DomainAssemblyList").map(u64::from);
    let mut left = FOLLOWED;
    let mut at = |place: u64| {
        let entries = entries(runtime, domain.wrapping_add(place), limit);
        let first = *entries.first()?;
        // Several words of the first entry may lead to its module by chance; the right one leads to a module from each.
        let ways = ways_to(runtime, first, core).into_iter().take_while(|_| {
            let is_affordable = left >= entries.len();
            left = left.saturating_sub(entries.len());
            is_affordable
        });
        ways.map(|way| modules_by(runtime, &entries, way)).max_by_key(Vec::len)
    };
    if let Some(modules) = known.and_then(&mut at) {
        return Ok(modules);
    }
    // Other lists may hold the core library as well: the longest is the one of all.
    if let Some(modules) = (0..DOMAIN).step_by(8).filter_map(at).max_by_key(Vec::len) {
        return Ok(modules);
    }
    Err(RuntimeError::Unexpected {
        what: "the application's domain",
        address: Avma(domain),
        found: "no list of assemblies in it".to_string(),
    })
}

/// The entries of an `ArrayList`; none when it does not look like one.
fn entries(runtime: &Runtime<'_>, list: u64, limit: usize) -> Vec<u64> {
    let memory = runtime.memory();
    let Ok(count) = memory.u32(list) else { return Vec::new() };
    if count == 0 || count as usize > limit {
        return Vec::new();
    }
    let mut left = u64::from(count);
    let mut entries = Vec::new();
    let mut block = list.wrapping_add(8);
    for _ in 0..BLOCKS {
        let Ok([next, size]) = memory.words::<2>(block) else { return Vec::new() };
        let size = size & 0xffff_ffff;
        if size == 0 || size > ENTRIES {
            return Vec::new();
        }
        for number in 0..size.min(left) {
            match memory.u64(block.wrapping_add(16 + number * 8)) {
                Ok(entry) if entry & 7 == 0 => entries.push(entry),
                _ => return Vec::new(),
            }
        }
        left = left.saturating_sub(size);
        if left == 0 {
            entries.retain(|&entry| entry != 0);
            return entries;
        }
        if next == 0 || next & 7 != 0 {
            return Vec::new();
        }
        block = next;
    }
    Vec::new()
}

/// The modules that the entries lead to.
fn modules_by(runtime: &Runtime<'_>, entries: &[u64], way: Way) -> Vec<Arc<Module>> {
    let mut seen = FxHashSet::default();
    let modules = entries.iter().filter_map(|&entry| {
        let module = follow(runtime, entry, way).filter(|&module| seen.insert(module))?;
        runtime.module(Avma(module)).ok()
    });
    modules.collect()
}

/// Which word of an entry is the module, or which word of what which word of it points at.
type Way = (u64, Option<u64>);

/// All ways from an entry to `module`.
fn ways_to(runtime: &Runtime<'_>, entry: u64, module: u64) -> Vec<Way> {
    let memory = runtime.memory();
    let word = |at: u64, number: u64| memory.u64(at.wrapping_add(number * 8)).ok();
    let mut ways = Vec::new();
    for first in 0..WORDS {
        let Some(value) = word(entry, first).filter(|&value| value > 0x1000 && value & 7 == 0) else {
            continue;
        };
        if value == module {
            ways.push((first, None));
        }
        for second in 0..WORDS {
            if word(value, second) == Some(module) {
                ways.push((first, Some(second)));
            }
        }
    }
    ways
}

#[cfg(test)]
thread_local! {
    static FOLLOWED_BY_NOW: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many entries are followed meanwhile.
#[cfg(test)]
pub(super) fn count_followed(look: impl FnOnce()) -> usize {
    FOLLOWED_BY_NOW.set(0);
    look();
    FOLLOWED_BY_NOW.get()
}

fn follow(runtime: &Runtime<'_>, entry: u64, way: Way) -> Option<u64> {
    #[cfg(test)]
    FOLLOWED_BY_NOW.set(FOLLOWED_BY_NOW.get() + 1);
    let memory = runtime.memory();
    let first = memory.u64(entry.wrapping_add(way.0 * 8)).ok()?;
    match way.1 {
        None => Some(first),
        Some(second) => memory.u64(first.wrapping_add(second * 8)).ok(),
    }
    .filter(|&module| module != 0)
}
