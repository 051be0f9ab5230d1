//! Files of `perf record`, made byte by byte: `tools/perf/Documentation/perf.data-file-format.txt`.

use biopsy_import::perf_data::{Options, read_bytes};
use biopsy_import::{ImportError, Limits};
use biopsy_model::capture::Capture;
use biopsy_model::timeline::Timeline;

/// Bits of `sample_type`, in the order of their values (`enum perf_event_sample_format`).
pub(crate) mod bit {
    pub(crate) const IP: u64 = 1 << 0;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCHES: u64 = 1 << 11;
    pub(crate) const REGISTERS: u64 = 1 << 12;
    pub(crate) const STACK: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
    /// What most recordings have.
    pub(crate) const USUAL: u64 = IP | TID | TIME | CPU | PERIOD | CALLCHAIN;
}

/// Bits of the flags of an event.
pub(crate) const INHERIT: u64 = 1 << 1;
pub(crate) const BY_FREQUENCY: u64 = 1 << 10;
pub(crate) const ID_IN_ALL: u64 = 1 << 18;

/// Where an address of the kernel begins.
pub(crate) const KERNEL: u64 = 1 << 63;
/// Whose addresses follow in a call chain.
pub(crate) const IN_KERNEL: u64 = (-128_i64) as u64;
pub(crate) const IN_USER: u64 = (-512_i64) as u64;
pub(crate) const IN_GUEST: u64 = (-2048_i64) as u64;

/// `struct perf_event_attr`, with ids and name.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    pub(crate) period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) branch_type: u64,
    pub(crate) registers: u64,
    pub(crate) ids: Vec<u64>,
    pub(crate) name: &'static str,
}

/// `cpu-clock`, every millisecond.
pub(crate) fn clock() -> Event {
    Event {
        kind: 1,
        config: 0,
        period: 1_000_000,
        sample_type: bit::USUAL,
        read_format: 0,
        flags: ID_IN_ALL | INHERIT,
        branch_type: 0,
        registers: 0,
        ids: Vec::new(),
        name: "",
    }
}

impl Event {
    fn attr(&self) -> Vec<u8> {
        const SIZE: u32 = 96;
        let mut out = [self.kind, SIZE].map(u32::to_le_bytes).concat();
        for word in [
            self.config,
            self.period,
            self.sample_type,
            self.read_format,
            self.flags,
            0, // wakeup_events, bp_type
            0, // config1
            0, // config2
            self.branch_type,
            self.registers,
            0, // sample_stack_user, clockid
        ] {
            out.extend(word.to_le_bytes());
        }
        assert_eq!(out.len(), SIZE as usize);
        out
    }
}

/// What a sample says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) ip: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    pub(crate) period: u64,
    pub(crate) chain: Vec<u64>,
    pub(crate) raw: Vec<u8>,
}

/// A record: type, misc, size, body.
pub(crate) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 8).unwrap();
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// `PERF_RECORD_SAMPLE` (perf_event_open(2)).
pub(crate) fn sample(event: &Event, row: &Row) -> Vec<u8> {
    let mut body = Vec::new();
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    for (bit, word) in [
        (bit::IDENTIFIER, row.id),
        (bit::IP, row.ip),
        (bit::TID, pair(row.pid, row.tid)),
        (bit::TIME, row.time),
        (bit::ADDR, 0xadd),
        (bit::ID, row.id),
        (bit::STREAM_ID, row.id),
        (bit::CPU, pair(row.cpu, 0)),
        (bit::PERIOD, row.period),
    ] {
        if event.sample_type & bit != 0 {
            body.extend(word.to_le_bytes());
        }
    }
    let mut words = |bit: u64, words: &[u64]| {
        if event.sample_type & bit != 0 {
            words.iter().for_each(|word| body.extend(word.to_le_bytes()));
        }
    };
    // `struct read_format`: in a group the number comes first, else the value.
    let times = (event.read_format & 0b11).count_ones() as usize;
    let each = 1 + (event.read_format & 0b1_0100).count_ones() as usize;
    let values = if event.read_format & 0b1000 != 0 { 1 + times + 3 * each } else { times + each };
    words(bit::READ, &vec![3; values]);
    let chain: Vec<u64> = std::iter::once(row.chain.len() as u64).chain(row.chain.iter().copied()).collect();
    words(bit::CALLCHAIN, &chain);
    if event.sample_type & bit::RAW != 0 {
        body.extend((row.raw.len() as u32).to_le_bytes());
        body.extend(&row.raw);
    }
    let mut words = |bit: u64, words: &[u64]| {
        if event.sample_type & bit != 0 {
            words.iter().for_each(|word| body.extend(word.to_le_bytes()));
        }
    };
    words(bit::BRANCHES, &[2]);
    // PERF_SAMPLE_BRANCH_HW_INDEX
    words(bit::BRANCHES, if event.branch_type & 1 << 17 != 0 { &[7] } else { &[] });
    words(bit::BRANCHES, &[0xb; 6]);
    // PERF_SAMPLE_BRANCH_COUNTERS
    words(bit::BRANCHES, if event.branch_type & 1 << 19 != 0 { &[7; 2] } else { &[] });
    words(bit::REGISTERS, &[2]);
    words(bit::REGISTERS, &vec![0x4e6; event.registers.count_ones() as usize]);
    words(bit::STACK, &[16, 1, 2, 8]);
    record(9, 0, &body)
}

