//! Decisions over days, with a clock of our own.

mod made;

use std::collections::BTreeMap;
use std::time::Duration;

use biopsy_watch::engine::{Disk, Fire};
use biopsy_watch::keep::{Kept, to_remove};
use biopsy_watch::{Engine, Held, Observed, Outcome};
use made::{PLENTY, at, fires, held, rule, settings, worker};
use proptest::prelude::*;

#[test]
fn a_start_fires_once_and_again_for_another_program() {
    let mut engine = Engine::new(&rule(""));
    let mut process = worker(5, 0);
    process.exe = "/bin/sh".to_owned();
    process.name = "sh".to_owned();
    assert!(engine.look(at(1), &process, PLENTY).is_empty(), "not yet executed");
    let process = worker(5, 0);
    let first = fires(engine.look(at(1), &process, PLENTY));
    assert_eq!((first.len(), first[0].because.as_str()), (1, "it started"));
    assert!(engine.look(at(2), &process, PLENTY).is_empty());
    engine.ended(at(2), first[0].id, Outcome::Made);
    assert!(engine.look(at(3), &process, PLENTY).is_empty());
    // The pid of another process by now.
    let mut reused = worker(5, 0);
    reused.key.start_ticks = 99;
    assert_eq!(fires(engine.look(at(4), &reused, PLENTY)).len(), 1);
    let mut other = worker(6, 0);
    other.name = "master".to_owned();
    other.exe = "/usr/bin/master".to_owned();
    assert!(engine.look(at(4), &other, PLENTY).is_empty());
}

