//! Secrets in the memory of a process: what it was started with, texts of its heap, and copies without a name.

use std::ops::Range;

use super::case::{Case, Class, Input};
use super::encode::{Encoding, wide};
use super::half::Half;
use super::kinds::{Form, Kind};
use super::needle::Needle;
use super::places::{half_of_place, kebab, upper};
use super::random::Random;
use super::shape::Value;

/// Where it stands in memory, and whether environment or arguments told it before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    Environment,
    Arguments,
    HeapPair,
    HeapJsonWide,
    HeapBare,
    HeapBareWide,
    CopyOfVariable,
    CopyOfVariableWide,
    CopyOfArgument,
    CopyInText,
    EnvironmentWide,
    ArgumentsApart,
    HeapSettings,
    HeapQuery,
    HeapYamlWide,
    HeapBareBehindLength,
    CopyOfArgumentWide,
    CopyOfArgumentApart,
    CopyBetweenQuotes,
}

const SPOTS: [(&str, Spot); 10] = [
    ("environment block", Spot::Environment),
    ("argument block", Spot::Arguments),
    ("heap, name and value", Spot::HeapPair),
    ("heap, JSON as UTF-16", Spot::HeapJsonWide),
    ("heap, alone", Spot::HeapBare),
    ("heap, alone as UTF-16", Spot::HeapBareWide),
    ("copy of a variable", Spot::CopyOfVariable),
    ("copy of a variable as UTF-16", Spot::CopyOfVariableWide),
    ("copy of an argument", Spot::CopyOfArgument),
    ("copy in a text", Spot::CopyInText),
];

/// The same of half C.
const SPOTS_OF_C: [(&str, Spot); 9] = [
    ("environment block as UTF-16", Spot::EnvironmentWide),
    ("argument block, name and value apart", Spot::ArgumentsApart),
    ("heap, settings", Spot::HeapSettings),
    ("heap, query string", Spot::HeapQuery),
    ("heap, YAML as UTF-16", Spot::HeapYamlWide),
    ("heap, alone behind its length", Spot::HeapBareBehindLength),
    ("copy of an argument as UTF-16", Spot::CopyOfArgumentWide),
    ("copy of an argument behind its name", Spot::CopyOfArgumentApart),
    ("copy between quotes", Spot::CopyBetweenQuotes),
];

/// Spots that each kind is planted at.
const OF_EACH_KIND: usize = 5;

/// Some of the spots that fit a kind with names.
pub(super) fn cases(seed: u64, kind: &Kind) -> Vec<Case> {
    let is_shaped = matches!(kind.form, Form::Shaped);
    let Some(key) = kind.keys.iter().find(|key| key.is_ascii() && !key.contains([' ', '\''])) else {
        return Vec::new();
    };
    let fits = |spot: Spot| match spot {
        Spot::HeapBare | Spot::HeapBareWide | Spot::HeapBareBehindLength => is_shaped,
        Spot::CopyOfVariable
        | Spot::CopyOfVariableWide
        | Spot::CopyOfArgument
        | Spot::CopyInText
        | Spot::CopyOfArgumentWide
        | Spot::CopyOfArgumentApart
        | Spot::CopyBetweenQuotes => !kind.common,
        Spot::Environment
        | Spot::Arguments
        | Spot::HeapPair
        | Spot::HeapJsonWide
        | Spot::EnvironmentWide
        | Spot::ArgumentsApart
        | Spot::HeapSettings
        | Spot::HeapQuery
        | Spot::HeapYamlWide => true,
    };
    let all = if kind.half == Half::C { &SPOTS_OF_C[..] } else { &SPOTS[..] };
    let spots: Vec<_> = all.iter().filter(|(_, spot)| fits(*spot)).collect();
    let chosen = Random::named(seed, &[&kind.name, "memory"]).some(spots, OF_EACH_KIND);
    chosen
        .into_iter()
        .map(|(name, spot)| case(kind, key, name, *spot, &mut Random::named(seed, &[&kind.name, name])))
        .collect()
}

