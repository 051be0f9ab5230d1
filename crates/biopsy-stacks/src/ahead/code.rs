//! Code of a process as the walk ahead needs it: instructions, functions, names of what is called, landing pads.

use std::sync::Arc;

use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use rustc_hash::FxHashMap;

use super::family::{Called, called};
use super::landing;
use crate::elf::ElfFile;
use crate::symbols::CallNames;
use crate::unwind::{FunctionRange, Modules};

/// Longest function that is looked at, in bytes.
const FUNCTION: u64 = 256 << 10;
/// Longest table of call sites, in bytes.
const SITES: usize = 64 << 10;
/// Functions that are looked through for whether they touch locks, for one question at most.
const LOOKED_THROUGH: usize = 400;
/// Calls deep that is looked.
const DEEP: u32 = 8;
/// Calls whose targets are kept.
const TARGETS: usize = 1 << 16;

/// A function.
#[derive(Clone, Debug)]
pub(super) struct FunctionCode {
    pub(super) start: u64,
    code: Arc<[u8]>,
    /// Its table of call sites, as the file states the address, and the file's bias.
    sites: Option<(u64, u64)>,
}

impl FunctionCode {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.code.len() as u64)
    }
}

/// What lies at an address that is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A function whose name says what it does to locks.
    Known(Called),
    /// A function of the program or its libraries that may be walked through.
    Function(u64),
    /// Code of the C library and its like, or nothing that is known: it is taken to come back, having done nothing to locks.
    Other,
}

/// Code of one image.
pub(super) struct CodeView<'a> {
    image: &'a dyn Image,
    modules: &'a Modules,
    functions: FxHashMap<u64, Option<FunctionCode>>,
    /// Function starts by any address in them that was asked for.
    starts: FxHashMap<u64, Option<u64>>,
    instructions: FxHashMap<u64, Option<Instruction>>,
    names: FxHashMap<usize, CallNames>,
    /// What calls lead to, by where to and by the slot that says it: threads that wait at one place have all of them in common.
    targets: FxHashMap<(Option<u64>, Option<u64>), Target>,
    touching: FxHashMap<u64, bool>,
    /// The last question came to calls that were too deep: a no is only a no from there.
    too_deep: bool,
    /// Locks that are given back by plain stores are looked for: any function may.
    by_stores: bool,
}

impl<'a> CodeView<'a> {
    pub(super) fn new(image: &'a dyn Image, modules: &'a Modules, by_stores: bool) -> Self {
        Self {
            image,
            modules,
            functions: FxHashMap::default(),
            starts: FxHashMap::default(),
            instructions: FxHashMap::default(),
            names: FxHashMap::default(),
            targets: FxHashMap::default(),
            touching: FxHashMap::default(),
            too_deep: false,
            by_stores,
        }
    }

    /// The instruction at `address`; `None`: there is no code, or none that is known to be of a function.
    pub(super) fn instruction(&mut self, address: u64) -> Option<Instruction> {
        if let Some(known) = self.instructions.get(&address) {
            return *known;
        }
        let decoded = self.function(address).and_then(|function| {
            let at = usize::try_from(address.wrapping_sub(function.start)).ok()?;
            let bytes = function.code.get(at..)?;
            let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
            let decoded = decoder.decode();
            (!decoded.is_invalid()).then_some(decoded)
        });
        self.instructions.insert(address, decoded);
        decoded
    }

    /// The function around `address`.
    pub(super) fn function(&mut self, address: u64) -> Option<FunctionCode> {
        let start = match self.starts.get(&address) {
            Some(start) => *start,
            None => {
                let start = self.load(address);
                self.starts.insert(address, start);
                start
            }
        }?;
        self.functions.get(&start).cloned().flatten()
    }

