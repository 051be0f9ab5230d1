//! Frames written alike, whatever compiler named them: without arguments, types and what a build makes up.

/// Characters of a signature.
const LENGTH: usize = 255;

/// A whole signature: single spaces, and not too long.
pub(super) fn whole(text: String) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= LENGTH {
        return text;
    }
    let mut cut: String = text.chars().take(LENGTH - 3).collect();
    cut.push_str("...");
    cut
}

/// A module; names of Windows know no case.
pub(super) fn module(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let of_windows = lower.ends_with(".dll") || lower.ends_with(".exe");
    let name = if of_windows { lower.as_str() } else { name };
    name.trim_matches(['[', ']']).to_owned()
}

/// A function. Which language it is in is told by `file`, where that is known.
pub(super) fn function(name: &str, file: &str) -> String {
    if is_path(file) && file.ends_with(".rs") { of_rust(name) } else { of_cpp(name) }
}

/// Socorro takes a file for one when it has a root, a drive or a repository.
fn is_path(file: &str) -> bool {
    file.starts_with('/') || matches!(file.split(':').count(), 2 | 4)
}

fn of_rust(name: &str) -> String {
    let name = last_word(name);
    let name = collapse(&name, '<', '>', "<T>", &[" as "]);
    let name = collapse(&name, '(', ')', "", &[]);
    without_hash(&spaced(&name)).to_owned()
}

fn of_cpp(name: &str) -> String {
    let mut name = name.to_owned();
    for qualifier in ["const", "const&", "const &", "&&", "&"] {
        if let Some(rest) = name.strip_suffix(qualifier) {
            name = rest.trim().to_owned();
        }
    }
    if !name.contains("::operator") {
        name = last_word(&name);
    }
    let name = name.replace("`anonymous namespace'", "(anonymous namespace)");
    let name = without_lambda_numbers(&name);
    let name = collapse(&name, '<', '>', "<T>", &["name omitted", "IPC::ParamTraits", " in "]);
    let mut name = collapse(&name, '(', ')', "", &["anonymous namespace", "operator"]);
    if name.contains("clone .cold") {
        name = collapse(&name, '[', ']', "", &[]);
    }
    spaced(&name)
}

/// What is between a pair of brackets goes, the outermost pair counts; it stays where one of `kept` stands in front of a bracket or
/// inside.
fn collapse(name: &str, open: char, close: char, replacement: &str, kept: &[&str]) -> String {
    let keeps =
        |before: &str, inside: &str| kept.iter().any(|one| before.ends_with(one) || inside.contains(one));
    let mut result = String::new();
    let mut depth = 0_usize;
    let mut inside = String::new();
    let mut last = 0;
    for (at, character) in name.char_indices() {
        let before = name.get(..at).unwrap_or_default();
        last = at;
        if depth == 0 {
            if character == open && !keeps(before, "") {
                depth = 1;
                inside = character.to_string();
            } else {
                result.push(character);
            }
            continue;
        }
        inside.push(character);
        if character == open {
            depth += 1;
        } else if character == close {
            depth -= 1;
            if depth == 0 {
                result.push_str(if keeps(before, &inside) { &inside } else { replacement });
            }
        }
    }
    if depth > 0 {
        let before = name.get(..last).unwrap_or_default();
        result.push_str(if keeps(before, &inside) { &inside } else { replacement });
    }
    result
}

/// `static void* Pool<T>::take(int)` → `Pool<T>::take(int)`: the last of the words that spaces outside of brackets separate.
fn last_word(name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut open: Vec<char> = Vec::new();
    for character in name.chars() {
        let closes = match character {
            '(' => Some(')'),
            '{' => Some('}'),
            '[' => Some(']'),
            '<' => Some('>'),
            '`' => Some('\''),
            _ => None,
        };
        if let Some(close) = closes {
            open.push(close);
        } else if open.last() == Some(&character) {
            open.pop();
        } else if character == ' ' && open.is_empty() {
            words.push(std::mem::take(&mut word));
            continue;
        }
        word.push(character);
    }
    if !word.is_empty() {
        words.push(word);
    }
    let mut last = words.pop().unwrap_or_default();
    // Arguments behind a space, and the notes of a compiler, belong to the name.
    while (last.starts_with('(') || last.starts_with("[clone")) && !words.is_empty() {
        last = format!("{} {last}", words.pop().unwrap_or_default());
    }
    last
}

/// No space in front of `*`, `&` and `,`; one behind each comma.
fn spaced(name: &str) -> String {
    let mut result = String::new();
    let mut rest = name.chars().peekable();
    while let Some(character) = rest.next() {
        let next = rest.peek().copied();
        if character == ' ' && matches!(next, Some('*' | '&' | ',')) {
            continue;
        }
        result.push(character);
        if character == ',' && next != Some(' ') {
            result.push(' ');
        }
    }
    result
}

/// `shop::run::h0123456789abcdef` → `shop::run`.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash)) if !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest,
        _ => name,
    }
}

/// `run::$_7::operator` → `run::$::operator`.
fn without_lambda_numbers(name: &str) -> String {
    let mut result = String::new();
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once("::$_") {
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        result.push_str(before);
        match behind.get(digits..).filter(|behind| digits > 0 && behind.starts_with("::")) {
            Some(behind) => {
                result.push_str("::$::");
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                result.push_str("::$_");
                rest = behind;
            }
        }
    }
    result.push_str(rest);
    result
}
