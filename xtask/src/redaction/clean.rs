//! Text without any secret, and things that look like secrets: what is changed in them is damage.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::case::{Bundle, Input};
use super::engine::Engine;
use super::escape::fill;
use super::half::Half;
use super::kinds::read;
use super::random::Random;
use super::score::{Count, Miss};
use super::shape::Shape;
use crate::run::{Outcome, root};

/// Lines made of each shape of look-alikes.
const OF_EACH_SHAPE: usize = 3;

/// A piece of clean text.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) sort: String,
    pub(super) half: Half,
    pub(super) text: String,
}

/// What was done to clean text.
#[derive(Default, Debug)]
pub(super) struct Damage {
    pub(super) characters: BTreeMap<Half, Count>,
    pub(super) lines: BTreeMap<Half, Count>,
    pub(super) look_alikes: BTreeMap<Half, Count>,
    /// Lines of open halves that were changed.
    pub(super) misses: Vec<Miss>,
}

/// The files of `fixtures/secrets/clean`, and those of the halves with tables of their own.
pub(super) fn samples() -> Outcome<Vec<Sample>> {
    let mut samples = files("fixtures/secrets/clean", |sort| Half::of(&format!("clean {sort}")))?;
    for (half, folder) in Half::OWN_TABLES {
        samples.extend(files(&format!("fixtures/secrets/{folder}/clean"), |_| half)?);
    }
    samples.sort_by(|one, other| one.sort.cmp(&other.sort));
    Ok(samples)
}

fn files(folder: &str, half: impl Fn(&str) -> Half) -> Outcome<Vec<Sample>> {
    let folder = root().join(folder);
    let failed = |error: std::io::Error| format!("cannot read `{}`: {error}", folder.display());
    let mut samples = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let sort = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        samples.push(Sample { half: half(&sort), sort, text });
    }
    Ok(samples)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookAlikes {
    /// As they are, but for what is made up: `{uuid}`, `{host}` ...
    #[serde(default)]
    lines: Vec<String>,
    /// Regular expressions of whole lines.
    #[serde(default)]
    shapes: Vec<String>,
}

/// Lines that look as if there was a secret in them, of `lookalikes.toml`.
pub(super) fn look_alikes(seed: u64) -> Outcome<Vec<Sample>> {
    let mut samples = look_alikes_of("lookalikes.toml", seed, Half::of)?;
    for (half, folder) in Half::OWN_TABLES {
        samples.extend(look_alikes_of(&format!("{folder}/lookalikes.toml"), seed, |_| half)?);
    }
    Ok(samples)
}

fn look_alikes_of(file: &str, seed: u64, half: impl Fn(&str) -> Half) -> Outcome<Vec<Sample>> {
    // Half by the text: each sort has some in both.
    let sample = |sort: &str, index: usize, text: &str| Sample {
        sort: format!("{sort} {index}"),
        half: half(text),
        text: String::new(),
    };
    let mut samples = Vec::new();
    for (sort, table) in read::<BTreeMap<String, LookAlikes>>(file)? {
        for (index, line) in table.lines.iter().enumerate() {
            let mut random = Random::named(seed, &[&sort, line]);
            samples.push(Sample { text: fill(line, &mut random), ..sample(&sort, index, line) });
        }
        for (index, pattern) in table.shapes.iter().enumerate() {
            let shape = Shape::parse(pattern)?;
            let mut random = Random::named(seed, &[&sort, pattern]);
            let lines = (0..OF_EACH_SHAPE).map(|_| shape.make(&mut random).text);
            samples.extend(lines.map(|text| Sample { text, ..sample(&sort, index, pattern) }));
        }
    }
    Ok(samples)
}

/// What an engine does to all of it.
pub(super) fn damage(engine: &dyn Engine, samples: &[Sample], look_alikes: &[Sample]) -> Outcome<Damage> {
    let bundle = |sample: &Sample| -> Bundle {
        vec![Input::Text(format!("{}\n", sample.text.trim_end()).into_bytes())]
    };
    let all: Vec<Bundle> = samples.iter().chain(look_alikes).map(bundle).collect();
    let outputs = engine.mask(&all)?;
    let mut damage = Damage::default();
    for (index, (sample, output)) in samples.iter().chain(look_alikes).zip(outputs).enumerate() {
        let Some(output) = output.and_then(|mut outputs| outputs.pop()) else { continue };
        let output = String::from_utf8_lossy(&output);
        let is_look_alike = index >= samples.len();
        let mut is_kept = true;
        let mut after = output.lines();
        for line in sample.text.trim_end().lines() {
            let masked = after.next().unwrap_or_default();
            let changed = changed(line, masked);
            is_kept &= changed == 0;
            if !is_look_alike {
                let count = damage.characters.entry(sample.half).or_default();
                count.good += changed;
                count.all += line.chars().count() as u64 + 1;
                damage.lines.entry(sample.half).or_default().add(changed > 0);
            }
            if changed > 0 && sample.half.is_open() {
                damage.misses.push(Miss {
                    case: format!("clean text / {}", sample.sort),
                    given: line.to_owned(),
                    came_out: masked.to_owned(),
                });
            }
        }
        if is_look_alike {
            damage.look_alikes.entry(sample.half).or_default().add(is_kept);
        }
    }
    Ok(damage)
}

/// Characters of a line that are not there any more.
pub(super) fn changed(line: &str, masked: &str) -> u64 {
    static MASK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\[redacted:[^\]\s]{1,80}\]").expect("a fixed expression"));
    if line == masked {
        return 0;
    }
    let kept: usize = MASK.split(masked).map(|part| part.chars().count()).sum();
    (line.chars().count().saturating_sub(kept)).max(1) as u64
}