    pub(super) fn modules(&self) -> &'a Modules {
        self.modules
    }

    /// Bytes of code at an address, as many as an instruction may have.
    pub(super) fn code_bytes(&self, address: u64) -> Option<Vec<u8>> {
        self.image.read_up_to(address, 16).ok().or_else(|| self.file_bytes(address, 16))
    }

    /// The name of what an instruction calls or jumps to.
    pub(super) fn name_of_call(&mut self, instruction: &Instruction) -> Option<String> {
        if instruction.is_ip_rel_memory_operand() {
            return self.name_of_slot(instruction.ip_rel_memory_address());
        }
        let target = Some(instruction.near_branch_target()).filter(|target| *target != 0)?;
        let (address, named) = self.through_stub(target);
        named.or_else(|| {
            self.function(address)
                .filter(|function| function.start == address)
                .and_then(|_| self.name(address))
        })
    }

    fn load(&mut self, address: u64) -> Option<u64> {
        let module = self.modules.find(address)?;
        let file = module.file()?;
        let svma = module.svma(Avma(address))?.0;
        let bias = address.wrapping_sub(svma);
        let FunctionRange { start, end, sites } = file.unwind_table().function(svma)?;
        let at = start.wrapping_add(bias);
        if let std::collections::hash_map::Entry::Vacant(slot) = self.functions.entry(at) {
            let length = end.saturating_sub(start);
            let read = (length <= FUNCTION).then(|| bytes(self.image, file, at, start, length as usize));
            slot.insert(read.flatten().map(|code| FunctionCode {
                start: at,
                code: code.into(),
                sites: sites.map(|sites| (sites, bias)),
            }));
        }
        Some(at)
    }

    /// The landing pad of the call that returns to `address`.
    pub(super) fn landing_pad(&mut self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(1)?;
        let function = self.function(inside)?;
        let (sites, bias) = function.sites?;
        let file = self.modules.find(inside)?.file()?;
        let table = bytes(self.image, file, sites.wrapping_add(bias), sites, SITES)?;
        let pad = landing::pad_of(&table, inside - function.start)?;
        // A pad may be in another part of the function (`.cold`), as far as 32 bits reach.
        Some(function.start.wrapping_add(pad))
    }

    /// What a call or jump to `address` reaches; `slot`: the address was read from there.
    pub(super) fn target(&mut self, address: Option<u64>, slot: Option<u64>) -> Target {
        if let Some(known) = self.targets.get(&(address, slot)) {
            return *known;
        }
        let found = self.look_up(address, slot);
        if self.targets.len() < TARGETS {
            self.targets.insert((address, slot), found);
        }
        found
    }

    fn look_up(&mut self, address: Option<u64>, slot: Option<u64>) -> Target {
        if let Some(known) = slot.and_then(|slot| self.name_of_slot(slot)).as_deref().and_then(called) {
            return Target::Known(known);
        }
        let Some(address) = address else { return Target::Other };
        let (address, named) = self.through_stub(address);
        if let Some(known) = named.as_deref().and_then(called) {
            return Target::Known(known);
        }
        if named.is_none()
            && let Some(known) = self.name(address).as_deref().and_then(called)
        {
            return Target::Known(known);
        }
        let library = self.modules.find(address).and_then(|module| module.file()).is_none_or(|file| {
            file.path().file_name().is_some_and(|name| is_of_system(&name.to_string_lossy()))
        });
        match self.function(address).filter(|_| !library) {
            Some(function) if function.start == address => Target::Function(address),
            _ => Target::Other,
        }
    }

    /// The frame's code is of the C library or its like.
    pub(super) fn is_system(&self, address: u64) -> bool {
        let file = self.modules.find(address).and_then(|module| module.file());
        file.and_then(|file| file.path().file_name())
            .is_some_and(|name| is_of_system(&name.to_string_lossy()))
    }

    /// Where a stub for calls into other modules leads, and the name of what it is for.
    fn through_stub(&mut self, address: u64) -> (u64, Option<String>) {
        // endbr64; [bnd] jmp [rip+slot]: stubs have unwind information of their own, or none.
        let Ok(code) = self.image.read_up_to(address, 16).or_else(|_| self.file_bytes(address, 16).ok_or(()))
        else {
            return (address, None);
        };
        let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
        let mut instruction = decoder.decode();
        if matches!(instruction.mnemonic(), Mnemonic::Endbr64) {
            instruction = decoder.decode();
        }
        if instruction.mnemonic() != Mnemonic::Jmp || !instruction.is_ip_rel_memory_operand() {
            return (address, None);
        }
        let slot = instruction.ip_rel_memory_address();
        let name = self.name_of_slot(slot);
        (self.image.read_u64(slot).unwrap_or(address), name)
    }

    fn file_bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let module = self.modules.find(address)?;
        module.file()?.constant_at(module.svma(Avma(address))?.0, length as u64)
    }

    fn names_at(&mut self, address: u64) -> Option<(&CallNames, u64)> {
        let module = self.modules.find(address)?;
        let (file, svma) = (module.file()?, module.svma(Avma(address))?.0);
        let names = self.names.entry(Arc::as_ptr(file).addr()).or_insert_with(|| CallNames::read(file));
        Some((names, svma))
    }

    fn name(&mut self, address: u64) -> Option<String> {
        let (names, svma) = self.names_at(address)?;
        names.function(svma)
    }

    /// By the relocation that fills the slot, or by what it holds now. The slot is data, near the code that uses it: the module
    /// is found by any mapping of code below it.
    fn name_of_slot(&mut self, slot: u64) -> Option<String> {
        let module = self.modules.find_below(slot)?;
        let svma = module.svma(Avma(slot))?.0;
        let file = module.file()?;
        let names = self.names.entry(Arc::as_ptr(file).addr()).or_insert_with(|| CallNames::read(file));
        if let Some(name) = names.slot(svma) {
            return Some(name);
        }
        let target = self.image.read_u64(slot).ok()?;
        self.name(target)
    }

    /// The function, or one that it calls, has instructions or calls that locks are taken or given back with. Most have not,
    /// and need no walk.
    pub(super) fn touches_locks(&mut self, start: u64) -> bool {
        let mut left = LOOKED_THROUGH;
        self.too_deep = false;
        self.touches(start, DEEP, &mut left)
    }

    fn touches(&mut self, start: u64, deep: u32, left: &mut usize) -> bool {
        if let Some(known) = self.touching.get(&start) {
            return *known;
        }
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let Some(function) = self.function(start) else { return false };
        // One that calls itself says nothing about itself.
        self.touching.insert(start, false);
        let mut calls = Vec::new();
        let mut found = self.by_stores;
        let mut at = function.start;
        while at < function.end() && !found {
            let Some(instruction) = self.instruction(at) else { break };
            at = instruction.next_ip();
            let swaps = instruction.mnemonic() == Mnemonic::Xchg
                && (0..2).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
            if instruction.has_lock_prefix() || swaps {
                found = true;
            }
            match instruction.flow_control() {
                FlowControl::Call | FlowControl::UnconditionalBranch => {
                    let target = instruction.near_branch_target();
                    if !(function.start..function.end()).contains(&target) {
                        calls.push((Some(target), None));
                    }
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch
                    if instruction.is_ip_rel_memory_operand() =>
                {
                    let slot = instruction.ip_rel_memory_address();
                    calls.push((self.image.read_u64(slot).ok(), Some(slot)));
                }
                _ => {}
            }
        }
        for (address, slot) in calls {
            if found {
                break;
            }
            found = match self.target(address, slot) {
                Target::Known(Called::Step { .. }) => true,
                Target::Known(Called::Ends | Called::Nothing) | Target::Other => false,
                Target::Function(callee) if deep > 0 => self.touches(callee, deep - 1, left),
                Target::Function(_) => {
                    self.too_deep = true;
                    false
                }
            };
        }
        if found || !self.too_deep {
            self.touching.insert(start, found);
        } else {
            self.touching.remove(&start);
        }
        found
    }
}

/// Up to `length` constant bytes at `address`: from the image, and where it leaves them out, from the file.
fn bytes(image: &dyn Image, file: &ElfFile, address: u64, svma: u64, length: usize) -> Option<Vec<u8>> {
    if length == 0 {
        return None;
    }
    let from_file = || file.constant_at(svma, length as u64);
    match image.read_up_to(address, length) {
        Ok(read) if read.len() == length => Some(read),
        Ok(read) => from_file().filter(|whole| whole.len() > read.len()).or(Some(read)),
        Err(_) => from_file(),
    }
}

/// The C library, the loader and the libraries of compilers: their calls are known by their names.
fn is_of_system(name: &str) -> bool {
    const SYSTEM: &[&str] = &[
        "libc.",
        "libc-",
        "libpthread",
        "librt",
        "libm.",
        "libm-",
        "ld-linux",
        "ld-2",
        "ld-musl",
        "libgcc_s",
        "libstdc++",
        "libc++",
        "libdl",
        "[vdso]",
    ];
    SYSTEM.iter().any(|prefix| name.starts_with(prefix))
}
