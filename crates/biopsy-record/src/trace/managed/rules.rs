//! How frames of managed code unwind: what is known already, and what is wanted.
//!
//! The recorder asks while it unwinds samples and must never wait. An address that nobody has asked about yet gets no rule (its
//! frame pointer is tried, which is right for nineteen frames in twenty) and is noted; the thread of managed code finds its rule
//! soon, and the next sample there has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biopsy_model::Avma;
use biopsy_stacks::unwind::{CompiledCode, CompiledRule};
use rustc_hash::FxHashMap;

/// Addresses that are remembered. A busy server's stacks have some thousands.
const KNOWN: usize = 1 << 18;
/// Addresses that wait for their rule.
const WANTED: usize = 1 << 14;

/// What the recorder and the thread of managed code share of one process.
#[derive(Default, Debug)]
pub(crate) struct Rules(Mutex<Inner>);

#[derive(Default, Debug)]
struct Inner {
    /// `None`: no managed code is there.
    known: FxHashMap<u64, Option<CompiledRule>>,
    wanted: Vec<(u64, bool)>,
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether rules are wanted.
    pub(crate) fn has_wanted(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// Takes at most so many of the addresses whose rules are wanted, each with whether a thread stood there.
    pub(super) fn take_wanted(&self, most: usize) -> Vec<(u64, bool)> {
        let mut inner = self.lock();
        let keep = inner.wanted.len().saturating_sub(most);
        inner.wanted.split_off(keep)
    }

    /// Asks for rules again.
    pub(super) fn want(&self, addresses: Vec<(u64, bool)>) {
        let mut inner = self.lock();
        let room = WANTED.saturating_sub(inner.wanted.len());
        inner.wanted.extend(addresses.into_iter().take(room));
    }

    /// Rules that were found.
    pub(super) fn tell(&self, found: impl IntoIterator<Item = (u64, Option<CompiledRule>)>) {
        let mut inner = self.lock();
        for (address, rule) in found {
            if inner.known.len() >= KNOWN {
                inner.known.clear();
            }
            inner.known.insert(address, rule);
        }
    }

    /// Code has gone: nothing is known any more.
    pub(super) fn forget(&self) {
        *self.lock() = Inner::default();
    }
}

/// The recorder's end.
#[derive(Debug)]
pub(crate) struct KnownRules(pub(crate) Arc<Rules>);

impl CompiledCode for KnownRules {
    fn rule(&self, address: Avma, exact: bool) -> Option<CompiledRule> {
        let mut inner = self.0.lock();
        if let Some(known) = inner.known.get(&address.0) {
            return *known;
        }
        // Each address is asked about once between two answers: the unwinder remembers that there was none.
        if inner.wanted.len() < WANTED {
            inner.wanted.push((address.0, exact));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_question_is_noted_and_the_second_answered() {
        let rules = Arc::new(Rules::default());
        let known = KnownRules(Arc::clone(&rules));
        assert_eq!(known.rule(Avma(0x10), true), None);
        assert!(rules.has_wanted());
        assert_eq!(rules.take_wanted(8), [(0x10, true)]);
        rules.tell([(0x10, Some(CompiledRule::NoFrame))]);
        assert_eq!(known.rule(Avma(0x10), false), Some(CompiledRule::NoFrame));
        assert!(!rules.has_wanted());
        rules.forget();
        assert_eq!(known.rule(Avma(0x10), true), None);
    }
}
