//! Secrets in the memory of a process: what it was started with, texts of its heap, and copies without a name.

mod layout;
mod spot;
mod spots;

use std::ops::Range;

use super::case::{Case, Class, Input};
use super::kinds::{Form, Kind};
use super::needle::Needle;
use super::places::{half_of_place, kebab, upper};
use super::random::Random;
use super::shape::Value;
use spot::{Spot, Taught};

/// Spots that each kind is planted at.
const OF_EACH_KIND: usize = 5;

/// Some of the spots that fit a kind with names.
pub(super) fn cases(seed: u64, kind: &Kind) -> Vec<Case> {
    let is_shaped = matches!(kind.form, Form::Shaped);
    let Some(key) = kind.keys.iter().find(|key| key.is_ascii() && !key.contains([' ', '\''])) else {
        return Vec::new();
    };
    let fits = |spot: &&Spot| match spot.class {
        Class::MemoryRepeated => !kind.common,
        _ => is_shaped || !spot.is_alone,
    };
    let spots: Vec<_> = spots::of(kind.half).iter().filter(fits).collect();
    let chosen = Random::named(seed, &[&kind.name, "memory"]).some(spots, OF_EACH_KIND);
    chosen
        .into_iter()
        .map(|spot| case(kind, key, spot, &mut Random::named(seed, &[&kind.name, spot.name])))
        .collect()
}

fn case(kind: &Kind, key: &str, spot: &Spot, random: &mut Random) -> Case {
    let value = kind.make(random);
    let mut environment =
        vec![("LANG".to_owned(), "C.UTF-8".to_owned()), ("HOME".to_owned(), "/srv/shop".to_owned())];
    let mut arguments = vec!["/usr/bin/shop".to_owned(), "--port".to_owned(), "8080".to_owned()];
    match spot.taught {
        Taught::Nothing => {}
        Taught::Variable => environment.push((upper(key), value.text.clone())),
        Taught::Argument => arguments.push(format!("--{}={}", kebab(key), value.text)),
        Taught::ArgumentApart => arguments.extend([format!("--{}", kebab(key)), value.text.clone()]),
        Taught::ArgumentOneDash => arguments.extend([format!("-{}", kebab(key)), value.text.clone()]),
    }
    let block = |value: &Value, random: &mut Random| -> Vec<u8> {
        [around(random), spot.plant(key, &value.text), vec![0, 0, 0, 0], around(random)].concat()
    };
    let bytes = block(&value, &mut random.clone());
    let without = Value { text: value.text.replace(&value.secret, "?"), secret: String::new() };
    let background = block(&without, random);
    Case {
        kind: kind.name.clone(),
        place: spot.name.to_owned(),
        half: kind.half.both(half_of_place(kind.half, spot.name)),
        class: spot.class,
        may_change: found(&bytes, &spot.written(&value.text)),
        bundle: vec![Input::Memory { environment, arguments, bytes }],
        scored: 0,
        background,
        needle: Needle::new(&value.secret, &value.secret, spot.encoding),
        source: None,
        format: None,
    }
}

/// Memory as it is around texts: pointers, numbers, texts that say nothing.
fn around(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..24 {
        match random.below(4) {
            0 => bytes.extend([0; 16]),
            1 => bytes.extend((0x7f00_0000_0000_u64 + random.below(1 << 30) as u64 * 8).to_le_bytes()),
            2 => bytes
                .extend(random.pick(&["GET /items\0", "utf-8\0", "Shop.Orders\0", "text/html\0"]).as_bytes()),
            _ => bytes.extend((0..24).map(|_| random.below(256) as u8)),
        }
    }
    bytes
}

fn found(bytes: &[u8], part: &[u8]) -> Vec<Range<usize>> {
    let starts = (0..bytes.len()).filter(|start| !part.is_empty() && bytes[*start..].starts_with(part));
    starts.map(|start| start..start + part.len()).collect()
}
