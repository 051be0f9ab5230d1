//! Stacks of addresses, each once, and their names in the end.

use super::limits::Limits;
use crate::methods::NameAddresses;
use biopsy_model::Avma;
use biopsy_model::runtime_trace::RuntimeStack;
use biopsy_model::symbol::Function;
use rustc_hash::FxHashMap;

/// Frames that are there because an event is written or an exception on its way, innermost on most stacks since .NET 9.
fn is_machinery(function: &str) -> bool {
    const PREFIXES: [&str; 4] = [
        "System.Runtime.EH.",
        "System.Runtime.StackFrameIterator.",
        "System.Runtime.ExceptionServices.InternalCalls.",
        "System.Diagnostics.Tracing.NativeRuntimeEventSource.",
    ];
    PREFIXES.iter().any(|prefix| function.starts_with(prefix))
}

/// Stacks, each once.
#[derive(Debug)]
pub(super) struct StackTable {
    known: FxHashMap<Box<[Avma]>, u32>,
    order: Vec<Box<[Avma]>>,
    limit: usize,
    frames: usize,
}

impl StackTable {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { known: FxHashMap::default(), order: Vec::new(), limit: limits.stacks, frames: limits.frames }
    }

    /// The number of a stack; `None`: it is empty, or too many are known.
    pub(super) fn intern(&mut self, stack: &[Avma]) -> Option<RuntimeStack> {
        let stack = stack.get(..self.frames).unwrap_or(stack);
        if stack.is_empty() {
            return None;
        }
        if let Some(known) = self.known.get(stack) {
            return Some(RuntimeStack(*known));
        }
        if self.order.len() >= self.limit {
            return None;
        }
        let number = u32::try_from(self.order.len()).ok()?;
        self.known.insert(stack.into(), number);
        self.order.push(stack.into());
        Some(RuntimeStack(number))
    }

    /// Functions, each once, and stacks of them. Addresses without a name are told as such.
    pub(super) fn name(self, names: &dyn NameAddresses) -> (Vec<Function>, Vec<Vec<u32>>) {
        drop(self.known);
        let mut functions = Vec::new();
        let mut by_function: FxHashMap<Function, u32> = FxHashMap::default();
        let mut by_address: FxHashMap<Avma, u32> = FxHashMap::default();
        let mut number_of = |address: Avma| {
            *by_address.entry(address).or_insert_with(|| {
                let function = names.name(address).unwrap_or_else(|| Function {
                    name: address.to_string(),
                    file: None,
                    line: None,
                });
                *by_function.entry(function.clone()).or_insert_with(|| {
                    functions.push(function);
                    u32::try_from(functions.len() - 1).unwrap_or(u32::MAX)
                })
            })
        };
        let stacks = self.order.iter().map(|stack| {
            let frames = stack.iter().enumerate();
            // All but the innermost are return addresses: the call is before them.
            frames
                .map(|(depth, address)| number_of(Avma(address.0.saturating_sub(u64::from(depth > 0)))))
                .collect()
        });
        let mut stacks: Vec<Vec<u32>> = stacks.collect();
        let is_machinery: Vec<bool> = functions.iter().map(|function| is_machinery(&function.name)).collect();
        for stack in &mut stacks {
            let own = |frame: &u32| !is_machinery.get(*frame as usize).copied().unwrap_or(false);
            // Where nothing else is left, it stays.
            stack.drain(..stack.iter().position(own).unwrap_or(0));
        }
        (functions, stacks)
    }
}
