//! Objects of V8: strings, functions, scripts.

use std::cell::{Cell, RefCell};
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
/// Variables of a scope that are stepped over.
const SCOPE: u64 = 100_000;
/// Words of a scope that are looked through behind the names of its variables.
const SCOPE_WORDS: u64 = 16;
/// Characters of a function in which the arrow behind its parameters is looked for.
const HEAD: usize = 200;
/// Characters before a function in which what it is assigned to is looked for.
const BEFORE: usize = 200;
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
    /// Bytes of names and of places of lines that may still be kept.
    texts_left: Cell<usize>,
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

/// `Module.prototype._compile = async function` is of `Module._compile`; `None` for what is not assigned to anything.
fn assigned_to(before: &str) -> Option<String> {
    let mut text = before.trim_end();
    for keyword in ["*", "function", "async"] {
        text = text.strip_suffix(keyword).unwrap_or(text).trim_end();
    }
    let is_part = |one: char| one.is_alphanumeric() || matches!(one, '_' | '$' | '.');
    let last =
        |text: &str| text.rsplit(|one| !is_part(one)).next().unwrap_or_default().replace(".prototype.", ".");
    let Some(target) = text.strip_suffix(['=', ':']).map(str::trim_end) else {
        // A method whose name is computed: `[kDispatch](event) {`.
        let key = text.strip_suffix(']')?.rsplit_once('[')?.1;
        return (!key.is_empty() && key.chars().all(is_part)).then(|| format!("[{key}]"));
    };
    let name = match target.strip_suffix("']").and_then(|target| target.rsplit_once("['")) {
        Some((object, key)) => format!("{}.{key}", last(object)),
        None => last(target),
    };
    (!name.is_empty()).then_some(name)
}

/// Whether text with this beginning and this last character may be a function from its parameters on. An arrow function begins with its
/// `async`, or with its one parameter, and may end as any expression does.
fn is_function(head: &str, last: &str) -> bool {
    let is_arrow = head.split_once("=>").is_some_and(|(parameters, _)| {
        let parameters = parameters.trim();
        let parameters = parameters.strip_prefix("async").unwrap_or(parameters).trim_start();
        let in_parentheses = parameters.starts_with('(') && parameters.ends_with(')');
        in_parentheses || parameters.chars().all(is_name)
    });
    match head.chars().next() {
        Some('(') => last == "}" || is_arrow,
        Some(first) if is_name(first) => is_arrow,
        _ => false,
    }
}

fn is_name(one: char) -> bool {
    one.is_alphanumeric() || matches!(one, '_' | '$')
}

impl<'m> Objects<'m> {
    pub(super) fn new(memory: &'m Memory<'m>, limits: &'m Limits, layout: Layout) -> Self {
        Self {
            memory,
            limits,
            layout,
            functions: RefCell::default(),
            lines: RefCell::default(),
            texts_left: Cell::new(limits.texts),
        }
    }

    /// Takes so many bytes of what may be kept; `None` when there is no more.
    fn keep(&self, bytes: usize) -> Option<()> {
        self.texts_left.set(self.texts_left.get().checked_sub(bytes)?);
        Some(())
    }

