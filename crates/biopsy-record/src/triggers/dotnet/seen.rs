//! What the events of a process have shown, for the triggers that look at it.

use std::time::{Duration, Instant};

use biopsy_bytes::Cursor;
use biopsy_dotnet::nettrace::{Event, Limits, Reader, Text, Value};
use rustc_hash::FxHashMap;

use super::condition::{DotNetCondition, DotNetQuantity};
use crate::dotnet::{HOSTING, METRICS, RUNTIME};

/// Requests in flight that are kept in mind.
const MOST_REQUESTS: usize = 100_000;
/// Counters that are kept in mind.
const MOST_COUNTERS: usize = 2_000;
/// A counter that was not heard of for so long has no value.
const STALE: Duration = Duration::from_secs(10);
/// Characters of a message.
const MESSAGE: usize = 4_000;

/// Something that happened, for one trigger.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Hit {
    /// In words.
    pub(crate) reason: String,
    pub(crate) value: Option<f64>,
}

/// What was seen. Not redacted: it stays in memory, and what is said of it is masked where it is written.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    conditions: Vec<DotNetCondition>,
    /// The first thing that happened for each condition since it was asked for.
    hits: Vec<Option<Hit>>,
    heap: Option<[u64; 5]>,
    counters: FxHashMap<(String, String), (f64, Instant)>,
    requests: FxHashMap<[u8; 16], (Instant, String, bool)>,
}

impl Seen {
    pub(crate) fn new(conditions: Vec<DotNetCondition>) -> Self {
        Self { hits: vec![None; conditions.len()], conditions, ..Self::default() }
    }

    /// What happened for a condition since this was last asked.
    pub(crate) fn take_hit(&mut self, condition: usize) -> Option<Hit> {
        self.hits.get_mut(condition)?.take()
    }

    #[cfg(test)]
    fn has_hit(&self, condition: usize) -> bool {
        self.hits.get(condition).is_some_and(Option::is_some)
    }

    /// The value of a quantity that is a state.
    #[expect(clippy::cast_precision_loss, reason = "sizes of heaps are below 2^53")]
    pub(crate) fn value(&self, quantity: &DotNetQuantity, now: Instant) -> Option<f64> {
        match quantity {
            DotNetQuantity::Heap => {
                let told = self.heap.map(|sizes| sizes.iter().fold(0.0, |sum, size| sum + *size as f64));
                // Before the first collection, and while the runtime still holds back what it has to say of one. In MB.
                told.or_else(|| Some(self.counter(Some("System.Runtime"), "gc-heap-size", now)? * 1e6))
            }
            DotNetQuantity::Generation(number) => {
                const COUNTERS: [&str; 5] =
                    ["gen-0-size", "gen-1-size", "gen-2-size", "loh-size", "poh-size"];
                let number = usize::from(*number);
                let told = self.heap.and_then(|sizes| sizes.get(number).map(|size| *size as f64));
                told.or_else(|| self.counter(Some("System.Runtime"), COUNTERS.get(number)?, now))
            }
            DotNetQuantity::PoolQueue => self.counter(Some("System.Runtime"), "threadpool-queue-length", now),
            DotNetQuantity::Counter { source, name } => self.counter(source.as_deref(), name, now),
            DotNetQuantity::Request | DotNetQuantity::Status => None,
        }
    }

    fn counter(&self, source: Option<&str>, name: &str, now: Instant) -> Option<f64> {
        let is_meant = |(of, is): &(String, String)| {
            is.eq_ignore_ascii_case(name) && source.is_none_or(|source| of.eq_ignore_ascii_case(source))
        };
        let fresh = |at: Instant| now.saturating_duration_since(at) < STALE;
        let values = self.counters.iter().filter(|(key, (_, at))| is_meant(key) && fresh(*at));
        // Of instruments with several series, the largest.
        values.map(|(_, (value, _))| *value).reduce(f64::max)
    }

