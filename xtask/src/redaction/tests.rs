//! The corpus is what it says, and the scorer counts right.

use std::collections::{BTreeMap, BTreeSet};

use super::case::{Bundle, Case, Input};
use super::engine::{Engine, Masked};
use super::half::Half;
use super::kinds::Kind;
use super::places::AllPlaces;
use super::random::Random;
use super::{clean, corpus, kinds, score};
use crate::run::Outcome;

const SEED: u64 = 1;

fn all() -> (Vec<Kind>, Vec<Case>) {
    let kinds = kinds::read_all().expect("the tables can be read");
    let cases = corpus::make(SEED, &kinds, &AllPlaces::read().expect("the places can be read"));
    (kinds, cases)
}

/// Cases of some of the kinds: of all it takes long in a program that is not optimised.
fn some() -> (Vec<Kind>, Vec<Case>) {
    let mut kinds = kinds::read_all().expect("the tables can be read");
    let mut number = 0;
    kinds.retain(|_| {
        number += 1;
        number % 7 == 0
    });
    let cases = corpus::make(SEED, &kinds, &AllPlaces::read().expect("the places can be read"));
    (kinds, cases)
}

/// Masks nothing, or everything.
struct Toy {
    masks: bool,
}

impl Engine for Toy {
    fn name(&self) -> &str {
        "toy"
    }

    fn mask(&self, bundles: &[Bundle]) -> Outcome<Vec<Masked>> {
        let output = |input: &Input| if self.masks { Vec::new() } else { input.bytes() };
        Ok(bundles.iter().map(|bundle| Some(bundle.iter().map(output).collect())).collect())
    }
}

#[test]
fn the_corpus_is_the_same_in_each_run_and_another_one_with_another_seed() {
    let (kinds, cases) = some();
    let (_, again) = some();
    assert_eq!(cases.len(), again.len());
    for (one, other) in cases.iter().zip(&again) {
        assert_eq!(one.bundle, other.bundle, "{}", one.name());
    }
    let places = AllPlaces::read().expect("the places can be read");
    let others = corpus::make(SEED + 1, &kinds, &places);
    let is_same = |(one, other): &(&Case, &Case)| one.bundle == other.bundle;
    assert!(cases.iter().zip(&others).filter(is_same).count() < cases.len() / 100);
}

/// The corpus of all halves takes a quarter of a minute to make: what is asked of all of it is asked of one.
#[test]
fn the_corpus_of_all_halves_is_what_it_says() {
    let (kinds, cases) = all();
    every_kind_has_its_shape_its_checksum_and_ten_places(&kinds, &cases);
    halves_a_and_b_are_about_equal_and_the_others_are_large_enough(&kinds, &cases);
    documents_of_the_newest_halves_show_their_secret_and_read_as_what_they_are(&cases);
}

fn every_kind_has_its_shape_its_checksum_and_ten_places(kinds: &[Kind], cases: &[Case]) {
    assert!(kinds.len() >= 250, "{} kinds", kinds.len());
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases {
        *places.entry(&case.kind).or_default() += 1;
    }
    for kind in kinds {
        for number in 0..20 {
            let value = kind.make(&mut Random::named(SEED, &[&kind.name, &number.to_string()]));
            assert!(
                kind.shapes.iter().any(|shape| shape.is_met_by(&value.text)),
                "{}: {}",
                kind.name,
                value.text
            );
            assert!(
                kind.finish.is_none_or(|checksum| checksum.holds(&value.text)),
                "{}: {}",
                kind.name,
                value.text
            );
            assert!(
                value.text.contains(&value.secret) && value.secret.len() >= 6,
                "{}: {}",
                kind.name,
                value.text
            );
        }
        assert!(
            // One table of half C stands at eight, and some of D: few places take records.
            places
                .get(kind.name.as_str())
                .is_some_and(|count| *count >= if kind.half.has_own_tables() { 8 } else { 10 }),
            "{}: too few places",
            kind.name
        );
    }
}

