//! Assemblies that are loaded.

use std::sync::Arc;

use crate::metadata::Metadata;

/// A module of the runtime: an assembly.
#[derive(Clone, Debug)]
pub struct Module {
    /// Address of the runtime's `Module` structure.
    pub address: u64,
    /// Simple name of the assembly, from its metadata (`System.Private.CoreLib`).
    pub name: String,
    /// Path of its file; empty for assemblies in bundles, from bytes, and made at run time.
    pub path: String,
    /// Address of its first byte; 0 for assemblies made at run time.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Laid out in memory as sections say (else as in the file).
    pub mapped: bool,
    /// Made by Reflection.Emit.
    pub dynamic: bool,
    /// It may be unloaded.
    pub collectible: bool,
    /// Its metadata, where it could be read.
    pub metadata: Option<Arc<Metadata>>,
}
