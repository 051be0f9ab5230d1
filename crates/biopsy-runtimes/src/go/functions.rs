//! Functions, lines and frame sizes by address: what the runtime itself unwinds and prints by (`runtime/symtab.go`).
//!
//! ```text
//! ftab        rows by address: u32 entry, u32 where its `_func` is; the last row is the end
//! _func       0 entry  4 i32 name  16 sizes of the frame  20 files  24 lines  28 count of tables  32 unit
//!             then one byte each: id of the function, flags, -, count of data; then u32 tables, u32 data
//! pairs       varints (zigzag change of the value, change of the address), until the value's change is 0
//! inlined     a tree in data 3; table 2 says which row an instruction belongs to (-1 none)
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::layout::Layout;
use super::module_data::ModuleData;
use crate::{Limits, Memory, StrandFrame};

/// Rows of `ftab` that are read: the largest programs have some hundred thousand functions.
const FUNCTIONS: u64 = 4_000_000;
/// Bytes of the pairs of one function; large ones take some thousand.
const PAIRS: usize = 256 << 10;
/// Pairs are read in pieces of this many bytes.
const PIECE: usize = 512;
/// Places that are kept: a hundred thousand goroutines are in some hundred.
const PLACES: usize = 262_144;
/// Inlined functions in one place: the compiler stops far below.
const NESTED: usize = 64;
const TABLE_INLINED: u64 = 2;
const DATA_INLINED: u64 = 3;
/// `abi.FuncFlagTopFrame`.
const TOP: u8 = 1;

/// A function.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) entry: u64,
    pub(super) end: u64,
    pub(super) name: Arc<str>,
    /// Address of its `_func`.
    at: u64,
    sizes: u32,
    files: u32,
    lines: u32,
    tables: u32,
    unit: u32,
    data: u8,
    flags: u8,
}

impl Function {
    /// Its tables are behind what is the same for all functions.
    fn behind(&self, layout: &Layout) -> u64 {
        self.at.saturating_add(layout.function_table_count + 1)
    }

    /// Nothing called it: the bottom of a stack.
    pub(super) fn is_top(&self) -> bool {
        self.flags & TOP != 0
    }
}

/// All functions of a module.
pub(super) struct Functions<'m, 'i> {
    memory: &'m Memory<'i>,
    layout: Layout,
    data: ModuleData,
    rows: Vec<(u32, u32)>,
    text_limit: usize,
    texts_left: Cell<usize>,
    known: RefCell<FxHashMap<usize, Option<Arc<Function>>>>,
    places: RefCell<FxHashMap<u64, Arc<[StrandFrame]>>>,
    names: RefCell<FxHashMap<u64, Arc<str>>>,
    sizes: RefCell<FxHashMap<u64, Option<i32>>>,
}

impl std::fmt::Debug for Functions<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").field("data", &self.data).finish_non_exhaustive()
    }
}

