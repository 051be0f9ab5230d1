//! Metrics in brief: the intervals in which a resource was short, and the trends of what grows.
//! The tables themselves are drawn from the recording.

pub(crate) mod series;

use crate::limits::NOTABLES;
use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use series::{Line, Series, all, mean, one};

/// What the metrics say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricSummary {
    /// Intervals worth looking at, in order of time; shade them in charts.
    pub notables: Vec<Notable>,
    /// Trends of the target's processes.
    pub trends: Vec<Trend>,
}

/// What is notable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NotableKind {
    /// All CPUs of the machine busy.
    CpuSaturated,
    /// The hypervisor gave CPUs to others.
    Steal,
    /// Tasks stalled for want of CPU (PSI).
    CpuPressure,
    /// Tasks stalled for want of memory (PSI).
    MemoryPressure,
    /// Tasks stalled on disk (PSI).
    IoPressure,
    /// Swapping.
    Swapping,
    /// Memory nearly used up.
    MemoryShort,
    /// The cgroup's CPU quota was used up.
    Throttled,
    /// A disk busy most of the time.
    DiskBusy,
}

/// An interval in which something was short.
#[derive(Clone, PartialEq, Debug)]
pub struct Notable {
    /// What.
    pub kind: NotableKind,
    /// From.
    pub from: MonoNanos,
    /// Until.
    pub to: MonoNanos,
    /// Table the reading is in.
    pub table: String,
    /// Column of that table.
    pub column: String,
    /// Key of the row (device, cgroup); empty where the table has none.
    pub key: String,
    /// The worst reading.
    pub worst: f64,
    /// Mean over the interval.
    pub mean: f64,
    /// One short sentence for a tool tip.
    pub text: String,
}

/// How one reading of one process went over the window (least squares).
#[derive(Clone, PartialEq, Debug)]
pub struct Trend {
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// Key of the row, joined by a space.
    pub key: String,
    /// First reading.
    pub first: f64,
    /// Last reading.
    pub last: f64,
    /// Change a minute.
    pub per_minute: f64,
    /// How straight the line is: r², 0 to 1.
    pub fit: f64,
    /// It grew steadily, by however little.
    pub steady: bool,
    /// And by a noteworthy amount.
    pub growing: bool,
}

impl MetricSummary {
    pub(crate) fn new(capture: &Capture) -> MetricSummary {
        let mut notables = Vec::new();
        for rule in RULES {
            for series in all(capture, rule.table, rule.column) {
                rule.apply(&series, capture.header.host.cpus, &mut notables);
            }
        }
        short_memory(capture, &mut notables);
        notables.order_by(|a, b| (a.from, a.kind, &a.key).cmp(&(b.from, b.kind, &b.key)));
        notables.truncate(NOTABLES);
        let trends = GROWTH
            .iter()
            .flat_map(|growth| {
                all(capture, growth.table, growth.column)
                    .into_iter()
                    .filter_map(|series| growth.trend(&series))
            })
            .take(NOTABLES)
            .collect();
        MetricSummary { notables, trends }
    }
}

struct Rule {
    kind: NotableKind,
    table: &'static str,
    column: &'static str,
    /// At least this much is notable.
    from: f64,
    /// `from` is a share of the machine's CPUs and the readings are in cores.
    of_cpus: bool,
    words: &'static str,
}

const fn rule(
    kind: NotableKind,
    table: &'static str,
    column: &'static str,
    from: f64,
    words: &'static str,
) -> Rule {
    Rule { kind, table, column, from, of_cpus: false, words }
}

/// Thresholds are where an administrator would start to look, not where something is certainly wrong.
const RULES: &[Rule] = &[
    rule(NotableKind::CpuSaturated, "system", "cpu.busy", 0.95, "all CPUs busy"),
    Rule {
        kind: NotableKind::Steal,
        table: "system",
        column: "cpu.steal",
        from: 0.05,
        of_cpus: true,
        words: "CPUs taken by the hypervisor",
    },
    rule(NotableKind::CpuPressure, "system", "pressure.cpu.some", 0.4, "tasks waited for a CPU"),
    rule(NotableKind::MemoryPressure, "system", "pressure.memory.some", 0.1, "tasks waited for memory"),
    rule(NotableKind::IoPressure, "system", "pressure.io.some", 0.4, "tasks waited for disks"),
    rule(NotableKind::Swapping, "system", "swap.in", 1e6, "pages read back from swap"),
    rule(NotableKind::Swapping, "system", "swap.out", 1e6, "pages written to swap"),
    rule(NotableKind::Throttled, "cgroups", "throttled.ratio", 0.1, "CPU quota of the cgroup used up"),
    rule(
        NotableKind::MemoryPressure,
        "cgroups",
        "pressure.memory.some",
        0.1,
        "tasks of the cgroup waited for memory",
    ),
    rule(NotableKind::DiskBusy, "disks", "busy", 0.9, "disk busy"),
];

/// Fewer readings in a row than this are noise.
const READINGS: usize = 2;

