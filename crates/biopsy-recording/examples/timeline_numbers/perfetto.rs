//! The same events as Perfetto packets, in the way that favours Perfetto most: everything interned, times as deltas
//! on an incremental clock, no trusted ids beyond the sequence. Field numbers are those of perfetto/trace/*.proto of
//! 2026 (`trace_packet`, `profile_packet`, `profile_common`, `interned_data`, `track_event`, `generic_task`).

use std::collections::HashSet;

use biopsy_bytes::put_varint;
use biopsy_model::stack::{Frame, StackHandle, StackNode};
use biopsy_model::timeline::{TimelineEvent, WaitState};

/// Encodes what Perfetto can hold of the events; comments say what it cannot.
pub(crate) fn encode(events: &[&TimelineEvent]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    for event in events {
        encoder.event(event);
    }
    encoder.out
}

#[derive(Default)]
struct Encoder {
    out: Vec<u8>,
    time: u64,
    stacks: Vec<StackNode>,
    interned: HashSet<u32>,
}

impl Encoder {
    fn event(&mut self, event: &TimelineEvent) {
        match event {
            TimelineEvent::Frame(frame) => self.frame(frame),
            // The tree of stacks has no counterpart: a callstack is written with all its frames when it is first used.
            TimelineEvent::Stack(node) => self.stacks.push(*node),
            TimelineEvent::Sample(sample) => {
                self.callstack(sample.stack);
                // PerfSample (66): cpu 1, pid 2, tid 3, callstack_iid 4, cpu_mode 5. No weight: the timebase has it.
                let mut body = Vec::new();
                field(&mut body, 1, sample.cpu.into());
                field(&mut body, 2, 40_000);
                field(&mut body, 3, sample.tid.0.into());
                field(&mut body, 4, iid(sample.stack));
                field(&mut body, 5, 2);
                self.packet(sample.time.0, 66, &body);
            }
            TimelineEvent::WaitSample(look) => {
                self.callstack(look.stack);
                // PerfSample, again; syscall, state and weight have no place.
                let mut body = Vec::new();
                field(&mut body, 2, 40_000);
                field(&mut body, 3, look.tid.0.into());
                field(&mut body, 4, iid(look.stack));
                self.packet(look.time.0, 66, &body);
            }
            TimelineEvent::Wait(wait) => {
                // Three GenericKernelTaskStateEvents (117): cpu 1, tid 3, state 4. Waker, system call and stack have no
                // place in them, so a slice of the thread's track carries them: TrackEvent (11) with type 9,
                // track_uuid 11, name_iid 10, callstack_iid 56 and two debug_annotations 4 (name_iid 1, uint_value 3).
                self.callstack(wait.stack);
                let asleep = if wait.state == WaitState::Disk { 5 } else { 4 };
                for (time, state) in
                    [(wait.start, asleep), (wait.ready.unwrap_or(wait.end), 2), (wait.end, 3)]
                {
                    let mut body = Vec::new();
                    if state == 3 {
                        field(&mut body, 1, 1);
                    }
                    field(&mut body, 3, wait.tid.0.into());
                    field(&mut body, 4, state);
                    self.packet(time.0, 117, &body);
                }
                let mut body = Vec::new();
                field(&mut body, 9, 3); // an instant inside the wait: half the price of begin and end
                field(&mut body, 11, u64::from(wait.tid.0) % 1000);
                field(&mut body, 10, 1);
                if wait.stack.is_some() {
                    field(&mut body, 56, iid(wait.stack));
                }
                for (name, value) in [(1, wait.waker.map(|tid| tid.0)), (2, wait.syscall)] {
                    if let Some(value) = value {
                        let mut annotation = Vec::new();
                        field(&mut annotation, 1, name);
                        field(&mut annotation, 3, value.into());
                        message(&mut body, 4, &annotation);
                    }
                }
                self.packet(wait.end.0, 11, &body);
            }
            TimelineEvent::States(slice) => {
                // No message holds times by state over an interval; six counters of the thread's track do:
                // TrackEvent with type COUNTER, extra_counter_values 12 for tracks named in the sequence's defaults.
                let mut body = Vec::new();
                field(&mut body, 9, 4);
                field(&mut body, 11, u64::from(slice.tid.0) % 1000);
                let values = [
                    slice.running.0,
                    slice.ready.0,
                    slice.waiting.0,
                    slice.voluntary.into(),
                    slice.involuntary.into(),
                    slice.wakeups.into(),
                ];
                for value in values {
                    field(&mut body, 12, value);
                }
                self.packet(slice.to.0, 11, &body);
            }
            _ => {}
        }
    }

    /// Frame (interned_data 12, frames 6): iid 1, mapping_id 3, rel_pc 4.
    fn frame(&mut self, frame: &Frame) {
        let number = self.out.len() as u64 % 4_000 + 1; // as wide as a real one
        let mut body = Vec::new();
        field(&mut body, 1, number);
        field(&mut body, 3, u64::from(frame.module.map_or(0, |module| module.0)) + 1);
        field(&mut body, 4, frame.address.0 & 0xff_ffff);
        self.interned(6, &body);
    }

    /// Callstack (callstacks 7): iid 1, frame_ids 2, outermost first.
    fn callstack(&mut self, stack: Option<StackHandle>) {
        let Some(handle) = stack else { return };
        if !self.interned.insert(handle.0) || self.stacks.is_empty() {
            return;
        }
        let mut frames = Vec::new();
        let mut next = Some(handle);
        while let Some(node) = next.and_then(|handle| self.stacks.get(handle.0 as usize)) {
            frames.push(u64::from(node.frame.0) + 1);
            next = node.caller;
        }
        let mut body = Vec::new();
        field(&mut body, 1, iid(stack));
        for frame in frames.into_iter().rev() {
            field(&mut body, 2, frame);
        }
        self.interned(7, &body);
    }

    fn interned(&mut self, number: u64, body: &[u8]) {
        let mut data = Vec::new();
        message(&mut data, number, body);
        let mut packet = Vec::new();
        message(&mut packet, 12, &data);
        message(&mut self.out, 1, &packet);
    }

    /// TracePacket: timestamp 8 as a delta, trusted_packet_sequence_id 10, and one of its data fields.
    fn packet(&mut self, time: u64, number: u64, body: &[u8]) {
        let mut packet = Vec::new();
        // Deltas cannot be negative; a writer would have to sort, which costs it a buffer and the reader nothing.
        field(&mut packet, 8, time.abs_diff(self.time));
        self.time = time;
        field(&mut packet, 10, 1);
        message(&mut packet, number, body);
        message(&mut self.out, 1, &packet);
    }
}

fn iid(stack: Option<StackHandle>) -> u64 {
    stack.map_or(0, |stack| u64::from(stack.0) + 1)
}

/// A varint field.
fn field(out: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(out, number << 3);
    put_varint(out, value);
}

/// A length-delimited field.
fn message(out: &mut Vec<u8>, number: u64, body: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, body.len() as u64);
    out.extend_from_slice(body);
}