    /// Address of a field of an object that a tagged word refers to; `None` for a small number.
    pub(super) fn field(&self, object: u64, offset: u64) -> Option<u64> {
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

    /// Characters of a string as UTF-16, from one on, as many as there are up to `most`.
    fn units(&self, object: u64, from: usize, most: usize) -> Option<Vec<u16>> {
        let (length, _) = self.string_head(object)?;
        let mut units = Vec::new();
        // Parts that are still to come, the next one last: object, first character, how many.
        let mut parts = vec![(object, from, length.saturating_sub(from).min(most))];
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
        let units = self.units(object, 0, self.limits.text)?;
        let text = char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some(text.collect())
    }

    /// The function that a tagged word refers to; `None` for anything that is none.
    pub(super) fn function(&self, object: u64) -> Option<Rc<Function>> {
        self.shared_function(self.word(object, self.layout.function_shared)?)
    }

    /// The same by what it shares with all others of the same text.
    pub(super) fn shared_function(&self, shared: u64) -> Option<Rc<Function>> {
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
        let script = self.word(shared, self.layout.shared_script);
        let script = script.filter(|script| self.kind(*script) == Some(self.layout.types.script));
        let name = match self.kind(name) {
            Some(kind) if kind == self.layout.types.scope => {
                self.name_in_scope(name).or_else(|| self.name_in_source(name, script?))
            }
            _ => self.string(name),
        };
        let script_name = script.and_then(|script| self.string(self.word(script, self.layout.script_name)?));
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.keep(text(&name) + text(&script_name))?;
        Some(Function {
            name: name.unwrap_or_default().into(),
            script_name: script_name.filter(|name| !name.is_empty()).map(Arc::from),
            script,
        })
    }

    /// The name of a function in its scope: behind the names of its variables and what is known of each.
    fn name_in_scope(&self, scope: u64) -> Option<String> {
        // Flags, parameters, variables; then positions, in versions that have them there.
        let variables = u64::try_from(small(self.word(scope, 24)?)?).ok()?.min(SCOPE);
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

    /// What a function without a name is assigned to where it is written: code that comes from V8's cache has lost what V8 had
    /// inferred of that.
    fn name_in_source(&self, scope: u64, script: u64) -> Option<String> {
        let source = self.word(script, self.layout.script_source)?;
        let (start, _) = self.written(scope, source)?;
        let from = start.saturating_sub(BEFORE);
        assigned_to(&String::from_utf16_lossy(&self.units(source, from, start - from)?))
    }

    /// From where to where in its source a function is written, from its parameters on.
    fn written(&self, scope: u64, source: u64) -> Option<(usize, usize)> {
        // Two small numbers in a row: first what follows `function`, then the end. Newer versions have them in front, older ones
        // behind what they know of each variable.
        let first = match self.layout.places_first {
            true => 4,
            false => {
                let variables = u64::try_from(small(self.word(scope, 24)?)?).ok()?.min(SCOPE);
                4 + variables + if variables < INLINE_NAMES { variables } else { 1 }
            }
        };
        let at = |number: u64| usize::try_from(small(self.word(scope, 8 * number)?)?).ok();
        let text = |from: usize, most: usize| {
            self.units(source, from, most).map(|units| String::from_utf16_lossy(&units)).unwrap_or_default()
        };
        let written = |(start, end): &(usize, usize)| {
            // A scope does not say how long it is: numbers of what follows it in memory may be behind the end of the source.
            let last = if start < end { text(*end - 1, 1) } else { String::new() };
            !last.is_empty() && is_function(&text(*start, (end - start).min(HEAD)), &last)
        };
        let places = (first..first + SCOPE_WORDS).filter_map(|number| at(number).zip(at(number + 1)));
        places.into_iter().find(written)
    }

    /// The text of a function, from its parameters on, as far as the limit goes.
    pub(super) fn text_of(&self, function: u64, most: usize) -> Option<String> {
        let shared = self.word(function, self.layout.function_shared)?;
        let scope = self.word(shared, self.layout.shared_name)?;
        if self.kind(scope) != Some(self.layout.types.scope) {
            return None;
        }
        let script = self.word(shared, self.layout.shared_script)?;
        let source = self.word(script, self.layout.script_source)?;
        let (start, end) = self.written(scope, source)?;
        Some(String::from_utf16_lossy(&self.units(source, start, (end - start).min(most))?))
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

    /// Source text from a character of a script on.
    pub(super) fn source_from(&self, script: u64, position: u32, most: usize) -> Option<String> {
        let source = self.word(script, self.layout.script_source)?;
        Some(String::from_utf16_lossy(&self.units(source, usize::try_from(position).ok()?, most)?))
    }

    /// Where lines end, the end of the script last.
    fn line_ends(&self, script: u64) -> Option<Vec<u32>> {
        let units = self.units(self.word(script, self.layout.script_source)?, 0, SOURCE)?;
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
        self.keep(size_of_val(ends.as_slice()))?;
        Some(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_a_name_is_called_as_what_it_is_assigned_to() {
        let name = |text: &str| assigned_to(text);
        assert_eq!(name("x; Module.prototype._compile = function").as_deref(), Some("Module._compile"));
        assert_eq!(name("{ load: async function*").as_deref(), Some("load"));
        assert_eq!(name("const add = ").as_deref(), Some("add"));
        assert_eq!(name("Module._extensions['.js'] = function").as_deref(), Some("Module._extensions..js"));
        assert_eq!(name("  [kDispatch]").as_deref(), Some("[kDispatch]"));
        assert_eq!(name("several.forEach("), None);
        assert_eq!(name("a == "), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn a_function_is_known_by_its_beginning_and_end() {
        for (head, last, is) in [
            ("(request, response) { retur", "}", true),
            ("async (request, response) => {", "}", true),
            ("(seat) => book(seat", ")", true),
            ("seat => book(seat", ")", true),
            ("async seat=>book", "k", true),
            ("(a + b) * c", "c", false),
            ("return seats.map((one) ", "}", false),
            ("const seat = (one) => book(one", ")", false),
            ("list.map((one) => book(one", ")", false),
            ("{ a: 1 ", "}", false),
            ("", "", false),
        ] {
            assert_eq!(is_function(head, last), is, "{head}");
        }
    }

    #[test]
    fn words_that_are_no_pointers_are_small_numbers() {
        assert_eq!(small(7 << 32), Some(7));
        assert_eq!(small(u64::MAX << 32), Some(-1));
        assert_eq!(small(0x7f00_0000_1001), None);
    }
}
