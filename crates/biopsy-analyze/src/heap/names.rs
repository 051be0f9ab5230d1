//! Names of what leads to an object: types, fields, roots.

use biopsy_dotnet::graph::{Graph, ObjectIndex, Root, RootKind, TypeIndex};

/// One step of the way from a root to an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Step {
    /// How one gets here from the step before: a field, an element `[]`; of the first step the root. Empty: not known, or not directly.
    pub via: String,
    /// The type of the object.
    pub of: String,
    /// How many objects of this type follow each other by the same field, this one included: a list that is linked.
    pub times: u32,
}

/// A way in one line: `static App.Cache.Entries → List<App.Entry>._items → App.Entry[] → App.Entry`.
#[must_use]
pub fn text_of(steps: &[Step]) -> String {
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        if number == 0 {
            text.push_str(&step.via);
        } else if !step.via.is_empty() && step.via != ELEMENT {
            text.push('.');
            text.push_str(&step.via);
        }
        if !text.is_empty() {
            text.push_str(" → ");
        }
        text.push_str(&step.of);
        if step.times > 1 {
            text.push_str(&format!(" × {}", crate::words::number(f64::from(step.times))));
        }
    }
    text
}

/// What leads to an element of an array.
pub(super) const ELEMENT: &str = "[]";
/// What leads to what several hold.
const SHARED: &str = "several holders";
/// Objects that are never collected.
const FROZEN: &str = "never collected";

/// Names of types, each name and module once, and of fields, as numbers.
pub(super) struct Names<'g> {
    graph: &'g Graph,
    /// Row of each type.
    rows: Vec<u32>,
    /// A type of each row.
    of_rows: Vec<TypeIndex>,
    texts: Vec<String>,
    numbers: std::collections::HashMap<String, u32>,
    /// Numbers of the names of each type's fields.
    fields: Vec<Vec<u32>>,
}

/// No name.
pub(super) const NAMELESS: u32 = 0;

impl<'g> Names<'g> {
    pub(super) fn of(graph: &'g Graph) -> Self {
        let mut seen = std::collections::HashMap::new();
        let mut of_rows = Vec::new();
        let rows = graph.types().iter().enumerate().map(|(number, of)| {
            *seen.entry((of.name.as_str(), of.module.as_str())).or_insert_with(|| {
                of_rows.push(TypeIndex(number as u32));
                of_rows.len() as u32 - 1
            })
        });
        let rows = rows.collect();
        let mut names = Self {
            graph,
            rows,
            of_rows,
            texts: Vec::new(),
            numbers: std::collections::HashMap::new(),
            fields: Vec::new(),
        };
        names.number("");
        for of in graph.types() {
            let numbers = of.fields.iter().map(|field| names.number(field)).collect();
            names.fields.push(numbers);
        }
        names
    }

    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.texts.len() as u32 - 1);
        self.texts.len() as u32 - 1
    }

    pub(super) fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }

    /// Rows of types.
    pub(super) fn rows(&self) -> usize {
        self.of_rows.len()
    }

    /// The row of an object's type.
    #[inline]
    pub(super) fn row(&self, TypeIndex(of): TypeIndex) -> u32 {
        self.rows.get(of as usize).copied().unwrap_or(0)
    }

    /// Name and module of a row.
    pub(super) fn type_of(&self, row: u32) -> (&'g str, &'g str) {
        let of = self.of_rows.get(row as usize).and_then(|of| self.graph.type_of(*of));
        of.map_or(("?", ""), |of| (&of.name, &of.module))
    }

    /// The name of the field that a reference is in.
    #[inline]
    pub(super) fn field(&self, TypeIndex(of): TypeIndex, reference: usize) -> u32 {
        let Some(fields) = self.fields.get(of as usize).filter(|fields| !fields.is_empty()) else {
            return NAMELESS;
        };
        let repeats = self.graph.types().get(of as usize).is_some_and(|of| of.repeats);
        let number = if repeats { reference % fields.len() } else { reference };
        fields.get(number).copied().unwrap_or(NAMELESS)
    }

    /// What a root is called; `None`: objects that are never collected.
    pub(super) fn root(&mut self, root: Option<&Root>) -> u32 {
        let text = root_text(self.graph, root);
        self.number(&text)
    }

    /// What several hold is called.
    pub(super) fn shared(&mut self) -> u32 {
        self.number(SHARED)
    }

    /// The number of that, where it was asked for.
    pub(super) fn number_of_shared(&self) -> u32 {
        self.numbers.get(SHARED).copied().unwrap_or(NAMELESS)
    }
}

/// What a root is called; `None`: objects that are never collected.
pub(super) fn root_text(graph: &Graph, root: Option<&Root>) -> String {
    match root {
        None => FROZEN.to_owned(),
        Some(root) => match (root.kind, graph.static_at(root.address)) {
            // What is no static field of a type has a name of its own: a global variable, one on a stack.
            (_, Some((of, field))) if of.name.is_empty() => field.to_owned(),
            (RootKind::Static, Some((of, field))) => format!("static {}.{field}", of.name),
            (kind, _) => kind.name().to_owned(),
        },
    }
}

/// The name of the type of an object.
pub(super) fn type_name(graph: &Graph, object: ObjectIndex) -> &str {
    let of = graph.object(object).and_then(|object| graph.type_of(object.of));
    of.map_or("?", |of| of.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_one_line() {
        let step = |via: &str, of: &str, times| Step { via: via.to_owned(), of: of.to_owned(), times };
        let way = [
            step("static App.Cache.Entries", "List<App.Entry>", 1),
            step("_items", "App.Entry[]", 1),
            step("[]", "App.Entry", 1),
            step("next", "App.Entry", 3000),
        ];
        assert_eq!(
            text_of(&way),
            "static App.Cache.Entries → List<App.Entry>._items → App.Entry[] → App.Entry.next → App.Entry × 3,000"
        );
        assert_eq!(text_of(&[]), "");
    }
}
