//! A part of a whole.

/// `part` of `all`, 0 to 1 where it is one; of nothing there is no part.
#[expect(clippy::cast_precision_loss, reason = "2^53 of anything are out of reach")]
pub(crate) fn ratio(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}
