//! A synthetic minidump of x86-64, as Windows or Breakpad would write it.

/// Builds a minidump.
#[derive(Clone, Debug, Default)]
pub struct MinidumpBuilder {
    windows: bool,
    threads: Vec<(u32, u64, u64)>,
    names: Vec<(u32, String)>,
    modules: Vec<(u64, u32, String, Vec<u8>)>,
    memory: Vec<(u64, Vec<u8>)>,
    maps: Option<Vec<u8>>,
    exception: Option<(u32, u32, u32, u64)>,
    pid: Option<u32>,
}

const THREAD_LIST: u32 = 3;
const MODULE_LIST: u32 = 4;
const MEMORY_LIST: u32 = 5;
const EXCEPTION: u32 = 6;
const SYSTEM_INFO: u32 = 7;
const MEMORY_64_LIST: u32 = 9;
const MISC_INFO: u32 = 15;
const THREAD_NAMES: u32 = 24;
const LINUX_MAPS: u32 = 0x4767_0009;

impl MinidumpBuilder {
    /// Of Windows: memory is in the 64-bit list at the end of the file.
    #[must_use]
    pub fn windows() -> Self {
        Self { windows: true, ..Self::default() }
    }

    /// Of Breakpad on Linux: memory is in the 32-bit list.
    #[must_use]
    pub fn breakpad() -> Self {
        Self::default()
    }

    /// Adds a thread with an instruction and a stack pointer. (r15 is the thread id.)
    #[must_use]
    pub fn thread(mut self, tid: u32, rip: u64, rsp: u64) -> Self {
        self.threads.push((tid, rip, rsp));
        self
    }

    /// Names a thread.
    #[must_use]
    pub fn name(mut self, tid: u32, name: &str) -> Self {
        self.names.push((tid, name.to_owned()));
        self
    }

    /// Adds a module with the contents of its CodeView record.
    #[must_use]
    pub fn module(mut self, start: u64, size: u32, path: &str, record: &[u8]) -> Self {
        self.modules.push((start, size, path.to_owned(), record.to_vec()));
        self
    }

    /// Adds memory.
    #[must_use]
    pub fn memory(mut self, start: u64, bytes: &[u8]) -> Self {
        self.memory.push((start, bytes.to_vec()));
        self
    }

    /// Adds `/proc/PID/maps`.
    #[must_use]
    pub fn maps(mut self, text: &[u8]) -> Self {
        self.maps = Some(text.to_vec());
        self
    }

    /// Adds an exception: thread, code, flags, address.
    #[must_use]
    pub fn exception(mut self, tid: u32, code: u32, flags: u32, address: u64) -> Self {
        self.exception = Some((tid, code, flags, address));
        self
    }

    /// Adds the pid.
    #[must_use]
    pub fn pid(mut self, pid: u32) -> Self {
        self.pid = Some(pid);
        self
    }

