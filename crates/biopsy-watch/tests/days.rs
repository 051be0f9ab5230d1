//! Days that are out of the ordinary: what waits for days, moments that come together, a disk that is nearly full, a machine that
//! sleeps, clocks that are set.

mod made;

use std::time::Duration;

use biopsy_watch::engine::{Disk, Fire};
use biopsy_watch::keep::{Clocks, Kept, Policy, WallClock, to_remove};
use biopsy_watch::{Engine, Held, Observed, Outcome, Settings};
use made::{PLENTY, at, fires, held};
use proptest::prelude::*;

const FULL: Disk = Disk { free: 0 };
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

fn rule(more: &str) -> Settings {
    made::rule(&format!(", {more}"))
}

fn worker(pid: u32) -> Observed {
    made::worker(pid, 0)
}

/// Servers that were started over three days all crash in one hour: there are as many results as there may be in a day.
#[test]
fn what_waited_for_days_counts_when_it_has_its_result() {
    let mut engine = Engine::new(&rule("\"when\": \"crash\", \"do\": \"dump\", \"perDay\": 2"));
    let mut waiting = Vec::new();
    for day in 0..3 {
        for number in 0..2 {
            let now = at(day * DAY + number);
            waiting.extend(fires(engine.look(
                now,
                &worker(u32::try_from(day * 10 + number).unwrap() + 1),
                PLENTY,
            )));
        }
    }
    assert_eq!(waiting.len(), 2, "two may have results, and both may still");
    let crash = 3 * DAY;
    for fire in &waiting {
        engine.ended(at(crash), fire.id, Outcome::Made);
    }
    assert_eq!(held(&engine.look(at(crash + 1), &worker(50), PLENTY)), [Held::PerDay]);
    assert_eq!(held(&engine.look(at(crash + DAY - 1), &worker(51), PLENTY)), [Held::PerDay]);
    assert_eq!(fires(engine.look(at(crash + DAY), &worker(52), PLENTY)).len(), 1, "a day later again");
}

#[test]
fn what_waited_and_saw_nothing_gives_its_place_to_the_next() {
    let mut engine = Engine::new(&rule("\"when\": \"crash\", \"do\": \"dump\", \"perDay\": 1"));
    for day in 0..5 {
        let fire = fires(engine.look(at(day * DAY * 2), &worker(u32::try_from(day).unwrap() + 1), PLENTY));
        assert_eq!(fire.len(), 1, "{day}");
        engine.ended(at(day * DAY * 2 + DAY), fire[0].id, Outcome::Nothing);
    }
}

/// A process that is old when the watcher begins: its age is one thing, that it may crash another.
#[test]
fn moments_that_come_together_do_not_take_each_others_place() {
    let mut engine =
        Engine::new(&rule("\"when\": [\"crash\", \"alive>30s\", \"oom\", \"threads>5\"], \"do\": \"dump\""));
    let mut old = worker(5);
    old.age = Duration::from_secs(HOUR);
    let both = fires(engine.look(at(1), &old, PLENTY));
    let [now, later] = both.as_slice() else { panic!("one that records, one that waits: {both:#?}") };
    assert_eq!((now.because.as_str(), now.triggers.len()), ("it lives for 1h", 0));
    assert_eq!(later.triggers, ["crash", "oom"]);
    assert_ne!(now.id, later.id);
    assert!(engine.look(at(2), &old, PLENTY).is_empty());
    engine.ended(at(3), now.id, Outcome::Made);
    old.threads = 6;
    let third = fires(engine.look(at(4), &old, PLENTY));
    assert_eq!(third.iter().map(|fire| fire.because.as_str()).collect::<Vec<_>>(), ["it has 6 threads"]);
    engine.ended(at(5), later.id, Outcome::Made);
    assert!(engine.look(at(6), &old, PLENTY).is_empty());
}

/// A start that was let pass is over; what holds on beside it in the same rule is not.
#[test]
fn a_condition_beside_a_start_is_asked_again_after_it_was_held() {
    for when in ["\"memory>1G\"", "[\"start\", \"memory>1G\"]", "[\"crash\", \"memory>1G\"]"] {
        let mut engine = Engine::new(&rule(&format!("\"when\": {when}, \"do\": \"dump\"")));
        let mut process = worker(5);
        for fire in
            fires(engine.look(at(0), &process, PLENTY)).into_iter().filter(|fire| fire.triggers.is_empty())
        {
            engine.ended(at(0), fire.id, Outcome::Made);
        }
        process.resident_bytes = 2 << 30;
        for second in 1..100 {
            assert_eq!(fires(engine.look(at(second), &process, FULL)).len(), 0, "{when}");
        }
        let fired = fires(engine.look(at(100), &process, PLENTY));
        assert_eq!(
            fired.iter().map(|fire| fire.because.as_str()).collect::<Vec<_>>(),
            ["resident memory is 2.0 GB"],
            "{when}"
        );
    }
}

#[test]
fn a_disk_that_flaps_starts_nothing_twice() {
    let mut engine = Engine::new(&rule("\"when\": \"memory>1G\", \"perDay\": 1000, \"atOnce\": 9"));
    let mut process = worker(5);
    process.resident_bytes = 2 << 30;
    let mut fired = 0;
    let mut said = 0;
    for second in 0..1_000 {
        let disk = if second % 3 == 0 { PLENTY } else { FULL };
        let decisions = engine.look(at(second), &process, disk);
        said += held(&decisions).len();
        fired += fires(decisions).len();
    }
    assert_eq!((fired, said), (1, 0), "it was begun at once, and once");
}

