//! Mapped code, and where names come from.

use biopsy_model::Avma;
use biopsy_model::module::ModuleKind;
use biopsy_model::order::Order as _;
use biopsy_stacks::image::{CodeModule, ImageStacks, LocalFile, Names};
use rustc_hash::FxHashMap;

/// A module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleRow {
    /// Path as the process saw it.
    pub path: String,
    /// Its last part.
    pub name: String,
    /// What kind of code.
    pub kind: ModuleKind,
    /// Where its code is.
    pub start: Avma,
    /// Behind it.
    pub end: Avma,
    /// GNU build id as hexadecimal digits.
    pub build_id: Option<String>,
    /// What is known of its functions.
    pub symbols: SymbolStatus,
    /// In words, with the reason where something is missing.
    pub words: String,
    /// Frames of all threads in it.
    pub frames: u64,
    /// Its name was gone.
    pub deleted: bool,
}

/// What is known of the functions of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SymbolStatus {
    /// Nothing: module + offset.
    None,
    /// What it exports only.
    Exported,
    /// All functions.
    Symbols,
    /// All functions, with source files and lines.
    Debug,
    /// Code that no file has names for.
    Compiled,
}

pub(super) fn rows(stacks: &ImageStacks) -> Vec<ModuleRow> {
    let mut frames: FxHashMap<usize, u64> = FxHashMap::default();
    for frame in stacks.threads.iter().flat_map(|thread| &thread.frames) {
        if let Some(module) = stacks.place(frame.place).and_then(|place| place.module) {
            *frames.entry(module).or_default() += 1;
        }
    }
    let mut rows: Vec<ModuleRow> = Vec::new();
    let mut compiled: Option<ModuleRow> = None;
    for (index, module) in stacks.modules.iter().enumerate() {
        let frames = frames.get(&index).copied().unwrap_or(0);
        // A runtime has hundreds of pieces of compiled code: one row.
        if module.kind == ModuleKind::Jit {
            match &mut compiled {
                Some(row) => {
                    row.frames += frames;
                    row.start = row.start.min(module.start);
                    row.end = row.end.max(module.end);
                }
                None => compiled = Some(row(module, frames)),
            }
            continue;
        }
        rows.push(row(module, frames));
    }
    rows.extend(compiled);
    rows.order_by(|a, b| b.frames.cmp(&a.frames).then(a.start.cmp(&b.start)));
    rows
}

fn row(module: &CodeModule, frames: u64) -> ModuleRow {
    let symbols = match (module.kind, module.names) {
        (ModuleKind::Jit | ModuleKind::OtherFile | ModuleKind::Source, _) => SymbolStatus::Compiled,
        (_, Names::None) => SymbolStatus::None,
        (_, Names::Exported) => SymbolStatus::Exported,
        (_, Names::Symbols) => SymbolStatus::Symbols,
        (_, Names::Debug) => SymbolStatus::Debug,
    };
    ModuleRow {
        path: module.path.clone(),
        name: module.name().to_owned(),
        kind: module.kind,
        start: module.start,
        end: module.end,
        build_id: module.build_id.as_ref().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
        symbols,
        words: words(module, symbols, frames),
        frames,
        deleted: module.deleted,
    }
}

fn words(module: &CodeModule, symbols: SymbolStatus, frames: u64) -> String {
    let names = match symbols {
        SymbolStatus::None if frames == 0 => "not needed",
        SymbolStatus::None => "no names",
        SymbolStatus::Exported => "exported names only",
        SymbolStatus::Symbols => "all names",
        SymbolStatus::Debug => "names and lines",
        SymbolStatus::Compiled => return "compiled at run time: no names".to_owned(),
    };
    let why = match module.file {
        _ if module.kind == ModuleKind::Vdso => "from memory",
        LocalFile::Same => "same file on this machine",
        LocalFile::Fetched => "fetched by its build id",
        LocalFile::Different => "the file on this machine is another one",
        LocalFile::Missing => "no file on this machine",
        LocalFile::Unverified => "the file on this machine is not used: the dump has no build id of it",
        LocalFile::None => "no file",
        LocalFile::NotLooked => "its file was not opened",
    };
    format!("{names}; {why}")
}
