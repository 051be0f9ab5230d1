//! Locks, who holds them, and who waits for them.

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use crate::runtime::{ManagedThread, Runtime};

/// What kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKind {
    /// `lock` on an object (`Monitor`) that somebody has waited for.
    Monitor,
    /// `lock` on an object (`Monitor`), for which nobody has ever waited.
    ThinMonitor,
    /// `System.Threading.Lock`.
    Lock,
    /// `System.Threading.ReaderWriterLockSlim`.
    ReaderWriter,
}

/// A lock that somebody holds or waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Address of the object that was locked.
    pub object: Avma,
    /// Its type.
    pub type_name: String,
    /// What kind of lock.
    pub kind: LockKind,
    /// Who holds it: kernel's id; `None`: nobody. 0 where the owner is no thread that runs.
    pub owner: Option<u32>,
    /// Who has it to read, of a lock that several may have so: kernel's ids, as far as they are known.
    pub readers: Vec<u32>,
    /// How often it was entered again by its owner.
    pub recursion: u32,
    /// How many wait to enter, as the lock itself counts.
    pub waiters: u32,
    /// Address of the sync block; 0 for the other kinds.
    pub sync_block: Avma,
}

/// How a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// To enter.
    Enter,
    /// To enter, to read only.
    Read,
    /// For a pulse (`Monitor.Wait`): it has given the lock up meanwhile.
    Pulse,
}

/// A thread that waits for a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The thread: kernel's id.
    pub os_id: u32,
    /// What for: index into [`Locks::locks`].
    pub lock: usize,
    /// How.
    pub kind: WaitKind,
    /// How long at most, in milliseconds; `None`: for ever, or not known.
    pub timeout: Option<u32>,
}

/// The locks of a runtime at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Locks {
    /// Held, or waited for.
    pub locks: Vec<Lock>,
    /// Who waits.
    pub waits: Vec<Wait>,
    /// Sync blocks that are in use, those of locks and others (hash codes, COM).
    pub sync_blocks: u32,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

impl Locks {
    /// Threads that wait for each other in circles: kernel's ids, each waits for the next, the last for the first.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<u32>> {
        let mut next: FxHashMap<u32, u32> = FxHashMap::default();
        for wait in self.waits.iter().filter(|wait| wait.kind == WaitKind::Enter) {
            if let Some(owner) = self.locks.get(wait.lock).and_then(|lock| lock.owner) {
                next.insert(wait.os_id, owner);
            }
        }
        let mut starts: Vec<u32> = next.keys().copied().collect();
        starts.sort_unstable();
        let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
        let mut cycles = Vec::new();
        for start in starts {
            let mut path = Vec::new();
            let mut at = start;
            while !seen.contains_key(&at) {
                seen.insert(at, start);
                path.push(at);
                let Some(owner) = next.get(&at) else { break };
                at = *owner;
            }
            // Ran into its own path, not into one that was followed before.
            if seen.get(&at) == Some(&start)
                && next.contains_key(&at)
                && let Some(first) = path.iter().position(|one| *one == at)
            {
                cycles.push(path.split_off(first));
            }
        }
        cycles
    }

    pub(super) fn index_of(&self, object: Avma) -> Option<usize> {
        self.locks.iter().position(|lock| lock.object == object)
    }
}

/// Name of the type of an object, for people.
pub(super) fn type_name(runtime: &Runtime<'_>, object: Avma) -> String {
    match runtime.type_of_object(object) {
        Ok(info) => crate::names::display_type(&info.name),
        Err(_) => format!("object at {object}"),
    }
}

/// The kernel's id of a thread by its managed id.
pub(super) fn by_managed_id(threads: &[ManagedThread], id: u32) -> Option<u32> {
    threads.iter().find(|thread| thread.id == id && !thread.dead).map(|thread| thread.os_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(edges: &[(u32, u32)]) -> Locks {
        let mut locks = Locks::default();
        for (waiter, owner) in edges {
            locks.locks.push(Lock {
                object: Avma(u64::from(*waiter)),
                type_name: String::new(),
                kind: LockKind::Monitor,
                owner: Some(*owner),
                readers: Vec::new(),
                recursion: 0,
                waiters: 1,
                sync_block: Avma(1),
            });
            let lock = locks.locks.len() - 1;
            locks.waits.push(Wait { os_id: *waiter, lock, kind: WaitKind::Enter, timeout: None });
        }
        locks
    }

    #[test]
    fn circles_of_any_length_are_found_once() {
        assert_eq!(locks(&[(1, 2), (2, 1)]).cycles(), [vec![1, 2]]);
        assert_eq!(locks(&[(1, 3), (3, 5), (5, 3), (7, 3)]).cycles(), [vec![3, 5]]);
        assert!(locks(&[(1, 2), (2, 3)]).cycles().is_empty());
        let mut waits = locks(&[(1, 2), (2, 1)]);
        waits.waits[0].kind = WaitKind::Pulse;
        assert!(waits.cycles().is_empty(), "who waits for a pulse does not wait for the owner");
    }
    proptest::proptest! {
        #[test]
        fn a_thread_is_in_a_circle_when_it_waits_for_itself_in_the_end(
            next in proptest::collection::btree_map(0u32..12, 0u32..14, 0..12),
        ) {
            let edges: Vec<_> = next.iter().map(|(waiter, owner)| (*waiter, *owner)).collect();
            let cycles = locks(&edges).cycles();
            let comes_back = |start: &u32| {
                let mut at = next.get(start);
                (0..next.len()).any(|_| {
                    let is_there = at == Some(start);
                    at = at.and_then(|at| next.get(at));
                    is_there
                })
            };
            let wanted: Vec<u32> = next.keys().copied().filter(comes_back).collect();
            let mut found: Vec<u32> = cycles.concat();
            found.sort_unstable();
            proptest::prop_assert_eq!(found, wanted, "each once");
            for cycle in &cycles {
                let behind = cycle.iter().cycle().skip(1);
                proptest::prop_assert!(cycle.iter().zip(behind).all(|(one, other)| next[one] == *other));
            }
        }
    }
}
