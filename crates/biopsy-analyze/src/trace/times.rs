//! Times by key.

use biopsy_model::Nanos;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Adds to the time of a key.
pub(super) fn add<K: Hash + Eq>(times: &mut FxHashMap<K, Nanos>, key: K, time: Nanos) {
    let sum = times.entry(key).or_default();
    *sum = *sum + time;
}
