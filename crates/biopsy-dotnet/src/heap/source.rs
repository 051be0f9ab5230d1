//! What the walk needs of a runtime, so that it can also be driven over made-up memory.

use biopsy_image::Image;

use crate::graph::GraphType;
use crate::layout::Layout;
use crate::runtime::Runtime;

/// A runtime, as far as its heap is concerned.
pub(crate) trait Source: Sync {
    /// Memory.
    fn image(&self) -> &dyn Image;
    /// Where things are.
    fn layout(&self) -> &Layout;
    /// Name and module of a type.
    fn describe(&self, method_table: u64) -> GraphType;
    /// The object that objects of this collectible type keep alive although no field refers to it.
    fn loader_allocator(&self, method_table: u64) -> Option<u64>;
}

impl Source for Runtime<'_> {
    fn image(&self) -> &dyn Image {
        self.memory().image()
    }

    fn layout(&self) -> &Layout {
        self.layout()
    }

    fn describe(&self, method_table: u64) -> GraphType {
        let Ok(info) = self.type_of(method_table) else {
            return GraphType { name: format!("?{method_table:x}"), method_table, ..GraphType::default() };
        };
        let module = self.module(info.module).map(|module| file_name(&module.path)).unwrap_or_default();
        let is_free = matches!(info.shape, crate::runtime::TypeShape::Free);
        GraphType { name: info.name.to_string(), module, method_table, is_free }
    }

    fn loader_allocator(&self, method_table: u64) -> Option<u64> {
        super::collectible::loader_allocator(self, method_table)
    }
}

/// The last part of a path.
fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
