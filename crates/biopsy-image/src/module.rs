//! Modules: files that are mapped.

/// A file that is mapped into the process: an executable or library, or a file that a runtime maps (a .NET assembly).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageModule {
    /// Lowest mapped address.
    pub start: u64,
    /// Behind the highest mapped address.
    pub end: u64,
    /// Path as the process saw it.
    pub path: Vec<u8>,
    /// GNU build id from the memory of the module, where it is in the image.
    pub build_id: Option<Vec<u8>>,
    /// What has to be added to addresses in the file to get addresses in memory (ELF load bias); 0 for what is not ELF.
    pub bias: u64,
    /// Whether it is an ELF file, told by its first bytes.
    pub is_elf: bool,
    /// The name was gone when it was looked at.
    pub deleted: bool,
}
