//! Functions, threads, waits, metrics and logs.

use super::assembly::{Assembly, finite};
use crate::schema::{
    Activation, Behind, Convoy, Function, LogTopic, Logs, LongWait, Metric, Metrics, Notable, THREADS,
    Thread, ThreadGroup, Threads, Trend, WaitFunction, WaitReason, Waits,
};
use crate::words;
use biopsy_analyze::{Analysis, FunctionHandle, FunctionRow, Party};
use biopsy_model::order::Order as _;
use rustc_hash::FxHashMap;

/// The functions with most CPU or waiting time, in the order of the analysis.
pub(crate) fn choose_functions(analysis: &Analysis, limit: usize) -> Vec<FunctionHandle> {
    let mut handles: Vec<FunctionHandle> = (0..analysis.functions.len())
        .filter_map(|index| u32::try_from(index).ok())
        .map(FunctionHandle)
        .collect();
    if handles.len() > limit {
        let weight = |handle: &FunctionHandle| {
            analysis.function(*handle).map_or(0, |row| row.cpu_total.0.max(row.wait_total.0))
        };
        handles.order_by_key(|handle| std::cmp::Reverse(weight(handle)));
        handles.truncate(limit);
        handles.sort_unstable();
    }
    handles
}

pub(super) fn function(row: &FunctionRow) -> Function {
    Function {
        name: row.name.clone(),
        module: row.module.clone(),
        kind: words::function_kind(row.kind).to_owned(),
        named: row.named,
        file: row.file.clone(),
        line: row.line,
        cpu_self_ns: row.cpu_self.0,
        cpu_total_ns: row.cpu_total.0,
        wait_self_ns: row.wait_self.0,
        wait_total_ns: row.wait_total.0,
    }
}

