//! Names of the functions that code of a file calls, as they stand in its tables: mangled, without lines.

use std::sync::Arc;

use super::plt::PltNames;
use super::table::{SymbolTable, TableKind};
use crate::elf::ElfFile;

/// Names of one file.
#[derive(Debug)]
pub(crate) struct CallNames {
    full: Option<SymbolTable>,
    dynamic: Option<SymbolTable>,
    slots: PltNames,
}

impl CallNames {
    /// Damaged tables give no names.
    pub(crate) fn read(file: &Arc<ElfFile>) -> Self {
        let table = |kind| SymbolTable::read(file, kind).ok().flatten();
        Self {
            full: table(TableKind::Full),
            dynamic: table(TableKind::Dynamic),
            slots: PltNames::read_slots(file),
        }
    }

    /// The function at a stated address.
    pub(crate) fn function(&self, svma: u64) -> Option<String> {
        let find = |table: &Option<SymbolTable>| table.as_ref()?.find(svma);
        find(&self.full).or_else(|| find(&self.dynamic))
    }

    /// The function whose address dynamic linking puts at a stated address.
    pub(crate) fn slot(&self, svma: u64) -> Option<String> {
        self.dynamic.as_ref()?.name_by_index(self.slots.symbol_of_slot(svma)?)
    }
}