    /// Takes an event.
    pub(crate) fn event(&mut self, event: &Event<'_>, now: Instant) {
        let metadata = event.metadata;
        match (metadata.provider.as_str(), metadata.id, metadata.name.as_str()) {
            (RUNTIME, 80, _) => self.exception(event.payload),
            (RUNTIME, 4, _) => self.heap_stats(event.payload),
            (HOSTING, 3, _) => {
                let text = |name| event.values().get(name).and_then(|value| value.text());
                let words =
                    [text("method"), text("path")].into_iter().flatten().map(|text| text.to_string_of(200));
                self.request_started(event.activity, words.collect::<Vec<_>>().join(" "), now);
            }
            (HOSTING, 4, _) => self.request_ended(&event.activity, now),
            (_, _, "EventCounters") => self.event_counter(&metadata.provider, event, now),
            (METRICS, _, name) => self.instrument(name, event, now),
            ("Microsoft-Diagnostics-DiagnosticSource", _, name) if name.starts_with("Activity1") => {
                self.answered(event);
            }
            _ => {}
        }
    }

    /// Requests that take long are seen while they do.
    pub(crate) fn tick(&mut self, now: Instant) {
        let slow: Vec<_> = bounds(&self.conditions, &DotNetQuantity::Request);
        if slow.is_empty() {
            return;
        }
        for (started, what, told) in self.requests.values_mut().filter(|(_, _, told)| !*told) {
            let seconds = now.saturating_duration_since(*started).as_secs_f64();
            for (at, holds) in &slow {
                if holds(seconds)
                    && let Some(slot @ None) = self.hits.get_mut(*at)
                {
                    *slot = Some(Hit {
                        reason: format!("`{what}` has no answer after {seconds:.1} s"),
                        value: Some(seconds),
                    });
                    *told = true;
                }
            }
        }
    }

    fn exception(&mut self, payload: &[u8]) {
        let mut cursor = Cursor::new(payload);
        let Ok(type_name) = Text::read(&mut cursor, "ExceptionType") else { return };
        let type_name = type_name.to_string_of(500);
        let message = Text::read(&mut cursor, "ExceptionMessage").map(|text| text.to_string_of(MESSAGE));
        let message = message.unwrap_or_default();
        for (condition, slot) in self.conditions.iter().zip(&mut self.hits) {
            if slot.is_none() && condition.is_exception(&type_name, &message) {
                *slot = Some(Hit { reason: format!("{type_name}: {message}"), value: None });
            }
        }
    }

    /// `GCHeapStats`: for generations 0 to 3 size and what was promoted, then finalisation, pinning, handles; since version
    /// 2, behind the runtime's number, the pinned objects.
    fn heap_stats(&mut self, payload: &[u8]) {
        let mut cursor = Cursor::new(payload);
        let mut sizes = [0; 5];
        for size in sizes.iter_mut().take(4) {
            let (Ok(bytes), Ok(_)) = (cursor.u64("GenerationSize"), cursor.u64("TotalPromotedSize")) else {
                return;
            };
            *size = bytes;
        }
        // Finalization promoted size and count, pinned objects, sink blocks, handles, runtime.
        if cursor.skip("counts", 8 + 8 + 4 + 4 + 4 + 2).is_ok()
            && let (Ok(bytes), Some(pinned)) = (cursor.u64("GenerationSize4"), sizes.last_mut())
        {
            *pinned = bytes;
        }
        self.heap = Some(sizes);
    }

    fn request_started(&mut self, activity: [u8; 16], what: String, now: Instant) {
        if activity != [0; 16] && self.requests.len() < MOST_REQUESTS {
            self.requests.insert(activity, (now, what, false));
        }
    }

    fn request_ended(&mut self, activity: &[u8; 16], now: Instant) {
        let Some((started, what, told)) = self.requests.remove(activity) else { return };
        let seconds = now.saturating_duration_since(started).as_secs_f64();
        for (at, holds) in bounds(&self.conditions, &DotNetQuantity::Request) {
            if !told
                && holds(seconds)
                && let Some(slot @ None) = self.hits.get_mut(at)
            {
                *slot = Some(Hit { reason: format!("`{what}` took {seconds:.1} s"), value: Some(seconds) });
            }
        }
    }

    /// The end of a request by its DiagnosticSource, with its status.
    fn answered(&mut self, event: &Event<'_>) {
        let mut status = None;
        let mut path = String::new();
        let Some(Value::Array(arguments)) = event.values().get("Arguments") else { return };
        for argument in arguments {
            let Value::Object(pair) = argument else { return };
            let text =
                |name: &str| pair.get(name).and_then(|value| value.text()).map(|text| text.to_string_of(500));
            match text("Key").as_deref() {
                Some("StatusCode") => status = text("Value").and_then(|value| value.parse::<f64>().ok()),
                Some("Path") => path = text("Value").unwrap_or_default(),
                _ => {}
            }
        }
        let Some(status) = status else { return };
        self.answer(status, &path);
    }

