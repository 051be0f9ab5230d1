//! The name of a method, for people and for programs.

use crate::names::{Machine, display_as, is_state_machine};
use crate::runtime::{MethodDesc, Runtime, TypeHandle};

/// The name of a method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodText {
    /// As the programmer wrote it: `App.Feed.GetAsync (async)`.
    pub shown: String,
    /// As the metadata has it: `App.Feed+<GetAsync>d__5.MoveNext`.
    pub raw: String,
    /// File name of the assembly, `App.dll`; empty where there is none.
    pub module: String,
    /// Glue that the runtime compiled (`IL_STUB_PInvoke`).
    pub is_stub: bool,
}

/// The name of a method ; `None` when it cannot be read.
#[must_use]
pub fn method_text(runtime: &Runtime<'_>, method_desc: MethodDesc) -> Option<MethodText> {
    let name = runtime.method_name(method_desc).ok()?;
    let module = match &*name.module_name {
        "" => String::new(),
        assembly => format!("{assembly}.dll"),
    };
    if name.dynamic && name.type_name.is_empty() {
        let is_stub = name.method.starts_with("IL_STUB");
        let shown = if is_stub { name.method.to_string() } else { format!("{} (dynamic)", name.method) };
        return Some(MethodText {
            shown: crate::names::clean(&shown),
            raw: name.method.to_string(),
            module,
            is_stub,
        });
    }
    let machine = if is_state_machine(&name.type_name, &name.method) {
        machine(runtime, name.method_table)
    } else {
        Machine::Async
    };
    Some(MethodText {
        shown: display_as(&name.type_name, &name.method, machine),
        raw: format!("{}.{}", name.type_name, name.method),
        module,
        is_stub: false,
    })
}

/// What a state machine is for, by the fields that its compiler gave it.
fn machine(runtime: &Runtime<'_>, method_table: Option<TypeHandle>) -> Machine {
    let Some(fields) = method_table.and_then(|of| runtime.fields(of).ok()) else { return Machine::Async };
    let has = |name: &str| fields.iter().any(|field| field.name == name);
    match (has("<>2__current"), has("<>t__builder") || has("<>v__promiseOfValueOrEnd")) {
        (true, true) => Machine::AsyncIterator,
        (true, false) => Machine::Iterator,
        (false, _) => Machine::Async,
    }
}
