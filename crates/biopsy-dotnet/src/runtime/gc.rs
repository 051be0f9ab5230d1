//! Where the garbage collector keeps the variables that it shows to debuggers (`GcDacVars` of `gcinterface.dac.h`).

use super::Memory;
use biopsy_model::Avma;

/// Generations of every collector that was met: 0 to 2, large objects, pinned objects.
const GENERATIONS: u64 = 5;

/// Whether `address` holds `GcDacVars`: major version, bytes of a generation, count of generations.
fn is_it(memory: &Memory<'_>, address: u64) -> bool {
    let Ok([versions, generation, generations]) = memory.words::<3>(address) else { return false };
    (1..10).contains(&(versions & 0xff)) && generations == GENERATIONS && (64..4096).contains(&generation)
}

/// All slots of `g_dacTable` that lead to something like `GcDacVars`: one in every version that was met.
pub(super) fn candidates(memory: &Memory<'_>, table: &[Avma]) -> Vec<(usize, u64)> {
    table
        .iter()
        .enumerate()
        .filter_map(|(slot, &variable)| {
            let address = memory.u64(variable.0).ok().filter(|&address| address != 0)?;
            is_it(memory, address).then_some((slot, address))
        })
        .collect()
}