    fn answer(&mut self, status: f64, path: &str) {
        for (at, holds) in bounds(&self.conditions, &DotNetQuantity::Status) {
            if holds(status)
                && let Some(slot @ None) = self.hits.get_mut(at)
            {
                *slot = Some(Hit {
                    reason: format!("`{path}` was answered with {status:.0}"),
                    value: Some(status),
                });
            }
        }
    }

    /// `{ Payload: { Name, Mean | Increment, ... } }`.
    fn event_counter(&mut self, source: &str, event: &Event<'_>, now: Instant) {
        let Some((_, Value::Object(outer))) = event.values().next() else { return };
        // The payload is an object in an object.
        let inner = match outer.clone().next() {
            Some((_, Value::Object(inner))) => inner,
            _ => outer,
        };
        let Some(name) = inner.get("Name").and_then(|value| value.text()) else { return };
        let value = ["Mean", "Increment"].iter().find_map(|field| inner.get(field)?.number());
        if let Some(value) = value {
            self.set_counter(source.to_owned(), name.to_string_of(300), value, now);
        }
    }

    /// Events of `System.Diagnostics.Metrics`, whose values are texts.
    fn instrument(&mut self, kind: &str, event: &Event<'_>, now: Instant) {
        let values = event.values();
        let text =
            |name: &str| values.get(name).and_then(|value| value.text()).map(|text| text.to_string_of(300));
        let value = match kind {
            "CounterRateValuePublished" | "UpDownCounterRateValuePublished" => {
                // The sum, where it is told; the increment otherwise.
                text("value").filter(|value| !value.is_empty()).or_else(|| text("rate"))
            }
            "GaugeValuePublished" => text("lastValue"),
            "HistogramValuePublished" => text("quantiles").and_then(|all| median(&all).map(str::to_owned)),
            _ => return,
        };
        let (Some(source), Some(name)) = (text("meterName"), text("instrumentName")) else { return };
        let Some(value) = value.and_then(|value| value.parse().ok()) else { return };
        self.set_counter(source, name, value, now);
    }

    fn set_counter(&mut self, source: String, name: String, value: f64, now: Instant) {
        let key = (source, name);
        if let Some(known) = self.counters.get_mut(&key) {
            // Of series that are told in the same second, the largest counts.
            let same = now.saturating_duration_since(known.1) < Duration::from_millis(500);
            *known = (if same { known.0.max(value) } else { value }, now);
        } else if self.counters.len() < MOST_COUNTERS {
            self.counters.insert(key, (value, now));
        }
    }
}

/// `0.5=3.2;0.95=7`: the median.
fn median(quantiles: &str) -> Option<&str> {
    quantiles.split(';').find_map(|one| one.strip_prefix("0.5="))
}

type Holds = Box<dyn Fn(f64) -> bool>;

/// The conditions of a quantity: their place, and whether they hold.
fn bounds(conditions: &[DotNetCondition], wanted: &DotNetQuantity) -> Vec<(usize, Holds)> {
    let mut found: Vec<(usize, Holds)> = Vec::new();
    for (at, condition) in conditions.iter().enumerate() {
        if let DotNetCondition::Bound { quantity, comparison, bound, .. } = condition
            && quantity == wanted
        {
            let (comparison, bound) = (*comparison, *bound);
            found.push((at, Box::new(move |value| comparison.holds(value, bound))));
        }
    }
    found
}