impl Assembly<'_> {
    pub(super) fn threads(&self) -> Threads {
        let table = &self.analysis.threads;
        Threads {
            exact: table.exact,
            at_start: table.count_at_start,
            at_end: table.count_at_end,
            peak: table.count_peak,
            born: table.born,
            exited: table.exited,
            groups: table
                .groups
                .iter()
                .map(|group| ThreadGroup {
                    name: group.name.clone(),
                    pid: group.pid.0,
                    threads: group.threads,
                    running_ns: group.running.0,
                    ready_ns: table.exact.then_some(group.ready.0),
                    waiting_ns: table.exact.then_some(group.waiting.0),
                    sampled_ns: group.sampled.0,
                    voluntary: group.voluntary,
                    involuntary: group.involuntary,
                    wakeups: group.wakeups,
                    top_function: self.function_name(group.top_function),
                })
                .collect(),
            rows: Vec::new(),
            seen: table.rows.len(),
        }
    }

    pub(super) fn thread_rows(&self) -> Vec<Thread> {
        let table = &self.analysis.threads;
        let rows = table.rows.iter().take(THREADS);
        rows.map(|row| Thread {
            tid: row.tid.0,
            pid: Some(row.pid.0).filter(|pid| *pid != 0),
            name: row.name.clone(),
            group: row.group,
            born_at: row.born.then(|| self.at(row.start)),
            by: row.by.map(|tid| tid.0),
            exit_at: row.exit.map(|time| self.at(time)),
            running_ns: row.running.0,
            ready_ns: table.exact.then_some(row.ready.0),
            waiting_ns: table.exact.then_some(row.waiting.0),
            sampled_ns: row.sampled.0,
            samples: row.samples,
            voluntary: row.voluntary,
            involuntary: row.involuntary,
            wakeups: row.wakeups,
            top_function: self.function_name(row.top_function),
            top_share: row.top_function.map(|_| row.top_share).filter(|share| share.is_finite()),
        })
        .collect()
    }

    pub(super) fn waits(&self) -> Waits {
        let waits = &self.analysis.waits;
        Waits {
            total_ns: waits.total.0,
            recorded_ns: waits.recorded.0,
            count: waits.count,
            sampled_ns: waits.sampled.0,
            reasons: waits
                .reasons
                .iter()
                .map(|row| WaitReason {
                    reason: words::reason(row.reason).to_owned(),
                    time_ns: row.time.0,
                    count: row.count,
                    longest_ns: row.longest.0,
                    threads: row.threads,
                    syscalls: row.syscalls.iter().map(|(name, time)| (name.clone(), time.0)).collect(),
                })
                .collect(),
            functions: waits
                .functions
                .iter()
                .map(|row| WaitFunction {
                    function: self.function_name(row.function),
                    module: row
                        .function
                        .and_then(|handle| self.analysis.function(handle))
                        .map(|function| function.module.clone()),
                    reason: words::reason(row.reason).to_owned(),
                    time_ns: row.time.0,
                    count: row.count,
                    longest_ns: row.longest.0,
                    threads: row.threads,
                    groups: row.groups.clone(),
                })
                .collect(),
            activations: waits
                .activations
                .iter()
                .map(|row| Activation {
                    waker: match &row.waker {
                        Party::Group(index) => self.group_name(*index),
                        Party::Interrupt => "interrupt".to_owned(),
                        Party::Elsewhere => "another process".to_owned(),
                    },
                    waker_group: match row.waker {
                        Party::Group(index) => Some(index),
                        Party::Interrupt | Party::Elsewhere => None,
                    },
                    woken: self.group_name(row.woken),
                    woken_group: row.woken,
                    count: row.count,
                    time_ns: row.time.0,
                    ready_ns: row.ready.0,
                    reason: words::reason(row.reason).to_owned(),
                })
                .collect(),
            convoys: waits
                .convoys
                .iter()
                .map(|row| Convoy {
                    function: self.function_name(row.function),
                    reason: words::reason(row.reason).to_owned(),
                    threads: row.threads,
                    time_ns: row.time.0,
                    share: finite(row.share),
                    mean_queue: finite(row.mean_queue),
                    handed_on: row.handed_on.filter(|share| share.is_finite()),
                })
                .collect(),
            behind: waits
                .behind
                .iter()
                .map(|row| Behind {
                    function: self.function_name(row.function),
                    reason: words::reason(row.reason).to_owned(),
                    cause_function: self.function_name(row.cause_function),
                    cause: words::reason(row.cause).to_owned(),
                    count: row.count,
                    share: finite(row.share),
                    time_ns: row.time.0,
                    threads: row.threads,
                })
                .collect(),
            longest: waits
                .longest
                .iter()
                .map(|row| LongWait {
                    tid: row.tid.0,
                    from: self.at(row.start),
                    time_ns: row.time.0,
                    reason: words::reason(row.reason).to_owned(),
                    function: self.function_name(row.function),
                    waker: row.waker.map(|tid| tid.0),
                })
                .collect(),
        }
    }

    pub(crate) fn group_name(&self, index: usize) -> String {
        self.analysis.threads.groups.get(index).map_or_else(|| "?".to_owned(), |group| group.name.clone())
    }

    pub(super) fn metrics(&self) -> Metrics {
        let metrics = &self.analysis.metrics;
        Metrics {
            notables: metrics
                .notables
                .iter()
                .filter(|row| row.worst.is_finite() && row.mean.is_finite())
                .map(|row| Notable {
                    kind: words::notable(row.kind).to_owned(),
                    from: self.at(row.from),
                    to: self.at(row.to),
                    table: row.table.clone(),
                    column: row.column.clone(),
                    key: row.key.clone(),
                    worst: row.worst,
                    mean: row.mean,
                    text: row.text.clone(),
                })
                .collect(),
            trends: metrics
                .trends
                .iter()
                .filter(|row| {
                    [row.first, row.last, row.per_minute, row.fit].iter().all(|number| number.is_finite())
                })
                .map(|row| Trend {
                    table: row.table.clone(),
                    column: row.column.clone(),
                    key: row.key.clone(),
                    first: row.first,
                    last: row.last,
                    per_minute: row.per_minute,
                    fit: row.fit,
                    growing: row.growing,
                })
                .collect(),
            summary: Vec::new(),
        }
    }

    /// One row a column and key. The `threads` table is left out: the report has its threads already.
    pub(crate) fn metric_summary(&self) -> Vec<Metric> {
        let mut summary = Vec::new();
        for table in self.capture.metrics.iter().filter(|table| table.name != "threads") {
            let mut keys: Vec<&[String]> = Vec::new();
            let mut rows: FxHashMap<&[String], Vec<usize>> = FxHashMap::default();
            for (index, row) in table.rows.iter().enumerate() {
                let of_key = rows.entry(&row.keys).or_default();
                if of_key.is_empty() {
                    keys.push(&row.keys);
                }
                of_key.push(index);
            }
            for key in keys {
                for (index, column) in table.columns.iter().enumerate() {
                    let readings =
                        rows[key].iter().map(|row| table.rows[*row].values.get(index).copied().flatten());
                    let mut metric = Metric {
                        table: table.name.clone(),
                        column: column.name.clone(),
                        key: key.join(" "),
                        unit: words::unit(column.unit).to_owned(),
                        min: f64::INFINITY,
                        max: f64::NEG_INFINITY,
                        ..Metric::default()
                    };
                    let mut sum = 0.0;
                    for reading in readings {
                        match reading.filter(|value| value.is_finite()) {
                            Some(value) => {
                                metric.readings += 1;
                                sum += value;
                                metric.min = metric.min.min(value);
                                metric.max = metric.max.max(value);
                                metric.last = value;
                            }
                            None => metric.missing += 1,
                        }
                    }
                    metric.mean = sum / crate::units::to_f64(metric.readings as u64);
                    // Neither a column without a reading nor one whose sum is beyond all numbers has a mean.
                    if metric.mean.is_finite() {
                        for number in [&mut metric.mean, &mut metric.min, &mut metric.max, &mut metric.last] {
                            *number = crate::units::significant(*number, 6);
                        }
                        summary.push(metric);
                    }
                }
            }
        }
        summary
    }

    pub(super) fn logs(&self) -> Logs {
        let logs = &self.analysis.logs;
        Logs {
            sources: self.capture.logs.iter().map(|log| log.source.clone()).collect(),
            lines: logs.lines,
            errors: logs.errors,
            warnings: logs.warnings,
            without_time: logs.without_time,
            topics: logs
                .topics
                .iter()
                .map(|topic| LogTopic {
                    level: words::level(topic.level).to_owned(),
                    example: topic.example.clone(),
                    source: self
                        .capture
                        .logs
                        .get(topic.log)
                        .map(|log| log.source.clone())
                        .unwrap_or_default(),
                    log: topic.log,
                    line: topic.line,
                    count: topic.count,
                    first: topic.first.map(|time| self.at(time)),
                    last: topic.last.map(|time| self.at(time)),
                })
                .collect(),
            bursts: logs
                .bursts
                .iter()
                .map(|(from, to, lines)| (self.at(*from), self.at(*to), *lines))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
