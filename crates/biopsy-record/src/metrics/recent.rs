//! The last minutes of metrics, in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biopsy_model::MonoNanos;
use biopsy_model::metric::{MetricRow, MetricTable};
use biopsy_recording::layout;

use super::sink::{TableSchema, TableSink};
use super::tables;
use crate::masking::Masking;

/// Numbers kept at most, all tables together: some 8 MB.
const MOST_NUMBERS: usize = 500_000;

/// Rows of the last minutes, shared by who writes and who takes them.
#[derive(Clone, Default, Debug)]
pub struct RecentRows(Arc<Mutex<Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    schema: &'static TableSchema,
    rows: VecDeque<MetricRow>,
}

/// Writes into [`RecentRows`]. Rows of single threads are left out: the timeline knows more about threads than they do.
#[derive(Debug)]
pub struct RecentSink {
    rows: RecentRows,
    masking: Masking,
    age_nanos: u64,
    newest: MonoNanos,
}

impl RecentRows {
    /// A sink that keeps rows for so many nanoseconds.
    #[must_use]
    pub fn sink(&self, masking: Masking, age_nanos: u64) -> RecentSink {
        RecentSink { rows: self.clone(), masking, age_nanos, newest: MonoNanos(0) }
    }

    /// The rows of a time: behind `from`, and not behind `until`.
    #[must_use]
    pub fn tables(&self, from: MonoNanos, until: MonoNanos) -> Vec<MetricTable> {
        let table = |kept: &Kept| {
            let rows = kept.rows.iter().filter(|row| row.time > from && row.time <= until).cloned().collect();
            MetricTable { rows, ..kept.schema.to_table() }
        };
        self.locked().iter().map(table).filter(|table| !table.rows.is_empty()).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableSink for RecentSink {
    fn row(
        &mut self,
        schema: &'static TableSchema,
        time: MonoNanos,
        keys: &[&str],
        values: &[Option<f64>],
    ) -> io::Result<()> {
        if schema.name == tables::THREADS.name {
            return Ok(());
        }
        let member = layout::metrics_member(schema.name);
        let mask = |key: &&str| self.masking.text(&member, key).into_owned();
        let row = MetricRow { time, keys: keys.iter().map(mask).collect(), values: values.to_vec() };
        self.newest = self.newest.max(time);
        let mut tables = self.rows.locked();
        let index = tables.iter().position(|kept| kept.schema.name == schema.name).unwrap_or_else(|| {
            tables.push(Kept { schema, rows: VecDeque::new() });
            tables.len() - 1
        });
        if let Some(kept) = tables.get_mut(index) {
            kept.rows.push_back(row);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut oldest = MonoNanos(self.newest.0.saturating_sub(self.age_nanos));
        let mut tables = self.rows.locked();
        loop {
            for kept in tables.iter_mut() {
                while kept.rows.front().is_some_and(|row| row.time < oldest) {
                    kept.rows.pop_front();
                }
            }
            let numbers: usize = tables.iter().map(|kept| kept.rows.len() * kept.schema.columns.len()).sum();
            if numbers <= MOST_NUMBERS {
                return Ok(());
            }
            // Half of the time is let go at once, or else it would be gone through at each reading.
            oldest = MonoNanos(oldest.0 + self.newest.since(oldest).0 / 2 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sink(rows: &RecentRows, seconds: u64) -> RecentSink {
        let redactor = biopsy_redact::Redactor::new(biopsy_redact::Options::default()).unwrap();
        let masking = Masking::new(Arc::new(redactor), Arc::new(biopsy_redact::RedactionLog::new()));
        rows.sink(masking, seconds * SECOND)
    }

    fn read(sink: &mut RecentSink, seconds: std::ops::Range<u64>, processes: usize) {
        for second in seconds {
            let time = MonoNanos(second * SECOND);
            for _ in 0..processes {
                let values = vec![Some(1.0); tables::PROCESSES.columns.len()];
                sink.row(&tables::PROCESSES, time, &["7", "shop"], &values).unwrap();
            }
            sink.row(&tables::THREADS, time, &["7", "8", "t"], &vec![None; tables::THREADS.columns.len()])
                .unwrap();
            sink.flush().unwrap();
        }
    }

    #[test]
    fn rows_of_the_last_minutes_are_kept_but_those_of_threads() {
        let rows = RecentRows::default();
        read(&mut sink(&rows, 60), 1000..1200, 1);
        let tables = rows.tables(MonoNanos(1150 * SECOND), MonoNanos(1190 * SECOND));
        assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["processes"]);
        let seconds: Vec<u64> = tables[0].rows.iter().map(|row| row.time.0 / SECOND).collect();
        assert_eq!(seconds, (1151..=1190).collect::<Vec<_>>());
        assert_eq!(rows.tables(MonoNanos(0), MonoNanos(u64::MAX))[0].rows.len(), 61);
    }

    #[test]
    fn there_are_never_more_numbers_than_may_be() {
        let rows = RecentRows::default();
        read(&mut sink(&rows, 100_000), 1000..1100, 1000);
        let kept = rows.tables(MonoNanos(0), MonoNanos(u64::MAX)).remove(0).rows;
        assert!(kept.len() * tables::PROCESSES.columns.len() <= MOST_NUMBERS, "{}", kept.len());
        assert_eq!(kept.last().unwrap().time, MonoNanos(1099 * SECOND), "the newest are never lost");
    }
}
