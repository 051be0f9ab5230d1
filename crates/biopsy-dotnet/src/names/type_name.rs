//! Names of types in the styles of reflection (`` Outer`1+Inner[System.Int32] ``) and of C# (`Outer<Int32>+Inner`).

use super::generated::{Made, generated};
use super::method_name::method_of_machine;

/// Types inside types inside types: deeper is not read.
const DEEPEST: usize = 24;

/// One type of a chain of nested ones.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Segment<'a> {
    /// Without arity and arguments; with the namespace, in the outermost.
    pub(super) name: &'a str,
    /// Arguments, readable.
    pub(super) arguments: Vec<String>,
    /// How many there should be.
    arity: usize,
    /// `[]`, `*`, `&` behind it.
    decoration: &'a str,
}

impl Segment<'_> {
    /// `Dictionary<string, int>`; `Dictionary<,>` where the arguments are not reported.
    pub(super) fn readable(&self) -> String {
        let mut text = self.name.to_owned();
        if !self.arguments.is_empty() {
            text.push('<');
            text.push_str(&self.arguments.join(", "));
            text.push('>');
        } else if self.arity > 0 {
            text.push('<');
            text.push_str(&",".repeat((self.arity - 1).min(DEEPEST)));
            text.push('>');
        }
        text.push_str(self.decoration);
        text
    }
}

/// The chain of a type's name, outermost first.
pub(super) fn segments(text: &str) -> Vec<Segment<'_>> {
    chain(text, 0)
}

fn chain(text: &str, depth: usize) -> Vec<Segment<'_>> {
    let (body, decoration) = split_decoration(text);
    let (body, arguments) = split_arguments(body);
    let mut segments: Vec<Segment<'_>> =
        split_top(body, '+').into_iter().map(|part| segment(part, depth)).collect();
    let mut arguments = split_top(arguments, ',').into_iter().filter(|argument| !argument.is_empty());
    for segment in &mut segments {
        if segment.arguments.is_empty() {
            let own = arguments.by_ref().take(segment.arity);
            segment.arguments = own.map(|argument| argument_name(argument, depth + 1)).collect();
        }
    }
    // Arguments without arity in the name: some writers leave it out.
    let rest: Vec<String> = arguments.map(|argument| argument_name(argument, depth + 1)).collect();
    if let Some(last) = segments.last_mut() {
        last.arguments.extend(rest);
        last.decoration = decoration;
    }
    segments
}

/// `` Inner`2 ``, `Inner<A,B>`, `<GetAsync>d__5`.
fn segment(part: &str, depth: usize) -> Segment<'_> {
    // A generated name begins with a bracket that belongs to it.
    let own = if part.starts_with('<') { closing(part).map_or(part.len(), |at| at + 1) } else { 0 };
    let rest = &part[own..];
    let open = rest.find('<').filter(|_| rest.ends_with('>'));
    let (name, arguments) = match open {
        Some(open) if open > 0 => (&part[..own + open], &rest[open + 1..rest.len() - 1]),
        _ => (part, ""),
    };
    let (name, arity) = match name.rsplit_once('`') {
        Some((name, digits)) if !digits.is_empty() && digits.len() < 4 => match digits.parse() {
            Ok(arity) => (name, arity),
            Err(_) => (name, 0),
        },
        _ => (name, 0),
    };
    let arguments = split_top(arguments, ',')
        .into_iter()
        .filter(|argument| !argument.is_empty())
        .map(|argument| argument_name(argument, depth + 1))
        .collect();
    Segment { name, arguments, arity, decoration: "" }
}

/// The bracket that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => {
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

/// An argument: without its namespace, with the words of the language.
fn argument_name(text: &str, depth: usize) -> String {
    if depth > DEEPEST {
        return "…".to_owned();
    }
    let text = text.trim();
    // `[System.String, System.Private.CoreLib]`: with its assembly.
    let text = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(inner) => split_top(inner, ',').first().copied().unwrap_or(inner),
        None => text,
    };
    let text = text.strip_prefix("class ").or_else(|| text.strip_prefix("value class ")).unwrap_or(text);
    let mut name = String::new();
    for (position, segment) in chain(text, depth).into_iter().enumerate() {
        let readable = match generated(segment.name) {
            Some(Made::Closure) => continue,
            Some(Made::StateMachine(of)) => method_of_machine(of, depth),
            _ => segment.readable(),
        };
        if position > 0 {
            name.push('.');
            name.push_str(&readable);
        } else {
            name.push_str(&keyword(segment.name, &readable));
        }
    }
    name
}

