//! From addresses to methods, and from methods to their names and tiers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use biopsy_model::Avma;

use super::code::{self, ReadyCode};
use super::tier::Tiers;
use super::{
    CodeKind, Method, MethodDesc, MethodName, Runtime, RuntimeError, Tier, method_names, type_names,
};
use crate::metadata::{RowOf, Table, method_parameters};

impl Runtime<'_> {
    /// The code at an address: which method it belongs to and how to unwind it; `None` when it is not managed code.
    ///
    /// # Errors
    /// When the code map cannot be read there.
    pub fn find_method(&self, ip: Avma) -> Result<Option<Method>, RuntimeError> {
        if let Some(found) = self.methods.get(&ip) {
            return Ok(found);
        }
        let found = self.look_for_method(ip.0)?;
        Ok(self.methods.put(ip, found))
    }

    fn look_for_method(&self, ip: u64) -> Result<Option<Method>, RuntimeError> {
        let Some(section) = code::section(&self.memory, &self.code, ip)? else { return Ok(None) };
        if section.module != 0 {
            return self.look_ahead(&section, ip);
        }
        let Some(mut method) = code::compiled(&self.memory, &self.code, &section, ip)? else {
            return Ok(None);
        };
        if let Some(method_desc) = method.method_desc {
            let kind = self.memory.u16(method_desc.at(self.places.method.flags))? & 7;
            if kind == method_names::DYNAMIC {
                method.kind = CodeKind::Dynamic;
            }
        }
        Ok(Some(method))
    }

    /// A method that was compiled ahead.
    fn look_ahead(&self, section: &code::Section, ip: u64) -> Result<Option<Method>, RuntimeError> {
        let look = self.look.load(Ordering::Relaxed);
        let before = self.ready.get(&section.begin);
        if let Some((at, ready)) = &before {
            let found = code::ahead(section, ready, ip);
            // It was found, or everything that is known by now was looked through.
            if *at == look || found.is_some_and(|(_, sure)| sure) {
                return Ok(found.map(|(method, _)| method));
            }
        }
        let before = before.as_ref().map(|(_, ready)| &**ready);
        let range = (section.begin, section.end);
        let ready = ReadyCode::read(&self.memory, &self.code.ready, section.module, range, before)?;
        let (_, ready) = self.ready.put(section.begin, (look, Arc::new(ready)));
        Ok(code::ahead(section, &ready, ip).map(|(method, _)| method))
    }

    /// How well code is optimised, where that can be told: code starts that belong to a recorded version. Costs a look at all
    /// versions the first time.
    ///
    /// # Errors
    /// When the table of versions cannot be read.
    pub fn tier(&self, method: &Method) -> Result<Option<Tier>, RuntimeError> {
        let Some(method_desc) = method.method_desc.filter(|_| method.tier.is_none()) else {
            return Ok(method.tier);
        };
        let kept = self.tiers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tiers = match kept {
            Some(tiers) => tiers,
            None => {
                let tiers = Arc::new(Tiers::new(&self.memory, &self.layout));
                *self.tiers.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tiers));
                tiers
            }
        };
        tiers.of(&self.memory, method, method_desc)
    }

    /// The name of a method.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn method_name(&self, method_desc: MethodDesc) -> Result<Arc<MethodName>, RuntimeError> {
        if let Some(name) = self.names.get(&method_desc) {
            return Ok(name);
        }
        let raw = method_names::read(&self.memory, &self.places, method_desc)?;
        let dynamic = raw.kind == method_names::DYNAMIC;
        let name = self.compose_method_name(raw)?;
        if dynamic {
            // Their memory is used again, for others.
            return Ok(Arc::new(name));
        }
        Ok(self.names.put(method_desc, Arc::new(name)))
    }

    fn compose_method_name(&self, raw: method_names::RawMethod) -> Result<MethodName, RuntimeError> {
        if raw.kind == method_names::DYNAMIC {
            return Ok(MethodName {
                type_name: "".into(),
                method: raw.dynamic_name.unwrap_or_default().into(),
                signature: None,
                method_table: None,
                module: Avma(0),
                module_name: "".into(),
                token: 0,
                dynamic: true,
            });
        }
        let info = self.type_of(raw.method_table)?;
        if raw.kind == method_names::ARRAY {
            let inherited = self.memory.u16(raw.method_table.at(self.places.method_table.virtuals))?;
            return Ok(MethodName {
                type_name: Arc::clone(&info.name),
                method: method_names::array_method(raw.slot.saturating_sub(inherited)),
                signature: None,
                method_table: Some(raw.method_table),
                module: info.module,
                module_name: "".into(),
                token: 0,
                dynamic: false,
            });
        }
        let module = self.module_with(info.module, Table::MethodDef, raw.row)?;
        let metadata = module.metadata()?;
        let row = metadata.method(raw.row)?;
        let mut method = row.name.to_string();
        if !raw.arguments.is_empty() {
            let arguments: Vec<Arc<str>> = raw
                .arguments
                .iter()
                .map(|&one| self.type_of(one).map_or_else(|_| "?".into(), |info| Arc::clone(&info.name)))
                .collect();
            type_names::push_arguments(&mut method, &arguments);
        } else if raw.kind == method_names::INSTANTIATED {
            let names = metadata.type_parameters(RowOf { table: Table::MethodDef, row: raw.row });
            let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
            if !names.is_empty() {
                type_names::push_arguments(&mut method, &names);
            }
        }
        Ok(MethodName {
            type_name: Arc::clone(&info.name),
            method: method.into(),
            signature: method_parameters(metadata, row.signature, Some(raw.row)).ok().map(Arc::from),
            method_table: Some(raw.method_table),
            module: info.module,
            module_name: Arc::clone(&module.name),
            token: 0x0600_0000 | raw.row,
            dynamic: false,
        })
    }
}
