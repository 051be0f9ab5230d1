//! The tables of a profile: where each row is, and those that others refer to.

use biopsy_bytes::ReadError;
use rustc_hash::FxHashMap;

use super::error::PprofError;
use super::limits::Limits;
use super::wire::{Fields, Value};

/// Types of samples that are read; writers have up to ten.
const TYPES: usize = 64;

/// What the numbers of a sample are: places in the table of strings.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ValueType {
    pub(super) kind: i64,
    pub(super) unit: i64,
}

/// A file that is mapped into the process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) limit: u64,
    pub(super) offset: u64,
    pub(super) file: i64,
    pub(super) build_id: i64,
}

/// A function: places of its texts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Function {
    pub(super) name: i64,
    pub(super) system_name: i64,
    pub(super) file: i64,
}

/// All tables; rows of samples and locations are messages that are read when they are needed.
#[derive(Debug, Default)]
pub(super) struct Profile<'a> {
    pub(super) types: Vec<ValueType>,
    pub(super) samples: Vec<&'a [u8]>,
    pub(super) locations: FxHashMap<u64, &'a [u8]>,
    pub(super) mappings: FxHashMap<u64, Mapping>,
    /// The one that stands first: the program.
    pub(super) first_mapping: Option<u64>,
    pub(super) functions: FxHashMap<u64, Function>,
    strings: Vec<&'a [u8]>,
    pub(super) time_nanos: i64,
    pub(super) duration_nanos: i64,
    pub(super) period_type: ValueType,
    pub(super) period: i64,
    /// Where the rest could not be read, and why.
    pub(super) damage: Option<ReadError>,
    /// Rows beyond the limits.
    pub(super) left_out: u64,
}

impl<'a> Profile<'a> {
    /// Reads all tables. What is damaged ends it: what came before counts.
    pub(super) fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, PprofError> {
        let mut profile = Self::default();
        for field in Fields::of(bytes) {
            let (number, value) = match field {
                Ok(field) => field,
                Err(error) if error.offset == 0 => return Err(PprofError::NotOne(error)),
                Err(error) => {
                    profile.damage = Some(error);
                    break;
                }
            };
            let room = |rows: usize| rows < limits.rows;
            let fits = match number {
                1 if profile.types.len() < TYPES => {
                    profile.types.push(value_type(value.bytes()));
                    true
                }
                2 if room(profile.samples.len()) => {
                    profile.samples.push(value.bytes());
                    true
                }
                3 if room(profile.mappings.len()) => {
                    let (id, mapping) = mapping(value.bytes());
                    profile.first_mapping.get_or_insert(id);
                    profile.mappings.insert(id, mapping);
                    true
                }
                4 if room(profile.locations.len()) => {
                    profile.locations.insert(number_of(value.bytes(), 1), value.bytes());
                    true
                }
                5 if room(profile.functions.len()) => {
                    let (id, function) = function(value.bytes());
                    profile.functions.insert(id, function);
                    true
                }
                6 if room(profile.strings.len()) => {
                    profile.strings.push(value.bytes());
                    true
                }
                1..=6 => false,
                9 => {
                    profile.time_nanos = value.signed();
                    true
                }
                10 => {
                    profile.duration_nanos = value.signed();
                    true
                }
                11 => {
                    profile.period_type = value_type(value.bytes());
                    true
                }
                12 => {
                    profile.period = value.signed();
                    true
                }
                // Which frames to hide, comments, links: nothing of what was measured.
                _ => true,
            };
            profile.left_out += u64::from(!fits);
        }
        Ok(profile)
    }

    /// A text; `None`: there is none at this place.
    pub(super) fn string(&self, index: i64) -> Option<&'a [u8]> {
        self.strings.get(usize::try_from(index).ok()?).copied()
    }
}

/// Whether bytes, which may be cut off anywhere, begin as a profile does: with what its numbers are. Go writes the time in front of that.
pub(super) fn begins(bytes: &[u8]) -> bool {
    for field in Fields::of(bytes) {
        match field {
            Ok((1, Value::Bytes(first))) => return is_type(first),
            Ok((9 | 10 | 12, Value::Number(_)) | (11, Value::Bytes(_))) => (),
            _ => return false,
        }
    }
    false
}

fn is_type(bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes).peekable();
    fields.peek().is_some() && fields.all(|field| matches!(field, Ok((1 | 2, Value::Number(_)))))
}

fn value_type(bytes: &[u8]) -> ValueType {
    let mut found = ValueType::default();
    for (number, value) in Fields::of(bytes).flatten() {
        match number {
            1 => found.kind = value.signed(),
            2 => found.unit = value.signed(),
            _ => (),
        }
    }
    found
}

fn mapping(bytes: &[u8]) -> (u64, Mapping) {
    let (mut id, mut found) = (0, Mapping::default());
    for (number, value) in Fields::of(bytes).flatten() {
        match number {
            1 => id = value.number(),
            2 => found.start = value.number(),
            3 => found.limit = value.number(),
            4 => found.offset = value.number(),
            5 => found.file = value.signed(),
            6 => found.build_id = value.signed(),
            _ => (),
        }
    }
    (id, found)
}

fn function(bytes: &[u8]) -> (u64, Function) {
    let (mut id, mut found) = (0, Function::default());
    for (number, value) in Fields::of(bytes).flatten() {
        match number {
            1 => id = value.number(),
            2 => found.name = value.signed(),
            3 => found.system_name = value.signed(),
            4 => found.file = value.signed(),
            _ => (),
        }
    }
    (id, found)
}

/// An integer of a message; the last one counts.
fn number_of(bytes: &[u8], number: u64) -> u64 {
    Fields::of(bytes).flatten().filter(|(at, _)| *at == number).last().map_or(0, |(_, value)| value.number())
}