impl Rule {
    fn apply(&self, series: &Series, cpus: u32, out: &mut Vec<Notable>) {
        let from = if self.of_cpus { self.from * f64::from(cpus.max(1)) } else { self.from };
        for run in series.runs(|value| value >= from) {
            if run.values.len() < READINGS && series.points.len() > READINGS {
                continue;
            }
            let worst = run.values.iter().copied().fold(f64::MIN, f64::max);
            let mean = mean(&run.values);
            let (column, key) = (self.column.to_owned(), series.key.clone());
            let of = if key.is_empty() { String::new() } else { format!(" ({key})") };
            let value = self.value_words(mean);
            out.push(Notable {
                kind: self.kind,
                from: run.from,
                to: run.to,
                table: self.table.to_owned(),
                column,
                key,
                worst,
                mean,
                text: format!("{}{of}: {value} on average", self.words),
            });
        }
    }

    fn value_words(&self, value: f64) -> String {
        if self.of_cpus {
            format!("{value:.1} cores")
        } else if self.kind == NotableKind::Swapping {
            format!("{:.1} MB/s", value / 1e6)
        } else {
            format!("{:.0} %", value * 100.0)
        }
    }
}

/// Less than a twentieth of memory available.
fn short_memory(capture: &Capture, out: &mut Vec<Notable>) {
    let (Some(available), Some(total)) =
        (one(capture, "system", "memory.available", ""), one(capture, "system", "memory.total", ""))
    else {
        return;
    };
    let total = total.points.iter().map(|point| point.1).fold(0.0, f64::max);
    if total <= 0.0 {
        return;
    }
    for run in available.runs(|value| value < total * 0.05) {
        let worst = run.values.iter().copied().fold(f64::MAX, f64::min);
        out.push(Notable {
            kind: NotableKind::MemoryShort,
            from: run.from,
            to: run.to,
            table: "system".to_owned(),
            column: "memory.available".to_owned(),
            key: String::new(),
            worst,
            mean: mean(&run.values),
            text: format!("only {:.0} MB of memory available", worst / 1e6),
        });
    }
}

struct Growth {
    table: &'static str,
    column: &'static str,
    /// Growth over the window below this is not noteworthy.
    least: f64,
    /// Nor is growth by a smaller share of the first reading.
    least_share: f64,
}

const fn growth(table: &'static str, column: &'static str, least: f64, least_share: f64) -> Growth {
    Growth { table, column, least, least_share }
}

const GROWTH: &[Growth] = &[
    growth("processes", "memory.rss", 8e6, 0.1),
    growth("processes", "memory.anon", 8e6, 0.1),
    growth("processes", "threads", 8.0, 0.3),
    growth("processes", "fds", 16.0, 0.2),
    growth("cgroups", "memory.anon", 16e6, 0.1),
];

/// With fewer readings nothing can be said of how a recording ends.
const END_READINGS: usize = 8;
/// The end of a recording: one of so many parts of its readings.
const END: usize = 6;
/// Bytes that must have been expected at the end: less comes in steps.
const EXPECTED: f64 = 128e3;
/// Of the growth before, what grows on has at least this share at the end.
const GOES_ON: f64 = 0.1;

impl Trend {
    /// Whether these bytes, which rose, do not rise any more in the last part of the recording: what fills to its bound may do so until shortly
    /// before the end. Managed heaps grow in steps, and rest between them.
    pub(crate) fn rests(&self, capture: &Capture) -> bool {
        one(capture, &self.table, &self.column, &self.key).is_some_and(|series| ends_flat(&series.points))
    }
}

fn ends_flat(points: &[(MonoNanos, f64)]) -> bool {
    let last = (points.len() / END).max(2);
    let Some(from) = points.len().checked_sub(last + 1).filter(|_| points.len() >= END_READINGS) else {
        return false;
    };
    let (Some(first), Some(middle), Some(end)) = (points.first(), points.get(from), points.last()) else {
        return false;
    };
    let seconds = |from: MonoNanos, to: MonoNanos| to.since(from).as_secs_f64().max(1e-3);
    let expected = (middle.1 - first.1) / seconds(first.0, middle.0) * seconds(middle.0, end.0);
    expected >= EXPECTED && end.1 - middle.1 < expected * GOES_ON
}

/// With fewer readings nothing can be said about a trend.
const TREND_READINGS: usize = 5;

impl Growth {
    fn trend(&self, series: &Series) -> Option<Trend> {
        let (first, last) = (series.points.first()?.1, series.points.last()?.1);
        if series.points.len() < TREND_READINGS {
            return None;
        }
        let line = Line::fit(&series.points)?;
        let grown = last - first;
        let thirds = series.thirds();
        // A start-up that levels out is no growth: the last third must still rise.
        let still = thirds.1 - thirds.0 > 0.0 && thirds.2 - thirds.1 > 0.25 * (thirds.1 - thirds.0);
        let steady = grown > 0.0 && line.fit >= 0.7 && still;
        let growing = steady && grown >= self.least && grown >= first.max(0.0) * self.least_share;
        Some(Trend {
            table: self.table.to_owned(),
            column: self.column.to_owned(),
            key: series.key.clone(),
            first,
            last,
            per_minute: line.per_second * 60.0,
            fit: line.fit,
            steady,
            growing,
        })
    }
}

#[cfg(test)]
mod tests;
