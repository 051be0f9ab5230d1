//! The stream of packets.

use super::proto::TracePacket;
use prost::Message as _;
use std::io::{self, Write};

/// All packets come from one writer.
const SEQUENCE: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`.
const NEEDS: u32 = 2;

/// The stream: packets one after the other, each a field 1 of the message `Trace`.
pub(super) struct Packets<W: Write> {
    out: io::BufWriter<W>,
    buffer: Vec<u8>,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out: io::BufWriter::new(out), buffer: Vec::new() }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub(super) fn push(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags.get_or_insert(NEEDS);
        self.buffer.clear();
        // Field 1, length-delimited.
        self.buffer.push(0x0a);
        packet.encode_length_delimited(&mut self.buffer)?;
        self.out.write_all(&self.buffer)
    }
}
