//! When a notice that was not taken is sent again.

/// Seconds until the next try, by how many there were; after the last it is given up.
const PAUSES: [i64; 9] = [5, 30, 120, 600, 1800, 7200, 18_000, 36_000, 36_000];

/// The state, and the pause in seconds, after so many tries that failed.
pub(super) fn pause_after(tries: i64) -> (&'static str, i64) {
    match usize::try_from(tries - 1).ok().and_then(|at| PAUSES.get(at)) {
        Some(pause) => ("waiting", *pause),
        None => ("given-up", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_for_a_day_and_then_given_up() {
        let total: i64 = (1..=9).map(|tries| pause_after(tries).1).sum();
        assert!(total > 24 * 3600, "{total} s");
        assert_eq!((pause_after(9).0, pause_after(10)), ("waiting", ("given-up", 0)));
    }
}
