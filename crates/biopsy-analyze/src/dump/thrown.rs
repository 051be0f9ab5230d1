//! What was thrown when nobody caught it: type and message of a C++ exception, from memory; the text of a panic of Go is its
//! goroutine's.
//!
//! The Itanium ABI (`cxxabi.h`, libsupc++'s `unwind-cxx.h`): in front of each exception that GCC's library made stands a header, whose
//! last part names its maker. Behind `__cxa_throw` its address is on the stack. An exception is believed that is thrown by the count
//! of its references, was begun to be handled once (that is what `std::terminate` is called in), and whose type has a name that can be
//! read; two that differ are none.

use biopsy_image::{Image, MemoryExt};
use biopsy_runtimes::{Memory, MissingFiles};
use biopsy_stacks::image::{ImageStacks, ThreadStack};
use biopsy_stacks::symbols::demangle;

/// `exception_class`; for one that depends on another (`std::rethrow_exception`) it ends in 1.
const MAKER: u64 = u64::from_be_bytes(*b"GNUCC++\0");
/// Where in the header its parts are, as seen from the part that the unwinder knows (`_Unwind_Exception`), which begins with the maker.
const TYPE: u64 = 80;
const HANDLED: u64 = 40;
const REFERENCES: u64 = 96;
/// The object behind it.
const OBJECT: u64 = 32;
/// Bytes of stack that are searched: the frames from `std::terminate` to `__cxa_throw`.
const STACK: u64 = 64 << 10;
/// Names of types, messages.
const TEXT: usize = 512;
/// Base classes that are followed.
const BASES: usize = 16;

/// What was thrown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thrown {
    /// Its type, where that is known.
    pub type_name: Option<String>,
    /// What it says, redacted; where it is one of the standard library's exceptions that carry a text, or is made from them, or a
    /// panic of Go.
    pub message: Option<String>,
}

/// The exception that is thrown on this stack. `redact`: without it no message is shown.
pub(super) fn find(
    image: &dyn Image,
    files: Option<&dyn MissingFiles>,
    stacks: &ImageStacks,
    stack: &ThreadStack,
    redact: Option<&dyn Fn(&str) -> String>,
) -> Option<Thrown> {
    let throws = |at: &usize| {
        let place = stack.frames.get(*at).and_then(|frame| stacks.place(frame.place));
        place.is_some_and(|place| {
            place.functions.iter().any(|function| {
                // Behind clean-up on the way the exception is handed on by the last of these.
                matches!(&*function.name, "__cxa_throw" | "__cxa_rethrow" | "_Unwind_Resume")
            })
        })
    };
    let thrower = (0..stack.frames.len().min(64)).find(throws)?;
    let (inner, outer) = (stack.frames.first()?.sp.0, stack.frames.get(thrower + 1)?.sp.0);
    let length = outer.checked_sub(inner)?.min(STACK);
    let memory = Memory::new(image, files, 1 << 20);
    let words = memory.bytes(inner, length as usize);
    let mut found: Option<(u64, String)> = None;
    for word in words.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)) {
        // The header, the unwinder's part of it, the object.
        for at in [Some(word), word.checked_sub(OBJECT), word.checked_add(TYPE)].into_iter().flatten() {
            let Some(known) = exception(image, &memory, at) else { continue };
            match &found {
                Some(other) if *other != known => return None,
                _ => found = Some(known),
            }
        }
    }
    let (at, mangled) = found?;
    let text =
        message(&memory, at).zip(redact).map(|(text, redact)| redact(&text).replace(['\n', '\r'], " "));
    Some(Thrown { type_name: Some(type_name(&mangled)), message: text.filter(|text| !text.is_empty()) })
}

/// The mangled name of the type of an exception that is thrown, and where that is.
fn exception(image: &dyn Image, memory: &Memory<'_>, at: u64) -> Option<(u64, String)> {
    if !at.is_multiple_of(8) || image.read_u64(at).ok()? != MAKER {
        return None;
    }
    let references = memory.u32(at.checked_sub(REFERENCES)?)?;
    let handled = memory.i32(at.checked_sub(HANDLED)?)?;
    if !(1..=16).contains(&references) || handled != 1 {
        return None;
    }
    Some((at, name_of(memory, memory.u64(at.checked_sub(TYPE)?)?)?))
}

/// The name in a `std::type_info`: letters, digits and underscores; a star in front says that it is of one file only.
fn name_of(memory: &Memory<'_>, type_info: u64) -> Option<String> {
    let text = memory.c_string(memory.u64(type_info.checked_add(8)?)?, TEXT)?;
    let name = text.strip_prefix('*').unwrap_or(&text);
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !name.is_empty()).then(|| name.to_owned())
}

/// `8BadOrder` → `BadOrder`.
fn type_name(mangled: &str) -> String {
    let readable = demangle(&format!("_ZTS{mangled}"));
    readable.strip_prefix("typeinfo name for ").map_or_else(|| mangled.to_owned(), str::to_owned)
}

/// The text of a `std::runtime_error` or `std::logic_error`, which is their only field. What is made from them by single inheritance
/// (`__si_class_type_info`: the base stands behind the name) has it in the same place.
fn message(memory: &Memory<'_>, at: u64) -> Option<String> {
    const CARRY_A_TEXT: &[&str] = &["St13runtime_error", "St11logic_error"];
    let mut type_info = memory.u64(at.checked_sub(TYPE)?)?;
    let kind = memory.u64(type_info)?;
    for _ in 0..BASES {
        // All on the way, the last one too, are made from one base.
        if memory.u64(type_info)? != kind {
            return None;
        }
        if CARRY_A_TEXT.contains(&&*name_of(memory, type_info)?) {
            let text = memory.u64(at.checked_add(OBJECT + 8)?)?;
            return memory.c_string(text, TEXT);
        }
        type_info = memory.u64(type_info.checked_add(16)?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::type_name;

    #[test]
    fn types_are_readable() {
        assert_eq!(type_name("8BadOrder"), "BadOrder");
        assert_eq!(type_name("N4shop8BadOrderE"), "shop::BadOrder");
        assert_eq!(type_name("St13runtime_error"), "std::runtime_error");
        assert_eq!(type_name("i"), "int");
    }
}
