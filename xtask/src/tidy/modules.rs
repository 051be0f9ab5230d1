//! Which file of a crate uses which other: paths and imports, read without a compiler. What only tests use is left out.
//!
//! Methods are not seen, nor what macros make; that is enough to find the layers of a crate.

use std::collections::{BTreeMap, BTreeSet};

/// Names passed on are followed this often; longer chains are circles of names.
const MOST_STEPS: usize = 16;

/// What one import or path names: its words, from a module on.
type Words = Vec<String>;

/// A module: a file, or a block within one.
#[derive(Debug, Default)]
struct Module {
    /// Its path in the crate.
    path: Words,
    /// Modules declared in it that are for tests only.
    test_modules: BTreeSet<String>,
    /// Names it imports, and whether for others too.
    imports: Vec<(String, Words, bool)>,
    /// Modules it imports all of, and whether for others too.
    globs: Vec<(Words, bool)>,
    /// Paths in its code.
    paths: Vec<Words>,
    /// Words in its code, imports left out.
    words: BTreeSet<String>,
    /// Names of functions, types and the like that are made in it.
    items: BTreeSet<String>,
}

/// A file with its modules; the first is the file itself.
#[derive(Debug)]
pub(crate) struct File {
    name: String,
    modules: Vec<Module>,
}

impl File {
    /// Parses a file below `folder`, which ends in `src/`.
    pub(crate) fn parse(name: &str, folder: &str, text: &str) -> Self {
        let below = name.strip_prefix(folder).unwrap_or(name).trim_end_matches(".rs");
        let mut path: Words = below.split('/').map(str::to_owned).collect();
        if path.last().is_some_and(|last| last == "mod") || matches!(below, "lib" | "main") {
            path.pop();
        }
        let mut modules = vec![Module { path, ..Module::default() }];
        Parser { tokens: &tokens(text), at: 0 }.block(&mut modules, 0);
        Self { name: name.to_owned(), modules }
    }
}

/// The files of a crate.
#[derive(Debug)]
pub(crate) struct Crate {
    files: Vec<File>,
    /// Path of a module to its file and place there.
    modules: BTreeMap<Words, (usize, usize)>,
}

impl Crate {
    /// Of these files; those for tests are left out.
    pub(crate) fn of(files: Vec<File>) -> Self {
        let tests: Vec<Words> = files
            .iter()
            .flat_map(|file| &file.modules)
            .flat_map(|module| module.test_modules.iter().map(|name| joined(&module.path, name)))
            .collect();
        let is_test = |path: &Words| tests.iter().any(|test| path.starts_with(test));
        let files: Vec<File> = files.into_iter().filter(|file| !is_test(&file.modules[0].path)).collect();
        let mut modules = BTreeMap::new();
        for (index, file) in files.iter().enumerate() {
            for (place, module) in file.modules.iter().enumerate() {
                modules.insert(module.path.clone(), (index, place));
            }
        }
        Self { files, modules }
    }

    /// For each file, which others it uses.
    pub(crate) fn edges(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in &self.files {
            let used = edges.entry(file.name.clone()).or_default();
            for module in &file.modules {
                let imported = module.imports.iter().filter(|(name, _, passed_on)| {
                    // A name that is only passed on is not used.
                    !passed_on || module.words.contains(name)
                });
                let whole = module.globs.iter().filter(|(_, passed_on)| !passed_on);
                let named = imported.map(|(_, words, _)| words).chain(whole.map(|(words, _)| words));
                for words in named.chain(&module.paths) {
                    if let Some((index, _)) = self.resolve(module, words, MOST_STEPS) {
                        used.insert(self.files[index].name.clone());
                    }
                }
            }
            used.remove(&file.name);
        }
        edges
    }

    fn module(&self, at: (usize, usize)) -> &Module {
        &self.files[at.0].modules[at.1]
    }

