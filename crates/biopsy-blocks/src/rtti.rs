//! Objects of C++ by their table of virtual functions (Itanium C++ ABI, 2.5 and 2.9), stripped programs too.
//!
//! ```text
//! object ─► table: -16 offset to the top, -8 type info ─► 0 table of its own class, 8 name (`7Session`), 0 first function
//! ```

use std::sync::Arc;

use biopsy_image::{Image, MemoryExt, mapping};
use biopsy_model::Avma;
use biopsy_stacks::image::ModuleVariables;
use biopsy_stacks::symbols::demangle;
use rustc_hash::FxHashMap;

/// Longest name of a type, in bytes.
const NAME: usize = 1024;
/// Words that are remembered: most of what is looked at is no table.
const REMEMBERED: usize = 1 << 20;
/// Bytes of names that are remembered.
const REMEMBERED_BYTES: usize = 32 << 20;
/// An object is at most so many bytes inside of another.
const INSIDE: u64 = 1 << 24;

/// Types by their tables.
pub(crate) struct Rtti<'i> {
    image: &'i dyn Image,
    modules: &'i [ModuleVariables],
    lowest: u64,
    highest: u64,
    known: FxHashMap<u64, Option<Arc<str>>>,
    bytes: usize,
}

impl<'i> Rtti<'i> {
    pub(crate) fn new(image: &'i dyn Image, modules: &'i [ModuleVariables]) -> Self {
        let lowest = modules.iter().map(|one| one.range.start).min().unwrap_or(u64::MAX);
        let highest = modules.iter().map(|one| one.range.end).max().unwrap_or(0);
        Self { image, modules, lowest, highest, known: FxHashMap::default(), bytes: 0 }
    }

    /// The type whose objects have this word; `None`: it is no table.
    pub(crate) fn name(&mut self, word: u64) -> Option<Arc<str>> {
        if word < self.lowest || word >= self.highest || !word.is_multiple_of(8) {
            return None;
        }
        if let Some(known) = self.known.get(&word) {
            return known.clone();
        }
        let name: Option<Arc<str>> = self.read(word).map(Arc::from);
        if self.known.len() < REMEMBERED && self.bytes < REMEMBERED_BYTES {
            self.bytes += name.as_ref().map_or(0, |name| name.len());
            self.known.insert(word, name.clone());
        }
        name
    }

    fn module(&self, address: u64) -> Option<&'i ModuleVariables> {
        let after = self.modules.partition_point(|one| one.range.start <= address);
        self.modules.get(after.checked_sub(1)?).filter(|one| address < one.range.end)
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.image.read_u64(address).ok()
    }

    fn read(&self, table: u64) -> Option<String> {
        let module = self.module(table)?;
        let to_top = self.word(table.checked_sub(16)?)?;
        if to_top.wrapping_neg() > INSIDE {
            return None;
        }
        // A function, or none: those of a class that is never made.
        let first = self.word(table)?;
        let is_code = mapping::find(self.image.mappings(), first).is_some_and(|one| one.protection.execute);
        if !is_code && first != 0 {
            return None;
        }
        let info = self.word(table - 8)?;
        let told = || {
            let symbol = module.at(Avma(table - 16)).filter(|(start, _)| *start == Avma(table - 16))?;
            Some(symbol.1.strip_prefix("{vtable(")?.strip_suffix(")}")?.to_owned())
        };
        if info == 0 {
            return told().map(|name| short(&name));
        }
        if !info.is_multiple_of(8) {
            return None;
        }
        self.module(info)?;
        self.module(self.word(info)?)?;
        let at = self.word(info.checked_add(8)?)?;
        self.module(at)?;
        let mut bytes = [0; NAME];
        let read = self.image.read_available(at, &mut bytes);
        let end = bytes.get(..read)?.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(bytes.get(..end)?).ok()?;
        // Those of one file begin with a mark.
        let name = name.strip_prefix('*').unwrap_or(name);
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
        if name.is_empty() || !is_name {
            return None;
        }
        let whole = demangle(&format!("_ZTI{name}"));
        whole.strip_prefix("typeinfo for ").map(short)
    }
}

/// What `std::make_shared` makes is named after what is in it.
fn short(name: &str) -> String {
    let shared = ["std::_Sp_counted_ptr_inplace<", "std::__1::__shared_ptr_emplace<"];
    let inner = shared.iter().find_map(|prefix| name.strip_prefix(prefix)).and_then(first_argument);
    inner.map_or_else(|| name.to_owned(), |inner| format!("{inner} (shared)"))
}

/// Up to the comma that is in no inner pair of brackets.
fn first_argument(arguments: &str) -> Option<&str> {
    let mut depth = 0_u32;
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'<' | b'(' => depth += 1,
            b'>' | b')' if depth == 0 => return arguments.get(..at),
            b'>' | b')' => depth -= 1,
            b',' if depth == 0 => return arguments.get(..at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_named_after_what_is_in_it() {
        for (name, expected) in [
            ("practice::Patient", "practice::Patient"),
            (
                "std::_Sp_counted_ptr_inplace<Row, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>",
                "Row (shared)",
            ),
            ("std::_Sp_counted_ptr_inplace<Pair<A, B>, std::allocator<void>, 2>", "Pair<A, B> (shared)"),
            ("std::_Sp_counted_ptr_inplace<Row", "std::_Sp_counted_ptr_inplace<Row"),
        ] {
            assert_eq!(short(name), expected);
        }
    }
}
