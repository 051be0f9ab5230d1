//! Calls of async functions that stand at an `await`: objects of the heap, since no thread shows them.
//!
//! ```text
//! JSAsyncFunctionObject   0 map  24 function  32 context  40 receiver  48 where in the byte code  56 how it goes on
//!                         64 continuation: 0 or more while it stands at an `await`  72 registers  80 its promise
//! JSPromise               0 map  24 reactions or result  32 flags, of which two bits are 0 while it is pending
//! ```
//! (`src/objects/js-generator.tq`, `js-promise.tq`; the same in 10.2, 11.3 and 12.4.) Objects that nobody refers to any more may be
//! among them until they are collected.

use rustc_hash::{FxHashMap, FxHashSet};

use biopsy_image::Backing;

use super::objects::{Objects, small};
use crate::{Strand, StrandFrame, StrandId, StrandKind, StrandState, StrandWait, WaitKind};

/// Words of the object, and of those the ones that are looked at.
const WORDS: usize = 11;
const WORD_FUNCTION: usize = 3;
const WORD_OFFSET: usize = 6;
const WORD_MODE: usize = 7;
const WORD_CONTINUATION: usize = 8;
const WORD_PROMISE: usize = 10;
const FLAGS: u64 = 32;
/// Bits of a promise's flags that say what became of it.
const STATUS: i32 = 3;
/// Memory that is searched, in bytes.
const SEARCHED: u64 = 256 << 20;
/// Characters of a function in which its `await`s are looked for.
const BODY: usize = 16 << 10;
/// Characters behind an `await` that are read.
const AWAITED: usize = 160;
/// Calls that are listed.
const CALLS: usize = 20_000;

impl Objects<'_> {
    /// The calls that stand at an `await`, and whether all memory was searched.
    pub(super) fn suspended(&self) -> (Vec<Strand>, bool) {
        let mut found = Vec::new();
        let mut left = SEARCHED;
        let mut maps: FxHashMap<u64, bool> = FxHashMap::default();
        let mut promises: FxHashSet<u64> = FxHashSet::default();
        for mapping in self.memory.image().mappings() {
            let protection = mapping.protection;
            let of_heap =
                matches!(mapping.backing, Backing::Anonymous { .. }) && protection.read && protection.write;
            if !of_heap || mapping.shared {
                continue;
            }
            if left == 0 {
                return (found, false);
            }
            self.memory.search(mapping.range(), WORDS * 8, left, |at, bytes| {
                let words: Vec<u64> =
                    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
                for (index, window) in words.windows(WORDS).enumerate() {
                    let is_new = |promise: &u64| !promises.contains(promise);
                    if is_like(window)
                        && window.get(WORD_PROMISE).is_some_and(is_new)
                        && self.is_call(window, &mut maps)
                    {
                        promises.extend(window.get(WORD_PROMISE));
                        found.extend(self.call(at + index as u64 * 8 + 1, window));
                    }
                }
                (found.len() >= CALLS).then_some(())
            });
            left = left.saturating_sub(mapping.size());
        }
        let all = found.len() < CALLS;
        (found, all)
    }

    fn is_call(&self, window: &[u64], maps: &mut FxHashMap<u64, bool>) -> bool {
        let Some(map) = window.first() else { return false };
        *maps.entry(*map).or_insert_with(|| {
            self.field(*map, self.layout.map_type)
                .and_then(|kind| self.memory.u16(kind))
                .is_some_and(|kind| Some(kind) == self.layout.types.async_function)
        })
    }

    fn call(&self, object: u64, window: &[u64]) -> Option<Strand> {
        let promise = *window.get(WORD_PROMISE)?;
        let pending = self.kind(promise) == self.layout.types.promise
            && small(self.word(promise, FLAGS)?)? & STATUS == 0;
        let function = self.function(*window.get(WORD_FUNCTION)?).filter(|_| pending)?;
        let bytecode = self.bytecode(*window.get(WORD_FUNCTION)?);
        let offset = small(*window.get(WORD_OFFSET)?).and_then(|offset| u32::try_from(offset).ok());
        let offset =
            offset.and_then(|offset| offset.checked_sub(u32::try_from(self.layout.bytecode_data).ok()? - 1));
        let position = bytecode.zip(offset).and_then(|(bytecode, offset)| self.position(bytecode, offset));
        let mut strand = Strand::new(StrandId(object), StrandKind::Task);
        strand.state = StrandState::Waiting;
        let mut wait = StrandWait::of(WaitKind::Future, "await");
        wait.object = Some("Promise".to_owned());
        wait.awaited = match function.script.zip(position) {
            Some((script, position)) => {
                self.source_from(script, position, AWAITED).and_then(|text| awaited(&text))
            }
            // Without a table of positions: where the function has one `await` only.
            None => self.text_of(*window.get(WORD_FUNCTION)?, BODY).and_then(|text| only_await(&text)),
        };
        strand.wait = Some(wait);
        strand.frames.push(StrandFrame {
            function: if function.name.is_empty() { "(anonymous)".into() } else { function.name.clone() },
            file: function.script_name.clone(),
            line: function.script.zip(position).and_then(|(script, position)| self.line(script, position)),
            ..StrandFrame::default()
        });
        Some(strand)
    }

    /// The byte code of a function that is interpreted.
    fn bytecode(&self, function: u64) -> Option<u64> {
        let shared = self.word(function, self.layout.function_shared)?;
        let data = self.word(shared, self.layout.shared_data?)?;
        (self.kind(data) == Some(self.layout.types.bytecode)).then_some(data)
    }
}

