//! Readings of `EventCounters` and of `System.Diagnostics.Metrics`, as one table.

use super::limits::Limits;
use crate::nettrace::{Text, Value, Values};
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::order::Order as _;
use biopsy_model::{MonoNanos, Pid};

/// Readings as they come.
#[derive(Debug)]
pub(super) struct Counters {
    rows: Vec<MetricRow>,
    pid: String,
    limits: Limits,
    /// Readings above the limit.
    pub(super) refused: u64,
}

/// What one reading tells.
#[derive(Default)]
struct Reading {
    value: Option<f64>,
    per_second: Option<f64>,
    least: Option<f64>,
    most: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    count: Option<f64>,
}

impl Counters {
    pub(super) fn new(pid: Pid, limits: &Limits) -> Self {
        Self { rows: Vec::new(), pid: pid.to_string(), limits: *limits, refused: 0 }
    }

    /// The process is known now.
    pub(super) fn set_pid(&mut self, pid: Pid) {
        self.pid = pid.to_string();
    }

    /// `EventCounters` of any event source: one object, wherever in the payload it lies.
    pub(super) fn event_counters(&mut self, time: MonoNanos, provider: &str, values: Values<'_>) {
        let mut open: Vec<Values<'_>> = vec![values];
        // `{"": {"Payload": {...}}}` since .NET Core 3.0.
        for _ in 0..8 {
            let Some(fields) = open.pop() else { return };
            if fields.get("Name").is_some() {
                self.event_counter(time, provider, fields);
                return;
            }
            open.extend(fields.filter_map(|(_, value)| match value {
                Value::Object(inside) => Some(inside),
                _ => None,
            }));
        }
    }

    fn event_counter(&mut self, time: MonoNanos, provider: &str, values: Values<'_>) {
        let (mut name, mut unit, mut metadata) = (Text::default(), Text::default(), Text::default());
        let mut interval = None;
        let mut increment = None;
        let mut reading = Reading::default();
        for (field, value) in values {
            match field {
                "Name" => name = value.text().unwrap_or_default(),
                "DisplayUnits" => unit = value.text().unwrap_or_default(),
                "Metadata" => metadata = value.text().unwrap_or_default(),
                "Mean" => reading.value = value.number(),
                "Min" => reading.least = value.number(),
                "Max" => reading.most = value.number(),
                "Count" => reading.count = value.number(),
                "Increment" => increment = value.number(),
                "IntervalSec" => interval = value.number(),
                _ => (),
            }
        }
        if let Some(increment) = increment {
            // Most `*-rate` counters are shown per second, though they tell what came in the interval.
            reading = Reading { value: Some(increment), ..Reading::default() };
            reading.per_second = interval.filter(|seconds| *seconds > 0.0).map(|seconds| increment / seconds);
        } else if reading.count == Some(0.0) {
            // Nothing was measured in the interval: least and most are infinite then.
            (reading.value, reading.least, reading.most) = (None, None, None);
        }
        let limit = self.limits.text;
        let mut key = name.to_string_of(limit);
        if !metadata.is_empty() {
            key = format!("{key}{{{}}}", metadata.to_string_of(limit));
        }
        self.push(time, provider.to_owned(), key, unit.to_string_of(limit), reading);
    }

