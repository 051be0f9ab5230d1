//! Names of types, each once.

use rustc_hash::FxHashMap;

/// Types of one process; a hostile one has a new one in each block.
const MOST_NAMES: usize = 200_000;
/// Bytes of their names.
const MOST_BYTES: usize = 32 << 20;

/// Names of types, each once.
#[derive(Default)]
pub(crate) struct TypeNames {
    list: Vec<String>,
    bytes: usize,
    numbers: FxHashMap<String, u32>,
}

impl TypeNames {
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let has_room = self.list.len() < MOST_NAMES && self.bytes.saturating_add(name.len()) <= MOST_BYTES;
        let name = if has_room { name } else { "other types" };
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.bytes += name.len();
            self.list.push(name.to_owned());
        }
        number
    }

    /// In the order of their numbers.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_number_and_in_bytes() {
        let mut names = TypeNames::default();
        for number in 0..MOST_NAMES as u32 + 5 {
            assert_eq!(names.number(&number.to_string()), number.min(MOST_NAMES as u32));
        }
        assert_eq!(names.into_list().last().map(String::as_str), Some("other types"));
        let mut long = TypeNames::default();
        let text = "x".repeat(MOST_BYTES / 3 - 1);
        let numbers: Vec<u32> = (0..5).map(|number| long.number(&format!("{text}{number}"))).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 3]);
        assert_eq!((long.number("short"), long.list[3].as_str()), (3, "other types"));
    }
}
