//! From frames to functions: names, kinds, inlined calls, and which frames are plumbing.

use crate::managed_names;
use crate::trace::function::{FunctionHandle, FunctionKind, FunctionRow};
use crate::trace::roles::{INTERRUPTS_ON, SCHEDULER};
use crate::whose::{Code, Language, Whose};
use biopsy_model::Nanos;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::{FrameHandle, FrameSpace};
use biopsy_model::symbol::{SymbolSource, place_name};
use biopsy_model::timeline::Timeline;
use rustc_hash::FxHashMap;

/// Functions of all frames, interned.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    /// All functions; times are filled in later.
    pub(crate) functions: Vec<FunctionRow>,
    /// Per function: what role its name plays.
    pub(crate) roles: Vec<Role>,
    /// Per frame: where its functions begin in `of_frames`; one more at the end.
    starts: Vec<u32>,
    /// Functions of frames, innermost inlined one first.
    of_frames: Vec<FunctionHandle>,
    index: FxHashMap<(FunctionKind, String, String), FunctionHandle>,
    /// Frames of methods whose tier is known.
    tiers: FxHashMap<FrameHandle, (FunctionHandle, &'static str)>,
}

/// What a function's name says about its role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An ordinary function.
    Plain,
    /// The kernel's scheduler: switching, waking. Samples there are the cost of switching, not of the function.
    Scheduler,
    /// Where interrupts are let in again: a timer-driven sample of the section before it lands here.
    InterruptsOn,
    /// C library, language runtime or lock implementation: not what a person would call the place of a wait.
    Plumbing,
    /// A library or framework: the place where nothing of the application is there.
    Library,
}

impl FrameTable {
    /// Names every frame of `timeline`.
    pub(crate) fn new(timeline: &Timeline) -> FrameTable {
        let mut table = FrameTable::default();
        table.starts.reserve(timeline.frames.len() + 1);
        for number in 0..timeline.frames.len() {
            table.starts.push(as_u32(table.of_frames.len()));
            table.add_frame(timeline, FrameHandle(as_u32(number)));
        }
        table.starts.push(as_u32(table.of_frames.len()));
        table
    }

    fn add_frame(&mut self, timeline: &Timeline, handle: FrameHandle) {
        let Some(frame) = timeline.frames.get(handle.0 as usize) else { return };
        let module = timeline.module_of(handle).map(|(_, module)| module);
        let file = module.map_or("", |module| base_name(&module.path));
        let kind = match (frame.space, module.map(|module| module.kind)) {
            (FrameSpace::Kernel, _) | (_, Some(ModuleKind::Kernel)) => FunctionKind::Kernel,
            (_, Some(ModuleKind::Elf | ModuleKind::Vdso)) => FunctionKind::Native,
            (_, Some(ModuleKind::Jit | ModuleKind::OtherFile | ModuleKind::Source)) => FunctionKind::Jit,
            (_, None) => FunctionKind::Unknown,
        };
        let symbols = timeline.symbols.get(handle.0 as usize).and_then(Option::as_ref);
        let named = symbols.map_or(&[][..], |symbols| &symbols.functions);
        let is_name = symbols.is_none_or(|symbols| symbols.source != SymbolSource::FunctionStart);
        let code = Code {
            language: if kind == FunctionKind::Native { Language::Native } else { Language::Managed },
            module: module.map_or("", |module| &module.path),
            ..Code::default()
        };
        let mut any = false;
        for (at, function) in named.iter().enumerate().filter(|(_, function)| !function.name.is_empty()) {
            any = true;
            // A method is one function, however well it was compiled at the time.
            let (name, tier) = match kind {
                FunctionKind::Jit => managed_names::without_tier(&function.name),
                _ => (function.name.as_str(), None),
            };
            let id = self.intern(kind, file, name, is_name);
            let whose = Code {
                function: Some(name),
                file: function.file.as_deref(),
                inlined: at + 1 < named.len(),
                ..code
            };
            self.belongs_to(id, if is_name { whose.whose() } else { code.whose() });
            if let Some(tier) = tier {
                self.tiers.insert(handle, (id, tier));
            }
            if let Some(row) = self.functions.get_mut(id.0 as usize)
                && function.file.is_some()
            {
                row.file.clone_from(&function.file);
                row.line = function.line;
            }
            self.of_frames.push(id);
        }
        if !any {
            let name = place_name(file, frame.address.0);
            let id = self.intern(kind, file, &name, false);
            self.belongs_to(id, code.whose());
            self.of_frames.push(id);
        }
    }

    /// Says whose code a function is. What one frame shows to be a library's is so, also where another lacks its source file.
    fn belongs_to(&mut self, function: FunctionHandle, whose: Whose) {
        let at = function.0 as usize;
        let Some(row) = self.functions.get_mut(at) else { return };
        row.whose = row.whose.max(whose);
        let role = role_of(row);
        if let Some(known) = self.roles.get_mut(at) {
            *known = role;
        }
    }

