//! The container: header, events, feature sections, and where the records are.
//!
//! ```text
//! file mode  "PERFILE2" | size 104 | attr_size | attrs: off,size | data: off,size | event_types: off,size | 256 feature bits
//!            attrs:  perf_event_attr, ids: off,size          (attr_size bytes each)
//!            data:   records
//!            after the data: off,size for each feature bit that is set, in order
//! pipe mode  "PERFILE2" | size 16 | records; events and features are records themselves
//! ```
//!
//! The format is described in the kernel's `tools/perf/Documentation/perf.data-file-format.txt`.

use super::attr::{Attr, Meaning};
use crate::{ImportError, Limits};
use biopsy_bytes::{Cursor, ReadError};
use rustc_hash::FxHashMap;

/// Feature bits (`HEADER_*` in perf's `util/header.h`).
pub(crate) mod feature {
    pub(crate) const BUILD_ID: u32 = 2;
    pub(crate) const HOSTNAME: u32 = 3;
    pub(crate) const OSRELEASE: u32 = 4;
    pub(crate) const VERSION: u32 = 5;
    pub(crate) const ARCH: u32 = 6;
    pub(crate) const NRCPUS: u32 = 7;
    pub(crate) const CPUDESC: u32 = 8;
    pub(crate) const TOTAL_MEM: u32 = 10;
    pub(crate) const CMDLINE: u32 = 11;
    pub(crate) const EVENT_DESC: u32 = 12;
    pub(crate) const CLOCK_DATA: u32 = 29;
}

const MAGIC: &[u8; 8] = b"PERFILE2";
const SWAPPED_MAGIC: &[u8; 8] = b"2ELIFREP";

/// Whether a file that begins with `start` is perf.data.
#[must_use]
pub fn is_perf_data(start: &[u8]) -> bool {
    start.starts_with(MAGIC) || start.starts_with(SWAPPED_MAGIC)
}

/// An event with its ids and name.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) attr: Attr,
    pub(crate) ids: Vec<u64>,
    pub(crate) name: String,
}

impl Event {
    pub(crate) fn new(attr: Attr, ids: Vec<u64>) -> Event {
        let name = attr.default_name();
        Event { attr, ids, name }
    }

    pub(crate) fn meaning(&self) -> Meaning {
        self.attr.meaning(&self.name)
    }
}

/// The container, read.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    pub(crate) events: Vec<Event>,
    /// Bytes of the feature sections.
    pub(crate) features: FxHashMap<u32, &'a [u8]>,
    /// The records.
    pub(crate) data: &'a [u8],
    /// Offset of `data` in the file.
    pub(crate) data_offset: u64,
    /// perf did not come to its end, or the file is cut.
    pub(crate) cut_short: bool,
}

impl<'a> Container<'a> {
    pub(crate) fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Container<'a>, ImportError> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.array::<8>("magic").map_err(|_| not_perf_data(bytes))?;
        if &magic == SWAPPED_MAGIC {
            return Err(ImportError::BigEndian);
        }
        if &magic != MAGIC {
            return Err(not_perf_data(bytes));
        }
        let size = cursor.u64("header.size")?;
        if size == 16 {
            let data = cursor.rest();
            return Ok(Container {
                events: Vec::new(),
                features: FxHashMap::default(),
                data,
                data_offset: 16,
                cut_short: false,
            });
        }
        let attr_size = cursor.u64("header.attr_size")?;
        let attrs = Section::parse(&mut cursor)?;
        let data = Section::parse(&mut cursor)?;
        let _event_types = Section::parse(&mut cursor)?;
        let mut bits = Vec::new();
        for word in 0..4u32 {
            let flags = cursor.u64("header.flags")?;
            bits.extend((0..64).filter(|bit| flags >> bit & 1 == 1).map(|bit| word * 64 + bit));
        }
        let events = events(bytes, attrs, attr_size, limits)?;
        // perf writes the size of the data when it ends: after `kill -9` it is still zero.
        let from = usize::try_from(data.offset).unwrap_or(usize::MAX).min(bytes.len());
        let whole =
            data.size > 0 && data.offset.checked_add(data.size).is_some_and(|end| end <= bytes.len() as u64);
        let records = match data.slice(bytes) {
            Some(records) if whole => records,
            _ => bytes.get(from..).unwrap_or(&[]),
        };
        let mut container = Container {
            events,
            features: FxHashMap::default(),
            data: records,
            data_offset: data.offset,
            cut_short: !whole,
        };
        if whole {
            container.read_features(bytes, data.offset.saturating_add(data.size), &bits);
        }
        container.name_events(limits);
        Ok(container)
    }

    /// A feature that cannot be read is as good as absent.
    fn read_features(&mut self, bytes: &'a [u8], at: u64, bits: &[u32]) {
        let table = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
        let mut cursor = Cursor::at(table, at);
        for &bit in bits {
            let Ok(section) = Section::parse(&mut cursor) else {
                self.cut_short = true;
                return;
            };
            if let Some(bytes) = section.slice(bytes) {
                self.features.insert(bit, bytes);
            }
        }
    }

    /// Events get their names from the feature `EVENT_DESC`, matched by id, or by order where there are none.
    pub(crate) fn name_events(&mut self, limits: &Limits) {
        let Some(&bytes) = self.features.get(&feature::EVENT_DESC) else { return };
        let names = event_names(bytes, limits).unwrap_or_default();
        for (number, event) in self.events.iter_mut().enumerate() {
            let by_id = names.iter().find(|(ids, _)| !ids.is_empty() && ids.first() == event.ids.first());
            let by_order = names.get(number).filter(|(ids, _)| ids.is_empty());
            if let Some((_, name)) = by_id.or(by_order).filter(|(_, name)| !name.is_empty()) {
                event.name.clone_from(name);
            }
        }
    }

    /// A feature that is one string.
    pub(crate) fn text(&self, feature: u32, limits: &Limits) -> Option<String> {
        let mut cursor = Cursor::new(self.features.get(&feature)?);
        string(&mut cursor, limits).ok().filter(|text| !text.is_empty())
    }

    /// A feature that is a list of strings.
    pub(crate) fn texts(&self, feature: u32, limits: &Limits) -> Vec<String> {
        let Some(bytes) = self.features.get(&feature) else { return Vec::new() };
        let mut cursor = Cursor::new(bytes);
        let count = cursor.u32("feature.count").unwrap_or(0) as usize;
        // Each takes at least the 4 bytes of its length.
        (0..count.min(bytes.len() / 4)).map_while(|_| string(&mut cursor, limits).ok()).collect()
    }

    /// The number of the feature at a place of 8 or 4 bytes.
    pub(crate) fn number(&self, feature: u32) -> Option<u64> {
        Cursor::new(self.features.get(&feature)?).u64("feature").ok()
    }

    /// Build ids by path: `[kernel.kallsyms]` and files.
    pub(crate) fn build_ids(&self, limits: &Limits) -> FxHashMap<String, Vec<u8>> {
        let mut ids = FxHashMap::default();
        let Some(bytes) = self.features.get(&feature::BUILD_ID) else { return ids };
        let mut cursor = Cursor::new(bytes);
        while ids.len() < limits.mappings {
            let Ok((path, id)) = build_id(&mut cursor, limits) else { break };
            ids.insert(path, id);
        }
        ids
    }
}