fn keyword(name: &str, readable: &str) -> String {
    let word = match name {
        "System.Boolean" | "Boolean" => "bool",
        "System.Byte" | "Byte" => "byte",
        "System.SByte" | "SByte" => "sbyte",
        "System.Char" | "Char" => "char",
        "System.Int16" | "Int16" => "short",
        "System.UInt16" | "UInt16" => "ushort",
        "System.Int32" | "Int32" => "int",
        "System.UInt32" | "UInt32" => "uint",
        "System.Int64" | "Int64" => "long",
        "System.UInt64" | "UInt64" => "ulong",
        "System.Single" | "Single" => "float",
        "System.Double" | "Double" => "double",
        "System.Decimal" | "Decimal" => "decimal",
        "System.String" | "String" => "string",
        "System.Object" | "Object" => "object",
        _ => {
            let namespace = name.rfind('.').map_or(0, |at| at + 1);
            return readable.get(namespace..).unwrap_or(readable).to_owned();
        }
    };
    format!("{word}{}", readable.get(name.len()..).unwrap_or(""))
}

/// `[]`, `[,]`, `*` and `&` at the end.
fn split_decoration(text: &str) -> (&str, &str) {
    let mut end = text.len();
    loop {
        let head = &text[..end];
        if head.ends_with(['*', '&']) {
            end -= 1;
        } else if let Some(open) = head.strip_suffix(']').and_then(|head| {
            let open = head.trim_end_matches([',', '*']);
            open.ends_with('[').then(|| open.len() - 1)
        }) {
            end = open;
        } else {
            return text.split_at(end);
        }
    }
}

/// `` List`1[System.Int32] `` → name and what is between the last pair of square brackets.
fn split_arguments(text: &str) -> (&str, &str) {
    let Some(inner) = text.strip_suffix(']') else { return (text, "") };
    let mut depth = 1_usize;
    for (at, byte) in inner.bytes().enumerate().rev() {
        match byte {
            b']' => depth += 1,
            b'[' => {
                depth -= 1;
                if depth == 0 {
                    return (&text[..at], &inner[at + 1..]);
                }
            }
            _ => {}
        }
    }
    (text, "")
}

/// At a separator outside of all brackets. Unbalanced text is one part.
fn split_top(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, character) in text.char_indices() {
        match character {
            '<' | '[' | '(' => depth += 1,
            '>' | ']' | ')' => depth = depth.saturating_sub(1),
            _ if character == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A method as it is shown behind its type: with readable type arguments of its own, without the namespace of an interface.
pub(super) fn member(method: &str, depth: usize) -> String {
    let parts = split_top(method, '.');
    let own = parts.last().copied().unwrap_or(method);
    match own.split_once('<') {
        Some((name, arguments)) if !name.is_empty() && own.ends_with('>') => {
            let arguments = split_top(&arguments[..arguments.len() - 1], ',');
            let arguments: Vec<String> =
                arguments.into_iter().map(|argument| argument_name(argument, depth + 1)).collect();
            let whole = &method[..method.len() - own.len() + name.len()];
            format!("{}<{}>", explicit_interface(whole, depth), arguments.join(", "))
        }
        _ => explicit_interface(method, depth),
    }
}

/// `System.Collections.Generic.IEnumerable<T>.GetEnumerator` → `IEnumerable<T>.GetEnumerator`: an explicitly implemented
/// member without the namespace of its interface. Dashes stand for dots in names of classes.
fn explicit_interface(method: &str, depth: usize) -> String {
    let dashed = !method.contains('.') && method.contains('-');
    let method = if dashed { method.replace('-', ".") } else { method.to_owned() };
    let parts = split_top(&method, '.');
    let [.., interface, member] = parts.as_slice() else { return method };
    if interface.is_empty() || member.is_empty() {
        return method;
    }
    let simple = match interface.split_once('<') {
        Some((name, arguments)) => {
            let arguments = arguments.strip_suffix('>').unwrap_or(arguments);
            let arguments: Vec<String> = split_top(arguments, ',')
                .into_iter()
                .map(|argument| argument_name(argument, depth + 1))
                .collect();
            format!("{name}<{}>", arguments.join(", "))
        }
        None => (*interface).to_owned(),
    };
    format!("{simple}.{member}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        segments(text).iter().map(Segment::readable).collect::<Vec<_>>().join(".")
    }

    #[test]
    fn both_styles() {
        assert_eq!(
            shown("App.Outer`1+Inner`2[System.Int32,System.String,App.X]"),
            "App.Outer<int>.Inner<string, X>"
        );
        assert_eq!(shown("App.Outer<Int32>+Inner<String, App.X>"), "App.Outer<int>.Inner<string, X>");
        assert_eq!(shown("A`1[B`1[C.D`1[System.Byte[]]]]"), "A<B<D<byte[]>>>");
        assert_eq!(shown("System.Int32[,]"), "System.Int32[,]");
        assert_eq!(shown("List`1"), "List<>");
        assert_eq!(shown("A`2[System.__Canon,System.__Canon][]"), "A<__Canon, __Canon>[]");
        assert_eq!(shown("A`1[[System.String, System.Private.CoreLib]]"), "A<string>");
        assert_eq!(shown(""), "");
        assert_eq!(shown("]]]"), "]]]");
    }

    #[test]
    fn endless_nesting_ends() {
        let deep = "A`1[".repeat(5000) + "B" + &"]".repeat(5000);
        assert!(shown(&deep).len() < 1000);
    }
}
