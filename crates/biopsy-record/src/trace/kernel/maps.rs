//! The maps that the programs share with each other and with the recorder.

use std::io;

use biopsy_sys::bpf::{Map, MapKind, SharedBytes};

use super::layout::{ThreadTimes, config, hint, language, language_place, sample, slot};

/// `BPF_RB_NO_WAKEUP`: the reader polls, the target pays for no wake-up.
pub(super) const NO_WAKEUP: i32 = 1;

/// Flag of a target: its children become targets.
pub(super) const FOLLOW_CHILDREN: u32 = 1;

/// Bytes of [`Maps::maybe`]; a power of two, so that a word of it is one of eight processes.
pub(super) const MAYBE_SLOTS: i32 = 4096;

/// Processes with an interpreter.
const LANGUAGES: u32 = 4096;

/// The maps that the programs share.
#[derive(Debug)]
pub(super) struct Maps {
    /// tgid → flags.
    pub(super) targets: Map,
    /// The last bits of a tgid → whether any process with them is a target. Never taken back: others are then told by `targets`.
    pub(super) maybe: SharedBytes,
    /// tid → [`ThreadTimes`], of those that have no slot.
    pub(super) threads: Map,
    /// The last bits of a tid → [`slot`].
    pub(super) slots: SharedBytes,
    /// How many slots there are; a power of two.
    pub(super) slot_count: i32,
    /// tid → hint.
    pub(super) hints: Map,
    /// cpu → one sample under construction.
    pub(super) scratch: Map,
    /// tgid → where its interpreter has frames.
    pub(super) languages: Map,
    /// cpu → frames of a language under construction.
    pub(super) frames: Map,
    /// Words: what user space says, and counters.
    pub(super) config: SharedBytes,
    /// Records to user space.
    pub(super) events: Map,
}

impl Maps {
    /// Makes them. `threads`: how many there are now; the table has room for several times as many. `ring_bytes`: a power of two.
    pub(super) fn create(cpus: u32, threads: u32, ring_bytes: u32) -> io::Result<Self> {
        let table = threads.saturating_mul(4).next_power_of_two().clamp(4096, 131_072);
        let slots = (table / 4).clamp(1024, 16_384);
        let word = 4;
        Ok(Self {
            targets: Map::create(MapKind::Hash, "biopsy_targets", word, 4, 16_384)?,
            maybe: SharedBytes::create("biopsy_maybe", MAYBE_SLOTS.cast_unsigned())?,
            threads: Map::create(
                MapKind::Hash,
                "biopsy_threads",
                word,
                u32::try_from(ThreadTimes::BYTES).expect("a small struct"),
                table,
            )?,
            slots: SharedBytes::create("biopsy_slots", slots * slot::SIZE.cast_unsigned())?,
            slot_count: slots.cast_signed(),
            hints: Map::create(MapKind::Hash, "biopsy_hints", word, hint::SIZE, table)?,
            scratch: Map::create(MapKind::Array, "biopsy_scratch", word, sample::SIZE, cpus)?,
            languages: Map::create(MapKind::Hash, "biopsy_language", word, language_place::SIZE, LANGUAGES)?,
            frames: Map::create(MapKind::Array, "biopsy_frames", word, language::SIZE, cpus)?,
            config: SharedBytes::create("biopsy_config", config::ENTRIES * 8)?,
            events: Map::create(MapKind::RingBuf, "biopsy_events", 0, 0, ring_bytes)?,
        })
    }
}

/// Where a word of the `config` memory is.
pub(super) fn word_of(index: i32) -> usize {
    usize::try_from(index * 8).expect("indices are small and positive")
}

/// Whether a map was refused for its size: a small one is allowed.
pub(super) fn limits_maps(refusal: &io::Error) -> bool {
    refusal.raw_os_error() == Some(1) && Map::create(MapKind::Array, "biopsy_try", 4, 8, 1).is_ok()
}
