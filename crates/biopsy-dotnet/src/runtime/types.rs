//! Types.

use std::sync::Arc;

use biopsy_model::Avma;

use super::TypeHandle;

/// `CorElementType` of ECMA-335 II.23.1.16, as a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ElementType(pub u8);

/// What kind of type it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypeShape {
    /// A class or interface.
    Class,
    /// A struct or enum, primitives too: objects of it are boxed.
    Value,
    /// `T[]`: one dimension from 0 on.
    Vector {
        /// Type of the elements.
        element: TypeHandle,
    },
    /// `T[,]`, `T[*]`.
    Array {
        /// Type of the elements.
        element: TypeHandle,
        /// Dimensions.
        rank: u8,
    },
    /// `System.String`.
    String,
    /// A hole in the heap that looks like an object.
    Free,
    /// A pointer, a reference, a function pointer or a type variable: there are no objects of it.
    Descriptor,
}

/// What is known of a type by its method table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeInfo {
    /// Its method table, or type descriptor.
    pub method_table: TypeHandle,
    /// Full name: `Namespace.Outer<System.Int32>+Inner<System.String>[]`.
    pub name: Arc<str>,
    /// Bytes of an object without elements, header included.
    pub base_size: u32,
    /// Bytes of one element of arrays and strings; 0 for the rest.
    pub component_size: u16,
    /// First word of the method table (`MTFlags`).
    pub flags: u32,
    /// Its objects hold references, or it may be unloaded and its objects keep it: there is a GCDesc below the method table.
    pub contains_pointers: bool,
    /// It may be unloaded: objects keep the loader allocator alive.
    pub collectible: bool,
    /// It has a finalizer.
    pub has_finalizer: bool,
    /// What kind it is.
    pub shape: TypeShape,
    /// Element type by which it is stored in a field.
    pub element_type: ElementType,
    /// The base type; `System.Object` and interfaces have none.
    pub parent: Option<TypeHandle>,
    /// Address of the module that defines it (that of the generic type, for instances); 0 for type descriptors.
    pub module: Avma,
    /// Row in the table of types (`0x02xxxxxx` without the first byte); 0 for arrays.
    pub type_row: u32,
    /// Method table that holds the code that instances of a generic type share; its own where it shares none.
    pub canonical: TypeHandle,
    /// Type arguments, its own and those of enclosing types.
    pub arguments: Vec<TypeHandle>,
}

impl TypeInfo {
    /// Whether it is an array of any kind.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self.shape, TypeShape::Vector { .. } | TypeShape::Array { .. })
    }
}
