//! Modules and classes of Python, whose dictionaries hold what programs call by a name.

/// Modules and classes.
const MOST: usize = 100_000;

/// Modules and classes that were met.
#[derive(Default)]
pub(crate) struct Statics {
    /// Address of the dictionary of each.
    pub(super) modules: Vec<u64>,
    /// Address of the name and of the dictionary of each.
    pub(super) classes: Vec<(u64, u64)>,
}

impl Statics {
    pub(super) fn module(&mut self, dictionary: u64) {
        if self.modules.len() < MOST && dictionary != 0 {
            self.modules.push(dictionary);
        }
    }

    pub(super) fn class(&mut self, name: u64, dictionary: u64) {
        if self.classes.len() < MOST && dictionary != 0 {
            self.classes.push((name, dictionary));
        }
    }
}
