//! What the walk needs of a runtime, so that it can also be driven over made-up memory.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;

use super::fields;
use super::noted;
use super::shape::ReferencePlaces;
use super::to_note::Noted;
use crate::graph::HeapType;
use crate::layout::Layout;
use crate::runtime::{Runtime, TypeHandle};

/// A runtime, as far as its heap is concerned.
pub(crate) trait Source: Sync {
    /// Memory.
    fn image(&self) -> &dyn Image;
    /// Where things are.
    fn layout(&self) -> &Layout;
    /// Name and module of a type.
    fn describe(&self, method_table: TypeHandle) -> HeapType;
    /// The same type with the names of its fields; without them, where they are not known.
    fn describe_fields(&self, of: HeapType, _places: &ReferencePlaces) -> HeapType {
        of
    }
    /// Types with static fields that the collector looks after, and where these are.
    fn statics(&self) -> Vec<HeapType> {
        Vec::new()
    }
    /// One of these; `None`: it has none.
    fn statics_of(&self, _of: TypeHandle) -> Option<HeapType> {
        None
    }
    /// What is noted of objects of a type.
    fn noted(&self, _method_table: TypeHandle) -> Noted {
        Noted::default()
    }
    /// The object that objects of this collectible type keep alive although no field refers to it.
    fn loader_allocator(&self, method_table: TypeHandle) -> Option<Avma>;
}

impl Source for Runtime<'_> {
    fn image(&self) -> &dyn Image {
        self.memory().image()
    }

    fn layout(&self) -> &Layout {
        self.layout()
    }

    fn describe(&self, method_table: TypeHandle) -> HeapType {
        // The type of gaps has no metadata and no name.
        let free = self.layout().find_global("FreeObjectMethodTable");
        let address = method_table.0;
        if free.is_some_and(|at| {
            self.image().read_u64(at).is_ok_and(|free| TypeHandle::from(free) == method_table)
        }) {
            let name = "Free".to_owned();
            return HeapType { name, method_table: address, is_free: true, ..HeapType::default() };
        }
        let Ok(info) = self.type_of(method_table) else {
            return HeapType { name: format!("?{address}"), method_table: address, ..HeapType::default() };
        };
        let module = self.module(info.module).map(|module| file_name(&module.path)).unwrap_or_default();
        HeapType { name: info.name.to_string(), module, method_table: address, ..HeapType::default() }
    }

    fn describe_fields(&self, of: HeapType, places: &ReferencePlaces) -> HeapType {
        let fields = fields::names(self, TypeHandle(of.method_table), places).unwrap_or_default();
        HeapType { fields, repeats: places.repeats, ..of }
    }

    fn statics(&self) -> Vec<HeapType> {
        fields::types_with_statics(self).into_iter().filter_map(|of| self.statics_of(of)).collect()
    }

    fn statics_of(&self, of: TypeHandle) -> Option<HeapType> {
        let statics = fields::statics_of(self, of);
        (!statics.is_empty()).then(|| HeapType { statics, ..self.describe(of) })
    }

    fn noted(&self, method_table: TypeHandle) -> Noted {
        noted::of_type(self, method_table)
    }

    fn loader_allocator(&self, method_table: TypeHandle) -> Option<Avma> {
        super::collectible::loader_allocator(self, method_table)
    }
}

/// The last part of a path.
fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
