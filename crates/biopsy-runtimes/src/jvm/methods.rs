//! Methods by their addresses, checked.

use std::rc::Rc;
use std::sync::Arc;

use super::method::{Method, is_whole};
use super::vm::Vm;

const ACC_NATIVE: u32 = 0x100;
/// Bytes of a table of line numbers that are read: methods have at most 65,535 bytes of code.
const LINES: usize = 1 << 18;
/// Methods that are kept.
const KNOWN: usize = 100_000;

impl Vm<'_> {
    /// A method, checked: what does not lead to names of a class and a method is none.
    pub(super) fn method(&self, address: u64) -> Option<Rc<Method>> {
        if let Some(known) = self.methods.borrow().get(&address) {
            return known.clone();
        }
        let read = self.read_method(address).map(Rc::new);
        let mut known = self.methods.borrow_mut();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(address, read.clone());
        read
    }

    fn read_method(&self, address: u64) -> Option<Method> {
        let (memory, layout) = (self.memory, &self.layout.methods);
        let constant = memory.pointer(address.checked_add(layout.constants_of_method)?)?;
        let pool = memory.pointer(constant.checked_add(layout.pool)?)?;
        let holder = memory.pointer(pool.checked_add(layout.pool_holder)?)?;
        let class = self.class_name(holder)?;
        let name = self.constant_name(pool, memory.u16(constant.checked_add(layout.name)?)?)?;
        let file = memory.u16(pool.checked_add(layout.source_file)?)?;
        let access = memory.u32(address.checked_add(layout.access_flags)?)?;
        let code = constant.checked_add(layout.constant_size)?;
        let code_size = u32::from(memory.u16(constant.checked_add(layout.code_size)?)?);
        let has_lines =
            u64::from(memory.u16(constant.checked_add(layout.flags)?)?) & layout.line_numbers_flag != 0;
        let lines = match has_lines {
            true => self.lines(code.checked_add(u64::from(code_size))?),
            false => Box::default(),
        };
        self.keep(class.len() + name.len() + lines.len())?;
        Some(Method {
            name: format!("{class}.{name}").into(),
            file: (file != 0).then(|| self.constant_name(pool, file)).flatten().map(Arc::from),
            native: access & ACC_NATIVE != 0,
            code,
            code_size,
            lines,
        })
    }

    /// The packed table behind a method's byte code, up to the zero that ends it.
    fn lines(&self, at: u64) -> Box<[u8]> {
        let mut size = 256;
        loop {
            let bytes = self.memory.bytes(at, size);
            if is_whole(&bytes, self.form) || bytes.len() < size || size >= LINES {
                return bytes.into();
            }
            size *= 4;
        }
    }
}
