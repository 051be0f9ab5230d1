//! CPU samples, or looks at threads where there are none: `PerfSample` packets, with stacks, frames, names and mappings interned in the packet of their first use.

use super::packets::Packets;
use super::proto::{Callstack, Frame, InternedData, InternedString, Mapping, PerfSample, TracePacket};
use crate::export::stacks::Threads;
use crate::export::stacks::{CallKind, calls, looks_for_samples};
use biopsy_model::module::ModuleHandle;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

pub(super) fn write<W: Write>(
    timeline: &Timeline,
    threads: &Threads,
    packets: &mut Packets<W>,
) -> io::Result<()> {
    let mut interner = Interner::new(timeline);
    let samples = timeline
        .samples
        .iter()
        .map(|sample| (sample.time, sample.tid, Some(sample.cpu), sample.stack, sample.weight));
    let looks =
        looks_for_samples(timeline).iter().map(|look| (look.time, look.tid, None, look.stack, look.weight));
    for (time, tid, cpu, stack, weight) in samples.chain(looks) {
        let Some(thread) = threads.at(tid, time) else { continue };
        let (callstack, kernel) = stack.map_or((None, false), |stack| interner.stack(stack));
        packets.push(TracePacket {
            timestamp: Some(time.0),
            interned_data: interner.take(),
            perf_sample: Some(PerfSample {
                cpu,
                pid: Some(threads.all[thread].pid.0),
                tid: Some(tid.0),
                callstack_iid: callstack,
                cpu_mode: Some(if kernel { 1 } else { 2 }),
                timebase_count: Some(weight.0),
            }),
            ..TracePacket::default()
        })?;
    }
    Ok(())
}

/// Ids start at 1; 0 means none.
struct Interner<'a> {
    timeline: &'a Timeline,
    new: InternedData,
    any: bool,
    stacks: FxHashMap<StackHandle, (Option<u64>, bool)>,
    frames: FxHashMap<(String, u64, u64), u64>,
    names: FxHashMap<String, u64>,
    mappings: FxHashMap<Option<ModuleHandle>, u64>,
    next: u64,
}

impl<'a> Interner<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        Interner {
            timeline,
            new: InternedData::default(),
            any: false,
            stacks: FxHashMap::default(),
            frames: FxHashMap::default(),
            names: FxHashMap::default(),
            mappings: FxHashMap::default(),
            next: 0,
        }
    }

    /// What is new since the last packet.
    fn take(&mut self) -> Option<InternedData> {
        std::mem::take(&mut self.any).then(|| std::mem::take(&mut self.new))
    }

    fn id(&mut self) -> u64 {
        self.any = true;
        self.next += 1;
        self.next
    }

    /// The stack's id, and whether its innermost call is in the kernel.
    fn stack(&mut self, stack: StackHandle) -> (Option<u64>, bool) {
        if let Some(known) = self.stacks.get(&stack) {
            return *known;
        }
        let timeline = self.timeline;
        let calls = calls(timeline, Some(stack));
        let kernel = calls.last().is_some_and(|call| call.kind == CallKind::Kernel);
        let mut frame_ids = Vec::with_capacity(calls.len());
        for call in calls {
            let module = timeline.module_of(call.frame).map(|(module, _)| module);
            let mapping = self.mapping(module);
            let address = timeline.frames.get(call.frame.0 as usize).map_or(0, |frame| frame.address.0);
            let key = (call.name.into_owned(), mapping, address);
            if let Some(known) = self.frames.get(&key) {
                frame_ids.push(*known);
                continue;
            }
            let name = self.name(&key.0);
            let iid = self.id();
            self.new.frames.push(Frame {
                iid: Some(iid),
                function_name_id: Some(name),
                mapping_id: Some(mapping),
                rel_pc: Some(address),
                line_number: call.line,
            });
            self.frames.insert(key, iid);
            frame_ids.push(iid);
        }
        let id = if frame_ids.is_empty() {
            None
        } else {
            let iid = self.id();
            self.new.callstacks.push(Callstack { iid: Some(iid), frame_ids });
            Some(iid)
        };
        self.stacks.insert(stack, (id, kernel));
        (id, kernel)
    }

    fn name(&mut self, name: &str) -> u64 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let iid = self.id();
        self.new.function_names.push(InternedString { iid: Some(iid), str: Some(name.as_bytes().to_vec()) });
        self.names.insert(name.to_owned(), iid);
        iid
    }

    fn mapping(&mut self, module: Option<ModuleHandle>) -> u64 {
        if let Some(known) = self.mappings.get(&module) {
            return *known;
        }
        let of = module.and_then(|handle| self.timeline.modules.get(handle.0 as usize));
        let build_id = of.and_then(|module| module.build_id.clone()).map(|bytes| {
            let iid = self.id();
            self.new.build_ids.push(InternedString { iid: Some(iid), str: Some(bytes) });
            iid
        });
        let path = of.map_or("[unknown]", |module| module.path.as_str());
        let mut path_string_ids = Vec::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let iid = self.id();
            self.new
                .mapping_paths
                .push(InternedString { iid: Some(iid), str: Some(part.as_bytes().to_vec()) });
            path_string_ids.push(iid);
        }
        let iid = self.id();
        self.new.mappings.push(Mapping {
            iid: Some(iid),
            build_id,
            start: of.map(|module| module.start.0),
            end: of.map(|module| module.end.0),
            path_string_ids,
        });
        self.mappings.insert(module, iid);
        iid
    }
}