fn halves_a_and_b_are_about_equal_and_the_others_are_large_enough(kinds: &[Kind], cases: &[Case]) {
    let samples = clean::samples().expect("there is clean text");
    let look_alikes = clean::look_alikes(SEED).expect("there are look-alikes");
    let lines: usize = samples.iter().map(|sample| sample.text.lines().count()).sum();
    assert!(lines >= 5000 && samples.len() >= 20 && look_alikes.len() >= 300, "{lines} lines");
    let of_a = |halves: &mut dyn Iterator<Item = (Half, usize)>| {
        let (mut a, mut both) = (0, 0);
        for (half, weight) in halves.filter(|(half, _)| matches!(half, Half::A | Half::B)) {
            a += if half == Half::A { weight } else { 0 };
            both += weight;
        }
        a as f64 / both as f64
    };
    for (what, share) in [
        ("kinds", of_a(&mut kinds.iter().map(|kind| (kind.half, 1)))),
        ("cases", of_a(&mut cases.iter().map(|case| (case.half, 1)))),
        ("clean lines", of_a(&mut samples.iter().map(|sample| (sample.half, sample.text.lines().count())))),
        ("look-alikes", of_a(&mut look_alikes.iter().map(|sample| (sample.half, 1)))),
    ] {
        assert!((0.4..=0.6).contains(&share), "{what}: {share:.2} are of half A");
    }
    let at_least = [
        (Half::C, [130, 1300, 2000, 200]),
        (Half::D, [250, 2500, 4000, 500]),
        (Half::E, [170, 1700, 5000, 500]),
        (Half::RestOfE, [170, 1700, 0, 0]),
        (Half::F, [350, 3500, 5000, 700]),
        (Half::G, [290, 2900, 7500, 700]),
        (Half::H, [350, 3500, 9000, 700]),
        (Half::I, [350, 3500, 9000, 700]),
        (Half::J, [350, 3500, 9000, 700]),
        (Half::K, [350, 3500, 9000, 700]),
    ];
    for (half, least) in at_least {
        let of_half = |halves: &mut dyn Iterator<Item = (Half, usize)>| -> usize {
            halves.filter(|(other, _)| *other == half).map(|(_, weight)| weight).sum()
        };
        let counts = [
            of_half(&mut kinds.iter().map(|kind| (kind.half, 1))),
            of_half(&mut cases.iter().map(|case| (case.half, 1))),
            of_half(&mut samples.iter().map(|sample| (sample.half, sample.text.lines().count()))),
            of_half(&mut look_alikes.iter().map(|sample| (sample.half, 1))),
        ];
        let is_enough = counts.iter().zip(least).all(|(count, least)| *count >= least);
        assert!(is_enough, "kinds, cases, clean lines and look-alikes of half {half}: {counts:?}");
    }
}

fn documents_of_the_newest_halves_show_their_secret_and_read_as_what_they_are(cases: &[Case]) {
    let is_newer = |case: &&Case| {
        matches!(case.half.tables(), Half::E | Half::F | Half::G | Half::H | Half::I | Half::J | Half::K)
    };
    for case in cases.iter().filter(is_newer) {
        let given = case.bundle[case.scored].bytes();
        assert!(
            case.needle.survives(&given, &case.background),
            "{}: cannot be found\n{}",
            case.name(),
            String::from_utf8_lossy(&given)
        );
        let (Some(format), Input::Text(bytes)) = (case.format, &case.bundle[case.scored]) else { continue };
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(format.holds(&text, &text), Some(true), "{}:\n{text}", case.name());
    }
}

#[test]
fn who_masks_nothing_scores_nothing_and_who_masks_everything_all_of_it() {
    let (_, cases) = some();
    let nothing = score::score(&Toy { masks: false }, &cases).expect("a toy does not fail");
    for (case, count) in &nothing.recall {
        assert_eq!(count.good, 0, "{case:?}");
    }
    assert!(nothing.formed.values().all(|count| count.good == count.all), "{:?}", nothing.formed);
    assert!(nothing.misses.iter().all(|miss| !miss.given.is_empty()));
    let everything = score::score(&Toy { masks: true }, &cases).expect("a toy does not fail");
    for (case, count) in &everything.recall {
        assert_eq!(count.good, count.all, "{case:?}");
    }
    let is_hidden = |case: &&Case| !case.half.is_open();
    let hidden: BTreeSet<String> = cases.iter().filter(is_hidden).map(Case::name).collect();
    assert!(
        nothing.misses.iter().all(|miss| !hidden.contains(&miss.case)),
        "only those of open halves are shown"
    );
}

#[test]
fn damage_to_clean_text_is_counted_in_characters_and_lines() {
    assert_eq!(clean::changed("a=12345;b", "a=12345;b"), 0);
    assert_eq!(clean::changed("a=12345;b", "a=[redacted:x:00112233];b"), 5);
    assert_eq!(clean::changed("one two", "[redacted:x:00112233] [redacted:x:00112233]"), 6);
    let samples = clean::samples().expect("there is clean text");
    let look_alikes = clean::look_alikes(SEED).expect("there are look-alikes");
    let nothing = clean::damage(&Toy { masks: false }, &samples, &look_alikes).expect("a toy does not fail");
    let everything =
        clean::damage(&Toy { masks: true }, &samples, &look_alikes).expect("a toy does not fail");
    for half in
        [Half::A, Half::B, Half::C, Half::D, Half::E, Half::F, Half::G, Half::H, Half::I, Half::J, Half::K]
    {
        assert_eq!((nothing.characters[&half].good, nothing.lines[&half].good), (0, 0));
        assert_eq!(nothing.look_alikes[&half].good, nothing.look_alikes[&half].all);
        assert_eq!(everything.look_alikes[&half].good, 0);
        assert!(
            everything.lines[&half].good > everything.lines[&half].all / 2,
            "empty lines stay as they are"
        );
    }
}
