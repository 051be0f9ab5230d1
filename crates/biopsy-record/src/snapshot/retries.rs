//! When a process is frozen once more, and why it was.

use biopsy_model::heap::Retries;

/// How often in a row the runtime's threads may not fit the layout before the layout is called wrong: a thread is made or
/// ended in microseconds.
const UNFIT_IN_A_ROW: u32 = 5;

/// How often a heap that is not whole is taken again before it is called damaged.
const MOST_TORN: u32 = 3;

/// Counts why a process is frozen once more, and decides whether.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Attempts {
    /// How often what was seen was of no use, and why.
    pub(super) retries: Retries,
    unfit_in_a_row: u32,
}

/// What one freeze showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// A whole heap.
    Whole,
    /// A heap with places that could not be read, or references that lead nowhere.
    Torn,
    /// A collection was under way.
    Collecting,
    /// The threads were being changed.
    Moving,
    /// Something that another moment does not change.
    Failed,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// This is the result, good or bad.
    Done,
    /// Freeze again after a rest.
    Again(Rest),
    /// It was asked to stop trying, and a collection was under way.
    AlwaysCollecting,
    /// Memory ran short: what was seen is worth nothing, and another copy would harm.
    MemoryShort,
}

/// How long to wait before the next attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// Another instant will do.
    Short,
    /// Longer each time.
    Longer,
}

impl Attempts {
    /// Decides, and counts. `ended_early`: the copy was given up because memory ran short. `may_again`: an attempt is left.
    pub(super) fn after(&mut self, seen: Seen, ended_early: bool, may_again: bool) -> Next {
        if ended_early {
            return Next::MemoryShort;
        }
        if seen != Seen::Moving {
            self.unfit_in_a_row = 0;
        }
        match seen {
            // A thread may have been between taking room for a large object and saying what lies there. Another moment is
            // whole; a heap that is damaged is so again.
            Seen::Torn if self.retries.torn < MOST_TORN && may_again => {
                self.retries.torn += 1;
                Next::Again(Rest::Short)
            }
            Seen::Collecting if may_again => {
                self.retries.collecting += 1;
                Next::Again(Rest::Longer)
            }
            Seen::Collecting => Next::AlwaysCollecting,
            Seen::Moving if self.unfit_in_a_row < UNFIT_IN_A_ROW && may_again => {
                self.unfit_in_a_row += 1;
                self.retries.threads += 1;
                Next::Again(Rest::Longer)
            }
            Seen::Whole | Seen::Torn | Seen::Moving | Seen::Failed => Next::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_ran_short_nothing_is_frozen_again() {
        for seen in [Seen::Whole, Seen::Torn, Seen::Collecting, Seen::Moving, Seen::Failed] {
            let mut attempts = Attempts::default();
            assert_eq!(attempts.after(seen, true, true), Next::MemoryShort, "{seen:?}");
            assert_eq!(attempts, Attempts::default());
        }
    }

    #[test]
    fn each_reason_is_counted_and_bounded() {
        let mut attempts = Attempts::default();
        for _ in 0..MOST_TORN {
            assert_eq!(attempts.after(Seen::Torn, false, true), Next::Again(Rest::Short));
        }
        assert_eq!(attempts.after(Seen::Torn, false, true), Next::Done);
        for _ in 0..UNFIT_IN_A_ROW {
            assert_eq!(attempts.after(Seen::Moving, false, true), Next::Again(Rest::Longer));
        }
        assert_eq!(attempts.after(Seen::Collecting, false, true), Next::Again(Rest::Longer));
        assert_eq!(attempts.after(Seen::Moving, false, true), Next::Again(Rest::Longer));
        assert_eq!(attempts.after(Seen::Collecting, false, false), Next::AlwaysCollecting);
        assert_eq!(attempts.after(Seen::Failed, false, true), Next::Done);
        let said = "a collection was under way once, a thread was being made or ended 6 times, the heap was not whole 3 times";
        assert_eq!(attempts.retries.text().as_deref(), Some(said));
    }

    #[test]
    fn threads_that_never_fit_are_a_wrong_layout() {
        let mut attempts = Attempts::default();
        for _ in 0..UNFIT_IN_A_ROW {
            assert_eq!(attempts.after(Seen::Moving, false, true), Next::Again(Rest::Longer));
        }
        assert_eq!(attempts.after(Seen::Moving, false, true), Next::Done);
    }
}
