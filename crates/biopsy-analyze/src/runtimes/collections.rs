//! Collections of garbage: how many, how long everything stood still, and how the heap went.

use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Collection, CollectionReason, RuntimeTrace};
use biopsy_model::{MonoNanos, Nanos};

/// Collections in brief.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CollectionSummary {
    /// All of them.
    pub total: u64,
    /// Those that times are known of; fewer than `total` where the recorder had to bound its list.
    pub kept: u64,
    /// By oldest generation collected, and whether in the background.
    pub generations: Vec<GenerationRow>,
    /// By reason, in words, most first.
    pub reasons: Vec<(String, u64)>,
    /// All pauses together, of those kept.
    pub paused: Nanos,
    /// `paused` as share of the time heard, 0 to 1.
    pub pause_share: f64,
    /// The longest pause, and when its collection began.
    pub longest: Option<(Nanos, MonoNanos)>,
    /// Pinned objects met by a collection: the middle of all collections that reported it.
    pub pinned: Option<u32>,
    /// Heap size after the first and after the last collection that reported it, with their times.
    pub heap: Option<[(MonoNanos, u64); 2]>,
    /// The same by generation 0, 1, 2, large, pinned.
    pub heap_parts: Option<[[u64; 5]; 2]>,
    /// Smallest heap in the first, middle and last third of the collections: growth that no collection takes back.
    /// `None`: too few collections.
    pub floor: Option<[u64; 3]>,
    /// Asked for by the application.
    pub induced: u64,
}

/// Collections of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GenerationRow {
    /// Oldest generation collected.
    pub generation: u8,
    /// In the background.
    pub background: bool,
    /// How many.
    pub count: u64,
    /// Their pauses together.
    pub paused: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// Bytes that survived them, together.
    pub promoted: u64,
}

impl CollectionSummary {
    pub(super) fn new(trace: &RuntimeTrace, seconds: f64) -> CollectionSummary {
        let items = &trace.collections.items;
        let mut summary = CollectionSummary {
            total: trace.collections.total.max(items.len() as u64),
            kept: items.len() as u64,
            induced: items.iter().filter(|item| item.reason == CollectionReason::Induced).count() as u64,
            ..CollectionSummary::default()
        };
        for item in items {
            summary.add(item);
        }
        summary.generations.order_by_key(|row| (row.generation, row.background));
        super::bounded::most_first(&mut summary.reasons);
        if seconds > 0.0 {
            summary.pause_share = (summary.paused.as_secs_f64() / seconds).clamp(0.0, 1.0);
        }
        let mut pinned: Vec<u32> = items.iter().filter_map(|item| item.pinned).collect();
        pinned.sort_unstable();
        summary.pinned = pinned.get(pinned.len() / 2).copied();
        let sizes: Vec<(MonoNanos, [u64; 5])> = items
            .iter()
            .filter_map(|item| Some((item.end.unwrap_or(item.start), item.sizes_after?)))
            .collect();
        if let (Some(first), Some(last)) = (sizes.first(), sizes.last()) {
            summary.heap = Some([(first.0, total(&first.1)), (last.0, total(&last.1))]);
            summary.heap_parts = Some([first.1, last.1]);
        }
        let third = sizes.len() / 3;
        if third >= 2 {
            let last = sizes.len() - third;
            let least = |part: &[(MonoNanos, [u64; 5])]| part.iter().map(|(_, sizes)| total(sizes)).min();
            summary.floor = match (
                sizes.get(..third).and_then(least),
                sizes.get(third..last).and_then(least),
                sizes.get(last..).and_then(least),
            ) {
                (Some(first), Some(middle), Some(last)) => Some([first, middle, last]),
                _ => None,
            };
        }
        summary
    }

    fn add(&mut self, item: &Collection) {
        self.paused = self.paused + item.pause;
        if self.longest.is_none_or(|(longest, _)| item.longest_pause > longest) {
            self.longest = Some((item.longest_pause, item.start));
        }
        let same =
            |row: &&mut GenerationRow| (row.generation, row.background) == (item.generation, item.background);
        let row = match self.generations.iter_mut().find(same) {
            Some(row) => row,
            None => {
                self.generations.push(GenerationRow {
                    generation: item.generation,
                    background: item.background,
                    ..GenerationRow::default()
                });
                let last = self.generations.len() - 1;
                &mut self.generations[last]
            }
        };
        row.count += 1;
        row.paused = row.paused + item.pause;
        row.longest = row.longest.max(item.longest_pause);
        row.promoted = row.promoted.saturating_add(item.promoted.unwrap_or(0));
        super::bounded::count_word(&mut self.reasons, words(&item.reason));
    }
}

/// Bytes of all generations.
pub(crate) fn total(sizes: &[u64; 5]) -> u64 {
    sizes.iter().fold(0, |sum, &part| sum.saturating_add(part))
}

/// Why a collection was made, for people.
#[must_use]
pub fn words(reason: &CollectionReason) -> String {
    match reason {
        CollectionReason::SmallObjects => "small objects allocated".to_owned(),
        CollectionReason::Induced => "asked for by the application".to_owned(),
        CollectionReason::LowMemory => "low memory".to_owned(),
        CollectionReason::LargeObjects => "large objects allocated".to_owned(),
        CollectionReason::Other(words) => super::bounded::cut(words),
    }
}
