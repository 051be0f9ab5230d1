//! Perfetto's trace: a stream of `TracePacket`s. CPU samples with interned stacks, waits as slices of a track of each
//! thread, metrics as counters, marks and log lines as instants.

pub(in crate::export) mod proto;
mod samples;
mod tracks;

use super::stacks::{Threads, span};
use crate::when;
use biopsy_model::capture::Capture;
use biopsy_model::timeline::Timeline;
use prost::Message as _;
use proto::{Clock, ClockSnapshot, PerfSampleDefaults, Timebase, TracePacket, TracePacketDefaults};
use std::io::{self, Write};

/// All packets come from one writer.
const SEQUENCE: u32 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC`.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;
/// `SEQ_INCREMENTAL_STATE_CLEARED`, `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u32 = 1;
const NEEDS: u32 = 2;

pub(super) fn write(capture: &Capture, out: impl Write) -> io::Result<()> {
    let empty = Timeline::default();
    let timeline = capture.timeline.as_ref().unwrap_or(&empty);
    let threads = Threads::new(capture, timeline);
    let mut packets = Packets { out: io::BufWriter::new(out), buffer: Vec::new() };
    start(capture, timeline, &mut packets)?;
    tracks::write(capture, timeline, &threads, &mut packets)?;
    samples::write(timeline, &threads, &mut packets)?;
    packets.out.flush()
}

/// The stream: packets one after the other, each a field 1 of the message `Trace`.
struct Packets<W: Write> {
    out: io::BufWriter<W>,
    buffer: Vec<u8>,
}

impl<W: Write> Packets<W> {
    fn push(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags.get_or_insert(NEEDS);
        self.buffer.clear();
        // Field 1, length-delimited.
        self.buffer.push(0x0a);
        packet.encode_length_delimited(&mut self.buffer)?;
        self.out.write_all(&self.buffer)
    }
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
