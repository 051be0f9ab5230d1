//! pprof's profile.proto, gzipped: CPU time, samples and waiting time by stack, with the thread as a label; and, where allocations were
//! watched, sampled bytes allocated and not given back (`alloc_space`, `inuse_space`).

mod heap;
pub(in crate::export) mod proto;

pub use heap::write_heap;

use super::stacks::{Threads, base_name, calls_of_frame, hex, process_name, span, used_modules, wait_shares};
use crate::when;
use biopsy_model::capture::Capture;
use biopsy_model::module::{ModuleHandle, ModuleKind};
use biopsy_model::order::Order as _;
use biopsy_model::stack::{FrameHandle, StackHandle};
use biopsy_model::timeline::{AllocationCount, Timeline};
use biopsy_model::{Pid, Tid};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

pub(super) fn write(capture: &Capture, timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let profile = Builder::new(timeline).build(capture);
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish()?.flush()
}

/// Numbers of a stack.
const VALUES: usize = 5;

struct Builder<'a> {
    timeline: &'a Timeline,
    profile: Profile,
    strings: Strings,
    functions: FxHashMap<(String, String), u64>,
    locations: FxHashMap<FrameHandle, u64>,
    mappings: FxHashMap<ModuleHandle, u64>,
}

impl<'a> Builder<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let mut builder = Builder {
            timeline,
            profile: Profile::default(),
            strings: Strings::default(),
            functions: FxHashMap::default(),
            locations: FxHashMap::default(),
            mappings: FxHashMap::default(),
        };
        // The format wants the empty string at index 0.
        builder.string("");
        builder
    }

    /// Of each stack; those of allocations only where these were watched.
    fn values(&self) -> usize {
        if self.timeline.allocation_watches.is_empty() && self.timeline.allocation_counts.is_empty() {
            VALUES - 2
        } else {
            VALUES
        }
    }

    fn build(mut self, capture: &Capture) -> Profile {
        self.mappings(capture);
        let kinds = [
            ("cpu", "nanoseconds"),
            ("samples", "count"),
            ("wait", "nanoseconds"),
            ("alloc_space", "bytes"),
            ("inuse_space", "bytes"),
        ];
        self.profile.sample_type =
            kinds[..self.values()].iter().map(|(kind, unit)| self.value_type(kind, unit)).collect();
        self.profile.period_type = Some(self.value_type("cpu", "nanoseconds"));
        let hertz = u64::from(self.timeline.settings.frequency_hz);
        self.profile.period = signed(1_000_000_000_u64.checked_div(hertz).unwrap_or(0));
        self.profile.default_sample_type = self.string("cpu");
        let (first, to) = span(capture, Some(self.timeline));
        // A wait that was known at the start may be hours old.
        let from = Some(capture.header.start.mono).filter(|start| start.0 > 0).unwrap_or(first);
        self.profile.duration_nanos = signed(to.since(from).0);
        self.profile.time_nanos =
            when::wall_nanos(&capture.header, from).and_then(|nanos| i64::try_from(nanos).ok()).unwrap_or(0);
        let comment = format!("{} on {}", capture.header.tool, capture.header.target_name);
        self.profile.comment = vec![self.string(&comment)];
        self.samples(capture);
        self.profile
    }

    /// The mapping of the target's executable comes first: viewers name the profile after it.
    fn mappings(&mut self, capture: &Capture) {
        let mut used: Vec<(ModuleHandle, u64)> = used_modules(self.timeline).into_iter().collect();
        let main = capture.processes.first().map_or("", |process| process.exe.as_str());
        let name = capture.header.target_name.as_str();
        used.order_by_key(|(handle, _)| {
            let module = &self.timeline.modules[handle.0 as usize];
            (module.path != main, base_name(&module.path) != name, module.kind != ModuleKind::Elf, *handle)
        });
        for (handle, highest) in used {
            let module = &self.timeline.modules[handle.0 as usize];
            let id = self.profile.mapping.len() as u64 + 1;
            let filename = self.string(&module.path);
            let build_id = module.build_id.as_deref().map(hex).unwrap_or_default();
            let build_id = self.string(&build_id);
            // Addresses are those that the file states, so the mapping starts at 0.
            self.profile.mapping.push(Mapping {
                id,
                memory_start: 0,
                memory_limit: highest.saturating_add(1),
                file_offset: 0,
                filename,
                build_id,
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            });
            self.mappings.insert(handle, id);
        }
    }

    fn samples(&mut self, capture: &Capture) {
        let threads = Threads::new(capture, self.timeline);
        let mut sums: FxHashMap<(usize, Option<StackHandle>), [u64; VALUES]> = FxHashMap::default();
        let mut add = |thread: Option<usize>, stack, values: [u64; VALUES]| {
            if let Some(thread) = thread {
                let sum = sums.entry((thread, stack)).or_default();
                *sum = std::array::from_fn(|index| sum[index].saturating_add(values[index]));
            }
        };
        for sample in &self.timeline.samples {
            add(threads.at(sample.tid, sample.time), sample.stack, [sample.weight.0, 1, 0, 0, 0]);
        }
        for share in wait_shares(self.timeline) {
            add(threads.at(share.tid, share.time), share.stack, [0, 0, share.weight.0, 0, 0]);
        }
        for (allocation, kept) in self.timeline.allocations_kept() {
            let (bytes, thread) = (allocation.weight, threads.at(allocation.tid, allocation.time));
            add(thread, allocation.stack, [0, 0, 0, bytes, if kept { bytes } else { 0 }]);
        }
        for count in last_counts(self.timeline) {
            let (first_thread, bytes) = (threads.at(Tid(count.pid.0), count.time), count.bytes);
            let kept = bytes.saturating_sub(count.released_bytes);
            add(first_thread, count.stack, [0, 0, 0, bytes, kept]);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|((thread, stack), _)| (*thread, stack.map(|stack| stack.0)));
        let (thread, tid, process, pid) =
            (self.string("thread"), self.string("tid"), self.string("process"), self.string("pid"));
        for ((index, stack), values) in sums {
            let of = &threads.all[index];
            let process_name = process_name(capture, of.pid);
            let label = vec![
                Label { key: thread, str: self.string(&of.name), num: 0, num_unit: 0 },
                Label { key: tid, str: 0, num: i64::from(of.tid.0), num_unit: 0 },
                Label { key: process, str: self.string(&process_name), num: 0, num_unit: 0 },
                Label { key: pid, str: 0, num: i64::from(of.pid.0), num_unit: 0 },
            ];
            let frames: Vec<FrameHandle> = self.timeline.frames_of(stack).take(1_024).collect();
            let location_id = frames.into_iter().filter_map(|frame| self.location(frame)).collect();
            let value = values[..self.values()].iter().map(|value| signed(*value)).collect();
            self.profile.sample.push(Sample { location_id, value, label });
        }
    }

    fn location(&mut self, handle: FrameHandle) -> Option<u64> {
        if let Some(id) = self.locations.get(&handle) {
            return Some(*id);
        }
        let frame = self.timeline.frames.get(handle.0 as usize)?;
        let module = self.timeline.module_of(handle);
        let file_name = module.map_or("", |(_, module)| base_name(&module.path)).to_owned();
        let mapping_id = module.and_then(|(module, _)| self.mappings.get(&module)).copied().unwrap_or(0);
        let line = calls_of_frame(self.timeline, handle)
            .into_iter()
            .map(|call| Line {
                // Functions of one name in two files are two.
                function_id: self.function(&call.name, call.file.unwrap_or(""), &file_name),
                line: call.line.map_or(0, i64::from),
                column: 0,
            })
            .collect();
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id,
            mapping_id,
            address: frame.address.0,
            line,
            is_folded: false,
        });
        self.locations.insert(handle, id);
        Some(id)
    }

    fn function(&mut self, name: &str, file: &str, module: &str) -> u64 {
        let key = (name.to_owned(), if file.is_empty() { module.to_owned() } else { file.to_owned() });
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.profile.function.len() as u64 + 1;
        let (text, filename) = (self.string(name), self.string(file));
        self.profile.function.push(Function { id, name: text, system_name: text, filename, start_line: 0 });
        self.functions.insert(key, id);
        id
    }

    fn string(&mut self, text: &str) -> i64 {
        self.strings.number(&mut self.profile, text)
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        self.strings.value_type(&mut self.profile, kind, unit)
    }
}

/// The strings of a profile, each once.
#[derive(Default)]
struct Strings(FxHashMap<String, i64>);

impl Strings {
    /// Its number in the table of the profile.
    fn number(&mut self, profile: &mut Profile, text: &str) -> i64 {
        if let Some(index) = self.0.get(text) {
            return *index;
        }
        let index = signed(profile.string_table.len() as u64);
        profile.string_table.push(text.to_owned());
        self.0.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, profile: &mut Profile, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.number(profile, kind), unit: self.number(profile, unit) }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Of each stack whose allocations were counted, the last count, which is of all before.
fn last_counts(timeline: &Timeline) -> Vec<AllocationCount> {
    let mut last: FxHashMap<(Pid, StackHandle), AllocationCount> = FxHashMap::default();
    let of_stacks = timeline.allocation_counts.iter().filter_map(|count| Some((count.stack?, count)));
    for (stack, count) in of_stacks {
        last.insert((count.pid, stack), *count);
    }
    last.into_values().collect()
}