    /// The module in which what the words name was made; `None`: not in this crate.
    fn resolve(&self, from: &Module, words: &[String], steps: usize) -> Option<(usize, usize)> {
        let steps = steps.checked_sub(1)?;
        let (first, mut rest) = words.split_first()?;
        let mut path = match first.as_str() {
            "crate" => Words::new(),
            "self" => from.path.clone(),
            "super" => from.path.split_last()?.1.to_vec(),
            name if self.modules.contains_key(&joined(&from.path, name)) => joined(&from.path, name),
            // A name that was imported; a name of its own leads to nothing new.
            name => {
                let (_, target, _) = from.imports.iter().find(|(one, ..)| one == name && words.len() > 1)?;
                let target: Words = target.iter().chain(rest).cloned().collect();
                return self.resolve(from, &target, steps).filter(|_| target.first() != Some(first));
            }
        };
        while let Some((name, after)) = rest.split_first() {
            match name.as_str() {
                "super" => drop(path.pop()?),
                name if self.modules.contains_key(&joined(&path, name)) => path = joined(&path, name),
                _ => break,
            }
            rest = after;
        }
        let at = *self.modules.get(&path)?;
        let Some(name) = rest.first() else { return Some(at) };
        let module = self.module(at);
        if let Some((_, target, _)) = module.imports.iter().find(|(one, ..)| one == name) {
            let target: Words = target.iter().chain(&rest[1..]).cloned().collect();
            return self.resolve(module, &target, steps);
        }
        if module.items.contains(name) {
            return Some(at);
        }
        let made_there = |(words, _): &(Words, bool)| {
            let there = self.resolve(module, words, steps)?;
            let found =
                self.resolve(self.module(there), &[vec!["self".to_owned()], rest.to_vec()].concat(), steps)?;
            self.module(found).items.contains(name).then_some(found)
        };
        module.globs.iter().find_map(made_there).or(Some(at))
    }
}

