//! Methods: names, source files and lines.

use std::rc::Rc;
use std::sync::Arc;

use super::compressed::Packed;
use super::vm::Vm;
use crate::StrandFrame;

const ACC_NATIVE: u32 = 0x100;
/// Bytes of a table of line numbers that are read: methods have at most 65,535 bytes of code.
const LINES: usize = 1 << 18;
/// Stands for a step that does not fit one byte.
const ESCAPE: u8 = 0xff;
/// Methods that are kept.
const KNOWN: usize = 100_000;

/// A method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Method {
    /// `java.lang.Thread.sleep`.
    pub(super) name: Arc<str>,
    /// File name of its source.
    pub(super) file: Option<Arc<str>>,
    /// It is not made of byte code.
    pub(super) native: bool,
    /// Where its byte code begins, and bytes of it.
    pub(super) code: u64,
    pub(super) code_size: u32,
    /// Packed pairs of byte code and line; empty where the class file has none.
    lines: Box<[u8]>,
}

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
            let mut packed = Packed::new(&bytes, self.form);
            let ends = std::iter::from_fn(|| step(&mut packed)).any(|step| matches!(step, Step::End));
            if ends || bytes.len() < size || size >= LINES {
                return bytes.into();
            }
            size *= 4;
        }
    }
}

/// One entry of a table of lines.
enum Step {
    /// By so much byte code and so many lines.
    By(i32, i32),
    End,
}

fn step(packed: &mut Packed<'_>) -> Option<Step> {
    Some(match packed.byte()? {
        0 => Step::End,
        ESCAPE => Step::By(packed.signed()?, packed.signed()?),
        both => Step::By(i32::from(both >> 3), i32::from(both & 7)),
    })
}

impl Method {
    /// The line of a byte code: of the last one at or before it.
    pub(super) fn line(&self, index: u32, form: super::compressed::Form) -> Option<u32> {
        let mut packed = Packed::new(&self.lines, form);
        let (mut at, mut line) = (0i32, 0i32);
        let mut best: Option<(i32, i32)> = None;
        while let Some(Step::By(code, lines)) = step(&mut packed) {
            at = at.wrapping_add(code);
            line = line.wrapping_add(lines);
            let wanted = i32::try_from(index).unwrap_or(i32::MAX);
            if at == wanted {
                best = Some((at, line));
                break;
            }
            if at < wanted && best.is_none_or(|(found, _)| at >= found) {
                best = Some((at, line));
            }
        }
        best.and_then(|(_, line)| u32::try_from(line).ok()).filter(|line| *line > 0)
    }

    /// A frame of it, at a byte code.
    pub(super) fn frame(&self, index: Option<u32>, form: super::compressed::Form) -> StrandFrame {
        StrandFrame {
            function: Arc::clone(&self.name),
            file: self.file.clone(),
            line: index.filter(|_| !self.native).and_then(|index| self.line(index, form)),
            ..StrandFrame::default()
        }
    }
}
