//! Methods named as the programmer wrote them.

use biopsy_model::Avma;
use biopsy_model::symbol::Function;

use super::{CodeKind, MethodDesc, MethodName, Runtime, RuntimeError, TypeHandle};
use crate::methods::NameAddresses;
use crate::names::{self, Machine};

impl Runtime<'_> {
    /// The name of a method as the programmer wrote it: `App.Feed.GetAsync (async)`.
    ///
    /// # Errors
    /// As [`Runtime::method_name`].
    pub fn display_name(&self, method_desc: MethodDesc) -> Result<String, RuntimeError> {
        Ok(self.display(&*self.method_name(method_desc)?))
    }

    /// As [`Runtime::display_name`], of a name that is known already.
    #[must_use]
    pub fn display(&self, name: &MethodName) -> String {
        if name.dynamic {
            return names::display("dynamicClass", &name.method);
        }
        let machine = if names::is_state_machine(&name.type_name, &name.method) {
            self.machine(name.method_table)
        } else {
            Machine::default()
        };
        names::display_as(&name.type_name, &name.method, machine)
    }

    /// What a type that the compiler made for a method is, by its fields.
    fn machine(&self, method_table: Option<TypeHandle>) -> Machine {
        let Some(fields) = method_table.and_then(|of| self.fields(of).ok()) else {
            return Machine::default();
        };
        let has = |name: &str| fields.iter().any(|field| field.name == name);
        match (has("<>t__builder"), has("<>2__current")) {
            (true, true) => Machine::AsyncIterator,
            (false, true) => Machine::Iterator,
            _ => Machine::Async,
        }
    }
}

impl NameAddresses for Runtime<'_> {
    fn name(&self, address: Avma) -> Option<Function> {
        let method = self.find_method(address).ok()??;
        let name = match method.kind {
            // Glue of the runtime: better than a bare address, and said to be glue.
            CodeKind::Stub(_) => "(runtime stub)".to_string(),
            CodeKind::Jit | CodeKind::ReadyToRun | CodeKind::Dynamic => {
                self.display_name(method.method_desc?).ok()?
            }
        };
        Some(Function { name, file: None, line: None })
    }
}
