//! What the symboliser is asked about, and what it answers.

use std::path::PathBuf;
use std::sync::Arc;

use biopsy_model::module::ModuleKind;
use biopsy_model::symbol::{Function, SymbolSource};

use super::elsewhere::FilesElsewhere;

/// Where the file of a module can be read.
#[derive(Clone, Debug)]
pub struct ModuleSource {
    /// What kind of code. Only `Elf` and `Vdso` have files that are read here.
    pub kind: ModuleKind,
    /// Path as the target sees it, without ` (deleted)`: its folder is where `.gnu_debuglink` is looked for.
    pub path: String,
    /// Paths to open, best first: `/proc/PID/map_files/START-END`, `/proc/PID/root/PATH`, `PATH`.
    pub candidates: Vec<PathBuf>,
    /// The build id that was mapped, where known: a file with another one is not believed.
    pub build_id: Option<Vec<u8>>,
    /// `/proc/PID/root`, for a target with a file system of its own: debug files are looked for below it first.
    pub root: Option<PathBuf>,
    /// The image itself, for the vdso, which has no file.
    pub image: Option<Arc<[u8]>>,
}

impl ModuleSource {
    /// An ELF file that is read at the path by which it is known.
    pub fn elf(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            kind: ModuleKind::Elf,
            path: path.to_string_lossy().into_owned(),
            candidates: vec![path],
            build_id: None,
            root: None,
            image: None,
        }
    }

    /// The vdso, as it was copied from the target's memory.
    pub fn vdso(image: impl Into<Arc<[u8]>>) -> Self {
        Self {
            kind: ModuleKind::Vdso,
            path: String::from("[vdso]"),
            candidates: Vec::new(),
            build_id: None,
            root: None,
            image: Some(image.into()),
        }
    }
}

/// The functions of one address, innermost inlined first; the last is the real one. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// Demangled, with file and line where debug information has them.
    pub functions: Vec<Function>,
    /// Where the names came from.
    pub source: SymbolSource,
}

impl Resolved {
    pub(crate) fn name(name: String, source: SymbolSource) -> Self {
        Self { functions: vec![Function { name, file: None, line: None }], source }
    }
}

/// What the names of a file come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Names {
    /// Nothing.
    None,
    /// What it exports for others: functions in between have the wrong name or none.
    Exported,
    /// Its full symbol table.
    Symbols,
    /// Debug information, with source files and lines.
    Debug,
}

/// How much to find out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Inlined functions, from DWARF.
    pub inlines: bool,
    /// Source files and lines, from DWARF.
    pub lines: bool,
    /// Folders of separate debug files.
    pub debug_folders: Vec<PathBuf>,
    /// Who has those that are in none of them.
    pub elsewhere: Option<Arc<dyn FilesElsewhere>>,
    /// Unpacked bytes of DWARF that are held in memory at most, all files together. A file that does not fit any
    /// more is symbolised by its symbol table, and a warning says so.
    pub debug_bytes: u64,
    /// The kernel's symbols.
    pub kallsyms: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inlines: true,
            lines: true,
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
            elsewhere: None,
            debug_bytes: 256 << 20,
            kallsyms: PathBuf::from("/proc/kallsyms"),
        }
    }
}
