//! Names for the places in code that stacks of an image meet.

use std::collections::BTreeSet;
use std::sync::Arc;

use biopsy_model::symbol::Function;
use biopsy_model::{Avma, Svma};
use rustc_hash::FxHashMap;

use super::modules::Code;
use super::options::Options;
use super::stacks::{Compiled, Place, PlaceHandle};
use crate::elf::ElfCache;
use crate::symbols::Symbolizer;

/// Places met so far, each once.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    known: FxHashMap<(Avma, bool), PlaceHandle>,
}

impl Places {
    /// `trampoline`: the frame is what a signal handler returns to.
    pub(super) fn intern(&mut self, code: &Code, lookup: Avma, trampoline: bool) -> PlaceHandle {
        *self.known.entry((lookup, trampoline)).or_insert_with(|| {
            let found = code.unwinder.find(lookup);
            let module = found.map(|found| found.tag() as usize);
            let start = module.and_then(|index| code.modules.get(index)).map_or(0, |module| module.start.0);
            let offset = found
                .and_then(|found| found.svma(lookup))
                .map_or(lookup.0.wrapping_sub(start), |svma| svma.0);
            let trampoline = trampoline.then(signal_trampoline);
            self.places.push(Place {
                address: lookup,
                module,
                offset: module.map_or(lookup.0, |_| offset),
                functions: trampoline.into_iter().collect(),
                function_start: None,
                compiled: None,
            });
            PlaceHandle(self.places.len() as u32 - 1)
        })
    }

    /// Numbers of the modules that they are in, each once.
    pub(super) fn modules(&self) -> BTreeSet<usize> {
        self.places.iter().filter_map(|place| place.module).collect()
    }

    /// Finds names for all of them.
    pub(super) fn resolve(
        mut self,
        code: &mut Code,
        options: &Options<'_>,
        cache: Arc<ElfCache>,
    ) -> (Vec<Place>, Vec<String>) {
        let mut symbolizer = Symbolizer::new(options.symbols.clone(), cache);
        let mut by_module: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut compiled = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            let Some(module) = place.module else {
                // Memory without a file: code of a runtime that keeps it so.
                compiled.push(index);
                continue;
            };
            // What a program carries behind its own code (a bundle of .NET assemblies) is mapped from its file, and is not in
            // its symbols.
            let foreign = code.unwinder.find(place.address).is_some_and(|found| found.file().is_none());
            if foreign {
                compiled.push(index);
            } else {
                by_module.entry(module).or_default().push(index);
            }
        }
        self.compiled(options, &compiled);
        let root = options.roots.first().map(std::path::PathBuf::as_path);
        for (module, places) in by_module {
            let Some(Some(file)) = code.files.get(module).cloned() else {
                self.compiled(options, &places);
                continue;
            };
            let Some(known) = code.modules.get_mut(module) else { continue };
            let addresses: Vec<Svma> =
                places.iter().filter_map(|at| self.places.get(*at)).map(|place| Svma(place.offset)).collect();
            let found = symbolizer.open_file(&file, &known.path, root, &addresses);
            known.names = found.names;
            for ((at, resolved), start) in places.into_iter().zip(found.resolved).zip(found.starts) {
                let Some(place) = self.places.get_mut(at) else { continue };
                place.function_start = start.map(|start| start.0);
                if let Some(resolved) = resolved.filter(|_| place.functions.is_empty()) {
                    place.functions = resolved.functions;
                }
            }
        }
        let problems = symbolizer.take_problems().iter().map(ToString::to_string).collect();
        (self.places, problems)
    }

    fn compiled(&mut self, options: &Options<'_>, places: &[usize]) {
        let Some(names) = options.compiled else { return };
        for at in places {
            let Some(place) = self.places.get_mut(*at).filter(|place| place.functions.is_empty()) else {
                continue;
            };
            let Some(found) = names.find(place.address) else { continue };
            place.functions = vec![found.function];
            place.compiled = Some(Compiled { module: found.module, is_method: found.is_method });
        }
    }
}

/// gdb's words for it.
fn signal_trampoline() -> Function {
    Function { name: String::from("<signal handler called>"), file: None, line: None }
}