/// Reads any bytes as payloads of the events that are read by hand, and as a stream of events: for fuzzing. Never panics.
pub(in super::super) fn fuzz(bytes: &[u8]) {
    const TRIGGERS: [&str; 6] = [
        "exception:Exception~o",
        "gc-heap>1",
        "threadpool-queue>1",
        "request>1s",
        "request-status>=500",
        "counter:cpu-usage>1",
    ];
    let conditions = TRIGGERS.into_iter().filter_map(super::parse).filter_map(Result::ok);
    let mut seen = Seen::new(conditions.collect());
    let now = Instant::now();
    seen.exception(bytes);
    seen.heap_stats(bytes);
    let Ok(mut reader) = Reader::new(bytes, &Limits::default()) else { return };
    while let Ok(Some(event)) = reader.next_event() {
        seen.event(&event, now);
    }
    seen.tick(now);
    assert!(
        seen.requests.len() <= MOST_REQUESTS && seen.counters.len() <= MOST_COUNTERS,
        "within the limits"
    );
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn seen(triggers: &[&str]) -> Seen {
        Seen::new(triggers.iter().map(|text| parse(text).unwrap().unwrap()).collect())
    }

    fn wide(texts: &[&str]) -> Vec<u8> {
        texts.iter().flat_map(|text| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes)).collect()
    }

    #[test]
    fn the_first_exception_that_is_meant_is_kept() {
        let mut seen = seen(&["exception:FormatException~port", "exception:IOException"]);
        for (type_name, message) in [
            ("System.FormatException", "bad date"),
            ("System.FormatException", "bad port 1"),
            ("System.FormatException", "bad port 2"),
        ] {
            seen.exception(&wide(&[type_name, message]));
        }
        assert!(seen.has_hit(0) && !seen.has_hit(1));
        assert_eq!(seen.take_hit(0).unwrap().reason, "System.FormatException: bad port 1");
        assert_eq!(seen.take_hit(0), None);
        seen.exception(&[1, 2, 3]);
    }

    #[test]
    fn sizes_of_generations() {
        let mut payload = Vec::new();
        for generation in 0..4_u64 {
            payload.extend((generation * 100).to_le_bytes());
            payload.extend(7_u64.to_le_bytes());
        }
        let mut seen = seen(&["gc-heap>1"]);
        let value = |seen: &Seen, quantity| seen.value(&quantity, Instant::now());
        assert_eq!(value(&seen, DotNetQuantity::Heap), None);
        seen.heap_stats(&payload);
        assert_eq!(value(&seen, DotNetQuantity::Heap), Some(600.0));
        payload.extend([0; 30]);
        payload.extend(50_u64.to_le_bytes());
        seen.heap_stats(&payload);
        assert_eq!(value(&seen, DotNetQuantity::Heap), Some(650.0));
        assert_eq!(value(&seen, DotNetQuantity::Generation(2)), Some(200.0));
        assert_eq!(value(&seen, DotNetQuantity::Generation(4)), Some(50.0));
    }

    #[test]
    fn slow_requests_are_seen_once_while_they_run_or_when_they_end() {
        let mut seen = seen(&["request>10s", "request>1s"]);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        seen.request_started([1; 16], "GET /slow".to_owned(), start);
        seen.request_started([2; 16], "GET /quick".to_owned(), start);
        seen.request_ended(&[2; 16], start);
        seen.tick(start);
        assert!(!seen.has_hit(0) && !seen.has_hit(1));
        seen.tick(after(11));
        assert_eq!(seen.take_hit(0).unwrap().reason, "`GET /slow` has no answer after 11.0 s");
        assert_eq!(seen.take_hit(1).unwrap().value, Some(11.0));
        seen.tick(after(12));
        seen.request_ended(&[1; 16], after(13));
        assert!(!seen.has_hit(0) && !seen.has_hit(1), "one request, one event");
        seen.request_started([3; 16], "GET /x".to_owned(), start);
        seen.request_ended(&[3; 16], after(2));
        assert!(!seen.has_hit(0));
        assert_eq!(seen.take_hit(1).unwrap().reason, "`GET /x` took 2.0 s");
    }

    #[test]
    fn answers_by_their_status() {
        let mut seen = seen(&["request-status>=500"]);
        seen.answer(404.0, "/a");
        seen.answer(503.0, "/b");
        assert_eq!(seen.take_hit(0).unwrap().reason, "`/b` was answered with 503");
        assert_eq!(seen.take_hit(0), None);
    }

    #[test]
    fn counters_by_name_or_by_source_and_name_while_they_are_fresh() {
        let mut seen = seen(&[]);
        let now = Instant::now();
        seen.set_counter("A".to_owned(), "queue".to_owned(), 5.0, now);
        seen.set_counter("B".to_owned(), "queue".to_owned(), 7.0, now);
        assert_eq!(seen.counter(None, "Queue", now), Some(7.0));
        assert_eq!(seen.counter(Some("a"), "queue", now), Some(5.0));
        assert_eq!(seen.counter(Some("C"), "queue", now), None);
        assert_eq!(seen.counter(None, "queue", now + STALE), None);
        assert_eq!(median("0.5=3.25;0.95=7;0.99=9"), Some("3.25"));
    }
}
