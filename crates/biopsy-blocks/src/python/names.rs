//! Names of what modules and classes hold: `static app.CACHE`, `static Invoice.printed`.
//!
//! Their dictionaries are told as roots with names, and the entries of these lead nowhere: or else everything would be held by `dict`.

use biopsy_dotnet::graph::RootKind;
use biopsy_image::Image;

use super::dictionaries::{entries, keys_of, text};
use super::objects::name_at;
use super::statics::Statics;
use crate::edges::Edges;
use crate::heap::Heap;
use crate::roots::Found;

/// Entries of all of them.
const MOST_ENTRIES: u64 = 2_000_000;

/// Roots for all that they hold.
pub(crate) fn roots_of(
    statics: Statics,
    image: &dyn Image,
    heap: &Heap,
    edges: &mut Edges,
    found: &mut Found,
) {
    let mut left = MOST_ENTRIES;
    let modules = statics.modules.into_iter().map(|dictionary| (None, dictionary));
    let classes = statics.classes.into_iter().map(|(name, dictionary)| (name_at(image, name), dictionary));
    for (name, dictionary) in modules.chain(classes) {
        let Some(keys) = keys_of(image, dictionary) else { continue };
        let Some(block) = heap.find(keys) else { continue };
        let all = entries(image, keys, &mut left);
        if left == 0 {
            return;
        }
        // A module tells its own name.
        let own = || {
            let own = all.iter().find(|entry| entry.key == "__name__")?;
            text(image, own.value)
        };
        let Some(name) = name.or_else(own) else { continue };
        edges.leave_out(block);
        for entry in &all {
            if let Some(value) = heap.find(entry.value) {
                let name = match entry.key.as_str() {
                    "" => format!("static {name}"),
                    key => format!("static {name}.{key}"),
                };
                found.add_named(value, RootKind::Static, &name, entry.value, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use biopsy_allocators::UsedBlock;
    use biopsy_model::Avma;

    use super::super::dictionaries::tests::put_text;
    use super::*;
    use crate::made::{BASE, Pieces};

    /// Memory with blocks of 512 bytes that are told apart by their number.
    struct Blocks(Pieces, u64);

    impl Blocks {
        fn next(&mut self) -> u64 {
            let at = BASE + self.1 * 512;
            self.0.put(at, &[0; 512]);
            self.1 += 1;
            at
        }

        fn text(&mut self, text: &str) -> u64 {
            let at = self.next();
            put_text(&mut self.0, at, text, 40);
            at
        }

        /// A dictionary of 3.12: its address, and the number of the block with its keys.
        fn dictionary(&mut self, entries: &[(u64, u64)]) -> (u64, u32) {
            let (dictionary, keys) = (self.next(), self.next());
            self.0.word(dictionary + 32, keys);
            self.0.word(keys + 8, 0x03 | 0x03 << 8 | 1 << 16);
            self.0.word(keys + 24, entries.len() as u64);
            for (number, (key, value)) in entries.iter().enumerate() {
                self.0.word(keys + 40 + number as u64 * 16, *key);
                self.0.word(keys + 48 + number as u64 * 16, *value);
            }
            (dictionary, self.number(keys))
        }

        fn number(&self, at: u64) -> u32 {
            ((at - BASE) / 512) as u32
        }

        fn heap(&self) -> Heap {
            let block = |number| UsedBlock { start: Avma(BASE + number * 512), size: 512 };
            Heap::new((0..self.1).map(block).collect())
        }
    }

    #[test]
    fn what_modules_and_classes_hold_has_a_name_and_is_held_by_nobody_else() {
        let mut all = Blocks(Pieces::default(), 0);
        let [own, name, cache, odd, printed] =
            ["__name__", "shop.app", "CACHE", "two words", "printed"].map(|text| all.text(text));
        let [one, two, three] = [(); 3].map(|()| all.next());
        // What lies outside of all blocks is held by nobody that is known.
        let outside = BASE + (1 << 30);
        let module = all.dictionary(&[(cache, one), (own, name), (odd, two), (cache, outside)]);
        let class_name = all.next();
        all.0.put(class_name, b"Invoice\0");
        let class = all.dictionary(&[(printed, three + 8)]);
        // One module without its own name, one without keys, and a class whose name is no text.
        let nameless = all.dictionary(&[(cache, one)]);
        let without_keys = all.next();
        let heap = all.heap();
        let every: Vec<Vec<u32>> = (0..heap.len() as u32).map(|number| vec![number]).collect();
        let mut edges = Edges::made(&every.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (mut statics, mut found) = (Statics::default(), Found::default());
        for dictionary in [module.0, nameless.0, without_keys, 0, 0x77] {
            statics.module(dictionary);
        }
        statics.class(class_name, class.0);
        statics.class(name + 200, nameless.0);
        roots_of(statics, &all.0, &heap, &mut edges, &mut found);
        let names: rustc_hash::FxHashMap<u64, &str> =
            found.names().map(|(name, place)| (place, name)).collect();
        let roots: Vec<(u32, &str)> = found.list.iter().map(|root| (root.block, names[&root.at])).collect();
        assert_eq!(
            roots,
            [
                (all.number(one), "static shop.app.CACHE"),
                (all.number(name), "static shop.app.__name__"),
                (all.number(two), "static shop.app"),
                (all.number(three), "static Invoice.printed"),
            ]
        );
        let left_out: Vec<u32> =
            (0..heap.len() as u32).filter(|number| edges.of(*number).is_empty()).collect();
        assert_eq!(left_out, [module.1, class.1], "their entries are told by roots");
    }

    #[test]
    fn modules_and_classes_are_noted_up_to_a_limit_and_never_without_a_dictionary() {
        let mut statics = Statics::default();
        statics.module(0);
        statics.class(7, 0);
        assert!(statics.modules.is_empty() && statics.classes.is_empty());
        for number in 1..=100_010 {
            statics.module(number);
            statics.class(number, number);
        }
        assert_eq!((statics.modules.len(), statics.classes.len()), (100_000, 100_000));
        assert_eq!(statics.classes.last(), Some(&(100_000, 100_000)));
    }
}
