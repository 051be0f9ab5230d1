//! Which results go: the oldest first, never what is marked to be kept, never the newest of a rule.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::moment::Moment;

/// How long results are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Most bytes of all.
    pub bytes: u64,
    /// Older ones go.
    pub age: Duration,
    /// Most of one rule.
    pub count: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { bytes: 10 << 30, age: Duration::from_secs(7 * 86_400), count: 100 }
    }
}

/// A result that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its rule.
    pub rule: String,
    /// Its name in the folder.
    pub name: String,
    /// How long ago it was made; zero for one from the future: a clock that was wrong takes nothing away.
    pub age: Duration,
    /// Its size.
    pub bytes: u64,
    /// It is to stay.
    pub is_marked: bool,
}

/// Both clocks at one moment, by which files are aged although somebody sets the clock of the wall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// Since the start of the machine.
    pub moment: Moment,
    /// Since 1970.
    pub wall: Duration,
}

/// How the clock of the wall has stood to the other one since the watch began: more than once where somebody has set it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WallClock {
    /// Both at the beginning.
    begun: Clocks,
    /// Both at each look that met it set, oldest first.
    set: VecDeque<Clocks>,
}

/// Settings of a clock that are remembered.
const MOST_SET: usize = 64;
/// A clock that is kept right runs a little faster or slower; it is not set.
const DRIFT: Duration = Duration::from_secs(10);

impl WallClock {
    /// The watch begins.
    #[must_use]
    pub fn begin(now: Clocks) -> Self {
        Self { begun: now, set: VecDeque::new() }
    }

    /// Looks whether it was set since the last look. To be called often: what the time of a result means is known from then on.
    pub fn look(&mut self, now: Clocks) {
        let last = self.set.back().unwrap_or(&self.begun);
        if last.wall_at(now.moment).abs_diff(now.wall) > DRIFT {
            self.set.push_back(now);
            if self.set.len() > MOST_SET {
                self.set.pop_front();
            }
        }
    }

    /// How long ago something was made, by its time on the wall. Where the clock was set, the youngest of what it may be: a clock that
    /// jumps takes nothing away.
    #[must_use]
    pub fn age(&self, now: Clocks, made: Duration) -> Duration {
        let clocks = self.set.iter().chain([&self.begun, &now]);
        let ages = clocks.filter_map(|clocks| clocks.wall_at(now.moment).checked_sub(made));
        // From the future by all of them: it counts as made now.
        ages.min().unwrap_or_default()
    }
}

impl Clocks {
    /// What the clock of the wall would show now, had nobody set it since.
    fn wall_at(&self, moment: Moment) -> Duration {
        self.wall.saturating_add(moment.since(self.moment))
    }
}

