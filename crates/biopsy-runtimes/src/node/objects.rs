//! Objects of V8: strings, functions, scripts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::symbols::Layout;
use crate::{Limits, Memory};

/// Parts of a string that are put together; deeper ones are given up.
const PARTS: usize = 1_000;
/// Characters of a script that are read to count its lines.
const SOURCE: usize = 16 << 20;
/// Scripts and functions that are kept.
const KNOWN: usize = 20_000;
/// Names of variables that are in a scope itself; of more there is a table.
const INLINE_NAMES: u64 = 75;
/// Words of a scope that are looked through behind the names of its variables.
const SCOPE_WORDS: u64 = 16;
/// The lowest bit of a word that is a pointer.
const HEAP: u64 = 1;
/// Where a small number is in a word.
const SMALL: u32 = 32;

/// Reads objects.
pub(super) struct Objects<'m> {
    pub(super) memory: &'m Memory<'m>,
    pub(super) limits: &'m Limits,
    pub(super) layout: Layout,
    functions: RefCell<FxHashMap<u64, Option<Rc<Function>>>>,
    lines: RefCell<FxHashMap<u64, Rc<[u32]>>>,
}

/// What a function says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Function {
    /// Empty for one without a name.
    pub(super) name: Arc<str>,
    /// Name of its script: a path, or `node:fs`; none for what is built in.
    pub(super) script_name: Option<Arc<str>>,
    /// The script.
    pub(super) script: Option<u64>,
}

/// The number in a word that is no pointer.
pub(super) fn small(word: u64) -> Option<i32> {
    (word & HEAP == 0).then_some((word >> SMALL) as i32)
}

impl<'m> Objects<'m> {
    pub(super) fn new(memory: &'m Memory<'m>, limits: &'m Limits, layout: Layout) -> Self {
        Self { memory, limits, layout, functions: RefCell::default(), lines: RefCell::default() }
    }

    /// Address of a field of an object that a tagged word refers to; `None` for a small number.
    fn field(&self, object: u64, offset: u64) -> Option<u64> {
        (object & 3 == HEAP).then(|| (object - HEAP).checked_add(offset)).flatten()
    }

    /// A word of an object.
    pub(super) fn word(&self, object: u64, offset: u64) -> Option<u64> {
        self.memory.u64(self.field(object, offset)?)
    }

    /// The type of an object.
    pub(super) fn kind(&self, object: u64) -> Option<u16> {
        let map = self.word(object, 0)?;
        self.memory.u16(self.field(map, self.layout.map_type)?)
    }

    /// The length of a string, and the bits of its type.
    fn string_head(&self, object: u64) -> Option<(usize, u16)> {
        let kind = self.kind(object).filter(|kind| *kind < self.layout.strings.first_other)?;
        let length = self.memory.i32(self.field(object, self.layout.string_length)?)?;
        Some((usize::try_from(length).ok()?, kind))
    }

    /// The first `most` characters of a string as UTF-16.
    fn units(&self, object: u64, most: usize) -> Option<Vec<u16>> {
        let (length, _) = self.string_head(object)?;
        let mut units = Vec::new();
        // Parts that are still to come, the next one last: object, first character, how many.
        let mut parts = vec![(object, 0usize, length.min(most))];
        for _ in 0..PARTS {
            let Some((object, from, count)) = parts.pop() else { break };
            let (length, kind) = self.string_head(object)?;
            let count = count.min(length.saturating_sub(from));
            let (strings, layout) = (&self.layout.strings, &self.layout);
            let wide = kind & strings.encoding != strings.one_byte;
            match kind & strings.representation {
                shape if shape == strings.sequential => {
                    let data = self.field(object, if wide { layout.two_bytes } else { layout.one_byte })?;
                    self.append(data, from, count, wide, &mut units)?;
                }
                shape if shape == strings.external => {
                    // The word behind the resource says where its data is.
                    let data = self.word(object, layout.external_resource + 8)?;
                    self.append(data, from, count, wide, &mut units)?;
                }
                shape if shape == strings.cons => {
                    let (first, second) =
                        (self.word(object, layout.cons_first)?, self.word(object, layout.cons_second)?);
                    let (head, _) = self.string_head(first)?;
                    let in_first = head.saturating_sub(from).min(count);
                    if count > in_first {
                        parts.push((second, from.saturating_sub(head), count - in_first));
                    }
                    if in_first > 0 {
                        parts.push((first, from, in_first));
                    }
                }
                shape if shape == strings.sliced => {
                    let offset = small(self.word(object, layout.sliced_offset)?)?;
                    let from = usize::try_from(offset).ok()?.checked_add(from)?;
                    parts.push((self.word(object, layout.sliced_parent)?, from, count));
                }
                shape if shape == strings.thin => {
                    parts.push((self.word(object, layout.thin_actual)?, from, count))
                }
                _ => return None,
            }
        }
        parts.is_empty().then_some(units)
    }

