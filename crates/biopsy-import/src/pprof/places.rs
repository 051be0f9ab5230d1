//! Locations become frames with names, and lists of them stacks.

use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::Timeline;
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Pid};
use rustc_hash::FxHashMap;

use super::limits::Limits;
use super::profile::{Mapping, Profile};
use super::wire::{Fields, Value};

/// Inlined calls of one place (count).
const INLINED: usize = 64;
/// Modules (count): of one path there is one.
const MODULES: usize = 65_536;

/// Makes modules, frames and the tree of stacks as they are needed.
#[derive(Debug)]
pub(super) struct Places<'p, 'a> {
    profile: &'p Profile<'a>,
    limits: &'p Limits,
    pub(super) timeline: Timeline,
    frames: FxHashMap<u64, FrameHandle>,
    nodes: FxHashMap<StackNode, StackHandle>,
    modules: FxHashMap<(ModuleKind, Vec<u8>), ModuleHandle>,
    names: usize,
    /// References to rows that are not there.
    pub(super) dangling: u64,
    /// Something was left out because of the limits.
    pub(super) over_limit: bool,
    /// Frames without a name.
    pub(super) unnamed: u64,
}

/// What a location says.
#[derive(Default)]
struct Location<'a> {
    mapping: u64,
    address: u64,
    lines: Vec<&'a [u8]>,
}

impl<'p, 'a> Places<'p, 'a> {
    pub(super) fn new(profile: &'p Profile<'a>, limits: &'p Limits) -> Self {
        Self {
            profile,
            limits,
            timeline: Timeline::default(),
            frames: FxHashMap::default(),
            nodes: FxHashMap::default(),
            modules: FxHashMap::default(),
            names: 0,
            dangling: 0,
            over_limit: false,
            unnamed: 0,
        }
    }

    /// A text, cut to its limit.
    pub(super) fn text(&mut self, index: i64) -> String {
        let Some(bytes) = self.profile.string(index) else {
            self.dangling += 1;
            return String::new();
        };
        String::from_utf8_lossy(bytes.get(..self.limits.text).unwrap_or(bytes)).into_owned()
    }

    /// The stack of a sample, whose locations come innermost first.
    pub(super) fn stack(&mut self, locations: &[u64]) -> (Option<StackHandle>, StackEnd) {
        let kept = locations.get(..self.limits.depth);
        let mut caller = None;
        for id in kept.unwrap_or(locations).iter().rev() {
            let Some(frame) = self.frame(*id) else { continue };
            let node = StackNode { caller, frame };
            if let Some(known) = self.nodes.get(&node) {
                caller = Some(*known);
                continue;
            }
            let next = self.timeline.stacks.len();
            let Some(handle) = u32::try_from(next).ok().filter(|_| next < self.limits.stacks) else {
                self.over_limit = true;
                return (caller, StackEnd::Truncated);
            };
            self.timeline.stacks.push(node);
            self.nodes.insert(node, StackHandle(handle));
            caller = Some(StackHandle(handle));
        }
        (
            caller,
            if kept.is_some_and(|kept| kept.len() < locations.len()) {
                StackEnd::Truncated
            } else {
                StackEnd::Root
            },
        )
    }

    fn frame(&mut self, id: u64) -> Option<FrameHandle> {
        if let Some(known) = self.frames.get(&id) {
            return Some(*known);
        }
        let Some(row) = self.profile.locations.get(&id) else {
            self.dangling += 1;
            return None;
        };
        let location = self.location(row);
        let functions: Vec<Function> = location.lines.iter().filter_map(|line| self.function(line)).collect();
        let file = functions.last().and_then(|function| function.file.clone());
        let mapping = self.profile.mappings.get(&location.mapping).copied();
        let (kind, module) = self.module(mapping, file.as_deref());
        let handle = FrameHandle(u32::try_from(self.timeline.frames.len()).ok()?);
        let space = if kind == Some(ModuleKind::Kernel) { FrameSpace::Kernel } else { FrameSpace::User };
        self.timeline.frames.push(Frame {
            space,
            module,
            address: LookupAddress(address(location.address, mapping, kind)),
        });
        self.unnamed += u64::from(functions.is_empty());
        self.timeline.symbols.push((!functions.is_empty()).then_some(FrameSymbols {
            frame: handle,
            functions,
            source: SymbolSource::Imported,
        }));
        self.frames.insert(id, handle);
        Some(handle)
    }