/// Those that go, as indices. `missing`: bytes that are to be made free besides, because the disk is nearly full.
#[must_use]
pub fn to_remove(results: &[Kept], policy: &Policy, missing: u64) -> BTreeSet<usize> {
    let mut by_age: Vec<usize> = (0..results.len()).collect();
    by_age.sort_by(|&a, &b| {
        results[b].age.cmp(&results[a].age).then_with(|| results[a].name.cmp(&results[b].name))
    });
    let newest: BTreeMap<&str, usize> =
        by_age.iter().map(|&index| (results[index].rule.as_str(), index)).collect();
    let stays =
        |index: usize| results[index].is_marked || newest.get(results[index].rule.as_str()) == Some(&index);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for result in results.iter().filter(|result| !result.is_marked) {
        *counts.entry(result.rule.as_str()).or_default() += 1;
    }
    let total: u64 = results.iter().map(|result| result.bytes).fold(0, u64::saturating_add);
    let mut surplus = total.saturating_sub(policy.bytes).max(missing);
    let mut gone = BTreeSet::new();
    for index in by_age {
        let result = &results[index];
        if stays(index) {
            continue;
        }
        let of_rule = counts.entry(result.rule.as_str()).or_default();
        if result.age > policy.age || surplus > 0 || *of_rule > u64::from(policy.count) {
            *of_rule -= 1;
            surplus = surplus.saturating_sub(result.bytes);
            gone.insert(index);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(rule: &str, hours: u64, megabytes: u64, is_marked: bool) -> Kept {
        Kept {
            rule: rule.to_owned(),
            name: format!("{rule}-{hours}"),
            age: Duration::from_secs(hours * 3600),
            bytes: megabytes << 20,
            is_marked,
        }
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_stay() {
        let policy = |megabytes: u64, hours: u64, count| Policy {
            bytes: megabytes << 20,
            age: Duration::from_secs(hours * 3600),
            count,
        };
        let results = [
            kept("a", 1, 10, false),
            kept("a", 5, 10, false),
            kept("a", 9, 10, true),
            kept("b", 90, 10, false),
            kept("a", 7, 10, false),
        ];
        for (policy, missing, expected) in [
            (policy(100, 100, 9), 0, vec![]),
            (policy(100, 6, 9), 0, vec![4]),
            (policy(100, 100, 2), 0, vec![4]),
            (policy(100, 100, 1), 0, vec![1, 4]),
            (policy(45, 100, 9), 0, vec![4]),
            (policy(0, 0, 0), 0, vec![1, 4]),
            (policy(100, 100, 9), 1 << 20, vec![4]),
            (policy(100, 100, 9), 11 << 20, vec![1, 4]),
        ] {
            let gone = to_remove(&results, &policy, missing);
            assert_eq!(gone.into_iter().collect::<Vec<_>>(), expected, "{policy:?} {missing}");
        }
    }

    #[test]
    fn a_clock_that_is_set_makes_nothing_older() {
        const YEAR: u64 = 365 * 86_400;
        const NOW: u64 = 1_800_000_000;
        let at = |moment, wall| Clocks {
            moment: Moment(Duration::from_secs(moment)),
            wall: Duration::from_secs(wall),
        };
        let begun = at(1_000, NOW);
        // An hour later, by a clock that nobody has set, and by one that was set by a year, forth and back.
        for (wall, made, age) in [
            (NOW + 3_600, NOW - 86_400, 90_000),
            (NOW + 3_600, NOW + 600, 3_000),
            (NOW + YEAR, NOW - 86_400, 90_000),
            (NOW + YEAR, NOW + YEAR - 60, 60),
            (NOW - YEAR, NOW - 86_400, 90_000),
            (NOW - YEAR, NOW - YEAR - 60, 60),
            (NOW - YEAR, NOW + YEAR, 0),
        ] {
            let age_of = WallClock::begin(begun).age(at(4_600, wall), Duration::from_secs(made));
            assert_eq!(age_of, Duration::from_secs(age), "{wall} {made}");
        }
    }

    proptest! {
        #[test]
        fn what_is_marked_and_the_newest_of_each_rule_are_never_lost(
            all in prop::collection::vec((0_usize..3, 0_u64..200, 0_u64..50, any::<bool>()), 0..40),
            bytes in 0_u64..500,
            hours in 0_u64..200,
            count in 0_u32..10,
            missing in 0_u64..300,
        ) {
            let results: Vec<Kept> = all.iter().map(|&(rule, hours, size, marked)| kept(["a", "b", "c"][rule], hours, size, marked)).collect();
            let policy = Policy { bytes: bytes << 20, age: Duration::from_secs(hours * 3600), count };
            let gone = to_remove(&results, &policy, missing << 20);
            for rule in ["a", "b", "c"] {
                let of = |index: &usize| results[*index].rule == rule;
                let youngest = (0..results.len()).filter(of).map(|index| results[index].age).min();
                let left = (0..results.len()).filter(of).filter(|index| !gone.contains(index));
                prop_assert_eq!(left.map(|index| results[index].age).min(), youngest);
            }
            prop_assert!(gone.iter().all(|&index| !results[index].is_marked));
            // What stays although it need not: nothing of it is older than what went of its rule, and all limits hold without it.
            let newest = |index: usize| {
                let younger = |other: &Kept| {
                    other.rule == results[index].rule
                        && (other.age, &results[index].name) < (results[index].age, &other.name)
                };
                !results.iter().any(younger)
            };
            let free: Vec<usize> = (0..results.len())
                .filter(|index| !gone.contains(index) && !results[*index].is_marked && !newest(*index))
                .collect();
            for &index in &free {
                let older = gone.iter().filter(|&&other| results[other].rule == results[index].rule);
                prop_assert!(older.into_iter().all(|&other| results[other].age >= results[index].age));
                prop_assert!(results[index].age <= policy.age);
            }
            if !free.is_empty() {
                let sum = |of: &mut dyn Iterator<Item = usize>| of.map(|index| results[index].bytes).sum::<u64>();
                let left = sum(&mut (0..results.len()).filter(|index| !gone.contains(index)));
                let freed = sum(&mut gone.iter().copied());
                prop_assert!(left <= policy.bytes && freed >= missing << 20, "{left} {freed}");
            }
            for rule in ["a", "b", "c"] {
                let unmarked = |index: &usize| {
                    results[*index].rule == rule && !results[*index].is_marked && !gone.contains(index)
                };
                let left = (0..results.len()).filter(unmarked).count();
                prop_assert!(left <= (count as usize).max(1), "{left} of {rule}");
            }
        }
    }
}
