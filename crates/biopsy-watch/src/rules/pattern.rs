//! Texts with wild cards: `*` is any text, `?` one character; letters match in any case.

/// A text with wild cards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(Vec<char>);

impl Pattern {
    /// Takes any text; one without wild cards matches itself.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.chars().flat_map(char::to_lowercase).collect())
    }

    /// Whether all of a text matches. No backtracking but to the last `*`: the time is the product of both lengths at most.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
        let (mut at, mut wild, mut star) = (0, 0, None);
        while at < text.len() {
            match self.0.get(wild) {
                Some('*') => {
                    star = Some((wild, at));
                    wild += 1;
                }
                Some(&letter) if letter == '?' || letter == text[at] => {
                    at += 1;
                    wild += 1;
                }
                _ => match star {
                    Some((after, begin)) => {
                        star = Some((after, begin + 1));
                        at = begin + 1;
                        wild = after + 1;
                    }
                    None => return false,
                },
            }
        }
        self.0[wild..].iter().all(|&letter| letter == '*')
    }

    /// Whether it is meant for a path rather than a file's name.
    #[must_use]
    pub fn has_folders(&self) -> bool {
        self.0.contains(&'/')
    }

    /// Whether a file matches: by its name, with or without `.dll` or `.exe`; by its path where the pattern has folders.
    #[must_use]
    pub fn matches_file(&self, path: &str) -> bool {
        if path.is_empty() {
            return false;
        }
        if self.has_folders() {
            return self.matches(path);
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = name.len().checked_sub(4).and_then(|at| name.split_at_checked(at));
        let stem =
            ending.filter(|(_, end)| end.eq_ignore_ascii_case(".dll") || end.eq_ignore_ascii_case(".exe"));
        self.matches(name) || stem.is_some_and(|(stem, _)| self.matches(stem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_cards() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "x", false),
            ("*", "", true),
            ("abc", "ABC", true),
            ("abc", "abcd", false),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("*.dll", "x.dll", true),
            ("?", "é", true),
            ("?", "", false),
            ("a**b?", "axxbc", true),
            ("*a*b*", "xxbxa", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
        let long = "a".repeat(5000);
        assert!(!Pattern::new(&"*a".repeat(500)).matches(&format!("{long}b")), "and it ends");
    }

    #[test]
    fn files() {
        for (pattern, path, expected) in [
            ("VBCSCompiler", "/sdk/Roslyn/bincore/VBCSCompiler.dll", true),
            ("vbcscompiler.dll", "VBCSCompiler.dll", true),
            ("csc", "csc.exe", true),
            ("csc", "cscope", false),
            ("*/.dotnet/tools/*", "/home/u/.dotnet/tools/x", true),
            ("tools", "/home/u/tools/x", false),
            ("", "", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches_file(path), expected, "{pattern} {path}");
        }
    }
}