fn not_perf_data(bytes: &[u8]) -> ImportError {
    ImportError::NotPerfData { found: bytes.iter().take(8).copied().collect() }
}

/// `struct perf_file_section`.
#[derive(Clone, Copy, Debug)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn parse(cursor: &mut Cursor<'_>) -> Result<Section, ReadError> {
        Ok(Section { offset: cursor.u64("section.offset")?, size: cursor.u64("section.size")? })
    }

    fn slice<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let from = usize::try_from(self.offset).ok()?;
        let to = usize::try_from(self.offset.checked_add(self.size)?).ok()?;
        bytes.get(from..to)
    }
}

fn events(bytes: &[u8], attrs: Section, attr_size: u64, limits: &Limits) -> Result<Vec<Event>, ImportError> {
    let table = attrs.slice(bytes).unwrap_or(&[]);
    let each = usize::try_from(attr_size).unwrap_or(usize::MAX);
    let mut cursor = Cursor::at(table, attrs.offset);
    let mut events = Vec::new();
    // The 16 bytes at the end of each entry say where its ids are.
    while each >= 80 && cursor.remaining() >= each && events.len() < limits.events {
        let mut entry = cursor.sub("attrs.entry", each)?;
        let at = Section::parse(&mut Cursor::new(entry.rest().get(each - 16..).unwrap_or(&[])))?;
        let (attr, _) = Attr::parse(&mut entry)?;
        let ids = ids(at.slice(bytes).unwrap_or(&[]), limits);
        events.push(Event::new(attr, ids));
    }
    Ok(events)
}

/// As many ids as are there.
pub(crate) fn ids(bytes: &[u8], limits: &Limits) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .take(limits.ids)
        .filter_map(|id| Some(u64::from_le_bytes(id.try_into().ok()?)))
        .collect()
}

fn event_names(bytes: &[u8], limits: &Limits) -> Result<Vec<(Vec<u64>, String)>, ReadError> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.u32("event_desc.nr")? as usize;
    let attr_size = cursor.u32("event_desc.attr_size")? as usize;
    let mut names = Vec::new();
    for _ in 0..count.min(limits.events) {
        cursor.skip("event_desc.attr", attr_size)?;
        let ids_count = cursor.u32("event_desc.nr_ids")? as usize;
        let name = string(&mut cursor, limits)?;
        let bytes = cursor.take("event_desc.ids", ids_count.saturating_mul(8))?;
        names.push((ids(bytes, limits), name));
    }
    Ok(names)
}

/// `struct perf_header_string`: length with padding, bytes, zeros.
fn string(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<String, ReadError> {
    let length = cursor.u32("string.len")? as usize;
    Ok(text(cursor.take("string", length)?, limits))
}

/// Bytes up to the first zero, as text.
pub(crate) fn text(bytes: &[u8], limits: &Limits) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()).min(limits.text);
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned()
}

/// `struct perf_record_header_build_id`: a record header, pid, 24 bytes of build id, file name.
fn build_id(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<(String, Vec<u8>), ReadError> {
    const HAS_SIZE: u16 = 1 << 15;
    cursor.u32("build_id.type")?;
    let misc = cursor.u16("build_id.misc")?;
    let size = usize::from(cursor.u16("build_id.size")?);
    let mut body = cursor.sub("build_id", size.saturating_sub(8))?;
    body.u32("build_id.pid")?;
    let id = body.take("build_id.id", 20)?;
    let length = usize::from(body.u8("build_id.length")?);
    body.skip("build_id.reserved", 3)?;
    let path = text(body.rest(), limits);
    // Older perf does not tell the length; a build id is 20 bytes then, and zeros at its end are padding.
    let known = if misc & HAS_SIZE != 0 { length.min(20) } else { 20 };
    let id = id.get(..known).unwrap_or(id);
    let padding =
        if misc & HAS_SIZE != 0 { 0 } else { id.iter().rev().take_while(|byte| **byte == 0).count() / 4 * 4 };
    Ok((path, id.get(..id.len() - padding).unwrap_or(id).to_vec()))
}
