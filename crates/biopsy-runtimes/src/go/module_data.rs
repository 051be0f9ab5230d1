//! `runtime.moduledata`: where the linker put the tables of functions, and where the runtime's variables are.
//!
//! It is found by what it begins with: the address of the tables' header, and behind it the first table's, which the header counts
//! from itself. Both are there in stripped programs too; the runtime itself walks stacks by them.
//!
//! ```text
//! pclntab header   0 magic f1ffffff (1.20), f0ffffff (1.18)  6 instruction 1  7 pointer 8  32 names, from the header
//! moduledata       0 header  8 names  32 file numbers  56 files  80 pairs  104 functions  128 ftab  136 its length
//!                  176 text  184 its end  192 pointerless data  208 data  224 bss  240 pointerless bss, each with its end
//! ```
//! The same from 1.18 to 1.26 (runtime/symtab.go).

use std::ops::Range;

use super::layout::Layout;
use crate::{Limits, Memory, Module};

const MAGICS: [[u8; 8]; 2] = [*b"\xf1\xff\xff\xff\0\0\x01\x08", *b"\xf0\xff\xff\xff\0\0\x01\x08"];
const FIRST_TABLE: u64 = 32;

/// What is needed of it.
#[derive(Clone, Debug)]
pub(super) struct ModuleData {
    pub(super) text: Range<u64>,
    /// `funcnametab`, `cutab`, `filetab`, `pctab`, `pclntable`: addresses.
    pub(super) names: u64,
    pub(super) file_numbers: u64,
    pub(super) files: u64,
    pub(super) pairs: u64,
    pub(super) functions: u64,
    /// `ftab`: address and number of rows.
    pub(super) rows: u64,
    pub(super) row_count: u64,
    /// What `funcdata` counts from.
    pub(super) function_data: u64,
    /// Where descriptions of types lie, in the words before that.
    pub(super) types: Range<u64>,
    /// The ranges that hold variables.
    pub(super) variables: [Range<u64>; 4],
}

/// Finds it.
pub(super) fn find(
    memory: &Memory<'_>,
    module: &Module<'_>,
    layout: &Layout,
    limits: &Limits,
) -> Option<ModuleData> {
    let ranges = || module.constant().chain(module.writable());
    for magic in &MAGICS {
        let found = ranges().find_map(|range| {
            memory.find(range, magic, 8, limits.searched_bytes, |table| {
                let first = table.checked_add(memory.u64(table + FIRST_TABLE)?)?;
                let start = [table.to_le_bytes(), first.to_le_bytes()].concat();
                let places = module.writable().chain(module.constant());
                places.into_iter().find_map(|range| {
                    memory.find(range, &start, 8, limits.searched_bytes, |at| read(memory, at, layout))
                })
            })
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

fn read(memory: &Memory<'_>, at: u64, layout: &Layout) -> Option<ModuleData> {
    let word = |offset| memory.u64(at.checked_add(offset)?);
    let range = |offset| Some(word(offset)?..word(offset + 8)?);
    let data = ModuleData {
        text: range(176)?,
        names: word(8)?,
        file_numbers: word(32)?,
        files: word(56)?,
        pairs: word(80)?,
        functions: word(104)?,
        rows: word(128)?,
        row_count: word(136)?,
        function_data: word(layout.module_function_data)?,
        types: range(layout.module_function_data - 24).unwrap_or(0..0),
        variables: [range(192)?, range(208)?, range(224)?, range(240)?],
    };
    let ordered = data.text.start < data.text.end && data.variables.iter().all(|one| one.start <= one.end);
    (ordered && data.row_count > 0).then_some(data)
}
