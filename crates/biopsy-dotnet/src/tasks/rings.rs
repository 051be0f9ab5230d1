//! Operations that await each other in a circle: none of them ever goes on.

use biopsy_model::Avma;
use rustc_hash::{FxHashMap, FxHashSet};

use super::machines::Machines;

/// Circles that are listed.
const RINGS: usize = 100;

/// Each operation awaits at most one other, so that whoever is met twice on one way is in a circle.
pub(super) fn find(machines: &Machines) -> Vec<Vec<String>> {
    let awaits = machines.pending.iter().map(|one| (one.address, one.awaits)).collect();
    let methods: FxHashMap<Avma, u32> =
        machines.pending.iter().map(|one| (one.address, one.method)).collect();
    let name = |at: &Avma| machines.methods.get(*methods.get(at)? as usize).cloned();
    circles(&awaits).iter().map(|ring| ring.iter().filter_map(name).collect()).collect()
}

fn circles(awaits: &FxHashMap<Avma, Avma>) -> Vec<Vec<Avma>> {
    let mut starts: Vec<Avma> = awaits.keys().copied().collect();
    starts.sort_unstable();
    let mut done: FxHashSet<Avma> = FxHashSet::default();
    let mut found = Vec::new();
    for start in starts {
        let mut way: Vec<Avma> = Vec::new();
        let mut at = start;
        while awaits.contains_key(&at) && done.insert(at) {
            way.push(at);
            at = awaits.get(&at).copied().unwrap_or_default();
        }
        if let Some(first) = way.iter().position(|one| *one == at)
            && found.len() < RINGS
        {
            found.push(way.split_off(first));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(awaits: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let awaits = awaits.iter().map(|(one, other)| (Avma(*one), Avma(*other))).collect();
        circles(&awaits).iter().map(|ring| ring.iter().map(|at| at.0).collect()).collect()
    }

    #[test]
    fn who_awaits_each_other_is_found_and_who_waits_behind_is_not() {
        assert_eq!(found(&[(1, 2), (2, 1), (3, 1)]), [[1, 2]]);
        assert_eq!(found(&[(1, 1)]), [[1]]);
        assert!(found(&[(1, 2), (2, 3), (3, 9)]).is_empty());
        assert_eq!(found(&[(1, 2), (2, 3), (3, 2), (5, 6), (6, 5)]), [[2, 3], [5, 6]]);
    }

    #[test]
    fn a_long_chain_is_walked_without_recursion() {
        let chain: Vec<(u64, u64)> = (0..100_000).map(|at| (at, (at + 1) % 100_000)).collect();
        assert_eq!(found(&chain)[0].len(), 100_000);
    }
}