fn case(kind: &Kind, key: &str, place: &str, spot: Spot, random: &mut Random) -> Case {
    let value = kind.make(random);
    let mut environment =
        vec![("LANG".to_owned(), "C.UTF-8".to_owned()), ("HOME".to_owned(), "/srv/shop".to_owned())];
    let mut arguments = vec!["/usr/bin/shop".to_owned(), "--port".to_owned(), "8080".to_owned()];
    match spot {
        Spot::Environment
        | Spot::EnvironmentWide
        | Spot::CopyOfVariable
        | Spot::CopyOfVariableWide
        | Spot::CopyInText
        | Spot::CopyBetweenQuotes => environment.push((upper(key), value.text.clone())),
        Spot::Arguments | Spot::CopyOfArgument | Spot::CopyOfArgumentWide => {
            arguments.push(format!("--{}={}", kebab(key), value.text));
        }
        Spot::ArgumentsApart | Spot::CopyOfArgumentApart => {
            arguments.extend([format!("--{}", kebab(key)), value.text.clone()]);
        }
        Spot::HeapPair
        | Spot::HeapJsonWide
        | Spot::HeapBare
        | Spot::HeapBareWide
        | Spot::HeapSettings
        | Spot::HeapQuery
        | Spot::HeapYamlWide
        | Spot::HeapBareBehindLength => {}
    }
    let block = |value: &Value, random: &mut Random| -> Vec<u8> {
        let text = &value.text;
        let planted = match spot {
            Spot::Environment => format!("HOME=/srv/shop\0{}={text}\0SHLVL=1\0", upper(key)).into_bytes(),
            Spot::Arguments => format!("/usr/bin/shop\0--port\08080\0--{}={text}\0", kebab(key)).into_bytes(),
            Spot::HeapPair => format!("{{\"user\":\"app\",\"{key}\":\"{text}\"}}").into_bytes(),
            Spot::HeapJsonWide => wide(&format!("{{\"user\":\"app\",\"{key}\":\"{text}\"}}"), false),
            Spot::HeapBare | Spot::CopyOfVariable | Spot::CopyOfArgument | Spot::CopyOfArgumentApart => {
                text.clone().into_bytes()
            }
            Spot::HeapBareWide | Spot::CopyOfVariableWide | Spot::CopyOfArgumentWide => wide(text, false),
            Spot::EnvironmentWide => {
                wide(&format!("HOME=/srv/shop\0{}={text}\0SHLVL=1\0", upper(key)), false)
            }
            Spot::ArgumentsApart => {
                format!("/usr/bin/shop\0--port\08080\0--{}\0{text}\0", kebab(key)).into_bytes()
            }
            Spot::HeapSettings => format!("user=app\n{key}={text}\nport=80\n").into_bytes(),
            Spot::HeapQuery => format!("/v1/items?page=2&{key}={text}&lang=en").into_bytes(),
            Spot::HeapYamlWide => wide(&format!("user: app\n{key}: \"{text}\"\nport: 80\n"), false),
            Spot::HeapBareBehindLength => {
                [&(text.len() as u32).to_le_bytes()[..], text.as_bytes(), b"\0"].concat()
            }
            Spot::CopyBetweenQuotes => format!("bad argument '{text}' in call").into_bytes(),
            Spot::CopyInText => format!("retry with {text} in 5 s").into_bytes(),
        };
        [around(random), planted, vec![0, 0, 0, 0], around(random)].concat()
    };
    let bytes = block(&value, &mut random.clone());
    let without = Value { text: value.text.replace(&value.secret, "?"), secret: String::new() };
    let background = block(&without, random);
    let encoding = match spot {
        Spot::HeapJsonWide
        | Spot::HeapBareWide
        | Spot::CopyOfVariableWide
        | Spot::EnvironmentWide
        | Spot::HeapYamlWide
        | Spot::CopyOfArgumentWide => Encoding::Utf16Le,
        Spot::Environment
        | Spot::ArgumentsApart
        | Spot::HeapSettings
        | Spot::HeapQuery
        | Spot::HeapBareBehindLength
        | Spot::CopyOfArgumentApart
        | Spot::CopyBetweenQuotes
        | Spot::Arguments
        | Spot::HeapPair
        | Spot::HeapBare
        | Spot::CopyOfVariable
        | Spot::CopyOfArgument
        | Spot::CopyInText => Encoding::Plain,
    };
    let is_copy = matches!(
        spot,
        Spot::CopyOfVariable
            | Spot::CopyOfVariableWide
            | Spot::CopyOfArgument
            | Spot::CopyInText
            | Spot::CopyOfArgumentWide
            | Spot::CopyOfArgumentApart
            | Spot::CopyBetweenQuotes
    );
    Case {
        kind: kind.name.clone(),
        place: place.to_owned(),
        half: kind.half.both(half_of_place(kind.half, place)),
        class: if is_copy { Class::MemoryRepeated } else { Class::Memory },
        may_change: found(&bytes, &encoding.encode(&value.text)),
        bundle: vec![Input::Memory { environment, arguments, bytes }],
        scored: 0,
        background,
        needle: Needle::new(&value.secret, &value.secret, encoding),
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