/// What follows the body of the other records: `struct sample_id`.
pub(crate) fn with_id(event: &Event, kind: u32, misc: u16, body: &[u8], row: &Row) -> Vec<u8> {
    let mut body = body.to_vec();
    for (bit, word) in [
        (bit::TID, u64::from(row.pid) | u64::from(row.tid) << 32),
        (bit::TIME, row.time),
        (bit::ID, row.id),
        (bit::STREAM_ID, row.id),
        (bit::CPU, u64::from(row.cpu)),
        (bit::IDENTIFIER, row.id),
    ] {
        if event.flags & ID_IN_ALL != 0 && event.sample_type & bit != 0 {
            body.extend(word.to_le_bytes());
        }
    }
    record(kind, misc, &body)
}

fn name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    // A zero at least, and zeros up to 8 bytes.
    bytes.resize((name.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn ids(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Records of one event, by time.
pub(crate) struct Side {
    pub(crate) event: Event,
}

impl Side {
    fn of(&self, time: u64, kind: u32, misc: u16, body: &[u8], [pid, tid]: [u32; 2]) -> Vec<u8> {
        with_id(&self.event, kind, misc, body, &Row { time, pid, tid, ..Row::default() })
    }

    pub(crate) fn comm(&self, time: u64, [pid, tid]: [u32; 2], text: &str, exec: bool) -> Vec<u8> {
        self.of(time, 3, if exec { 1 << 13 } else { 0 }, &[ids(&[pid, tid]), name(text)].concat(), [pid, tid])
    }

    /// `who` was made by `by`: process and thread each.
    pub(crate) fn fork(&self, time: u64, who: [u32; 2], by: [u32; 2]) -> Vec<u8> {
        let body = [ids(&[who[0], by[0], who[1], by[1]]), time.to_le_bytes().to_vec()].concat();
        self.of(time, 7, 0, &body, by)
    }

    pub(crate) fn exit(&self, time: u64, who: [u32; 2]) -> Vec<u8> {
        let body = [ids(&[who[0], 1, who[1], 1]), time.to_le_bytes().to_vec()].concat();
        self.of(time, 4, 0, &body, who)
    }

    /// A mapping of code, from its start, for so many bytes, of the file from an offset on.
    pub(crate) fn map(&self, time: u64, pid: u32, [start, size, offset]: [u64; 3], path: &str) -> Vec<u8> {
        self.of(time, 1, 0, &[mapped(pid, [start, size, offset]), name(path)].concat(), [pid, pid])
    }

    /// `PERF_RECORD_MMAP2` with protection; `id`: 20 bytes that begin with a build id of that length, or an inode.
    pub(crate) fn map2(
        &self,
        time: u64,
        pid: u32,
        place: [u64; 3],
        path: &str,
        id: Result<&[u8], u64>,
        protection: u32,
    ) -> Vec<u8> {
        let (misc, identity) = match id {
            Ok(id) => {
                let mut bytes = vec![id.len() as u8, 0, 0, 0];
                bytes.extend(id);
                bytes.resize(24, 0);
                (1 << 14, bytes)
            }
            Err(inode) => (0, [0, inode, 0].map(u64::to_le_bytes).concat()),
        };
        let body = [mapped(pid, place), identity, ids(&[protection, 2]), name(path)].concat();
        self.of(time, 10, misc, &body, [pid, pid])
    }

    pub(crate) fn lost(&self, time: u64, count: u64) -> Vec<u8> {
        self.of(time, 2, 0, &[0, count].map(u64::to_le_bytes).concat(), [1, 1])
    }

    pub(crate) fn throttle(&self, time: u64, on: bool) -> Vec<u8> {
        let body = [time, 0, 0].map(u64::to_le_bytes).concat();
        self.of(time, if on { 5 } else { 6 }, 0, &body, [1, 1])
    }

    /// `PERF_RECORD_SWITCH`.
    pub(crate) fn switch(&self, time: u64, who: [u32; 2], out: bool, preempted: bool) -> Vec<u8> {
        let misc = if out { 1 << 13 } else { 0 } | if preempted { 1 << 14 } else { 0 };
        self.of(time, 14, misc, &[], who)
    }
}

fn mapped(pid: u32, place: [u64; 3]) -> Vec<u8> {
    [ids(&[pid, pid]), place.map(u64::to_le_bytes).concat()].concat()
}

/// `struct perf_header_string`.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let bytes = name(text);
    [(bytes.len() as u32).to_le_bytes().to_vec(), bytes].concat()
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) events: Vec<Event>,
    pub(crate) records: Vec<u8>,
    /// Feature sections by bit, ascending.
    pub(crate) features: Vec<(u32, Vec<u8>)>,
}

impl File {
    pub(crate) fn new(events: &[Event], records: &[Vec<u8>]) -> File {
        let mut file =
            File { events: events.to_vec(), records: records.concat(), features: vec![(3, text("vm"))] };
        if events.iter().any(|event| !event.name.is_empty()) {
            file.features.push((12, file.event_desc()));
        }
        file
    }

    fn event_desc(&self) -> Vec<u8> {
        let mut out = ids(&[self.events.len() as u32, 96]);
        for event in &self.events {
            out.extend(event.attr());
            out.extend((event.ids.len() as u32).to_le_bytes());
            out.extend(text(event.name));
            event.ids.iter().for_each(|id| out.extend(id.to_le_bytes()));
        }
        out
    }

    /// As `perf record` writes it into a file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        const HEADER: usize = 104;
        const ENTRY: usize = 96 + 16;
        let ids: Vec<u8> =
            self.events.iter().flat_map(|event| &event.ids).flat_map(|id| id.to_le_bytes()).collect();
        let attrs = HEADER + ids.len();
        let data = attrs + ENTRY * self.events.len();
        let mut bits = [0_u64; 4];
        for (bit, _) in &self.features {
            bits[*bit as usize / 64] |= 1 << (bit % 64);
        }
        let mut out = b"PERFILE2".to_vec();
        let section = |from: usize, size: usize| [from as u64, size as u64];
        let words = [
            vec![HEADER as u64, ENTRY as u64],
            section(attrs, ENTRY * self.events.len()).to_vec(),
            section(data, self.records.len()).to_vec(),
            vec![0, 0],
            bits.to_vec(),
        ];
        words.concat().iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(&ids);
        let mut at = HEADER;
        for event in &self.events {
            out.extend(event.attr());
            section(at, event.ids.len() * 8).iter().for_each(|word| out.extend(word.to_le_bytes()));
            at += event.ids.len() * 8;
        }
        out.extend(&self.records);
        let mut at = out.len() + 16 * self.features.len();
        for (_, bytes) in &self.features {
            section(at, bytes.len()).iter().for_each(|word| out.extend(word.to_le_bytes()));
            at += bytes.len();
        }
        self.features.iter().for_each(|(_, bytes)| out.extend(bytes));
        out
    }

    /// As `perf record -o -` writes it into a pipe: events and features are records.
    pub(crate) fn pipe(&self) -> Vec<u8> {
        let mut out = b"PERFILE2".to_vec();
        out.extend(16_u64.to_le_bytes());
        for event in &self.events {
            let ids: Vec<u8> = event.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            out.extend(record(64, 0, &[event.attr(), ids].concat()));
        }
        for (bit, bytes) in &self.features {
            out.extend(record(80, 0, &[u64::from(*bit).to_le_bytes().to_vec(), bytes.clone()].concat()));
        }
        out.extend(&self.records);
        out
    }
}

pub(crate) fn try_import(bytes: &[u8]) -> Result<Capture, ImportError> {
    read_bytes(bytes, &Options::closed(), &Limits::default())
}

pub(crate) fn import(file: &File) -> Capture {
    try_import(&file.bytes()).unwrap()
}

pub(crate) fn timeline(capture: &Capture) -> &Timeline {
    capture.timeline.as_ref().unwrap()
}

/// Codes of the warnings.
pub(crate) fn codes(capture: &Capture) -> Vec<&str> {
    capture.warnings.iter().map(|warning| warning.code.as_str()).collect()
}
