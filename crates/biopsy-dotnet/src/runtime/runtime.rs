//! One runtime of an image.

use std::sync::Arc;

use biopsy_image::Image;

use super::{
    Check, Field, FoundRuntime, ManagedThread, Memory, Method, MethodName, Module, Options, RuntimeError,
    TypeInfo,
};
use crate::layout::{Layout, LayoutError};

/// One runtime of an image. `Send` and `Sync`: all methods take `&self` and cache what they read.
#[derive(Debug)]
pub struct Runtime<'i> {
    memory: Memory<'i>,
    found: FoundRuntime,
    layout: Layout,
    checks: Vec<Check>,
}

impl<'i> Runtime<'i> {
    /// Opens a runtime: finds its layout, checks that it fits.
    ///
    /// # Errors
    /// A version without descriptor and layout file; a layout that does not fit ([`RuntimeError::DoesNotFit`]); memory that is
    /// not in the image.
    pub fn open(
        image: Box<dyn Image + 'i>,
        found: &FoundRuntime,
        options: &Options,
    ) -> Result<Self, RuntimeError> {
        let _ = (Memory::new(image, None, 0), found);
        let known = options.layouts.known();
        Err(LayoutError::UnknownVersion { version: "?".to_string(), known }.into())
    }

    /// Memory of the process, cached.
    #[must_use]
    pub fn memory(&self) -> &Memory<'i> {
        &self.memory
    }

    /// Where things are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What was found: version, path, base.
    #[must_use]
    pub fn found(&self) -> &FoundRuntime {
        &self.found
    }

    /// The checks at load time and how they ended.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Address of `GcDacVars`: what the garbage collector shows to debuggers.
    #[must_use]
    pub fn gc_variables(&self) -> Option<u64> {
        None
    }

    /// Forgets what was read from memory; names of types and methods are kept. For a process that goes on running.
    pub fn forget(&self) {}

    /// All threads that the runtime knows.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn threads(&self) -> Result<Vec<ManagedThread>, RuntimeError> {
        self.nothing()
    }

    /// All assemblies that are loaded.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn modules(&self) -> Result<Vec<Arc<Module>>, RuntimeError> {
        self.nothing()
    }

    /// One module by the address of its `Module` structure.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn module(&self, _module: u64) -> Result<Arc<Module>, RuntimeError> {
        self.nothing()
    }

    /// A type by its method table (as objects name it), or by a tagged type descriptor (bit 1 set: pointers, type variables).
    ///
    /// # Errors
    /// When there is no method table at that address.
    pub fn type_of(&self, _method_table: u64) -> Result<Arc<TypeInfo>, RuntimeError> {
        self.nothing()
    }

    /// The type of an object.
    ///
    /// # Errors
    /// As [`Runtime::type_of`].
    pub fn type_of_object(&self, _object: u64) -> Result<Arc<TypeInfo>, RuntimeError> {
        self.nothing()
    }

    /// The fields that a type declares; inherited ones are at its parent.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn fields(&self, _method_table: u64) -> Result<Arc<[Field]>, RuntimeError> {
        self.nothing()
    }

    /// An instance field by name, inherited ones too.
    ///
    /// # Errors
    /// When fields cannot be read.
    pub fn find_field(&self, _method_table: u64, _name: &str) -> Result<Option<Field>, RuntimeError> {
        self.nothing()
    }

    /// The code at an address: which method it belongs to and how to unwind it; `None` when it is not managed code.
    ///
    /// # Errors
    /// When the code map cannot be read there.
    pub fn find_method(&self, _ip: u64) -> Result<Option<Method>, RuntimeError> {
        self.nothing()
    }

    /// The name of a method.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn method_name(&self, _method_desc: u64) -> Result<Arc<MethodName>, RuntimeError> {
        self.nothing()
    }

    /// The text of a string object, at most `chars` UTF-16 units, and its length in units. Contents may be secret: never store
    /// or show them as they are.
    ///
    /// # Errors
    /// When it is not a string, or memory is missing.
    pub fn string(&self, _object: u64, _chars: usize) -> Result<(String, u32), RuntimeError> {
        self.nothing()
    }

    fn nothing<T>(&self) -> Result<T, RuntimeError> {
        Err(RuntimeError::Unexpected { what: "runtime", address: self.found.base, found: String::new() })
    }
}
