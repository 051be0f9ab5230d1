//! Objects behind traits of Rust (`Box<dyn Trait>`): beside their address there is that of a table.
//!
//! ```text
//! table: 0 drop_in_place or 0   8 size   16 alignment   24 methods
//! ```

use std::sync::Arc;

use biopsy_image::{Image, MemoryExt, mapping};
use biopsy_model::Avma;
use biopsy_stacks::image::ModuleVariables;
use rustc_hash::FxHashMap;

/// Methods whose names may tell the type.
const METHODS: u64 = 4;
/// Words that are remembered.
const REMEMBERED: usize = 1 << 20;
/// Bytes of names that are remembered.
const REMEMBERED_BYTES: usize = 32 << 20;
/// The largest alignment.
const ALIGNMENT: u64 = 4096;

/// A table: the size of the objects, and the name of their type where functions have names.
type Table = (u64, Option<Arc<str>>);

/// Types by their tables.
pub(crate) struct RustTables<'i> {
    image: &'i dyn Image,
    modules: &'i [ModuleVariables],
    lowest: u64,
    highest: u64,
    known: FxHashMap<u64, Option<Table>>,
    bytes: usize,
}

impl<'i> RustTables<'i> {
    pub(crate) fn new(image: &'i dyn Image, modules: &'i [ModuleVariables]) -> Self {
        let data = || modules.iter().flat_map(|one| &one.data);
        let lowest = data().map(|range| range.start).min().unwrap_or(u64::MAX);
        let highest = data().map(|range| range.end).max().unwrap_or(0);
        Self { image, modules, lowest, highest, known: FxHashMap::default(), bytes: 0 }
    }

    /// Whether a word may lead to one, for those that are looked at all the time.
    #[inline]
    pub(crate) fn may_be_table(&self, word: u64) -> bool {
        word >= self.lowest && word < self.highest && word.is_multiple_of(8)
    }

    /// The type of a block of so many bytes beside whose address this word is.
    pub(crate) fn name(&mut self, word: u64, block: u64) -> Option<Arc<str>> {
        let known = match self.known.get(&word) {
            Some(known) => known.clone(),
            None => {
                let table = self.read(word);
                if self.known.len() < REMEMBERED && self.bytes < REMEMBERED_BYTES {
                    let name = table.as_ref().and_then(|(_, name)| name.as_ref());
                    self.bytes += name.map_or(0, |name| name.len());
                    self.known.insert(word, table.clone());
                }
                table
            }
        };
        let (size, name) = known?;
        // The allocator gives what was asked for, rounded up.
        (size <= block && block - size < 24).then_some(name).flatten()
    }

    fn read(&self, table: u64) -> Option<Table> {
        let module = self.modules.iter().find(|one| one.data.iter().any(|range| range.contains(&table)))?;
        let word = |index: u64| self.image.read_u64(table.checked_add(index * 8)?).ok();
        let is_code =
            |at: u64| mapping::find(self.image.mappings(), at).is_some_and(|one| one.protection.execute);
        let [drop, size, alignment] = [word(0)?, word(1)?, word(2)?];
        if !(drop == 0 || is_code(drop)) || size == 0 || !alignment.is_power_of_two() || alignment > ALIGNMENT
        {
            return None;
        }
        let methods = (0..METHODS).map_while(|index| word(3 + index)).take_while(|method| is_code(*method));
        let functions = (drop != 0).then_some(drop).into_iter().chain(methods);
        let name = functions
            .filter_map(|at| module.function(Avma(at)))
            .find_map(|name| type_in(&name).map(Arc::from));
        Some((size, name))
    }
}

/// The type in the name of a function: `core::ptr::drop_in_place<T>`, `<T as Trait>::method`.
fn type_in(name: &str) -> Option<&str> {
    if let Some(rest) = name.strip_prefix("core::ptr::drop_in_place<") {
        return rest.strip_suffix('>');
    }
    let (of, _) = name.strip_prefix('<')?.split_once(" as ")?;
    (!of.is_empty() && !of.contains("::drop_in_place")).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::type_in;

    #[test]
    fn names_of_functions_tell_the_type() {
        for (name, expected) in [
            ("core::ptr::drop_in_place<guards::Dog>", Some("guards::Dog")),
            ("<guards::Sentry as guards::Guard>::watch", Some("guards::Sentry")),
            ("guards::main", None),
            ("core::ptr::drop_in_place<", None),
        ] {
            assert_eq!(type_in(name), expected, "{name}");
        }
    }
}
