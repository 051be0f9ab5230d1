//! Lines of perf maps as .NET writes them (`PerfMap::LogJITCompiledMethod` in the runtime's `perfmap.cpp`).
//!
//! ```text
//! 7f0012345000 1a0 void [App] App.Feed::Handle(int32)[OptimizedTier1]
//! 7f0012346000 40 stub<12> AllocateTemporaryEntryPoints<...>
//! ```

use biopsy_model::Avma;

use super::{Method, MethodKind, MethodName, Tier};

/// A method from a line; `None`: a stub, or not a line of .NET.
#[must_use]
pub fn parse_perf_map_line(line: &str) -> Option<Method> {
    let mut fields = line.trim_end().splitn(3, ' ');
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let start = Avma(hex(fields.next()?)?);
    let size = u32::try_from(hex(fields.next()?)?).ok()?;
    let (name, module, tier) = parse_perf_map_name(fields.next()?)?;
    let kind = if module == "dynamicClass" || &*name.namespace_type == "dynamicClass" {
        MethodKind::Dynamic
    } else if tier == Tier::ReadyToRun {
        MethodKind::ReadyToRun
    } else {
        MethodKind::Jit
    };
    Some(Method { start, size, name, module: Some(module.into()), tier, kind, ..Method::default() })
}

/// The shown name of a method by the name in a perf map; `None`: .NET did not write it.
#[must_use]
pub fn display_perf_map_name(text: &str) -> Option<String> {
    parse_perf_map_name(text).map(|(name, ..)| name.display())
}

/// `void [App] App.Feed::Handle(int32)[OptimizedTier1]`.
fn parse_perf_map_name(text: &str) -> Option<(MethodName, &str, Tier)> {
    let (text, tier) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((before, words)) => match Tier::from_words(words) {
            Some(tier) => (before, tier),
            None => (text, Tier::Unknown),
        },
        None => (text, Tier::Unknown),
    };
    // The return type may hold brackets of arrays and generics: the module is the first pair that a type does not touch.
    let (head, rest) = text.split_at(text.find(" [")? + 2);
    let returns = head.strip_suffix(" [")?;
    let (module, rest) = rest.split_once("] ")?;
    let (type_name, rest) = split_method(rest)?;
    let (method, arguments) = match parameters(rest) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let name = MethodName {
        namespace_type: type_name.into(),
        method: method.into(),
        signature: format!("{returns} {arguments}").trim_end().into(),
    };
    Some((name, module, tier))
}

/// At the last `::` in front of the parameters.
fn split_method(text: &str) -> Option<(&str, &str)> {
    let head = parameters(text).map_or(text, |at| &text[..at]);
    let at = head.rfind("::")?;
    Some((&text[..at], &text[at + 2..]))
}

/// Where the list of parameters begins: at the parenthesis that the last one closes.
fn parameters(text: &str) -> Option<usize> {
    if !text.ends_with(')') {
        return text.find('(');
    }
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_runtime() {
        for (line, name, tier) in [
            (
                "7f0012345000 1a0 void [App] App.Feed::Handle(int32)[OptimizedTier1]",
                "App.Feed.Handle",
                Tier::Tier1,
            ),
            (
                "7f00 1a0 instance void [App] App.Feed+<GetAsync>d__5::MoveNext()[Tier0]",
                "App.Feed.GetAsync (async)",
                Tier::Tier0,
            ),
            (
                "7f00 10 class System.String[] [System.Private.CoreLib] System.Collections.Generic.List`1[System.__Canon]::ToArray()[PreJIT]",
                "System.Collections.Generic.List<__Canon>.ToArray",
                Tier::ReadyToRun,
            ),
            (
                "7f00 10 void [App] App.Feed::.ctor(class System.Func`1<int32>)",
                "App.Feed (constructor)",
                Tier::Unknown,
            ),
        ] {
            let method = parse_perf_map_line(line).unwrap();
            assert_eq!((method.name.display().as_str(), method.tier), (name, tier), "{line}");
        }
        for other in [
            "7f00 40 stub<12> AllocateTemporaryEntryPoints",
            "",
            "zz 1 x",
            "10 10 ",
            "1 1 a [b",
            "1 1 [] ] )",
        ] {
            assert_eq!(parse_perf_map_line(other), None, "{other}");
        }
    }
}
