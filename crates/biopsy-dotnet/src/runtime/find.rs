//! Which runtimes are in an image.

use biopsy_image::Image;

use super::RuntimeVersion;

/// How a runtime got into the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RuntimeKind {
    /// `libcoreclr.so`.
    Library,
    /// Linked into the executable of a program that is one file.
    SingleFile,
}

/// A runtime that is in an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRuntime {
    /// How it got there.
    pub kind: RuntimeKind,
    /// Path of the library or executable, as the process saw it.
    pub path: Vec<u8>,
    /// Where its first byte is mapped.
    pub base: u64,
    /// Its version, where it could be told.
    pub version: Option<RuntimeVersion>,
    /// GNU build id, where it is in the image.
    pub build_id: Option<Vec<u8>>,
    /// Address and bytes of `g_dacTable`.
    pub dac_table: Option<(u64, u64)>,
    /// Address of `DotNetRuntimeContractDescriptor`.
    pub descriptor: Option<u64>,
}

/// The runtimes in an image, by the modules that export what a debugger needs. One process may have two.
#[must_use]
pub fn find_runtimes(_image: &dyn Image) -> Vec<FoundRuntime> {
    Vec::new()
}