impl<'m, 'i> Functions<'m, 'i> {
    /// `None` when the table of functions cannot be read.
    pub(super) fn read(
        memory: &'m Memory<'i>,
        layout: &Layout,
        data: ModuleData,
        limits: &Limits,
    ) -> Option<Self> {
        let count = data.row_count.min(FUNCTIONS);
        let bytes = memory.bytes(data.rows, usize::try_from(count * 8).ok()?);
        let rows: Vec<(u32, u32)> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|[a, b, c, d, e, f, g, h]| {
                (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]))
            })
            .collect();
        (!rows.is_empty()).then(|| Self {
            memory,
            layout: *layout,
            data,
            rows,
            text_limit: limits.text,
            texts_left: Cell::new(limits.texts),
            known: RefCell::default(),
            places: RefCell::default(),
            names: RefCell::default(),
            sizes: RefCell::default(),
        })
    }

    /// The function that has this address.
    pub(super) fn find(&self, address: u64) -> Option<Arc<Function>> {
        if !self.data.text.contains(&address) {
            return None;
        }
        let offset = u32::try_from(address - self.data.text.start).ok()?;
        let index = self.rows.partition_point(|row| row.0 <= offset).checked_sub(1)?;
        if let Some(known) = self.known.borrow().get(&index) {
            return known.clone();
        }
        let function = self.read_function(index).map(Arc::new);
        self.known.borrow_mut().insert(index, function.clone());
        function
    }

    fn read_function(&self, index: usize) -> Option<Function> {
        let (entry, offset) = *self.rows.get(index)?;
        let (next, _) = *self.rows.get(index + 1)?;
        let at = self.data.functions.checked_add(offset.into())?;
        let u32_at = |offset| self.memory.u32(at.checked_add(offset)?);
        if u32_at(0)? != entry {
            return None;
        }
        let last = self.layout.function_table_count;
        Some(Function {
            entry: self.data.text.start.checked_add(entry.into())?,
            end: self.data.text.start.checked_add(next.into())?,
            name: self.name(u32_at(4)?)?,
            at,
            sizes: u32_at(16)?,
            files: u32_at(20)?,
            lines: u32_at(24)?,
            tables: u32_at(28)?,
            unit: u32_at(32)?,
            data: self.memory.u8(at.saturating_add(last))?,
            flags: self.memory.u8(at.saturating_add(last - 2))?,
        })
    }

    fn name(&self, offset: u32) -> Option<Arc<str>> {
        self.shared(self.data.names.checked_add(offset.into())?, without_types)
    }

    fn shared(&self, at: u64, shown: fn(String) -> String) -> Option<Arc<str>> {
        if let Some(known) = self.names.borrow().get(&at) {
            return Some(Arc::clone(known));
        }
        let text: Arc<str> =
            shown(self.memory.c_string(at, self.text_limit.min(self.texts_left.get()))?).into();
        self.texts_left.set(self.texts_left.get().saturating_sub(text.len()));
        self.names.borrow_mut().insert(at, Arc::clone(&text));
        Some(text)
    }

    /// How far above the stack pointer the return address is, at this instruction.
    pub(super) fn frame_size(&self, function: &Function, address: u64) -> Option<u64> {
        let mut sizes = self.sizes.borrow_mut();
        let size = *sizes.entry(address).or_insert_with(|| self.value(function, function.sizes, address));
        u64::try_from(size?).ok()
    }

    /// The value that a table of pairs has for an instruction.
    fn value(&self, function: &Function, table: u32, address: u64) -> Option<i32> {
        if table == 0 {
            return None;
        }
        let start = self.data.pairs.checked_add(table.into())?;
        let (mut value, mut at) = (-1i32, function.entry);
        let mut pairs = Pairs { memory: self.memory, next: start, piece: Vec::new(), used: 0, left: PAIRS };
        loop {
            let change = pairs.varint()?;
            if change == 0 && at != function.entry {
                return None;
            }
            value = value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
            at = at.checked_add(pairs.varint()?.into())?;
            if address < at {
                return Some(value);
            }
        }
    }

    /// The frames of a place in code, inlined ones first. `address`: inside the call, for callers.
    pub(super) fn frames(&self, function: &Function, address: u64) -> Arc<[StrandFrame]> {
        if let Some(known) = self.places.borrow().get(&address) {
            return Arc::clone(known);
        }
        let mut frames = Vec::new();
        let mut at = address;
        let tree = self.inlined_tree(function);
        while let Some(row) = tree.and_then(|tree| self.inlined_row(function, tree, at)) {
            let (Some(name), true) = (self.name(row.name), frames.len() < NESTED) else { break };
            frames.push(self.frame(function, name, at, true));
            at = function.entry.saturating_add(row.parent.into());
        }
        frames.push(self.frame(function, Arc::clone(&function.name), at, false));
        let frames: Arc<[StrandFrame]> = frames.into();
        let mut places = self.places.borrow_mut();
        if places.len() >= PLACES {
            places.clear();
        }
        places.insert(address, Arc::clone(&frames));
        frames
    }

    fn frame(&self, function: &Function, name: Arc<str>, at: u64, inlined: bool) -> StrandFrame {
        let line = self.value(function, function.lines, at).and_then(|line| u32::try_from(line).ok());
        let file = self.value(function, function.files, at).and_then(|number| {
            let number = u64::from(function.unit).checked_add(u64::try_from(number).ok()?)?;
            let offset = self.memory.u32(self.data.file_numbers.checked_add(number.checked_mul(4)?)?)?;
            (offset != u32::MAX)
                .then(|| self.shared(self.data.files.checked_add(offset.into())?, |file| file))
                .flatten()
        });
        StrandFrame { function: name, file, line, address: Some(Avma(at)), sp: None, inlined }
    }

    /// Address of the tree of functions that were inlined into this one.
    fn inlined_tree(&self, function: &Function) -> Option<u64> {
        if u64::from(function.data) <= DATA_INLINED || u64::from(function.tables) <= TABLE_INLINED {
            return None;
        }
        let at =
            function.behind(&self.layout).checked_add((u64::from(function.tables) + DATA_INLINED) * 4)?;
        let offset = self.memory.u32(at)?;
        (offset != u32::MAX).then(|| self.data.function_data.checked_add(offset.into())).flatten()
    }

    fn inlined_row(&self, function: &Function, tree: u64, at: u64) -> Option<InlinedRow> {
        let table = function.behind(&self.layout).saturating_add(TABLE_INLINED * 4);
        let index = self.value(function, self.memory.u32(table)?, at)?;
        let row = tree.checked_add(u64::try_from(index).ok()? * self.layout.inline_row)?;
        Some(InlinedRow {
            name: self.memory.u32(row.checked_add(self.layout.inline_name)?)?,
            parent: self.memory.u32(row.checked_add(self.layout.inline_parent_pc)?)?,
        })
    }
}

/// `main.(*relay[...]).run`, as Go itself prints what it compiled once for several types.
fn without_types(name: String) -> String {
    match (name.find('['), name.rfind(']')) {
        (Some(start), Some(end)) if start < end => {
            let (before, after) = (name.get(..start), name.get(end + 1..));
            format!("{}[...]{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        _ => name,
    }
}

struct InlinedRow {
    name: u32,
    /// An instruction of the function around it whose line is that of the call, from that function's entry.
    parent: u32,
}

/// Varints, read on in pieces.
struct Pairs<'m, 'i> {
    memory: &'m Memory<'i>,
    next: u64,
    piece: Vec<u8>,
    used: usize,
    left: usize,
}

impl Pairs<'_, '_> {
    fn byte(&mut self) -> Option<u8> {
        if self.used == self.piece.len() {
            let length = PIECE.min(self.left);
            self.piece.resize(length, 0);
            let read = self.memory.read_available(self.next, &mut self.piece);
            self.piece.truncate(read);
            (self.next, self.left, self.used) = (self.next.checked_add(read as u64)?, self.left - read, 0);
        }
        let byte = *self.piece.get(self.used)?;
        self.used += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
