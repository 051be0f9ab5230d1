//! What was written is read again, and takes little room.

use biopsy_model::timeline::{TimelineEvent, Wait, WaitState};
use biopsy_model::{MonoNanos, Tid};
use proptest::prelude::*;

use super::super::chunk::{CHUNK_HEADER_LEN, ChunkHeader, Definitions, FILE_HEADER_LEN, file_header};
use super::super::{encode, fuzz_timeline};
use super::arbitrary::event;
use super::{chunk, events_of, sample, write};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_events_round_trip(
        events in proptest::collection::vec(event(), 0..120),
        per_chunk in 1_usize..50,
    ) {
        let (found, warnings) = events_of(&write(&events, per_chunk));
        prop_assert_eq!(found, events);
        prop_assert!(warnings.is_empty(), "{:?}", warnings);
    }

    /// kill -9 at any moment: what was flushed before is there, nothing else, and the reader says so.
    #[test]
    fn any_prefix_of_a_file_gives_a_prefix_of_the_events(
        events in proptest::collection::vec(event(), 1..60),
        per_chunk in 1_usize..20,
        cut in any::<proptest::sample::Index>(),
    ) {
        let bytes = write(&events, per_chunk);
        let cut = cut.index(bytes.len());
        let (found, warnings) = events_of(&bytes[..cut]);
        prop_assert_eq!(&found[..], &events[..found.len()]);
        prop_assert!(found.len() == events.len() || found.len() % per_chunk == 0);
        prop_assert_eq!(warnings, vec!["recording.cut-short".to_owned()]);
    }

    #[test]
    fn any_mutation_of_a_file_is_read_without_panic(
        events in proptest::collection::vec(event(), 1..60),
        per_chunk in 1_usize..20,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = write(&events, per_chunk);
        for (index, value) in changes {
            let length = bytes.len();
            bytes[index.index(length)] = value;
        }
        fuzz_timeline(&bytes);
    }

    /// Behind the checksum: the events themselves may be anything.
    #[test]
    fn any_bytes_as_events_are_read_without_panic(
        raw in proptest::collection::vec(any::<u8>(), 0..400),
        before in any::<(u8, u8, u8)>(),
    ) {
        let before = Definitions { modules: before.0.into(), frames: before.1.into(), stacks: before.2.into() };
        let damaged = [file_header(), vec![0; CHUNK_HEADER_LEN]].concat();
        fuzz_timeline(&[file_header(), chunk(&raw, before)].concat());
        fuzz_timeline(&[damaged, chunk(&raw, before)].concat());
        fuzz_timeline(&raw);
    }

    /// A damaged chunk costs its own events only, and handles keep their meaning behind it.
    #[test]
    fn a_damaged_chunk_is_skipped(
        events in proptest::collection::vec(event(), 20..60),
        damaged in 0_usize..4,
        at in any::<proptest::sample::Index>(),
    ) {
        let chunks: Vec<_> = events.chunks(5).collect();
        let bytes = write(&events, 5);
        // Find the chunk by walking the headers.
        let mut offset = FILE_HEADER_LEN;
        let stored_at = |offset: usize| {
            ChunkHeader::parse(&bytes[offset..offset + CHUNK_HEADER_LEN], 0).unwrap().stored as usize
        };
        for _ in 0..damaged {
            offset += CHUNK_HEADER_LEN + stored_at(offset);
        }
        let mut broken = bytes.clone();
        broken[offset + CHUNK_HEADER_LEN + at.index(stored_at(offset))] ^= 0x55;
        let (found, warnings) = events_of(&broken);
        prop_assert_eq!(warnings, vec!["recording.damaged".to_owned()]);
        let is_definition = |event: &&TimelineEvent| matches!(
            event, TimelineEvent::Frame(_) | TimelineEvent::Stack(_) | TimelineEvent::Module(_)
        );
        // Placeholders stand where definitions were, everything else of the chunk is gone.
        let lost = chunks[damaged].iter().filter(is_definition).count();
        prop_assert_eq!(found.len(), events.len() - chunks[damaged].len() + lost);
        prop_assert_eq!(found.iter().filter(is_definition).count(), events.iter().filter(is_definition).count());
        prop_assert_eq!(&found[..damaged * 5], &events[..damaged * 5]);
        let behind = (damaged + 1) * 5;
        prop_assert_eq!(&found[found.len() - (events.len() - behind)..], &events[behind..]);
    }
}

#[test]
fn what_there_is_much_of_is_small() {
    let size = |events: &[TimelineEvent]| {
        let mut encoder = encode::Encoder::default();
        encoder.push(&sample(1 << 40, 7, Some(1000)));
        encoder.push(&sample(1 << 40, 8, Some(1000)));
        let before = encoder.raw.len();
        events.iter().for_each(|event| encoder.push(event));
        (encoder.raw.len() - before) as f64 / events.len() as f64
    };
    let now = 1 << 40;
    // 999 Hz on two CPUs: half a millisecond apart on average.
    assert!(size(&[sample(now + 500_000, 7, Some(9000))]) <= 8.0);
    let wait = Wait {
        tid: Tid(7),
        start: MonoNanos(now - 3_000_000),
        end: MonoNanos(now + 400_000),
        ready: Some(MonoNanos(now + 390_000)),
        waker: Some(Tid(8)),
        state: WaitState::Sleep,
        syscall: Some(202),
        stack: None,
    };
    let again = Wait {
        start: MonoNanos(now + 500_000),
        end: MonoNanos(now + 900_000),
        ready: Some(MonoNanos(now + 890_000)),
        ..wait
    };
    assert!(size(&[TimelineEvent::Wait(wait), TimelineEvent::Wait(again)]) <= 14.0);
}
