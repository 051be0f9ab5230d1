//! Rows of the `threads` table on their way to its sink.

use biopsy_model::MonoNanos;

use super::sink::{Emitter, Row};

/// Rows of the current reading, held until the next one, which may add rows of zeros to them.
#[derive(Debug, Default)]
pub(crate) struct ThreadRows {
    time: MonoNanos,
    pub(super) held: Vec<([String; 3], Row)>,
    pub(super) next: Vec<([String; 3], Row)>,
}

impl ThreadRows {
    /// Writes the rows that were held, and holds those of the reading at `time`.
    pub(crate) fn turn(&mut self, time: MonoNanos, out: &mut Emitter<'_>) {
        for (keys, row) in self.held.drain(..) {
            out.emit(self.time, &keys.each_ref().map(String::as_str), &row);
        }
        self.time = time;
        std::mem::swap(&mut self.held, &mut self.next);
    }
}
