//! Counting: what was masked, what can still be read, what else was changed.

use std::collections::BTreeMap;

use super::case::{Case, Class, Input};
use super::engine::Engine;
use super::half::Half;
use super::wellformed::Format;
use crate::run::Outcome;

/// So many of so many.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Count {
    pub(super) good: u64,
    pub(super) all: u64,
}

impl Count {
    /// One more.
    pub(super) fn add(&mut self, is_good: bool) {
        self.good += u64::from(is_good);
        self.all += 1;
    }

    /// As a share; nothing of nothing.
    pub(super) fn share(self) -> Option<f64> {
        (self.all > 0).then(|| self.good as f64 / self.all as f64)
    }
}

/// Of one engine.
#[derive(Default, Debug)]
pub(super) struct Score {
    pub(super) recall: BTreeMap<(Class, Half), Count>,
    pub(super) formed: BTreeMap<(Format, Half), Count>,
    /// Bytes of memory that were changed though no secret stood there.
    pub(super) memory_damage: BTreeMap<Half, u64>,
    /// Cases of open halves that were missed, with what came out.
    pub(super) misses: Vec<Miss>,
}

/// A case of an open half that was missed.
#[derive(Debug)]
pub(super) struct Miss {
    pub(super) case: String,
    pub(super) given: String,
    pub(super) came_out: String,
}

/// Scores an engine.
pub(super) fn score(engine: &dyn Engine, cases: &[Case]) -> Outcome<Score> {
    let mut bundles: Vec<_> = cases.iter().map(|case| case.bundle.clone()).collect();
    let sources = cases.iter().filter_map(|case| case.source.as_ref());
    bundles.extend(sources.map(|(source, _)| vec![Input::Text(source.clone())]));
    let masked = engine.mask(&bundles)?;
    let (outputs, sources) = masked.split_at(cases.len());
    let mut sources = sources.iter();
    let mut score = Score::default();
    for (case, output) in cases.iter().zip(outputs) {
        let alone =
            case.source.as_ref().and_then(|(_, background)| Some((background, sources.next()?.as_ref()?)));
        let is_masked_once =
            alone.is_none_or(|(background, output)| !case.needle.survives(&output[0], background));
        let Some(output) = output.as_ref().map(|outputs| &outputs[case.scored]) else { continue };
        if case.class.is_repeated() && !is_masked_once {
            continue;
        }
        let survives = case.needle.survives(output, &case.background);
        score.recall.entry((case.class, case.half)).or_default().add(!survives);
        let given = case.bundle[case.scored].bytes();
        if let Some((format, holds)) = formed(case, &given, output) {
            score.formed.entry((format, case.half)).or_default().add(holds);
            if !holds {
                score.miss(case, "does not read as before: ", &given, output);
            }
        }
        if matches!(case.bundle[case.scored], Input::Memory { .. }) {
            let is_other = |index: usize| !case.may_change.iter().any(|range| range.contains(&index));
            let changed = given.iter().zip(output).enumerate().filter(|(_, (one, other))| one != other);
            let others = changed.filter(|(index, _)| is_other(*index)).count() as u64;
            *score.memory_damage.entry(case.half).or_default() += others;
            if others > 0 {
                score.miss(case, "changes other bytes: ", &given, output);
            }
        }
        if survives {
            score.miss(case, "", &given, output);
        }
    }
    Ok(score)
}

/// What came out as a text, where the case says what it is.
fn formed(case: &Case, given: &[u8], output: &[u8]) -> Option<(Format, bool)> {
    let format = case.format?;
    let given = std::str::from_utf8(given).ok()?;
    let holds = std::str::from_utf8(output).map_or(Some(false), |output| format.holds(given, output))?;
    Some((format, holds))
}

impl Score {
    /// Of open halves only: nobody tunes on another one by accident.
    fn miss(&mut self, case: &Case, what: &str, given: &[u8], output: &[u8]) {
        if case.half.is_open() {
            self.misses.push(Miss {
                case: format!("{what}{}", case.name()),
                given: String::from_utf8_lossy(given).into_owned(),
                came_out: String::from_utf8_lossy(output).into_owned(),
            });
        }
    }
}