    fn location(&mut self, row: &'a [u8]) -> Location<'a> {
        let mut found = Location::default();
        for (number, value) in Fields::of(row).flatten() {
            match (number, value) {
                (2, Value::Number(mapping)) => found.mapping = mapping,
                (3, Value::Number(address)) => found.address = address,
                (4, Value::Bytes(line)) if found.lines.len() < INLINED => found.lines.push(line),
                (4, _) => self.over_limit = true,
                _ => (),
            }
        }
        found
    }

    /// The function of a line; `None`: it has no name.
    fn function(&mut self, line: &[u8]) -> Option<Function> {
        let (mut id, mut number) = (0, 0);
        for (field, value) in Fields::of(line).flatten() {
            match field {
                1 => id = value.number(),
                2 => number = value.signed(),
                _ => (),
            }
        }
        let Some(function) = self.profile.functions.get(&id).copied() else {
            self.dangling += 1;
            return None;
        };
        let mut name = self.text(function.name);
        if name.is_empty() {
            name = self.text(function.system_name);
        }
        let file = Some(self.text(function.file)).filter(|file| !file.is_empty());
        self.names = self.names.saturating_add(name.len() + file.as_ref().map_or(0, String::len));
        if self.names > self.limits.names {
            self.over_limit = true;
            return None;
        }
        let line = u32::try_from(number).ok().filter(|line| *line > 0 && file.is_some());
        (!name.is_empty()).then_some(Function { name, file, line })
    }

    /// The module of a place: the file that is mapped there, or else the source file, which is all that interpreters tell.
    fn module(
        &mut self,
        mapping: Option<Mapping>,
        file: Option<&str>,
    ) -> (Option<ModuleKind>, Option<ModuleHandle>) {
        let path = mapping.map(|mapping| self.text(mapping.file)).unwrap_or_default();
        let kind = match path.as_str() {
            "" => ModuleKind::Source,
            "[vdso]" => ModuleKind::Vdso,
            path if path.starts_with("[kernel") => ModuleKind::Kernel,
            "[jit]" | "//anon" => ModuleKind::Jit,
            _ => ModuleKind::Elf,
        };
        let path = if path.is_empty() { file.unwrap_or_default().to_owned() } else { path };
        if path.is_empty() {
            // Nothing is known but the name.
            return (Some(ModuleKind::Jit), self.intern(ModuleKind::Jit, "", None));
        }
        (Some(kind), self.intern(kind, &path, mapping))
    }

    fn intern(&mut self, kind: ModuleKind, path: &str, mapping: Option<Mapping>) -> Option<ModuleHandle> {
        let key = (kind, path.as_bytes().to_vec());
        if let Some(known) = self.modules.get(&key) {
            return Some(*known);
        }
        let next = self.timeline.modules.len();
        if next >= MODULES {
            self.over_limit = true;
            return None;
        }
        let handle = ModuleHandle(u32::try_from(next).ok()?);
        let mapped = mapping.filter(|_| kind != ModuleKind::Source).unwrap_or_default();
        let build_id = mapped_build_id(&self.text(mapped.build_id));
        self.timeline.modules.push(Module {
            pid: Pid(0),
            kind,
            path: path.to_owned(),
            build_id,
            start: Avma(mapped.start),
            end: Avma(mapped.limit),
            offset: FileOffset(mapped.offset),
            since: MonoNanos(0),
            deleted: false,
        });
        self.modules.insert(key, handle);
        Some(handle)
    }
}

/// Hexadecimal digits of a GNU build id; Go's own are texts of another kind.
fn mapped_build_id(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.is_empty()
        || digits.len() > 128
        || !digits.len().is_multiple_of(2)
        || !digits.iter().all(u8::is_ascii_hexdigit)
    {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Of a file that is mapped elsewhere than it states, the place in the file, which is what pprof shows.
fn address(address: u64, mapping: Option<Mapping>, kind: Option<ModuleKind>) -> u64 {
    match (mapping, kind) {
        (Some(mapping), Some(ModuleKind::Elf | ModuleKind::Vdso))
            if (mapping.start..mapping.limit).contains(&address) && mapping.start >= PIE =>
        {
            address - mapping.start + mapping.offset.min(u64::MAX - (address - mapping.start))
        }
        _ => address,
    }
}

/// Programs that are not mapped where they like lie below.
const PIE: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_file() {
        let mapping =
            |start, offset| Some(Mapping { start, limit: start + 0x1000, offset, ..Mapping::default() });
        let elf = Some(ModuleKind::Elf);
        assert_eq!(address(0x40_0010, mapping(0x40_0000, 0), elf), 0x40_0010, "it lies where it says");
        assert_eq!(address(0x5555_0000_0010, mapping(0x5555_0000_0000, 0x2000), elf), 0x2010);
        assert_eq!(address(0x10, mapping(0x5555_0000_0000, 0), elf), 0x10, "outside of it");
        assert_eq!(address(0x5555_0000_0010, mapping(0x5555_0000_0000, u64::MAX), elf), u64::MAX);
        assert_eq!(address(0x10, None, Some(ModuleKind::Source)), 0x10);
    }

    #[test]
    fn build_ids_are_hexadecimal() {
        assert_eq!(mapped_build_id("00ff"), Some(vec![0, 255]));
        for text in ["", "0", "xy", "6Ji/ab", &"00".repeat(65), "+1"] {
            assert_eq!(mapped_build_id(text), None, "{text}");
        }
    }
}
