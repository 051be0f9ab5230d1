//! The types of an assembly that are loaded.

use super::{Module, Runtime, TypeHandle};

/// Types of one assembly; the format of metadata allows 16 million.
const MOST: u64 = 1 << 20;
/// Blocks of the table; it grows by half each time.
const BLOCKS: usize = 256;
/// `LookupMapBase` {next, table, u32 count, flags that a value may have} in 8, 9 and 10, where no layout says it.
const NEXT: u64 = 0;
const TABLE: u64 = 8;
const COUNT: u64 = 16;

impl Runtime<'_> {
    /// The types that an assembly defines and that are loaded, generic ones as they are defined; none where the table is not where it is
    /// expected.
    ///
    /// `Module` has a table by the row of the definition: a list of blocks, each with method tables whose lowest bits are flags.
    #[must_use]
    pub fn loaded_types(&self, module: &Module) -> Vec<TypeHandle> {
        let layout = self.layout();
        let Some(map) = layout.find_field("Module", "TypeDefToMethodTableMap") else { return Vec::new() };
        let field =
            |name: &str, usual: u64| layout.find_field("ModuleLookupMap", name).map_or(usual, u64::from);
        let (next, table, count) = (field("Next", NEXT), field("TableData", TABLE), field("Count", COUNT));
        let memory = self.memory();
        let mut block = module.address.0.wrapping_add(map.into());
        let mut found = Vec::new();
        let mut rows = 0;
        for _ in 0..BLOCKS {
            let (Ok(values), Ok(many)) =
                (memory.u64(block.wrapping_add(table)), memory.u32(block.wrapping_add(count)))
            else {
                break;
            };
            rows += u64::from(many);
            if rows > MOST {
                break;
            }
            for row in 0..u64::from(many) {
                let Ok(value) = memory.u64(values.wrapping_add(row * 8)) else { break };
                let of = TypeHandle::from(value & !7);
                // What is no type of this assembly says that this is not the table.
                if of != TypeHandle::default()
                    && self.type_of(of).is_ok_and(|info| info.module == module.address)
                {
                    found.push(of);
                }
            }
            match memory.u64(block.wrapping_add(next)) {
                Ok(following) if following != 0 => block = following,
                _ => break,
            }
        }
        found
    }
}
