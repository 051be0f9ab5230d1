//! Names of frames.

use crate::stack::FrameHandle;

/// Where a frame's names came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SymbolSource {
    /// ELF symbol table (`.symtab` or `.dynsym`).
    ElfSymbols,
    /// DWARF, of the file itself or of its separate debug file.
    Dwarf,
    /// `/proc/kallsyms`.
    Kallsyms,
    /// `/tmp/perf-PID.map`.
    PerfMap,
    /// A jitdump file.
    JitDump,
    /// Came with an imported recording.
    Imported,
    /// Read from a managed runtime's own structures, in the memory of the process.
    RuntimeMemory,
    /// Told by a managed runtime in its events.
    RuntimeEvents,
    /// No name: unwind information tells where the function begins, and it is called by that ([`place_name`]). All places in it
    /// are one function, and are counted so.
    FunctionStart,
}

/// What a place without a name is called: the file's name without its folder, and where in it: `libclrjit.so+0x1234`.
#[must_use]
pub fn place_name(path: &str, offset: u64) -> String {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path);
    if file.is_empty() { format!("{offset:#x}") } else { format!("{file}+{offset:#x}") }
}

/// Behind the name of a function where its rarely executed part is meant, which compilers put far from the rest.
pub const COLD_PART: &str = " [cold]";

/// The name of the function itself, whichever part of it is meant.
#[must_use]
pub fn whole_function(name: &str) -> &str {
    name.strip_suffix(COLD_PART).unwrap_or(name)
}

/// One function of a frame; a frame with inlined calls has several.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Source file, where debug information has it.
    pub file: Option<String>,
    /// Line in `file`, from 1.
    pub line: Option<u32>,
}

/// The names found for one frame, innermost inlined function first; the last one is the real function.
/// A frame without names has no `FrameSymbols` and is shown as module + offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameSymbols {
    /// The frame.
    pub frame: FrameHandle,
    /// Never empty.
    pub functions: Vec<Function>,
    /// Where the names came from.
    pub source: SymbolSource,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_a_name_is_known_by_its_file() {
        for (path, expected) in [
            ("/usr/lib/libc.so.6", "libc.so.6+0x1f"),
            ("/opt/app (deleted)", "app+0x1f"),
            ("[vdso]", "[vdso]+0x1f"),
            ("/folder/", "/folder/+0x1f"),
            ("/", "/+0x1f"),
            ("", "0x1f"),
            (" (deleted)", "0x1f"),
        ] {
            assert_eq!(place_name(path, 0x1f), expected, "`{path}`");
        }
    }

    #[test]
    fn the_cold_part_of_a_function_is_that_function() {
        assert_eq!(whole_function("read_all [cold]"), "read_all");
        assert_eq!(whole_function("read_all [clone .0]"), "read_all [clone .0]");
        assert_eq!(whole_function(&format!("f{COLD_PART}")), "f");
    }
}
