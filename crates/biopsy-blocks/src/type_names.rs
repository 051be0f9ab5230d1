//! Names of types, each once.

use rustc_hash::FxHashMap;

/// Types of one process; a hostile one has a new one in each block.
const MOST_NAMES: usize = 200_000;

/// Names of types, each once.
#[derive(Default)]
pub(crate) struct TypeNames {
    list: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl TypeNames {
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name = if self.list.len() < MOST_NAMES { name } else { "other types" };
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.list.push(name.to_owned());
        }
        number
    }

    /// In the order of their numbers.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}
