//! The rules for the code of one process: by address, each found once.

use std::fs::File;

use biopsy_model::Avma;

use super::compiled::CompiledCode;
use super::modules::Modules;
use super::rule::Rule;
use super::table::Context;

/// What is mapped where, and how to get from a frame there to its caller.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) modules: Modules,
    pub(super) cache: RuleCache,
    pub(super) context: Box<Context>,
    /// `/proc/PID/mem`.
    pub(super) memory: Option<File>,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self {
            modules: Modules::default(),
            cache: RuleCache::default(),
            context: Box::new(Context::new()),
            memory: None,
        }
    }

    /// The rule for code at `address`; `None`: nothing executable is mapped there. `exact`: the thread stands there.
    pub(super) fn rule(
        &mut self,
        address: u64,
        exact: bool,
        compiled: Option<&dyn CompiledCode>,
    ) -> Option<Rule> {
        if let Some(rule) = self.cache.get(address) {
            return Some(rule);
        }
        let module = self.modules.find(address);
        let file = module.and_then(|module| Some((module.file.as_ref()?, module.bias)));
        let rule = match file {
            Some((file, bias)) => file.unwind_table().rule(&mut self.context, address.wrapping_sub(bias)),
            None => {
                // Code may have been compiled into memory that nobody has told of yet.
                let known = compiled.and_then(|compiled| compiled.rule(Avma(address), exact));
                match known {
                    Some(known) => known.rule(),
                    None => module.map(|_| Rule::Nothing)?,
                }
            }
        };
        self.cache.put(address, rule);
        Some(rule)
    }
}

/// Direct-mapped: 4,096 entries of 32 bytes. A server's stacks hold a few thousand distinct addresses.
#[derive(Debug, Default)]
pub(super) struct RuleCache {
    /// Empty until the first use: a process that is never sampled costs nothing.
    entries: Vec<Option<(u64, Rule)>>,
}

impl RuleCache {
    const ENTRIES_LOG2: u32 = 12;

    fn slot(address: u64) -> usize {
        // Fibonacci hashing: addresses differ in their low bits, whose spread the product moves to the top.
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::ENTRIES_LOG2)) as usize
    }

    fn get(&self, address: u64) -> Option<Rule> {
        let (key, rule) = (*self.entries.get(Self::slot(address))?)?;
        (key == address).then_some(rule)
    }

    fn put(&mut self, address: u64, rule: Rule) {
        if self.entries.is_empty() {
            self.entries = vec![None; 1 << Self::ENTRIES_LOG2];
        }
        if let Some(entry) = self.entries.get_mut(Self::slot(address)) {
            *entry = Some((address, rule));
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}