    fn append(&self, data: u64, from: usize, count: usize, wide: bool, units: &mut Vec<u16>) -> Option<()> {
        let width = if wide { 2 } else { 1 };
        let bytes = self.memory.bytes(data.checked_add((from * width) as u64)?, count * width);
        if bytes.len() < count * width {
            return None;
        }
        match wide {
            true => units.extend(bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair))),
            false => units.extend(bytes.iter().map(|byte| u16::from(*byte))),
        }
        Some(())
    }

    /// A string, as far as the limit goes.
    pub(super) fn string(&self, object: u64) -> Option<String> {
        let units = self.units(object, self.limits.text)?;
        let text = char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some(text.collect())
    }

    /// The function that a tagged word refers to; `None` for anything that is none.
    pub(super) fn function(&self, object: u64) -> Option<Rc<Function>> {
        let shared = self.word(object, self.layout.function_shared)?;
        if let Some(known) = self.functions.borrow().get(&shared) {
            return known.clone();
        }
        let read = self.read_function(shared).map(Rc::new);
        let mut known = self.functions.borrow_mut();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(shared, read.clone());
        read
    }

    fn read_function(&self, shared: u64) -> Option<Function> {
        if self.kind(shared) != Some(self.layout.types.shared) {
            return None;
        }
        let name = self.word(shared, self.layout.shared_name)?;
        let name = match self.kind(name) {
            Some(kind) if kind == self.layout.types.scope => self.name_in_scope(name),
            _ => self.string(name),
        };
        let script = self.word(shared, self.layout.shared_script);
        let script = script.filter(|script| self.kind(*script) == Some(self.layout.types.script));
        let script_name = script.and_then(|script| self.string(self.word(script, self.layout.script_name)?));
        Some(Function {
            name: name.unwrap_or_default().into(),
            script_name: script_name.filter(|name| !name.is_empty()).map(Arc::from),
            script,
        })
    }

    /// The name of a function in its scope: behind the names of its variables and what is known of each.
    fn name_in_scope(&self, scope: u64) -> Option<String> {
        // Flags, parameters, variables; then positions, in versions that have them there.
        let variables = u64::try_from(small(self.word(scope, 24)?)?).ok()?;
        let mut at = 4;
        while small(self.word(scope, 8 * at)?).is_some() && at < SCOPE_WORDS && variables > 0 {
            at += 1;
        }
        at += if variables < INLINE_NAMES { variables } else { 1 };
        // Numbers of each variable; more numbers, and then the name, or what V8 inferred.
        let numbers = variables + SCOPE_WORDS;
        for _ in 0..numbers {
            let word = self.word(scope, 8 * at)?;
            if small(word).is_none() {
                let name = self.string(word)?;
                if !name.is_empty() {
                    return Some(name);
                }
            }
            at += 1;
        }
        None
    }

    /// The line, from 1, of a character of a script.
    pub(super) fn line(&self, script: u64, position: u32) -> Option<u32> {
        let known = self.lines.borrow().get(&script).cloned();
        let ends = match known {
            Some(ends) => ends,
            None => {
                let ends: Rc<[u32]> = self.line_ends(script).unwrap_or_default().into();
                let mut lines = self.lines.borrow_mut();
                if lines.len() >= KNOWN {
                    lines.clear();
                }
                lines.insert(script, Rc::clone(&ends));
                ends
            }
        };
        let length = *ends.last()?;
        (position <= length).then(|| ends.partition_point(|end| *end < position) as u32 + 1)
    }

    /// Where lines end, the end of the script last.
    fn line_ends(&self, script: u64) -> Option<Vec<u32>> {
        let units = self.units(self.word(script, self.layout.script_source)?, SOURCE)?;
        let is_end = |(index, unit): (usize, &u16)| {
            let ends = match *unit {
                0x0a | 0x2028 | 0x2029 => true,
                0x0d => units.get(index + 1) != Some(&0x0a),
                _ => false,
            };
            ends.then_some(index as u32)
        };
        let mut ends: Vec<u32> = units.iter().enumerate().filter_map(is_end).collect();
        ends.push(units.len() as u32);
        Some(ends)
    }
}
