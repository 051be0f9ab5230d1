//! C++ and Rust names as people write them.

use std::fmt::{self, Write};

use biopsy_model::symbol::COLD_PART;
use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// Longer names are cut, mangled or not: they come from files that may be hostile, and nobody reads further.
const NAME_BYTES: usize = 4096;

/// The readable form of a symbol name. C++ without parameters and return type, as `perf` shows it; Rust without
/// the hash. Everything else as it is, without the version that static symbol tables append
/// (`memcpy@@GLIBC_2.14`). The rarely executed part of a function (`crash_here.cold`, GCC) is that function, with [`COLD_PART`].
pub fn demangle(name: &str) -> String {
    let plain = match name.split_once('@') {
        Some((plain, _)) if !plain.is_empty() => plain,
        _ => name,
    };
    let (whole, part) = match split_cold(plain) {
        Some(whole) => (whole, COLD_PART),
        None => (plain, ""),
    };
    let mut name = rust(whole).or_else(|| cpp(whole)).unwrap_or_else(|| cut(whole));
    name.push_str(part);
    name
}

/// `f.cold`, and `f.cold.3` of older compilers, without what tells the part.
fn split_cold(name: &str) -> Option<&str> {
    let (whole, number) = name.rsplit_once(".cold")?;
    let number = number.strip_prefix('.').map_or(number.is_empty(), |number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    (number && !whole.is_empty()).then_some(whole)
}

fn rust(name: &str) -> Option<String> {
    if !(name.starts_with("_R") || name.starts_with("_ZN") && is_rust_legacy(name)) || name.len() > NAME_BYTES
    {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded(String::new());
    // An error is only the bound being reached; what was written stands.
    let _ = write!(text, "{demangled:#}");
    Some(text.0)
}

/// The older mangling ends in a hash, `17h` and 16 hex digits; without it a name in this form is C++.
fn is_rust_legacy(name: &str) -> bool {
    name.match_indices("17h").any(|(at, _)| {
        let hash = name.as_bytes().get(at + 3..at + 20);
        hash.is_some_and(|hash| hash[..16].iter().all(u8::is_ascii_hexdigit) && hash[16] == b'E')
    })
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") || name.len() > NAME_BYTES {
        return None;
    }
    let (symbol, tail) = BorrowedSymbol::with_tail(name.as_bytes()).ok()?;
    let mut text = Bounded(String::new());
    let options = DemangleOptions::new().no_params().no_return_type();
    // Substitutions make short names expand without end; what was written up to the bound stands.
    if symbol.structured_demangle(&mut text, &options).is_err() && text.0.len() < NAME_BYTES / 2 {
        return None;
    }
    if !tail.is_empty() {
        // `.part.0`, `.constprop.1`: pieces the compiler made of the function.
        let _ = text.write_str(std::str::from_utf8(tail).unwrap_or(""));
    }
    Some(text.0)
}

fn cut(name: &str) -> String {
    let mut text = Bounded(String::new());
    let _ = text.write_str(name);
    text.0
}

/// At most `bytes` of the text, up to the end of a character.
pub(super) fn prefix(text: &str, bytes: usize) -> &str {
    let fits = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=bytes.min(text.len())).rev().find(fits).unwrap_or(0);
    &text[..end]
}

/// Takes `NAME_BYTES` and then refuses, which ends the writer.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_BYTES - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(prefix(text, room));
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_kinds() {
        for (mangled, readable) in [
            ("_ZN4JOIN10exec_innerEv", "JOIN::exec_inner"),
            ("_Z11mysql_parseP3THDPcjP12Parser_state", "mysql_parse"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("main", "main"),
            ("@", "@"),
            ("crash_here.cold", "crash_here [cold]"),
            ("crash_here.isra.0.cold", "crash_here.isra.0 [cold]"),
            ("read_row.cold.12", "read_row [cold]"),
            ("_ZN4JOIN10exec_innerEv.cold", "JOIN::exec_inner [cold]"),
            (".cold", ".cold"),
            ("f.colder", "f.colder"),
            ("f.cold.", "f.cold."),
            ("_Z", "_Z"),
        ] {
            assert_eq!(demangle(mangled), readable, "{mangled}");
        }
    }

    #[test]
    fn expansion_is_bounded() {
        // Each substitution doubles the one before.
        let mut bomb = String::from("_Z1fI1AI1B1BE");
        for step in 0..30 {
            let letter = char::from_digit(step % 10, 36).unwrap();
            bomb.push_str(&format!("1XIS{letter}_S{letter}_E"));
        }
        bomb.push_str("Ev");
        assert!(demangle(&bomb).len() <= NAME_BYTES);
        assert!(demangle(&"x".repeat(100_000)).len() <= NAME_BYTES);
        assert!(demangle(&"é".repeat(100_000)).len() <= NAME_BYTES);
    }
}