/// The clock goes on while the machine sleeps. The CPU time of before and after is not the work of one moment, and a limit of a day
/// is over after a night of 24 hours.
#[test]
fn a_machine_that_sleeps() {
    let mut engine = Engine::new(&rule("\"when\": \"cpu>50%:10s\", \"perDay\": 1"));
    let mut process = worker(5);
    let mut now = 0;
    let mut busy = |engine: &mut Engine, now: &mut u64, seconds: u64| {
        let mut fired = Vec::new();
        for _ in 0..seconds {
            *now += 1;
            process.cpu += Duration::from_millis(900);
            fired.extend(fires(engine.look(at(*now), &process, PLENTY)));
        }
        fired
    };
    assert!(busy(&mut engine, &mut now, 9).is_empty());
    now += 10 * HOUR;
    assert!(busy(&mut engine, &mut now, 10).is_empty(), "nine seconds, and ten hours later nine more");
    let fired = busy(&mut engine, &mut now, 5);
    assert_eq!(fired.len(), 1);
    engine.ended(at(now), fired[0].id, Outcome::Made);
    now += DAY;
    assert_eq!(busy(&mut engine, &mut now, 20).len(), 1, "awake again, the day is over");
}

/// What is switched off for its cost is what it costs while it runs: a recorder that slept with its machine cost nothing.
#[test]
fn a_recorder_that_sleeps_costs_nothing() {
    let mut engine = Engine::new(&rule("\"budget\": 10"));
    let fire = fires(engine.look(at(0), &worker(1), PLENTY)).remove(0);
    let mut used = Duration::ZERO;
    let mut now = 0;
    for _ in 0..20 {
        for _ in 0..30 {
            now += 1;
            used += Duration::from_millis(90);
            assert_eq!(engine.spent(at(now), fire.id, used), None);
        }
        now += 8 * HOUR;
    }
}

proptest! {
    /// 72 hours in which a clock is set again and again, forth and back: a result is never older than it is, so that none goes before
    /// its time.
    #[test]
    fn clocks_that_are_set_take_nothing_away(
        steps in prop::collection::vec((1..8 * HOUR, -20_000_000_i64..20_000_000, any::<bool>()), 1..30),
        ages in 1..200_u64,
    ) {
        const NOW: i64 = 1_800_000_000;
        let wall = |moment: u64, offset: i64| Clocks {
            moment: at(moment),
            wall: Duration::from_secs(u64::try_from(NOW + offset).unwrap() + moment),
        };
        let mut clock = WallClock::begin(wall(0, 0));
        let (mut now, mut offset) = (0, 0);
        let mut results: Vec<(Duration, u64)> = Vec::new();
        for (later, by, makes) in steps {
            now += later;
            offset += by;
            let clocks = wall(now, offset);
            if makes {
                results.push((clocks.wall, now));
            }
            clock.look(clocks);
            let kept: Vec<Kept> = results.iter().enumerate().map(|(number, (made, _))| Kept {
                rule: "r".to_owned(),
                name: number.to_string(),
                age: clock.age(clocks, *made),
                bytes: 0,
                is_marked: false,
            }).collect();
            for (kept, (_, made)) in kept.iter().zip(&results) {
                let real = Duration::from_secs(now - made);
                prop_assert!(kept.age <= real + Duration::from_secs(10), "{:?} of {real:?}", kept.age);
            }
            let policy = Policy { bytes: u64::MAX, age: Duration::from_secs(ages * HOUR), count: u32::MAX };
            for gone in to_remove(&kept, &policy, 0) {
                prop_assert!(kept[gone].age > policy.age);
            }
        }
    }

    /// Over any days, and whatever waits how long: in no 24 hours more results than there may be.
    #[test]
    fn no_day_has_more_results_than_it_may(
        events in prop::collection::vec((0_u64..3 * DAY, 0_u8..4, any::<prop::sample::Index>()), 1..150),
        per_day in 1_usize..5,
        waits in any::<bool>(),
    ) {
        let when = if waits { "[\"crash\", \"start\"]" } else { "\"crash\"" };
        let mut engine = Engine::new(&rule(&format!("\"when\": {when}, \"do\": \"dump\", \"perDay\": {per_day}, \"atOnce\": 9")));
        let (mut now, mut pid) = (0, 1);
        let mut running: Vec<(Fire, u64)> = Vec::new();
        let mut results: Vec<u64> = Vec::new();
        for (later, what, which) in events {
            now += later;
            match what {
                0 | 1 => {
                    pid += 1;
                    running.extend(fires(engine.look(at(now), &worker(pid), PLENTY)).into_iter().map(|fire| (fire, now)));
                }
                _ if running.is_empty() => {}
                what => {
                    let (fire, begun) = running.remove(which.index(running.len()));
                    let made = what == 2;
                    engine.ended(at(now), fire.id, if made { Outcome::Made } else { Outcome::Nothing });
                    if made {
                        // What records is a result of when it began.
                        results.push(if fire.triggers.is_empty() { begun } else { now });
                    }
                }
            }
        }
        results.sort_unstable();
        prop_assert!(
            results.windows(per_day + 1).all(|some| some[per_day] - some[0] >= DAY),
            "{} a day: {:?}", per_day, results
        );
    }
}