fn joined(path: &[String], name: &str) -> Words {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

/// Walks over the tokens of a file.
struct Parser<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).copied().unwrap_or("")
    }

    /// Reads the items and code of a module until its end.
    fn block(&mut self, modules: &mut Vec<Module>, of: usize) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            let token = self.peek(0);
            match token {
                "#" => {
                    if self.attribute_is_test() {
                        self.skip_item(&mut modules[of]);
                    }
                    continue;
                }
                "{" => depth += 1,
                "}" if depth == 0 => return,
                "}" => depth -= 1,
                // The path in `pub(in crate::a)` uses nothing.
                "pub" if self.peek(1) == "(" => {
                    self.at += 1;
                    self.skip_brackets();
                    continue;
                }
                "mod" if self.peek(2) == "{" => {
                    let path = joined(&modules[of].path, self.peek(1));
                    self.at += 3;
                    modules.push(Module { path, ..Module::default() });
                    let inner = modules.len() - 1;
                    self.block(modules, inner);
                }
                "mod" if self.peek(2) == ";" => self.at += 2,
                "use" => {
                    let passed_on = self.at > 0 && matches!(self.tokens[self.at - 1], "pub" | ")");
                    self.at += 1;
                    self.import(&mut modules[of], &Words::new(), passed_on);
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                | "macro_rules" => {
                    let name = if self.peek(1) == "!" { self.peek(2) } else { self.peek(1) };
                    modules[of].items.insert(name.to_owned());
                }
                word if is_word(word) => {
                    self.path(&mut modules[of]);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A path in code, or a word.
    fn path(&mut self, module: &mut Module) {
        let mut words = vec![self.peek(0).to_owned()];
        let starts = self.at == 0 || self.tokens[self.at - 1] != "::";
        self.at += 1;
        while self.peek(0) == "::" && is_word(self.peek(1)) {
            words.push(self.peek(1).to_owned());
            self.at += 2;
        }
        module.words.extend(words.iter().cloned());
        if starts && words.len() > 1 {
            module.paths.push(words);
        }
    }

    /// What an import names, below a path: `a::b`, `a::{b, c as d}`, `a::*`. Ends at what follows it.
    fn import(&mut self, module: &mut Module, above: &Words, passed_on: bool) {
        let mut words = above.clone();
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.import(module, &words, passed_on);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    module.globs.push((words, passed_on));
                    return;
                }
                "::" => self.at += 1,
                word if is_word(word) && word != "as" => {
                    if word != "self" || words.is_empty() {
                        words.push(word.to_owned());
                    }
                    self.at += 1;
                }
                _ => break,
            }
        }
        let mut name = words.last().cloned().unwrap_or_default();
        if self.peek(0) == "as" {
            name = self.peek(1).to_owned();
            self.at += 2;
        }
        if words != *above || !above.is_empty() {
            module.imports.push((name, words, passed_on));
        } else {
            // Nothing that is understood: go on behind it.
            self.at += 1;
        }
    }

    /// Goes behind an attribute; whether it says that what follows is for tests.
    fn attribute_is_test(&mut self) -> bool {
        let start = self.at;
        while !matches!(self.peek(0), "[" | "") {
            self.at += 1;
        }
        self.skip_brackets();
        let inside = &self.tokens[start..self.at];
        let has = |word: &str| inside.contains(&word);
        // `#![...]` is of the whole file.
        has("cfg") && has("test") && !has("not") && inside.get(1) != Some(&"!")
    }

    /// Goes behind the item that starts here.
    fn skip_item(&mut self, module: &mut Module) {
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "#" => drop(self.attribute_is_test()),
                "mod" => {
                    module.test_modules.insert(self.peek(1).to_owned());
                    self.at += 1;
                }
                "(" | "[" => self.skip_brackets(),
                "{" => {
                    self.skip_brackets();
                    // `use a::{b};` and values end behind it.
                    if self.peek(0) != ";" {
                        return;
                    }
                }
                ";" | "," => {
                    self.at += 1;
                    return;
                }
                "}" => return,
                _ => self.at += 1,
            }
        }
    }

    /// Goes behind the bracket that closes the one here.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::` and single characters; comments, texts, characters and numbers left out.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => text_length(rest),
            '\'' => character_length(rest),
            'r' | 'b' | 'c' if raw_text_length(rest).is_some() => raw_text_length(rest).unwrap_or(1),
            'b' | 'c' if rest[1..].starts_with('"') => 1 + text_length(&rest[1..]),
            'b' if rest[1..].starts_with('\'') => 1 + character_length(&rest[1..]),
            c if is_part(c) => {
                let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
                if !c.is_ascii_digit() {
                    found.push(&rest[..length]);
                }
                length
            }
            ':' if rest.starts_with("::") => {
                found.push("::");
                2
            }
            c if c.is_whitespace() => c.len_utf8(),
            c => {
                found.push(&rest[..c.len_utf8()]);
                c.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or("");
    }
    found
}

/// Bytes of the text in quotes at the start.
fn text_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Bytes of `r#"..."#` and its like at the start; `None`: there is none.
fn raw_text_length(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inside = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(rest.len() - inside.len() + length)
}

/// Bytes of a character at the start, or of the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escaped)) => {
            let from = 2 + escaped.len_utf8();
            rest.get(from..).and_then(|rest| rest.find('\'')).map_or(rest.len(), |at| from + at + 1)
        }
        (Some(one), Some('\'')) => 2 + one.len_utf8(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn texts_and_comments_are_no_code() {
        let text = r##"a /* b */ "c \" d" 'e' '\'' '\u{66}' b'g' r#"h " h"# &'i j // k"##;
        assert_eq!(tokens(text), ["a", "&", "i", "j"]);
        assert_eq!(tokens("x::y::<z>(1_u8, \"\")"), ["x", "::", "y", "::", "<", "z", ">", "(", ",", ")"]);
    }
}