#[test]
fn a_quantity_has_to_stay_above_its_bound_and_a_flapping_one_is_limited() {
    let mut engine = Engine::new(&rule(", \"when\": \"cpu>50%:3s\", \"coolDown\": \"10s\""));
    let mut process = worker(5, 0);
    let mut fired = Vec::new();
    // Busy for 6 s, idle for 2 s, again and again.
    for second in 0..64 {
        if second % 8 < 6 {
            process.cpu += Duration::from_millis(900);
        }
        for fire in fires(engine.look(at(100 + second), &process, PLENTY)) {
            engine.ended(at(100 + second), fire.id, Outcome::Made);
            fired.push(second);
        }
    }
    assert_eq!(fired.first(), Some(&4), "a reading needs two looks, and it has to last for three seconds");
    assert!(fired.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{fired:?}");
    assert!(fired.len() >= 4, "{fired:?}");
}

#[test]
fn memory_age_and_threads() {
    for (when, change) in [
        ("memory>1G", (|process: &mut Observed| process.resident_bytes = 2 << 30) as fn(&mut Observed)),
        ("threads>100", |process| process.threads = 101),
        ("alive>30s", |process| process.age = Duration::from_secs(31)),
    ] {
        let mut engine = Engine::new(&rule(&format!(", \"when\": \"{when}\"")));
        let mut process = worker(5, 1);
        assert!(engine.looks_again());
        assert!(engine.look(at(1), &process, PLENTY).is_empty(), "{when}");
        change(&mut process);
        assert_eq!(fires(engine.look(at(2), &process, PLENTY)).len(), 1, "{when}");
    }
}

#[test]
fn commands_that_wait_are_no_recordings_and_count_only_when_there_is_a_result() {
    let mut engine = Engine::new(&rule(
        ", \"when\": [\"crash\", \"hang:10s\"], \"do\": \"dump\", \"perDay\": 2, \"atOnce\": 1",
    ));
    let first = fires(engine.look(at(1), &worker(1, 0), PLENTY));
    assert_eq!(first[0].triggers, ["crash", "hang:10s"]);
    let second = fires(engine.look(at(2), &worker(2, 0), PLENTY));
    assert_eq!(second.len(), 1, "both wait");
    assert_eq!(
        held(&engine.look(at(3), &worker(3, 0), PLENTY)),
        [Held::PerDay],
        "as many as there may be results"
    );
    engine.ended(at(3), first[0].id, Outcome::Nothing);
    assert_eq!(fires(engine.look(at(4), &worker(4, 0), PLENTY)).len(), 1);
    engine.ended(at(4), second[0].id, Outcome::Made);
    assert_eq!(held(&engine.look(at(5), &worker(5, 0), PLENTY)), [Held::PerDay]);
}

#[test]
fn whose_minutes_are_kept_may_be_recorded_meanwhile() {
    let mut engine = Engine::new(&rule(", \"recent\": \"10m\", \"when\": \"alive>30s\", \"atOnce\": 2"));
    let kept = fires(engine.look(at(0), &worker(5, 0), PLENTY));
    assert_eq!(kept.iter().map(|fire| fire.rule.name.as_str()).collect::<Vec<_>>(), ["r-recent"]);
    assert_eq!(kept[0].rule.what.to_string(), "recent 10m");
    assert!(kept[0].triggers.is_empty());
    let recorded = fires(engine.look(at(31), &worker(5, 31), PLENTY));
    assert_eq!(recorded.iter().map(|fire| fire.rule.name.as_str()).collect::<Vec<_>>(), ["r"]);
    // Four at once, and a place that is free again is taken by the next.
    for pid in 6..9 {
        assert_eq!(fires(engine.look(at(32), &worker(pid, 0), PLENTY)).len(), 1, "{pid}");
    }
    assert_eq!(held(&engine.look(at(33), &worker(9, 0), PLENTY)), [Held::AtOnce]);
    engine.ended(at(33), kept[0].id, Outcome::Nothing);
    assert_eq!(fires(engine.look(at(34), &worker(10, 0), PLENTY)).len(), 1);
}

#[test]
fn what_keeps_the_minutes_begins_anew_when_it_was_killed_and_not_for_ever() {
    let mut engine = Engine::new(&rule(", \"do\": \"recent 5m\", \"perDay\": 3"));
    for second in 0..3 {
        let kept = fires(engine.look(at(second), &worker(5, 0), PLENTY));
        assert_eq!(kept.len(), 1, "{second}");
        assert!(engine.look(at(second), &worker(5, 0), PLENTY).is_empty());
        engine.ended(at(second), kept[0].id, Outcome::Killed);
    }
    assert_eq!(held(&engine.look(at(3), &worker(5, 0), PLENTY)), [Held::PerDay]);
}

#[test]
fn each_limit_holds_and_is_said_once() {
    let two = settings(
        "\"atOnce\": 2, \"minFree\": \"1GB\", \"rules\": {\"a\": {\"who\": {\"name\": \"worker\"}, \"atOnce\": 1}, \
         \"b\": {\"who\": {\"name\": \"worker\"}, \"every\": 2}}",
    );
    let mut engine = Engine::new(&two);
    let first = engine.look(at(1), &worker(1, 0), PLENTY);
    assert_eq!((fires(first.clone()).len(), held(&first)), (1, vec![Held::Busy]));
    let second = engine.look(at(2), &worker(2, 0), PLENTY);
    assert_eq!((fires(second.clone()).len(), held(&second)), (1, vec![Held::AtOnce]));
    assert_eq!(held(&engine.look(at(3), &worker(3, 0), PLENTY)), [Held::AtOnce, Held::NotEvery]);
    assert_eq!(held(&engine.look(at(4), &worker(4, 0), PLENTY)), [Held::AtOnce, Held::AllAtOnce]);
    assert_eq!(held(&engine.look(at(5), &worker(5, 0), Disk { free: 0 })), [Held::Disk, Held::Disk]);
    assert!(engine.look(at(6), &worker(5, 0), PLENTY).is_empty(), "a start that was let pass is over");
    assert_eq!(engine.running(), 2);
}

#[test]
fn results_of_before_count_and_changed_settings_begin_nothing_anew() {
    let mut engine = Engine::new(&rule(", \"perDay\": 2"));
    engine.remember("r", at(100_000), Duration::from_secs(90_000));
    engine.remember("r", at(100_000), Duration::from_secs(80_000));
    assert_eq!(fires(engine.look(at(100_000), &worker(1, 0), PLENTY)).len(), 1);
    assert_eq!(held(&engine.look(at(100_001), &worker(2, 0), PLENTY)), [Held::PerDay]);
    engine.change(&rule(", \"perDay\": 2"));
    assert!(fires(engine.look(at(100_002), &worker(1, 0), PLENTY)).is_empty());
    engine.change(&rule(", \"perDay\": 5"));
    assert_eq!(fires(engine.look(at(100_003), &worker(3, 0), PLENTY)).len(), 1);
}

#[test]
fn a_rule_that_costs_too_much_switches_itself_off_and_is_on_again_when_it_is_changed() {
    let used = Duration::from_millis;
    let two = |budget| {
        settings(&format!(
            "\"rules\": {{\"dear\": {{\"who\": {{\"name\": \"worker\"}}, \"budget\": {budget}}}, \
             \"other\": {{\"who\": {{\"name\": \"other\"}}}}}}"
        ))
    };
    let mut engine = Engine::new(&two(10));
    let first = fires(engine.look(at(0), &worker(1, 0), PLENTY)).remove(0);
    let second = fires(engine.look(at(1), &worker(2, 0), PLENTY)).remove(0);
    // To begin takes a second of CPU time; then it takes 9 %, and then 20 %.
    let mut off = Vec::new();
    for second in 0..60_u64 {
        let spent = if second < 40 { 1_000 + 90 * second } else { 4_600 + 200 * (second - 40) };
        off.extend(engine.spent(at(second), first.id, used(spent)).map(|off| (second, off)));
    }
    assert_eq!(off.len(), 1, "it is said once: {off:?}");
    let (when, off) = off.remove(0);
    assert!((45..=55).contains(&when) && off.percent > 10.0 && off.percent <= 20.1, "{when}: {off:?}");
    assert_eq!((off.rule.as_str(), off.budget, off.running), ("dear", 10, vec![first.id, second.id]));
    engine.ended(at(60), first.id, Outcome::Made);
    engine.ended(at(60), second.id, Outcome::Made);
    assert_eq!(held(&engine.look(at(100), &worker(3, 0), PLENTY)), [Held::Budget]);
    let other = Observed { name: "other".to_owned(), exe: "/usr/bin/other".to_owned(), ..worker(4, 0) };
    assert_eq!(fires(engine.look(at(100), &other, PLENTY)).len(), 1, "other rules go on");
    engine.change(&two(10));
    assert_eq!(held(&engine.look(at(101), &worker(5, 0), PLENTY)), [Held::Budget], "nothing was changed");
    engine.change(&two(30));
    assert_eq!(fires(engine.look(at(102), &worker(6, 0), PLENTY)).len(), 1);
}

#[test]
fn a_process_that_is_held_is_asked_for_rules_that_record_from_the_start_alone() {
    let all = settings(
        "\"rules\": {\"a-dump\": {\"who\": {\"name\": \"worker\"}, \"when\": \"crash\", \"do\": \"dump\"}, \
         \"b-trace\": {\"who\": {\"name\": \"worker\"}}, \
         \"c-old\": {\"who\": {\"name\": \"worker\"}, \"when\": \"alive>30s\"}}",
    );
    let mut engine = Engine::new(&all);
    assert!(engine.records_starts());
    let starters = engine.starters();
    let held = Observed { is_held: true, ..worker(5, 40) };
    assert!(
        starters.concern(&held)
            && !starters.concern(&Observed {
                name: "x".to_owned(),
                exe: "/bin/x".to_owned(),
                ..held.clone()
            })
    );
    // What cannot be told by the program alone is left open.
    let may = |who: &str, user: &str| {
        let all = settings(&format!("\"rules\": {{\"r\": {{\"who\": {who}}}}}"));
        let starters = Engine::new(&all).starters();
        let process = Observed { user: user.to_owned(), ..held.clone() };
        (starters.may_concern(&process), starters.concern(&process))
    };
    assert_eq!(may("{\"name\": \"worker\", \"user\": \"ann\"}", "bob"), (true, false));
    assert_eq!(may("{\"name\": \"other\", \"user\": \"ann\"}", "ann"), (false, false));
    assert_eq!(may("{\"user\": \"ann\"}", "bob"), (true, false));
    assert_eq!(may("\"Compiler\"", "ann"), (false, false));
    let names = |fires: Vec<Fire>| fires.into_iter().map(|fire| fire.rule.name).collect::<Vec<_>>();
    assert_eq!(names(fires(engine.look(at(1), &held, PLENTY))), ["b-trace"]);
    // It has executed its program, which is called by its interpreter's name now: that is no other start.
    let runs = Observed { exe: "/usr/bin/python3".to_owned(), ..worker(5, 40) };
    assert_eq!(names(fires(engine.look(at(2), &runs, PLENTY))), ["a-dump"]);
    let without =
        settings("\"rules\": {\"c-old\": {\"who\": {\"name\": \"worker\"}, \"when\": \"alive>30s\"}}");
    assert!(!Engine::new(&without).records_starts());
}

#[test]
fn a_trouble_of_72_hours_stays_within_all_limits() {
    let all = settings(
        "\"atOnce\": 3, \"minFree\": \"2GB\", \"keep\": {\"size\": \"8GB\", \"age\": \"20h\", \"count\": 12}, \"rules\": {\
         \"start\": {\"who\": {\"name\": \"worker\"}, \"perDay\": 20, \"coolDown\": \"10m\", \"atOnce\": 2},\
         \"busy\": {\"who\": {\"name\": \"worker\"}, \"when\": \"cpu>50%:10s\", \"perDay\": 7, \"coolDown\": \"1m\"}}",
    );
    let limits: BTreeMap<&str, (usize, u64)> = BTreeMap::from([("start", (20, 600)), ("busy", (7, 60))]);
    let mut engine = Engine::new(&all);
    let mut begun: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut running: Vec<(u64, String, u64)> = Vec::new();
    let mut results: Vec<(Kept, u64)> = Vec::new();
    let mut newest: BTreeMap<String, u64> = BTreeMap::new();
    let disk_size: u64 = 10 << 30;
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut processes: Vec<Observed> = Vec::new();
    for second in (0..72 * 3600).step_by(5) {
        let now = at(1_000 + second);
        // Something starts every minute or so, lives for minutes, and is busy half of the time.
        if next(12) == 0 {
            processes.push(worker(u32::try_from(second).unwrap() + 10, 0));
        }
        if processes.len() > 10 {
            processes.remove(0);
        }
        let mut still = Vec::new();
        for (id, rule, until) in std::mem::take(&mut running) {
            if until > second {
                still.push((id, rule, until));
                continue;
            }
            let made = next(10) > 0;
            engine.ended(now, id, if made { Outcome::Made } else { Outcome::Nothing });
            if made {
                let bytes = (50 + next(900)) << 20;
                newest.insert(rule.clone(), second);
                results.push((
                    Kept { name: format!("{second}"), rule, age: Duration::ZERO, bytes, is_marked: false },
                    second,
                ));
            } else {
                begun.get_mut(&rule).unwrap().retain(|&begin| begin != until - 120);
            }
        }
        running = still;
        let used = |results: &[(Kept, u64)]| results.iter().map(|(kept, _)| kept.bytes).sum::<u64>();
        for (kept, made) in &mut results {
            kept.age = Duration::from_secs(second - *made);
        }
        let kept: Vec<Kept> = results.iter().map(|(kept, _)| kept.clone()).collect();
        let gone = to_remove(&kept, &all.keep, 0);
        let mut index = 0;
        results.retain(|_| {
            index += 1;
            !gone.contains(&(index - 1))
        });
        for (rule, made) in &newest {
            assert!(
                results.iter().any(|(kept, at)| kept.rule == *rule && at == made),
                "the newest of {rule} is lost"
            );
        }
        assert!(
            used(&results) <= (8 << 30) + 2 * (1 << 30),
            "beyond the newest of each rule, the size holds"
        );
        let disk = Disk { free: disk_size.saturating_sub(used(&results)) };
        for process in &mut processes {
            process.age += Duration::from_secs(5);
            if next(2) == 0 {
                process.cpu += Duration::from_secs(5);
            }
            for fire in fires(engine.look(now, process, disk)) {
                assert!(disk.free >= 2 << 30);
                begun.entry(fire.rule.name.clone()).or_default().push(second);
                running.push((fire.id, fire.rule.name.clone(), second + 120));
            }
            assert!(running.len() <= 3);
            assert!(running.iter().filter(|(_, rule, _)| rule == "start").count() <= 2);
        }
        engine.retain(|key| processes.iter().any(|process| process.key == *key));
    }
    for (rule, (per_day, cool_down)) in limits {
        let times = &begun[rule];
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= cool_down), "{rule}: {times:?}");
        assert!(
            times.windows(per_day + 1).all(|some| some[per_day] - some[0] >= 86_400),
            "{rule}: {times:?}"
        );
        assert!(times.len() > 2 * per_day, "{rule}: only {} in three days", times.len());
    }
}

