//! Whether a document can be read as before: as many records, with the same names.

use serde::Deserialize;
use serde_json::Value;

/// What a document is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// Lines of anything: as many lines, each with its first word.
    #[default]
    Lines,
    /// One or more JSON values.
    Json,
    /// Records with as many cells each.
    Csv,
    /// Elements in elements.
    Xml,
    /// Names at the beginnings of lines: no YAML parser is at hand, so only its names and their depth are compared.
    Yaml,
}

impl Format {
    /// All.
    pub(super) const ALL: [Self; 5] = [Self::Lines, Self::Json, Self::Csv, Self::Xml, Self::Yaml];

    /// Whether `after` reads as `before` does; `None`: `before` cannot be read itself.
    pub(super) fn holds(self, before: &str, after: &str) -> Option<bool> {
        let outline = |text: &str| match self {
            Self::Lines => Some(vec![text.lines().count().to_string()]),
            Self::Json => json(text),
            Self::Csv => csv(text),
            Self::Xml => xml(text),
            Self::Yaml => Some(yaml(text)),
        };
        outline(before).map(|before| outline(after).is_some_and(|after| after == before))
    }

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Json => "JSON",
            Self::Csv => "CSV",
            Self::Xml => "XML",
            Self::Yaml => "YAML (names and depth)",
        }
    }
}

/// Paths of all members.
fn json(text: &str) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    for value in serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}')).into_iter::<Value>()
    {
        let value = value.ok()?;
        let mut open = vec![(String::new(), &value)];
        while let Some((path, value)) = open.pop() {
            match value {
                Value::Object(members) => {
                    open.extend(members.iter().map(|(name, member)| (format!("{path}.{name}"), member)));
                }
                Value::Array(items) => {
                    open.extend(
                        items.iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)),
                    );
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => paths.push(format!("{path}={value}")),
                Value::String(_) => paths.push(path),
            }
        }
    }
    Some(paths)
}

/// Cells of each record, as counted with quotes.
fn csv(text: &str) -> Option<Vec<String>> {
    let separator = [';', '\t', ',']
        .into_iter()
        .find(|separator| text.lines().next().is_some_and(|head| head.contains(*separator)))?;
    let mut records = Vec::new();
    let (mut cells, mut quoted) = (1, false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            '\n' if !quoted => records.push(std::mem::replace(&mut cells, 1).to_string()),
            letter if letter == separator && !quoted => cells += 1,
            _ => {}
        }
    }
    (!quoted).then_some(records)
}

/// Begins and ends of elements, with the names of attributes.
fn xml(text: &str) -> Option<Vec<String>> {
    let mut outline = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('<') {
        if let Some(inner) = behind.strip_prefix("![CDATA[") {
            rest = inner.split_once("]]>")?.1;
            outline.push("CDATA".to_owned());
            continue;
        }
        let (tag, behind) = behind.split_once('>')?;
        rest = behind;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop()? != name.trim() {
                return None;
            }
        } else {
            let mut parts = tag.trim_end_matches('/').split('"');
            let mut names = String::new();
            let mut inside = false;
            for part in parts.by_ref() {
                if !inside {
                    names.push_str(part.trim());
                    names.push(' ');
                }
                inside = !inside;
            }
            if !inside {
                return None;
            }
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next()?);
            }
            outline.push(names.trim().to_owned());
        }
    }
    open.is_empty().then_some(outline)
}

/// Names at the beginnings of lines, with what is in front of them.
fn yaml(text: &str) -> Vec<String> {
    // A colon ends a name where a blank or the end of the line follows it.
    let name = |line: &str| match line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, ""))) {
        Some((name, _)) => name.to_owned(),
        None => line.chars().take_while(|letter| " -".contains(*letter)).collect(),
    };
    text.lines().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_is_seen() {
        for (format, before, after, holds) in [
            (Format::Json, "{\"a\":\"x\",\"b\":1}\n{}", "{\"a\":\"[mask]\",\"b\":1}\n{}", true),
            (Format::Json, "{\"a\":\"x\"}", "{\"a\":[mask]", false),
            (Format::Json, "{\"a\":\"x\",\"b\":1}", "{\"a\":\"[mask]\"}", false),
            (Format::Csv, "a,b\n1,x\n", "a,b\n1,[mask]\n", true),
            (Format::Csv, "a,b\n1,x\n", "a,b\n[mask]\n", false),
            (Format::Csv, "a,b\n\"1,2\",x\n", "a,b\n\"1,2\",x,\n", false),
            (Format::Xml, "<a b=\"x\"><c>y</c></a>", "<a b=\"[mask]\"><c>[mask]</c></a>", true),
            (Format::Xml, "<a b=\"x\"/>", "<a b=\"[mask]/>", false),
            (Format::Xml, "<a><c>y</c></a>", "<a><c>[mask]</a>", false),
            (Format::Yaml, "a:\n  b: x\n", "a:\n  b: [mask]\n", true),
            (Format::Yaml, "a:\n  b: x\n", "a:\n  [mask]\n", false),
            (Format::Lines, "x\ny\n", "x\n[mask]\n", true),
            (Format::Lines, "x\ny\n", "[mask]\n", false),
        ] {
            assert_eq!(format.holds(before, after), Some(holds), "{before:?} {after:?}");
        }
        assert_eq!(Format::Json.holds("{", "{}"), None, "what cannot be read is not held against anybody");
    }
}