    /// Writes behind the module of each method how well it was compiled while it ran, with shares where it changed:
    /// `[jit tier-1]`, `[jit OSR 70 %, tier-0 30 %]`.
    pub(crate) fn mark_tiers(&mut self, timeline: &Timeline) {
        if self.tiers.is_empty() {
            return;
        }
        let mut sums: FxHashMap<FunctionHandle, Vec<(&'static str, u64)>> = FxHashMap::default();
        let mut add = |(function, tier): (FunctionHandle, &'static str), time: u64| {
            let tiers = sums.entry(function).or_default();
            match tiers.iter_mut().find(|(known, _)| *known == tier) {
                Some((_, sum)) => *sum = sum.saturating_add(time),
                None => tiers.push((tier, time)),
            }
        };
        for known in self.tiers.values() {
            add(*known, 0);
        }
        for sample in &timeline.samples {
            let leaf = sample.stack.and_then(|stack| timeline.stacks.get(stack.0 as usize));
            if let Some(known) = leaf.and_then(|node| self.tiers.get(&node.frame)) {
                add(*known, sample.weight.0);
            }
        }
        for (function, mut tiers) in sums {
            let Some(row) = self.functions.get_mut(function.0 as usize) else { continue };
            tiers.sort_unstable_by_key(|(tier, time)| (std::cmp::Reverse(*time), *tier));
            let all = tiers.iter().fold(0u64, |sum, (_, time)| sum.saturating_add(*time));
            let share = |time: u64| (u128::from(time) * 100 / u128::from(all.max(1))) as u64;
            let shown: Vec<String> = match tiers.as_slice() {
                [(tier, _)] => vec![(*tier).to_owned()],
                tiers if all == 0 => tiers.iter().map(|(tier, _)| (*tier).to_owned()).collect(),
                tiers => tiers
                    .iter()
                    .filter(|(_, time)| share(*time) >= 1)
                    .map(|(tier, time)| {
                        if share(*time) == 100 {
                            (*tier).to_owned()
                        } else {
                            format!("{tier} {} %", share(*time))
                        }
                    })
                    .collect(),
            };
            row.module = match row.module.strip_suffix(']') {
                Some(module) => format!("{module} {}]", shown.join(", ")),
                None => format!("{} [{}]", row.module, shown.join(", ")),
            };
        }
    }

    /// The handle of a function, made when it is new.
    pub(crate) fn intern(
        &mut self,
        kind: FunctionKind,
        module: &str,
        name: &str,
        named: bool,
    ) -> FunctionHandle {
        let key = (kind, module.to_owned(), name.to_owned());
        if let Some(&handle) = self.index.get(&key) {
            return handle;
        }
        let handle = FunctionHandle(as_u32(self.functions.len()));
        let row = FunctionRow {
            name: name.to_owned(),
            module: module.to_owned(),
            kind,
            named,
            whose: Whose::default(),
            file: None,
            line: None,
            cpu_self: Nanos(0),
            cpu_total: Nanos(0),
            wait_self: Nanos(0),
            wait_total: Nanos(0),
        };
        self.roles.push(role_of(&row));
        self.functions.push(row);
        self.index.insert(key, handle);
        handle
    }

    /// Functions of a frame, innermost inlined one first.
    pub(crate) fn of(&self, frame: FrameHandle) -> &[FunctionHandle] {
        let at = frame.0 as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.of_frames.get(from as usize..to as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// Puts the functions into the order of `order` (old places), where `moved` tells new handles.
    pub(crate) fn move_functions(
        &mut self,
        order: &[usize],
        moved: &dyn Fn(FunctionHandle) -> FunctionHandle,
    ) {
        let mut old: Vec<Option<FunctionRow>> =
            std::mem::take(&mut self.functions).into_iter().map(Some).collect();
        self.functions = order.iter().filter_map(|&at| old.get_mut(at).and_then(Option::take)).collect();
        self.roles = order.iter().filter_map(|&at| self.roles.get(at).copied()).collect();
        self.of_frames.iter_mut().for_each(|function| *function = moved(*function));
        self.index.clear();
    }

    pub(crate) fn role(&self, function: FunctionHandle) -> Role {
        self.roles.get(function.0 as usize).copied().unwrap_or(Role::Plain)
    }

    pub(crate) fn row(&self, function: FunctionHandle) -> Option<&FunctionRow> {
        self.functions.get(function.0 as usize)
    }
}

/// Saturating; tables never get that long, and if they did, the entries beyond would merely be the last one.
pub(crate) fn as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The last part of a path, without the mark of deleted files.
pub(crate) fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// `finish_task_switch.isra.0` → `finish_task_switch`; `read@@GLIBC_2.2.5` → `read`.
fn without_suffix(name: &str) -> &str {
    let end = name.find(['.', '@']).filter(|&at| at > 0).unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

pub(crate) fn role_of(row: &FunctionRow) -> Role {
    match (row.kind, row.whose) {
        (FunctionKind::Kernel, _) => {
            let name = without_suffix(&row.name);
            if SCHEDULER.contains(&name) {
                Role::Scheduler
            } else if INTERRUPTS_ON.contains(&name) {
                Role::InterruptsOn
            } else {
                Role::Plain
            }
        }
        (FunctionKind::Native | FunctionKind::Jit, Whose::Program)
        | (FunctionKind::Unknown | FunctionKind::Heading, _) => Role::Plain,
        (FunctionKind::Native | FunctionKind::Jit, Whose::Library) => Role::Library,
        (FunctionKind::Native | FunctionKind::Jit, Whose::Plumbing) => Role::Plumbing,
    }
}

#[cfg(test)]
mod tests;
