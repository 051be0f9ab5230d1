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
const MOST_ENTRIES: usize = 2_000_000;

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
        let all = entries(image, keys);
        left = left.saturating_sub(all.len());
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