proptest! {
    #[test]
    fn no_order_of_events_exceeds_a_limit(
        events in prop::collection::vec((0_u32..6, 0_u64..40_000, any::<bool>(), any::<bool>()), 1..120),
        per_day in 0_u32..4,
        at_once in 1_u32..3,
    ) {
        let mut engine = Engine::new(&rule(&format!(", \"perDay\": {per_day}, \"atOnce\": {at_once}")));
        let (mut now, mut running, mut made) = (0, Vec::new(), Vec::<u64>::new());
        for (number, (pid, later, ends, makes)) in events.into_iter().enumerate() {
            now += later;
            let mut process = worker(pid, 0);
            process.key.start_ticks = number as u64;
            for fire in fires(engine.look(at(now), &process, PLENTY)) {
                running.push((fire.id, now));
            }
            prop_assert!(running.len() <= at_once as usize);
            if ends && !running.is_empty() {
                let (id, begin) = running.remove(0);
                engine.ended(at(now), id, if makes { Outcome::Made } else { Outcome::Nothing });
                if makes {
                    made.push(begin);
                }
            }
        }
        made.sort_unstable();
        let most = per_day as usize;
        prop_assert!(made.windows(most + 1).all(|some| some[most] - some[0] >= 86_400), "{:?}", made);
    }
}
