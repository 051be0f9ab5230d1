//! Perfetto's trace: a stream of `TracePacket`s. CPU samples with interned stacks, waits as slices of a track of each
//! thread, metrics as counters, marks and log lines as instants.

mod packets;
pub(in crate::export) mod proto;
mod samples;
mod tracks;

use super::stacks::{Threads, span};
use crate::when;
use biopsy_model::capture::Capture;
use biopsy_model::timeline::Timeline;
use packets::Packets;
use proto::{Clock, ClockSnapshot, PerfSampleDefaults, Timebase, TracePacket, TracePacketDefaults};
use std::io::{self, Write};

/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC`.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;
/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: u32 = 1;

pub(super) fn write(capture: &Capture, out: impl Write) -> io::Result<()> {
    let empty = Timeline::default();
    let timeline = capture.timeline.as_ref().unwrap_or(&empty);
    let threads = Threads::new(capture, timeline);
    let mut packets = Packets::new(out);
    start(capture, timeline, &mut packets)?;
    tracks::write(capture, timeline, &threads, &mut packets)?;
    samples::write(timeline, &threads, &mut packets)?;
    packets.flush()
}

/// Clocks and defaults.
fn start<W: Write>(capture: &Capture, timeline: &Timeline, packets: &mut Packets<W>) -> io::Result<()> {
    let (from, _) = span(capture, Some(timeline));
    let wall = when::wall_nanos(&capture.header, from).and_then(|nanos| u64::try_from(nanos).ok());
    let mut clocks = vec![Clock { clock_id: Some(MONOTONIC), timestamp: Some(from.0) }];
    clocks.extend(wall.map(|nanos| Clock { clock_id: Some(REALTIME), timestamp: Some(nanos) }));
    let settings = &timeline.settings;
    let hardware = settings.sampling_event.as_str().contains("cycles");
    packets.push(TracePacket {
        sequence_flags: Some(CLEARED),
        clock_snapshot: Some(ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC) }),
        trace_packet_defaults: Some(TracePacketDefaults {
            timestamp_clock_id: Some(MONOTONIC),
            perf_sample_defaults: Some(PerfSampleDefaults {
                timebase: Some(Timebase {
                    frequency: Some(u64::from(settings.frequency_hz.max(1))),
                    // `HW_CPU_CYCLES` or `SW_CPU_CLOCK`.
                    counter: Some(if hardware { 10 } else { 1 }),
                    name: Some(settings.sampling_event.as_str().to_owned()),
                }),
            }),
        }),
        ..TracePacket::default()
    })
}