    /// An event of `System.Diagnostics.Metrics`; its fields tell what it is, in all versions.
    pub(super) fn metric(&mut self, time: MonoNanos, event: &str, values: Values<'_>) {
        if !event.ends_with("ValuePublished") {
            return;
        }
        let limit = self.limits.text;
        let (mut meter, mut instrument) = (Text::default(), Text::default());
        let (mut unit, mut tags) = (Text::default(), Text::default());
        let mut rate = None;
        let mut reading = Reading::default();
        for (field, value) in values {
            // Numbers come as invariant text; an observable instrument that threw gives an empty one.
            let number = || match &value {
                Value::Text(text) => text.to_string_of(limit).parse::<f64>().ok().filter(|n| n.is_finite()),
                other => other.number(),
            };
            match field {
                "meterName" => meter = value.text().unwrap_or_default(),
                "instrumentName" => instrument = value.text().unwrap_or_default(),
                "unit" => unit = value.text().unwrap_or_default(),
                "tags" => tags = value.text().unwrap_or_default(),
                "rate" => rate = number(),
                "value" | "lastValue" => reading.value = number(),
                "count" => reading.count = number(),
                "sum" => reading.value = number(),
                "quantiles" => {
                    let text = value.text().unwrap_or_default().to_string_of(limit);
                    for (quantile, found) in text.split(';').filter_map(|part| part.split_once('=')) {
                        let found = found.trim().parse().ok();
                        match quantile.trim() {
                            "0.5" => reading.p50 = found,
                            "0.95" => reading.p95 = found,
                            "0.99" => reading.p99 = found,
                            _ => (),
                        }
                    }
                }
                _ => (),
            }
        }
        if event.contains("Counter") {
            // What came since the last reading; the interval is the session's, one second unless asked otherwise.
            reading.per_second = rate;
        }
        let mut key = instrument.to_string_of(limit);
        if !tags.is_empty() {
            key = format!("{key}{{{}}}", tags.to_string_of(limit));
        }
        self.push(time, meter.to_string_of(limit), key, unit.to_string_of(limit), reading);
    }

    fn values(&self, provider: &str, counter: &str) -> impl Iterator<Item = f64> {
        let its = move |row: &&MetricRow| {
            row.keys.get(1).is_some_and(|key| key == provider)
                && row.keys.get(2).is_some_and(|key| key == counter)
        };
        self.rows.iter().filter(its).filter_map(|row| *row.values.first()?)
    }

    /// All readings of a counter together.
    pub(super) fn sum(&self, provider: &str, counter: &str) -> f64 {
        self.values(provider, counter).sum()
    }

    /// By how much a counter that only rises has risen from its first reading to its last.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    pub(super) fn rise(&self, provider: &str, counter: &str) -> u64 {
        let first = self.values(provider, counter).next().unwrap_or(0.0);
        (self.values(provider, counter).last().unwrap_or(0.0) - first).max(0.0) as u64
    }

    fn push(&mut self, time: MonoNanos, provider: String, name: String, unit: String, reading: Reading) {
        if self.rows.len() >= self.limits.readings {
            self.refused += 1;
            return;
        }
        let Reading { value, per_second, least, most, p50, p95, p99, count } = reading;
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        self.rows.push(MetricRow {
            time,
            keys: vec![self.pid.clone(), provider, name, unit],
            values: [value, per_second, least, most, p50, p95, p99, count].map(finite).to_vec(),
        });
    }

    pub(super) fn finish(mut self, redact: &mut dyn FnMut(&str) -> String) -> Vec<MetricTable> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        // Tags are texts of the application; names are few and come again with each reading.
        let mut seen: rustc_hash::FxHashMap<String, String> = rustc_hash::FxHashMap::default();
        for row in &mut self.rows {
            for key in row.keys.iter_mut().skip(1) {
                let redacted = match seen.get(key.as_str()) {
                    Some(known) => known.clone(),
                    None => {
                        let redacted = redact(key);
                        seen.insert(key.clone(), redacted.clone());
                        redacted
                    }
                };
                *key = redacted;
            }
        }
        self.rows.order_by_key(|row| row.time);
        let column = |name: &str, unit| Column { name: name.to_owned(), unit };
        vec![MetricTable {
            name: "counters".to_owned(),
            keys: ["pid", "provider", "counter", "unit"].map(str::to_owned).to_vec(),
            columns: vec![
                column("value", Unit::Count),
                column("per_second", Unit::PerSecond),
                column("least", Unit::Count),
                column("most", Unit::Count),
                column("p50", Unit::Count),
                column("p95", Unit::Count),
                column("p99", Unit::Count),
                column("measured", Unit::Count),
            ],
            rows: self.rows,
        }]
    }
}
