//! Layout files: those that are built in, and more.

use std::sync::{Arc, OnceLock};

use biopsy_model::Avma;
use serde_json::Value;

use super::json;
use super::{Layout, LayoutError};

/// Layout files that the program brings along.
const BUILT_IN: [(&str, &str); 4] = [
    ("coreclr-common", include_str!("../../layouts/coreclr-common.json")),
    ("coreclr-8.0", include_str!("../../layouts/coreclr-8.0.json")),
    ("coreclr-9.0", include_str!("../../layouts/coreclr-9.0.json")),
    ("coreclr-10.0", include_str!("../../layouts/coreclr-10.0.json")),
];
/// Files that build upon each other.
const BASELINES: usize = 8;

/// For which runtimes a file is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LayoutMatch {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Platform (`linux-x64`).
    pub rid: String,
    /// It fills gaps of a descriptor; else it says everything, and indices are into `g_dacTable`.
    pub supplement: bool,
}

/// One layout file.
#[derive(Clone, Debug)]
pub struct LayoutFile {
    /// Its name, without `.json`.
    pub name: String,
    /// For which runtimes it is; none when others build upon it only.
    pub matches: Option<LayoutMatch>,
    baseline: Option<String>,
    json: Arc<str>,
}

/// A set of layout files.
#[derive(Clone, Debug, Default)]
pub struct LayoutFiles {
    files: Vec<LayoutFile>,
}

impl LayoutFiles {
    /// The files that the program brings along.
    ///
    /// # Panics
    /// Never: a test parses them all.
    #[must_use]
    pub fn built_in() -> Arc<Self> {
        static SET: OnceLock<Arc<LayoutFiles>> = OnceLock::new();
        Arc::clone(SET.get_or_init(|| {
            let mut set = LayoutFiles::default();
            for (name, json) in BUILT_IN {
                set = set.with(name, json).expect("the files that are built in are read by a test");
            }
            Arc::new(set)
        }))
    }

    /// One file more. A file with the same name, or for the same runtimes, comes before what was there.
    ///
    /// # Errors
    /// [`LayoutError::Malformed`], [`LayoutError::TooMuch`].
    pub fn with(mut self, name: &str, json: &str) -> Result<Self, LayoutError> {
        let parsed = json::parse(name, json.as_bytes(), &[])?;
        let matches = match parsed.root.get("match") {
            None => None,
            Some(found) => Some(layout_match(name, found)?),
        };
        let baseline = parsed.root.get("baseline").and_then(Value::as_str).filter(|&name| name != "empty");
        let baseline = baseline.map(str::to_string);
        self.files.insert(0, LayoutFile { name: name.to_string(), matches, baseline, json: json.into() });
        Ok(self)
    }

    /// All files.
    #[must_use]
    pub fn files(&self) -> &[LayoutFile] {
        &self.files
    }

    /// The file for a version.
    #[must_use]
    pub fn find(&self, major: u16, minor: u16, rid: &str) -> Option<&LayoutFile> {
        self.files.iter().find(|file| {
            file.matches
                .as_ref()
                .is_some_and(|one| one.major == major && one.minor == minor && one.rid == rid)
        })
    }

    /// The versions that files say everything about, in words.
    #[must_use]
    pub fn known(&self) -> String {
        let names: Vec<_> = self
            .files
            .iter()
            .filter_map(|file| file.matches.as_ref())
            .filter(|one| !one.supplement)
            .map(|one| format!("{}.{} ({})", one.major, one.minor, one.rid))
            .collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    }

    /// The layout that a file describes. `addresses` is `g_dacTable`, `table_bytes` its size, which tells variants of a
    /// version apart.
    ///
    /// # Errors
    /// [`LayoutError::UnknownTable`] when none of its variants has a table of this size.
    pub fn layout(
        &self,
        file: &LayoutFile,
        addresses: &[Avma],
        table_bytes: u64,
    ) -> Result<Layout, LayoutError> {
        let mut layout = Layout::default();
        let mut next = Some(file);
        for _ in 0..BASELINES {
            let Some(file) = next else { return Ok(layout) };
            let mut parsed = json::parse(&file.name, file.json.as_bytes(), addresses)?;
            self.apply_variant(file, &parsed.root, addresses, table_bytes, &mut parsed.layout)?;
            layout.fill_from(&parsed.layout);
            next = match &file.baseline {
                None => None,
                Some(name) => Some(self.files.iter().find(|other| &other.name == name).ok_or_else(|| {
                    LayoutError::Malformed {
                        label: file.name.clone(),
                        what: format!("there is no file `{name}` that it builds upon"),
                    }
                })?),
            };
        }
        Err(LayoutError::TooMuch { label: file.name.clone(), what: "baselines", limit: BASELINES })
    }

    fn apply_variant(
        &self,
        file: &LayoutFile,
        root: &serde_json::Map<String, Value>,
        addresses: &[Avma],
        table_bytes: u64,
        layout: &mut Layout,
    ) -> Result<(), LayoutError> {
        let Some(Value::Array(variants)) = root.get("variants") else { return Ok(()) };
        let size = |variant: &Value| variant.get("dacTableBytes").and_then(Value::as_u64);
        let Some(variant) = variants.iter().find(|&variant| size(variant) == Some(table_bytes)) else {
            let known: Vec<_> = variants.iter().filter_map(size).map(|size| size.to_string()).collect();
            return Err(LayoutError::UnknownTable {
                label: file.name.clone(),
                found: table_bytes,
                known: known.join(", "),
            });
        };
        if let Some(Value::Object(globals)) = variant.get("globals") {
            json::read_globals(globals, addresses, layout);
        }
        if let Value::Object(variant) = variant {
            json::read_types(&file.name, variant, layout)?;
        }
        Ok(())
    }
}

fn layout_match(label: &str, found: &Value) -> Result<LayoutMatch, LayoutError> {
    let missing = |what: &str| LayoutError::Malformed {
        label: label.to_string(),
        what: format!("`match` does not say `{what}`"),
    };
    let number = |key: &str| {
        found
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|number| u16::try_from(number).ok())
            .ok_or(missing(key))
    };
    let text = |key: &str| found.get(key).and_then(Value::as_str).ok_or(missing(key));
    Ok(LayoutMatch {
        major: number("major")?,
        minor: number("minor")?,
        rid: text("rid")?.to_string(),
        supplement: text("addresses")? == "descriptor",
    })
}
