//! Bounds on what is read from one ELF file. They stand far above what real programs have, and keep a hostile one
//! from costing the recorder memory or time.

/// Limits for reading one ELF file, in bytes unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Program headers (count). Real files have about 15.
    pub segments: u64,
    /// Section headers (count). Programs have about 40; object files with a section per function have more, but
    /// nobody runs those.
    pub sections: u64,
    /// Table of section names.
    pub section_names: u64,
    /// Unwind sections. Chrome's, the largest met, is about 30 MB.
    pub unwind: u64,
    /// Symbol table entries (count): 24 bytes each in the file, 16 kept in memory. Chrome with symbols: 1.4 million.
    pub symbols: u64,
    /// All DWARF sections of one file together, uncompressed: beyond it the file is symbolised by its symbol table
    /// alone, and a warning says so.
    pub dwarf: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            segments: 1 << 10,
            sections: 1 << 14,
            section_names: 1 << 20,
            unwind: 96 << 20,
            symbols: 4 << 20,
            dwarf: 256 << 20,
        }
    }
}
