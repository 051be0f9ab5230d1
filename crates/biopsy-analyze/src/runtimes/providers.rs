//! Who spoke, and how much: what other readers of the same stream count too.

use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::RuntimeTrace;
use rustc_hash::FxHashMap;

use super::bounded::{cut, first};

/// The events of one provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProviderRow {
    /// `Microsoft-Windows-DotNETRuntime`, for example.
    pub provider: String,
    /// All its events.
    pub count: u64,
    /// By name and id, `GCStart_V2 (1)`, most first.
    pub events: Vec<(String, u64)>,
}

/// Providers, most events first.
pub(super) fn rows(trace: &RuntimeTrace) -> Vec<ProviderRow> {
    let mut by_provider: FxHashMap<&str, (u64, FxHashMap<&str, u64>)> = FxHashMap::default();
    for row in &trace.providers {
        let (count, events) = by_provider.entry(&row.provider).or_default();
        *count = count.saturating_add(row.count);
        // One event may be described more than once in a stream.
        let event = events.entry(&row.event).or_default();
        *event = event.saturating_add(row.count);
    }
    let mut rows: Vec<_> = by_provider
        .into_iter()
        .map(|(provider, (count, events))| (provider, count, events.into_iter().collect::<Vec<_>>()))
        .collect();
    rows.order_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    first(rows)
        .into_iter()
        .map(|(provider, count, mut events)| {
            events.order_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            let events = first(events).into_iter().map(|(event, count)| (cut(event), count)).collect();
            ProviderRow { provider: cut(provider), count, events }
        })
        .collect()
}
