//! A runtime as the source of rules and names for compiled code.

use std::fmt::Debug;
use std::ops::Deref;

use biopsy_model::Avma;
use biopsy_model::symbol::Function;
use biopsy_stacks::image::{CompiledFunction, CompiledNames};
use biopsy_stacks::unwind::{CompiledCode, CompiledRule, RuntimeFunction, windows_rule};

use super::method_text;
use crate::methods::NameAddresses;
use crate::runtime::{CodeKind, Method, Runtime, StubKind};

/// Rules and names of the code of one or several runtimes of a process. `R`: a reference to a [`Runtime`], or an `Arc` of one.
#[derive(Clone, Debug)]
pub struct ManagedUnwind<R> {
    runtimes: Vec<R>,
}

impl<'i, R: Deref<Target = Runtime<'i>>> ManagedUnwind<R> {
    /// Of these runtimes; the first that knows an address answers.
    pub fn new(runtimes: impl IntoIterator<Item = R>) -> Self {
        Self { runtimes: runtimes.into_iter().collect() }
    }

    /// There is no runtime.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runtimes.is_empty()
    }

    fn find_method(&self, address: Avma) -> Option<(&Runtime<'i>, Method)> {
        self.runtimes.iter().find_map(|runtime| {
            let method = runtime.find_method(address).ok().flatten()?;
            Some((&**runtime, method))
        })
    }

    /// Glue of a runtime, in words: what its instructions tell, and of the entry of a method, which. `None` when no runtime knows
    /// the instructions.
    #[must_use]
    pub fn glue(&self, address: Avma) -> Option<String> {
        self.runtimes.iter().find_map(|runtime| {
            let kind = runtime.stub_at(address)?;
            let method = (kind == StubKind::MethodEntry).then(|| runtime.entry_at(address)).flatten();
            let text = method.and_then(|method| method_text(runtime, method));
            Some(text.map_or_else(|| kind.name().to_owned(), |text| format!("(entry of {})", text.shown)))
        })
    }

    fn function(&self, address: Avma) -> Option<CompiledFunction> {
        let plain = |name: String| Function { name, file: None, line: None };
        let glue = |name: String| CompiledFunction {
            function: plain(name),
            module: String::new(),
            is_method: false,
        };
        let Some((runtime, method)) = self.find_method(address) else { return self.glue(address).map(glue) };
        let Some(method_desc) = method.method_desc else {
            let CodeKind::Stub(kind) = method.kind else { return None };
            return Some(glue(self.glue(address).unwrap_or_else(|| stub_name(kind).to_owned())));
        };
        let text = method_text(runtime, method_desc)?;
        Some(CompiledFunction { function: plain(text.shown), module: text.module, is_method: !text.is_stub })
    }
}

impl<'i, R: Deref<Target = Runtime<'i>> + Debug + Send> CompiledCode for ManagedUnwind<R> {
    fn rule(&self, address: Avma, exact: bool) -> Option<CompiledRule> {
        let (runtime, method) = self.find_method(address)?;
        Some(rule(runtime, &method, address.0, exact))
    }
}

impl<'i, R: Deref<Target = Runtime<'i>>> CompiledNames for ManagedUnwind<R> {
    fn find(&self, address: Avma) -> Option<CompiledFunction> {
        self.function(address)
    }
}

impl<'i, R: Deref<Target = Runtime<'i>>> NameAddresses for ManagedUnwind<R> {
    fn name(&self, address: Avma) -> Option<Function> {
        self.function(address).map(|found| found.function)
    }
}

fn rule(runtime: &Runtime<'_>, method: &Method, address: u64, exact: bool) -> CompiledRule {
    let Some(unwind) = method.unwind else {
        return match method.kind {
            // Jumps on the way to a method; they are left as they were entered.
            CodeKind::Stub(_) => CompiledRule::NoFrame,
            CodeKind::Jit | CodeKind::ReadyToRun | CodeKind::Dynamic => CompiledRule::Unknown,
        };
    };
    let Avma(base) = method.range_begin;
    let offset = |address: Avma| u32::try_from(address.0.checked_sub(base)?).ok();
    let function = || {
        Some(RuntimeFunction {
            begin: offset(unwind.start)?,
            end: offset(unwind.end).unwrap_or(0),
            unwind_info: offset(unwind.address)?,
        })
    };
    let read = |address: u64, buffer: &mut [u8]| runtime.memory().read(address, buffer).is_ok();
    function()
        .and_then(|function| windows_rule(method.range_begin, function, Avma(address), exact, &read))
        .map_or(CompiledRule::Unknown, CompiledRule::Frame)
}

/// `StubCodeBlockKind` of `codeman.h`; the numbers are those of .NET 8 to 10 as far as they agree.
fn stub_name(kind: u8) -> &'static str {
    match kind {
        1 => "(jump stub)",
        2 => "(precode)",
        3 => "(dynamic helper)",
        _ => "(stub of the runtime)",
    }
}
