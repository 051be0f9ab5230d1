//! How well code is optimised: the runtime's list of versions of methods (`codeversion.h`).

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Memory, Method, MethodDesc, RuntimeError, Tier};
use crate::layout::Layout;

/// Slots of the table of versioned methods (8), and versions of one method.
const SLOTS: u32 = 4 << 20;
const VERSIONS: usize = 100_000;
/// Deleted slots of the table.
const DELETED: u64 = u64::MAX;

/// What is known of versions.
#[derive(Debug)]
pub(super) struct Tiers {
    /// First address of code to tier, of everything but default versions (8).
    table: Option<FxHashMap<u64, Tier>>,
    /// Offsets on the way from a method to its versions (9 and later).
    way: Option<[u64; 3]>,
    node: Option<Node>,
    read: Instant,
}

/// The table of 8 is read as a whole. While a process runs, that is done so often at most; methods that are optimised in between
/// have no tier until then.
const BETWEEN_READS: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Node {
    code: u64,
    next: u64,
    tier: u64,
}

impl Tiers {
    pub(super) fn new(memory: &Memory<'_>, layout: &Layout) -> Self {
        let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
        let node = || {
            Some(Node {
                code: may("NativeCodeVersionNode", "NativeCode")?,
                next: may("NativeCodeVersionNode", "Next")?,
                tier: may("NativeCodeVersionNode", "OptimizationTier")?,
            })
        };
        let way = || {
            Some([
                may("MethodDesc", "CodeData")?,
                may("MethodDescCodeData", "VersioningState")?,
                may("MethodDescVersioningState", "NativeCodeVersionNode")?,
            ])
        };
        let (node, way) = (node(), way());
        let table = if way.is_none() { node.and_then(|node| read_table(memory, layout, node)) } else { None };
        Self { table, way, node, read: Instant::now() }
    }

    /// Whether what was read is to be forgotten with the rest.
    pub(super) fn is_old(&self) -> bool {
        self.table.is_none() || self.read.elapsed() >= BETWEEN_READS
    }

    pub(super) fn of(
        &self,
        memory: &Memory<'_>,
        method: &Method,
        method_desc: MethodDesc,
    ) -> Result<Option<Tier>, RuntimeError> {
        if let Some(table) = &self.table {
            return Ok(table.get(&method.code_start.0).copied());
        }
        let (Some([data, state, first]), Some(node)) = (self.way, self.node) else { return Ok(None) };
        let mut at = method_desc.0.0;
        for offset in [data, state, first] {
            at = memory.u64(at.wrapping_add(offset))?;
            if at == 0 {
                return Ok(None);
            }
        }
        for _ in 0..VERSIONS {
            if memory.u64(at.wrapping_add(node.code))? == method.code_start.0 {
                return Ok(tier(memory.u32(at.wrapping_add(node.tier))?));
            }
            at = memory.u64(at.wrapping_add(node.next))?;
            if at == 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

/// The table of 8: open addressing, slots are pointers to {method, ..., first version}.
fn read_table(memory: &Memory<'_>, layout: &Layout, node: Node) -> Option<FxHashMap<u64, Tier>> {
    let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
    let domain = memory.u64(layout.find_global("AppDomain")?).ok()?;
    let table = memory.u64(domain.wrapping_add(may("AppDomain", "MethodDescVersioningStateTable")?)).ok()?;
    let size =
        memory.u32(domain.wrapping_add(may("AppDomain", "MethodDescVersioningStateTableSize")?)).ok()?;
    let first = may("MethodDescVersioningState", "FirstVersionNode")?;
    let mut tiers = FxHashMap::default();
    for slot in 0..u64::from(size.min(SLOTS)) {
        let state = memory.u64(table.wrapping_add(slot * 8)).ok()?;
        if state < 0x10000 || state == DELETED {
            continue;
        }
        let mut at = memory.u64(state.wrapping_add(first)).ok()?;
        for _ in 0..VERSIONS {
            if at == 0 {
                break;
            }
            let code = memory.u64(at.wrapping_add(node.code)).ok()?;
            if let Some(tier) = tier(memory.u32(at.wrapping_add(node.tier)).ok()?) {
                tiers.insert(code, tier);
            }
            at = memory.u64(at.wrapping_add(node.next)).ok()?;
        }
    }
    Some(tiers)
}

/// `NativeCodeVersion::OptimizationTier`.
fn tier(number: u32) -> Option<Tier> {
    Some(match number {
        0 => Tier::Tier0,
        1 => Tier::Tier1,
        2 => Tier::OnStackReplacement,
        3 => Tier::Optimized,
        4 => Tier::Tier0Instrumented,
        5 => Tier::Tier1Instrumented,
        _ => return None,
    })
}
