//! The kinds of secrets, from the tables of `fixtures/secrets`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::checksum::Checksum;
use super::half::Half;
use super::random::Random;
use super::shape::{Shape, Value};
use super::wellformed::Format;
use crate::run::{Outcome, root};

/// One kind of secrets.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) half: Half,
    pub(super) form: Form,
    /// Names that people give to it.
    pub(super) keys: Vec<String>,
    /// So short, or so much a word, that it cannot be looked for elsewhere.
    pub(super) common: bool,
    pub(super) finish: Option<Checksum>,
    pub(super) shapes: Vec<Shape>,
}

/// What it stands in.
#[derive(Debug)]
pub(super) enum Form {
    /// A credential that can be told by itself.
    Shaped,
    /// Something that only its key tells.
    Keyed,
    /// A line with `{secret}`.
    Texts(Vec<String>),
    /// Arguments of a program.
    Arguments(Vec<Vec<String>>),
    /// A document of several lines. `rows`: records under a header.
    Block { text: String, rows: bool, format: Format },
}

impl Kind {
    /// A value of this kind.
    pub(super) fn make(&self, random: &mut Random) -> Value {
        let shape = random.pick(&self.shapes);
        let value = shape.make(random);
        match self.finish {
            Some(checksum) => shape.value(checksum.finish(&value.text)),
            None => value,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table<Row> {
    #[serde(default)]
    values: BTreeMap<String, String>,
    kinds: BTreeMap<String, Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerRow {
    shape: String,
    keys: Vec<String>,
    alone: Option<bool>,
    finish: Option<Checksum>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRow {
    keys: Vec<String>,
    values: Vec<String>,
    #[serde(default)]
    common: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StructureRow {
    #[serde(default)]
    texts: Vec<String>,
    #[serde(default)]
    argv: Vec<Vec<String>>,
    values: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockRow {
    text: String,
    secret: Option<String>,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    rows: bool,
    #[serde(default)]
    format: Format,
}

/// Reads a table of `fixtures/secrets`.
pub(super) fn read<Row: DeserializeOwned>(file: &str) -> Outcome<Row> {
    let path = root().join("fixtures/secrets").join(file);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("`{}`: {error}", path.display()))
}

/// All kinds, by name: halves A and B from the tables, the others from those of their own folders.
pub(super) fn read_all() -> Outcome<Vec<Kind>> {
    let mut kinds = read_folder("", Half::of)?;
    for (half, folder) in Half::OWN_TABLES {
        kinds.extend(read_folder(&format!("{folder}/"), |name| half.of_kind(name))?);
    }
    kinds.sort_by(|one, other| one.name.cmp(&other.name));
    match kinds.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(format!("two kinds are called `{}`", pair[0].name)),
        None => Ok(kinds),
    }
}

fn read_folder(folder: &str, half: impl Fn(&str) -> Half) -> Outcome<Vec<Kind>> {
    let file = |name: &str| format!("{folder}{name}");
    let kind = |name: String, form: Form, shapes: Vec<Shape>| Kind {
        half: half(&name),
        name,
        form,
        keys: Vec::new(),
        common: false,
        finish: None,
        shapes,
    };
    let mut kinds = Vec::new();
    for (name, row) in read::<Table<IssuerRow>>(&file("issuers.toml"))?.kinds {
        let form = if row.alone.unwrap_or(true) { Form::Shaped } else { Form::Keyed };
        let shapes = vec![Shape::parse(&row.shape)?];
        kinds.push(Kind { keys: row.keys, finish: row.finish, ..kind(name, form, shapes) });
    }
    let keyed = read::<Table<KeyRow>>(&file("keys.toml"))?;
    let shapes = |names: &[String]| -> Outcome<Vec<Shape>> {
        let pattern = |name: &String| keyed.values.get(name).ok_or_else(|| format!("no values `{name}`"));
        names.iter().map(|name| Shape::parse(pattern(name)?)).collect()
    };
    for (name, row) in &keyed.kinds {
        let shapes = shapes(&row.values)?;
        let kind = kind(name.clone(), Form::Keyed, shapes);
        kinds.push(Kind { keys: row.keys.clone(), common: row.common, ..kind });
    }
    for (name, row) in read::<Table<StructureRow>>(&file("structures.toml"))?.kinds {
        let form = if row.argv.is_empty() { Form::Texts(row.texts) } else { Form::Arguments(row.argv) };
        kinds.push(kind(name, form, shapes(&row.values)?));
    }
    for (name, row) in read::<Table<BlockRow>>(&file("blocks.toml"))?.kinds {
        let form = Form::Block { text: row.text, rows: row.rows, format: row.format };
        let shapes = match &row.secret {
            Some(pattern) => vec![Shape::parse(pattern)?],
            None => shapes(&row.values)?,
        };
        kinds.push(kind(name, form, shapes));
    }
    Ok(kinds)
}