    /// The bytes of the file.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut file = File { bytes: vec![0; 32 + 16 * 12], directory: Vec::new() };
        let mut system = vec![0; 56];
        system[0] = 9; // PROCESSOR_ARCHITECTURE_AMD64
        let platform: u32 = if self.windows { 2 } else { 0x8201 };
        system[20..24].copy_from_slice(&platform.to_le_bytes());
        file.stream(SYSTEM_INFO, &system);
        self.thread_list(&mut file);
        self.module_list(&mut file);
        if let Some(pid) = self.pid {
            let mut misc = [24u32, 1, pid, 0, 0, 0].map(u32::to_le_bytes).concat();
            misc.resize(24, 0);
            file.stream(MISC_INFO, &misc);
        }
        if let Some((tid, code, flags, address)) = self.exception {
            let mut exception = vec![0; 168];
            exception[..4].copy_from_slice(&tid.to_le_bytes());
            exception[8..12].copy_from_slice(&code.to_le_bytes());
            exception[12..16].copy_from_slice(&flags.to_le_bytes());
            exception[24..32].copy_from_slice(&address.to_le_bytes());
            // Two parameters: read, and the address that was read.
            exception[32..36].copy_from_slice(&2u32.to_le_bytes());
            exception[48..56].copy_from_slice(&address.to_le_bytes());
            file.stream(EXCEPTION, &exception);
        }
        if !self.names.is_empty() {
            let mut list = (self.names.len() as u32).to_le_bytes().to_vec();
            for (tid, name) in &self.names {
                let at = file.string(name);
                list.extend(tid.to_le_bytes());
                list.extend((at as u64).to_le_bytes());
            }
            file.stream(THREAD_NAMES, &list);
        }
        if let Some(maps) = &self.maps {
            file.stream(LINUX_MAPS, maps);
        }
        if self.windows {
            self.memory_64(&mut file)
        } else {
            self.memory_32(&mut file)
        }
        file.finish()
    }

    fn thread_list(&self, file: &mut File) {
        let mut list = (self.threads.len() as u32).to_le_bytes().to_vec();
        for &(tid, rip, rsp) in &self.threads {
            let mut context = vec![0; 1232];
            context[48..52].copy_from_slice(&0x0010_000f_u32.to_le_bytes()); // CONTEXT_AMD64_FULL and segments
            context[152..160].copy_from_slice(&rsp.to_le_bytes());
            context[240..248].copy_from_slice(&u64::from(tid).to_le_bytes());
            context[248..256].copy_from_slice(&rip.to_le_bytes());
            context[256..258].copy_from_slice(&0x37f_u16.to_le_bytes());
            let at = file.put(&context);
            list.extend(tid.to_le_bytes());
            list.resize(list.len() + 20, 0);
            list.extend(rsp.to_le_bytes());
            list.extend([0u32, 0, 1232, at].map(u32::to_le_bytes).concat());
        }
        file.stream(THREAD_LIST, &list);
    }

    fn module_list(&self, file: &mut File) {
        let mut list = (self.modules.len() as u32).to_le_bytes().to_vec();
        for (start, size, path, record) in &self.modules {
            let name = file.string(path);
            let record_at = file.put(record);
            let from = list.len();
            list.extend(start.to_le_bytes());
            list.extend([*size, 0, 0, name].map(u32::to_le_bytes).concat());
            list.resize(from + 76, 0);
            list.extend([record.len() as u32, record_at].map(u32::to_le_bytes).concat());
            list.resize(from + 108, 0);
        }
        file.stream(MODULE_LIST, &list);
    }

    fn memory_32(&self, file: &mut File) {
        let mut list = (self.memory.len() as u32).to_le_bytes().to_vec();
        for (start, bytes) in &self.memory {
            let at = file.put(bytes);
            list.extend(start.to_le_bytes());
            list.extend([bytes.len() as u32, at].map(u32::to_le_bytes).concat());
        }
        file.stream(MEMORY_LIST, &list);
    }

    fn memory_64(&self, file: &mut File) {
        let size = 16 + self.memory.len() * 16;
        let base = (file.bytes.len() + size) as u64;
        let mut list = [self.memory.len() as u64, base].map(u64::to_le_bytes).concat();
        for (start, bytes) in &self.memory {
            list.extend([*start, bytes.len() as u64].map(u64::to_le_bytes).concat());
        }
        file.stream(MEMORY_64_LIST, &list);
        for (_, bytes) in &self.memory {
            file.bytes.extend_from_slice(bytes);
        }
    }
}

struct File {
    bytes: Vec<u8>,
    directory: Vec<[u32; 3]>,
}

impl File {
    fn put(&mut self, bytes: &[u8]) -> u32 {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        at
    }

    fn string(&mut self, text: &str) -> u32 {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let at = self.put(&(units.len() as u32).to_le_bytes());
        self.put(&units);
        at
    }

    fn stream(&mut self, kind: u32, bytes: &[u8]) {
        let at = self.put(bytes);
        self.directory.push([kind, bytes.len() as u32, at]);
    }

    fn finish(mut self) -> Vec<u8> {
        let header = [0x504d_444d, 0xa793, self.directory.len() as u32, 32, 0, 1_700_000_000, 0, 0];
        self.bytes[..32].copy_from_slice(&header.map(u32::to_le_bytes).concat());
        let directory: Vec<u8> =
            self.directory.iter().flat_map(|entry| entry.map(u32::to_le_bytes).concat()).collect();
        self.bytes[32..32 + directory.len()].copy_from_slice(&directory);
        self.bytes
    }
}
