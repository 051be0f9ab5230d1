//! All names of one ELF file.

use std::sync::Arc;

use biopsy_model::Svma;
use biopsy_model::symbol::SymbolSource;

use super::debug_file::DebugPlaces;
use super::dwarf::DebugInfo;
use super::plt::PltNames;
use super::source::{Names, Options, Resolved};
use super::table::{SymbolTable, TableKind};
use super::{demangle, mini_debug};
use crate::elf::{ElfCache, ElfError, ElfFile};

/// Symbol tables and debug information of one file, its debug file and what is packed inside it.
#[derive(Debug)]
pub(crate) struct FileSymbols {
    file: Arc<ElfFile>,
    /// Best first.
    tables: Vec<SymbolTable>,
    dynamic: Option<SymbolTable>,
    plt: PltNames,
    debug: Option<DebugInfo>,
}

/// What is needed to load one.
pub(crate) struct Loader<'a> {
    pub(crate) cache: &'a ElfCache,
    pub(crate) options: &'a Options,
    pub(crate) places: DebugPlaces<'a>,
    /// Addresses beside which none will be asked for, where that is known.
    pub(crate) only: Option<&'a [Svma]>,
    /// Bytes of DWARF that may still be loaded.
    pub(crate) debug_budget: u64,
    pub(crate) errors: &'a mut Vec<ElfError>,
}

impl FileSymbols {
    pub(crate) fn load(file: Arc<ElfFile>, label: &str, loader: &mut Loader<'_>) -> Self {
        let mut tables = Vec::new();
        let full = keep(SymbolTable::read(&file, TableKind::Full), loader.errors).flatten();
        let has_debug = DebugInfo::claimed_size(&file) > 0;
        let wants_debug = loader.options.inlines || loader.options.lines;
        let separate = if full.is_none() || (wants_debug && !has_debug) {
            loader.places.find(loader.cache, &file, label)
        } else {
            None
        };
        if let Some(separate) = &separate {
            tables.extend(keep(SymbolTable::read(separate, TableKind::Full), loader.errors).flatten());
        }
        tables.extend(full);
        if tables.is_empty()
            && let Some(packed) = mini_debug::read(&file)
        {
            tables.extend(keep(SymbolTable::read(&packed, TableKind::Full), loader.errors).flatten());
        }
        let dynamic = keep(SymbolTable::read(&file, TableKind::Dynamic), loader.errors).flatten();
        let plt = if dynamic.is_some() { PltNames::read(&file) } else { PltNames::default() };
        let with_debug = if has_debug { Some(&file) } else { separate.as_ref() };
        let debug = with_debug.filter(|_| wants_debug).and_then(|file| load_debug(file, loader));
        Self { file, tables, dynamic, plt, debug }
    }

    /// Bytes of DWARF in memory.
    pub(crate) fn debug_size(&self) -> u64 {
        self.debug.as_ref().map_or(0, DebugInfo::size)
    }

    /// What could not be used of it although it was asked for. Told once.
    pub(crate) fn take_problem(&self) -> Option<ElfError> {
        let debug = self.debug.as_ref()?;
        debug.take_refused().then(|| ElfError::TooDeep { path: self.file.path().to_owned() })
    }

    pub(crate) fn build_id(&self) -> Option<&[u8]> {
        self.file.build_id()
    }

    /// The best that names can come from.
    pub(crate) fn names(&self) -> Names {
        if self.debug.is_some() {
            Names::Debug
        } else if !self.tables.is_empty() {
            Names::Symbols
        } else if self.dynamic.is_some() {
            Names::Exported
        } else {
            Names::None
        }
    }

    pub(crate) fn function_start(&self, svma: Svma) -> Option<Svma> {
        self.file.unwind_table().function_start(svma.0).map(Svma)
    }

    pub(crate) fn resolve(&self, svma: Svma, options: &Options) -> Option<Resolved> {
        if !self.file.is_code(svma) {
            return None;
        }
        if self.plt.holds(svma.0) {
            let symbol = self.plt.symbol(&self.file, svma.0)?;
            let name = self.dynamic.as_ref()?.name_by_index(symbol)?;
            return Some(Resolved::name(format!("{}@plt", demangle(&name)), SymbolSource::ElfSymbols));
        }
        let tables = self.tables.iter().chain(&self.dynamic);
        let name = tables.filter_map(|table| table.find(svma.0)).next().map(|name| demangle(&name));
        if let Some(debug) = &self.debug {
            let functions = debug.find(svma.0, options.inlines, options.lines).named(name.as_deref());
            if !functions.is_empty() {
                return Some(Resolved { functions, source: SymbolSource::Dwarf });
            }
        }
        if name.is_none() && self.file.unwind_table().is_signal_trampoline(svma.0) {
            // `__restore_rt` of a stripped C library, in the words of gdb.
            return Some(Resolved::name(String::from("<signal handler called>"), SymbolSource::Dwarf));
        }
        name.map(|name| Resolved::name(name, SymbolSource::ElfSymbols))
    }
}

fn load_debug(file: &ElfFile, loader: &mut Loader<'_>) -> Option<DebugInfo> {
    let size = DebugInfo::claimed_size(file);
    if size == 0 {
        return None;
    }
    let limit = loader.debug_budget.min(file.limits().dwarf);
    if size > limit {
        let path = file.path().to_owned();
        loader.errors.push(ElfError::TooLarge { path, what: "debug information", size, limit });
        return None;
    }
    let supplement = loader.places.supplement(loader.cache, file);
    keep(DebugInfo::read(file, supplement.as_deref(), limit, loader.only), loader.errors)
}

/// Damage of one part leaves the others.
fn keep<T>(result: Result<T, ElfError>, errors: &mut Vec<ElfError>) -> Option<T> {
    result.map_err(|error| errors.push(error)).ok()
}
