//! Of which type each block is: told by itself, by who refers to it, or else by what it looks like.

use biopsy_image::Image;
use biopsy_stacks::image::ModuleVariables;
use rustc_hash::FxHashMap;

use crate::heap::{BlockNumber, Heap};
use crate::looks::Look;
use crate::python::objects::Objects;
use crate::rtti::Rtti;
use crate::rust_tables::RustTables;
use crate::type_names::TypeNames;

/// Words at the beginning of a block that are looked at for the table of an object in it: nodes of lists and trees have up to four before.
const WORDS: usize = 8;
/// No type is known.
const NONE: u32 = u32::MAX;
/// Types of all blocks.
pub(crate) struct Kinds<'i> {
    pub(crate) names: TypeNames,
    pub(crate) python: Objects<'i>,
    rtti: Rtti<'i>,
    rust: RustTables<'i>,
    /// By block; [`NONE`]: by its look.
    of: Vec<u32>,
    looks: Vec<u32>,
    by_look: FxHashMap<Look, u32>,
}

impl<'i> Kinds<'i> {
    pub(crate) fn new(image: &'i dyn Image, modules: &'i [ModuleVariables], blocks: usize) -> Self {
        Self {
            names: TypeNames::default(),
            python: Objects::new(image, blocks),
            rtti: Rtti::new(image, modules),
            rust: RustTables::new(image, modules),
            of: vec![NONE; blocks],
            looks: vec![NONE; blocks],
            by_look: FxHashMap::default(),
        }
    }

    /// An object of C++: its first word leads to a table of virtual functions; that of a node, one behind.
    pub(crate) fn by_table(&mut self, number: BlockNumber, bytes: &[u8]) {
        for (index, word) in bytes.as_chunks::<8>().0.iter().take(WORDS).enumerate() {
            let Some(name) = self.rtti.name(u64::from_le_bytes(*word)) else { continue };
            // What the library has inside of its own objects says nothing of the block.
            if index > 0 && name.starts_with("std::") {
                continue;
            }
            let name = self.names.number(&name);
            self.set(number, name);
            return;
        }
    }

    /// A trait object of Rust: beside the address of the block there is that of a table with its size.
    #[inline]
    pub(crate) fn by_pair(&mut self, number: BlockNumber, address: u64, next: u64, heap: &Heap) {
        if !self.rust.may_be_table(next) || heap.start(number) != Some(address) {
            return;
        }
        if let Some(name) = heap.size(number).and_then(|size| self.rust.name(next, size)) {
            let name = self.names.number(&name);
            self.set(number, name);
        }
    }

    pub(crate) fn look(&mut self, number: BlockNumber, look: Look) {
        let names = &mut self.names;
        let name = *self.by_look.entry(look).or_insert_with(|| names.number(&look.name()));
        if let Some(slot) = self.looks.get_mut(number as usize) {
            *slot = name;
        }
    }

    /// The first that says it is believed.
    fn set(&mut self, number: BlockNumber, name: u32) {
        if let Some(slot) = self.of.get_mut(number as usize).filter(|slot| **slot == NONE) {
            *slot = name;
        }
    }

    /// Names of types, and the type of each block, of which the first so many were read.
    pub(crate) fn finish(mut self, heap: &Heap, read: usize) -> (Vec<String>, Vec<u32>) {
        for (number, name) in self.python.take_found() {
            self.set(number, name);
        }
        let unread = self.names.number("not looked at");
        let of = (0..heap.len()).map(|number| {
            let known = [self.of.get(number), self.looks.get(number)].into_iter().flatten();
            known.copied().find(|name| *name != NONE && number < read).unwrap_or(unread)
        });
        let of = of.collect();
        (self.names.into_list(), of)
    }
}
