//! Names that compilers make: `<Of>kind__number` of C# (`GeneratedNameKind` of Roslyn), and their relatives of Visual Basic
//! and F#.

/// What a generated name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made<'a> {
    /// The class of an async method or iterator `of`.
    StateMachine(&'a str),
    /// A lambda in `of`.
    Lambda(&'a str),
    /// A local function in `of`.
    Local {
        /// The method around it.
        of: &'a str,
        /// Its own name.
        name: &'a str,
    },
    /// A class that holds captured variables, or lambdas without any.
    Closure,
    /// `new { ... }`.
    AnonymousType,
    /// The body of a program without a class, and the entry point around an async `Main`.
    Main,
    /// `with` on a record.
    Clone,
    /// Around a lambda in a field's initial value.
    Initializer,
}

/// `None`: the programmer wrote it.
pub(super) fn generated(name: &str) -> Option<Made<'_>> {
    match name {
        "<Main>$" | "<Main>" => return Some(Made::Main),
        "<Clone>$" => return Some(Made::Clone),
        ".ctor" | ".cctor" => return None,
        _ => {}
    }
    let Some((of, rest)) = bracketed(name) else { return of_other_compilers(name) };
    // `d__5`, `d` in a lambda, `b__3_0`, `g__Bar|3_0`, `c__DisplayClass3_0`, `c`, `f__AnonymousType0`.
    let mut characters = rest.chars();
    let kind = characters.next()?;
    let detail = characters.as_str();
    if !(detail.is_empty() || detail.starts_with("__")) {
        return None;
    }
    match kind {
        'd' => Some(Made::StateMachine(of)),
        'b' if of.is_empty() => Some(Made::Initializer),
        'b' => Some(Made::Lambda(of)),
        'g' => {
            let local = detail.strip_prefix("__")?;
            Some(Made::Local { of, name: local.split('|').next().unwrap_or(local) })
        }
        'c' if of.is_empty() => Some(Made::Closure),
        'f' if of.is_empty() && detail.starts_with("__AnonymousType") => Some(Made::AnonymousType),
        _ => None,
    }
}

/// `<Of>rest`: what is between the first bracket and the one that closes it. Of may hold brackets of its own: lambdas in
/// lambdas, generic interfaces.
fn bracketed(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let mut depth = 1_usize;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return Some((&inner[..at], &inner[at + 1..]));
                }
            }
            _ => {}
        }
    }
    None
}

fn of_other_compilers(name: &str) -> Option<Made<'_>> {
    // Visual Basic: `VB$StateMachine_5_GetAsync`, `_Closure$__3-0`, `_Lambda$__0`.
    if let Some(rest) = name.strip_prefix("VB$StateMachine_") {
        return rest.split_once('_').map(|(_, of)| Made::StateMachine(of));
    }
    if name.starts_with("_Closure$__") {
        return Some(Made::Closure);
    }
    if name.starts_with("_Lambda$__") {
        return Some(Made::Lambda(""));
    }
    if name.starts_with("VB$AnonymousType_") {
        return Some(Made::AnonymousType);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        assert_eq!(generated("<GetAsync>d__5"), Some(Made::StateMachine("GetAsync")));
        assert_eq!(generated("<<Foo>b__0>d"), Some(Made::StateMachine("<Foo>b__0")));
        assert_eq!(generated("<Foo>g__Bar|3_0"), Some(Made::Local { of: "Foo", name: "Bar" }));
        assert_eq!(generated("<>c__DisplayClass3_0"), Some(Made::Closure));
        assert_eq!(generated("<PrivateImplementationDetails>"), None);
        assert_eq!(generated("<"), None);
        assert_eq!(generated("<a>"), None);
        assert_eq!(generated("<a>dx"), None);
        assert_eq!(generated("Plain"), None);
    }
}
