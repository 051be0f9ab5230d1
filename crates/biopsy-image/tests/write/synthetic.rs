//! A process that never was: pages by address, some written, some never touched, some as in their file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError,
    Thread, ThreadSignal, mapping,
};
use biopsy_model::{Avma, Pid, Tid};

pub(crate) const PAGE: u64 = 4096;

/// The image. Reading a page of anonymous memory that was never touched is an error of the writer and panics.
#[derive(Default)]
pub(crate) struct Synthetic {
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) process: ProcessFacts,
    /// Seeds of the pages that were written.
    pub(crate) written: BTreeMap<u64, u64>,
    /// Pages that hold just these bytes.
    pub(crate) bytes: BTreeMap<u64, Vec<u8>>,
    /// Pages that the process wrote and the image does not have.
    pub(crate) absent: BTreeMap<u64, Absence>,
    /// After so many reads the process is gone.
    pub(crate) reads_left: Option<AtomicU64>,
    /// Pages that are read, in order.
    pub(crate) log: Mutex<Vec<u64>>,
}

/// What page `address` holds when it was made with this seed. Seed 0 is a page of zeros.
pub(crate) fn page(address: u64, seed: u64) -> Vec<u8> {
    if seed == 0 {
        return vec![0; PAGE as usize];
    }
    let mut state = address ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Half noise, half text: compressible, and never all zeros.
    (0..PAGE)
        .map(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if at % 64 < 32 { (state >> 56) as u8 } else { b'a' + (at % 26) as u8 }
        })
        .collect()
}

impl Synthetic {
    pub(crate) fn new() -> Self {
        let process = ProcessFacts {
            pid: Pid(4711),
            parent: Some(Pid(17)),
            group: Some((4711, 4700)),
            owner: Some((1000, 100)),
            name: b"odd (name)".to_vec(),
            command_line: vec![b"/opt/odd".to_vec(), b"--x".to_vec()],
            executable: Some(b"/opt/odd name\n\xff".to_vec()),
            auxiliary: vec![(33, 0x7fff_0000), (25, 0x1234)],
            kernel: Some("6.18.0".into()),
            taken_at_unix_nanos: Some(1_700_000_000_123_456_789),
            mappings_not_told: false,
            writer: None,
        };
        Self { process, ..Self::default() }
    }

    pub(crate) fn map(
        &mut self,
        start: u64,
        pages: u64,
        rights: &str,
        shared: bool,
        backing: Backing,
    ) -> Range<u64> {
        let protection = Protection {
            read: rights.contains('r'),
            write: rights.contains('w'),
            execute: rights.contains('x'),
        };
        let range = start..start + pages * PAGE;
        self.mappings.push(Mapping { start, end: range.end, protection, shared, backing, not_frozen: false });
        range
    }

    pub(crate) fn anonymous(&mut self, start: u64, pages: u64) -> Range<u64> {
        self.map(start, pages, "rw", false, Backing::Anonymous { label: String::new() })
    }

    pub(crate) fn file(&mut self, start: u64, pages: u64, path: &str) -> Range<u64> {
        let backing =
            Backing::File { path: path.into(), offset: 0x3000, deleted: false, identity: (0xfe00, 77) };
        self.map(start, pages, "rx", false, backing)
    }

    pub(crate) fn write(&mut self, address: u64, seed: u64) {
        self.written.insert(address, seed);
    }

    pub(crate) fn thread(&mut self, tid: u32, sp: u64) {
        let registers = GeneralRegisters {
            r15: u64::from(tid) << 32,
            rip: 0x1234_5678,
            rsp: sp,
            fs_base: sp + 64,
            orig_rax: u64::MAX,
            ..Default::default()
        };
        let mut extended = vec![tid as u8; 832];
        extended[512..576].fill(0);
        let signal = self.threads.is_empty().then(|| {
            let mut info = vec![0; 128];
            info[0] = 11;
            info[8] = 1;
            info[16..24].copy_from_slice(&0xdead_u64.to_le_bytes());
            ThreadSignal { number: 11, code: Some(1), address: Some(Avma(0xdead)), info: Some(info) }
        });
        self.threads.push(Thread {
            tid: Tid(tid),
            name: Some(format!("worker {tid}").into_bytes()),
            registers: Some(registers),
            extended,
            signal,
            blocked_signals: Some(u64::from(tid)),
        });
    }

    /// What the process would read there, of a mapping that it may read.
    pub(crate) fn truth(&self, address: u64) -> Vec<u8> {
        if let Some(bytes) = self.bytes.get(&address) {
            return bytes.clone();
        }
        match self.written.get(&address) {
            Some(&seed) => page(address, seed),
            None => {
                let inside = mapping::find(&self.mappings, address).expect("mapped");
                if inside.path().is_some_and(|path| !path.starts_with(b"/memfd")) {
                    page(address, 0xf11e)
                } else {
                    vec![0; PAGE as usize]
                }
            }
        }
    }
}

impl Image for Synthetic {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let missing = |why| Err(ReadError::Missing { address, why });
        if let Some(left) = &self.reads_left
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        {
            return missing(Absence::Gone);
        }
        let Some(inside) = mapping::find(&self.mappings, address) else { return missing(Absence::Unmapped) };
        if !inside.protection.read {
            return missing(Absence::Unreadable);
        }
        if let Some(why) = self.absent.get(&(address / PAGE * PAGE)) {
            return missing(*why);
        }
        // One page a read: callers must go on by themselves.
        let start = address / PAGE * PAGE;
        assert!(
            inside.path().is_some_and(|path| !path.starts_with(b"/memfd"))
                || self.written.contains_key(&start),
            "{start:#x} was never touched, and is read"
        );
        self.log.lock().unwrap().push(start);
        let bytes = self.truth(start);
        let from = (address - start) as usize;
        let length = buffer.len().min(bytes.len() - from);
        buffer[..length].copy_from_slice(&bytes[from..from + length]);
        Ok(length)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        for &start in self.written.range(range).map(|(start, _)| start) {
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = start + PAGE,
                _ => runs.push(start..start + PAGE),
            }
        }
        Ok(())
    }
}
