//! Who can never go on: threads (or goroutines, tasks) that wait for each other in circles.
//!
//! A thread that waits for a lock goes on when all who hold it have let go; at a semaphore, when one of those who could give it does;
//! with a time limit, in any case. So first all are found that can go on, then those that only wait for these, and so on. What is left
//! waits for each other, or behind those who do, and has circles.

use std::collections::BTreeMap;
use std::hash::Hash;

use biopsy_model::Tid;
use rustc_hash::{FxHashMap, FxHashSet};

/// What threads are known by, or what is like them.
pub(super) trait Key: Copy + Ord + Hash {}

impl<K: Copy + Ord + Hash> Key for K {}

/// A thread that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting<K = Tid> {
    pub(super) thread: K,
    /// For these. None: it is not known for whom.
    pub(super) for_threads: Vec<K>,
    /// These may help as well.
    pub(super) perhaps: Vec<K>,
    /// One of them is enough.
    pub(super) any_is_enough: bool,
    /// It goes on by itself after a time.
    pub(super) timed: bool,
    /// There is nobody else than these, although none of them is known to be the one.
    pub(super) closed: bool,
}

/// The circles, each from its smallest thread on, in the order of these.
pub(super) fn circles<K: Key>(waiting: &[Waiting<K>]) -> Vec<Vec<K>> {
    let stuck = stuck(waiting);
    let next: BTreeMap<K, Vec<K>> = waiting
        .iter()
        .filter(|one| stuck.contains(&one.thread))
        .map(|one| {
            let to = one.for_threads.iter().copied().filter(|to| stuck.contains(to));
            (one.thread, to.collect())
        })
        .collect();
    let mut found = Vec::new();
    for group in connected(&next) {
        let Some(first) = group.iter().min() else { continue };
        found.extend(shortest(*first, &next, &group));
    }
    found.sort_unstable_by_key(|circle: &Vec<K>| circle.first().copied());
    found
}

/// All that can never go on.
fn stuck<K: Key>(waiting: &[Waiting<K>]) -> FxHashSet<K> {
    let by_thread: FxHashMap<K, &Waiting<K>> = waiting
        .iter()
        .filter(|one| !one.timed && !(one.for_threads.is_empty() && (one.perhaps.is_empty() || !one.closed)))
        .map(|one| (one.thread, one))
        .collect();
    let mut behind: FxHashMap<K, Vec<K>> = FxHashMap::default();
    let mut left: FxHashMap<K, usize> = FxHashMap::default();
    let mut open = Vec::new();
    for (thread, one) in &by_thread {
        let all = || one.for_threads.iter().chain(&one.perhaps);
        for to in all() {
            behind.entry(*to).or_default().push(*thread);
        }
        left.insert(*thread, if one.any_is_enough { 1 } else { all().count() });
        open.extend(all().filter(|to| !by_thread.contains_key(to)));
    }
    let mut goes_on: FxHashSet<K> = FxHashSet::default();
    while let Some(thread) = open.pop() {
        if !goes_on.insert(thread) {
            continue;
        }
        for waiter in behind.get(&thread).into_iter().flatten() {
            let Some(left) = left.get_mut(waiter) else { continue };
            *left = left.saturating_sub(1);
            if *left == 0 {
                open.push(*waiter);
            }
        }
    }
    by_thread.into_keys().filter(|thread| !goes_on.contains(thread)).collect()
}

/// Threads of which each reaches each other (Tarjan's strongly connected components, without recursion), and that wait for at least one
/// of them.
fn connected<K: Key>(next: &BTreeMap<K, Vec<K>>) -> Vec<FxHashSet<K>> {
    #[derive(Clone, Copy)]
    struct Met {
        number: usize,
        lowest: usize,
        on_stack: bool,
    }
    let mut met: FxHashMap<K, Met> = FxHashMap::default();
    let (mut stack, mut groups) = (Vec::new(), Vec::new());
    for start in next.keys() {
        let mut open = vec![(*start, 0_usize)];
        while let Some((at, taken)) = open.pop() {
            if taken == 0 {
                if met.contains_key(&at) {
                    continue;
                }
                let number = met.len();
                met.insert(at, Met { number, lowest: number, on_stack: true });
                stack.push(at);
            }
            let ways = next.get(&at).map_or(&[][..], Vec::as_slice);
            let mut lowest = met.get(&at).map_or(0, |met| met.lowest);
            // What was open came back.
            if let Some(back) = taken.checked_sub(1).and_then(|last| met.get(ways.get(last)?)) {
                lowest = if back.on_stack { lowest.min(back.lowest) } else { lowest };
            }
            let mut further = None;
            for (index, to) in ways.iter().enumerate().skip(taken) {
                match met.get(to) {
                    None => {
                        further = Some((index + 1, *to));
                        break;
                    }
                    Some(known) if known.on_stack => lowest = lowest.min(known.number),
                    Some(_) => {}
                }
            }
            let Some(own) = met.get_mut(&at) else { continue };
            own.lowest = lowest;
            if let Some((taken, to)) = further {
                open.push((at, taken));
                open.push((to, 0));
                continue;
            }
            if lowest == own.number {
                let mut group = FxHashSet::default();
                while let Some(member) = stack.pop() {
                    if let Some(member) = met.get_mut(&member) {
                        member.on_stack = false;
                    }
                    group.insert(member);
                    if member == at {
                        break;
                    }
                }
                if group.len() > 1 || ways.contains(&at) {
                    groups.push(group);
                }
            }
        }
    }
    groups
}

/// The shortest way from `first` back to itself inside of `group`.
fn shortest<K: Key>(first: K, next: &BTreeMap<K, Vec<K>>, group: &FxHashSet<K>) -> Option<Vec<K>> {
    let mut from: FxHashMap<K, K> = FxHashMap::default();
    let mut open = std::collections::VecDeque::from([first]);
    while let Some(at) = open.pop_front() {
        for to in next.get(&at).into_iter().flatten().filter(|to| group.contains(to)) {
            if *to == first {
                let mut circle = vec![at];
                let mut back = at;
                while back != first {
                    back = *from.get(&back)?;
                    circle.push(back);
                }
                circle.reverse();
                return Some(circle);
            }
            if let std::collections::hash_map::Entry::Vacant(slot) = from.entry(*to) {
                slot.insert(at);
                open.push_back(*to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