/// What is awaited, up to its arguments: `await hall.confirm(seat)` is of `hall.confirm`.
fn awaited(source: &str) -> Option<String> {
    let text = source.trim_start();
    let text =
        text.strip_prefix("await").filter(|rest| !rest.starts_with(is_part)).unwrap_or(text).trim_start();
    let text = text.strip_prefix("new ").map_or(text, str::trim_start);
    let name = text.split(|one| !is_part(one)).next().unwrap_or_default().trim_end_matches('.');
    name.starts_with(|one: char| one.is_alphabetic() || matches!(one, '_' | '$')).then(|| name.to_owned())
}

/// What the one place awaits that a function has.
fn only_await(text: &str) -> Option<String> {
    let mut found = text
        .match_indices("await ")
        .filter(|(at, _)| !text.get(..*at).is_some_and(|before| before.ends_with(is_part)));
    let (at, _) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    awaited(text.get(at..)?)
}

fn is_part(one: char) -> bool {
    one.is_alphanumeric() || matches!(one, '_' | '$' | '.')
}

/// Whether these words may be such a call, without looking at what they refer to.
fn is_like(window: &[u64]) -> bool {
    let tagged = |index: usize| window.get(index).is_some_and(|word| word & 3 == 1);
    let number = |index: usize| window.get(index).copied().and_then(small);
    tagged(0)
        && tagged(WORD_FUNCTION)
        && tagged(WORD_PROMISE)
        && number(WORD_CONTINUATION).is_some_and(|at| at >= 0)
        && number(WORD_MODE).is_some_and(|mode| (0..=2).contains(&mode))
        && number(WORD_OFFSET).is_some()
}

#[cfg(test)]
mod tests {
    use super::{awaited, only_await};

    #[test]
    fn what_is_awaited_is_said_up_to_its_arguments() {
        let of = |text: &str| awaited(text);
        assert_eq!(of("await confirmSeat(booked++ % 400);").as_deref(), Some("confirmSeat"));
        assert_eq!(of("hall.confirm(7)").as_deref(), Some("hall.confirm"));
        assert_eq!(of("await  new Promise((done) => 1)").as_deref(), Some("Promise"));
        assert_eq!(of("awaited").as_deref(), Some("awaited"));
        assert_eq!(of("await [a, b]"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn one_await_of_a_function_is_known_without_a_position() {
        assert_eq!(only_await("(seat) => { await confirm(seat); }").as_deref(), Some("confirm"));
        assert_eq!(only_await("() { await a(); await b(); }"), None);
        assert_eq!(only_await("() { unawait x }"), None);
    }
}
