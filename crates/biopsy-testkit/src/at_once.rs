//! Cases of one test that mostly wait, side by side.

/// Runs `check` on each of the items in a thread of its own.
///
/// # Panics
///
/// As the first of them that does, when all have ended.
pub fn at_once<T: Send>(items: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(|| check(item))).collect();
        let failed = threads.into_iter().filter_map(|thread| thread.join().err()).next();
        if let Some(panic) = failed {
            std::panic::resume_unwind(panic);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::at_once;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn all_run_side_by_side_and_one_that_fails_is_told() {
        let (together, ended) = (Barrier::new(3), AtomicU32::new(0));
        let failed = catch_unwind(AssertUnwindSafe(|| {
            at_once(["one", "two", "three"], |item| {
                together.wait();
                assert_ne!(item, "two");
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }));
        assert!(failed.is_err());
        assert_eq!(ended.into_inner(), 2);
    }
}
