//! Who makes an object, where the function that is known is its constructor: that an object touches its own memory says little.

use crate::analysis::Analysis;
use crate::trace::flame::{FlameKind, FlameTree};
use crate::trace::frames::as_u32;
use crate::trace::function::FunctionHandle;
use crate::whose::Whose;
use crate::words::shorten;
use std::collections::BTreeMap;

/// A caller is named from this share of the constructor's time on.
const MAKER: f64 = 0.4;
/// Constructors by their last part, in languages where it has a name of its own.
const NAMES: &[&str] = &["__init__", "__new__", "__post_init__", "<init>", "ctor", "new"];

/// Whether a function makes an object: `Series::Series`, `Wish.__init__`, `Draft.<init>`, `Draft..ctor`, `shop::Draft::new`.
pub(super) fn is_constructor(name: &str) -> bool {
    // What is written inside of one is it, too: `Wish.__init__.<listcomp>`, `Draft::Draft::{lambda()#1}`.
    if name.split('.').any(|part| part == "__init__" || part == "__post_init__") {
        return true;
    }
    let name = shorten(name);
    let cut = name.rfind("::").map(|at| (at, at + 2)).or_else(|| name.rfind('.').map(|at| (at, at + 1)));
    let Some((end, begin)) = cut else { return false };
    let (Some(of), Some(last)) = (name.get(..end), name.get(begin..)) else { return false };
    let class = of.rsplit([':', '.']).next().unwrap_or(of);
    !class.is_empty() && class == last || NAMES.contains(&last) && !of.is_empty()
}

/// The function of the program that calls this constructor, by time in `tree`.
pub(super) fn maker(
    analysis: &Analysis,
    tree: &FlameTree,
    constructor: FunctionHandle,
) -> Option<FunctionHandle> {
    let mut nearest: Vec<(Option<FunctionHandle>, bool)> = vec![(None, false); tree.nodes.len()];
    let mut sums: BTreeMap<FunctionHandle, f64> = BTreeMap::new();
    let mut all = 0.0;
    // Parents stand in front of their children.
    for (at, node) in tree.nodes.iter().enumerate() {
        let (mut caller, mut inside) = nearest.get(at).copied().unwrap_or_default();
        if let FlameKind::Function(function) = node.kind {
            if function == constructor && !inside {
                inside = true;
                all += node.total.as_secs_f64();
                if let Some(caller) = caller {
                    *sums.entry(caller).or_default() += node.total.as_secs_f64();
                }
            }
            let row = analysis.function(function).filter(|row| row.named && row.whose == Whose::Program);
            if row.is_some_and(|row| !is_constructor(&row.name)) {
                caller = Some(function);
            }
        }
        for &child in &node.children {
            debug_assert!(child > as_u32(at), "a child stands behind its parent");
            if let Some(slot) = nearest.get_mut(child as usize) {
                *slot = (caller, inside);
            }
        }
    }
    let (function, time) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (time >= all * MAKER).then_some(function)
}

/// A function's name for a sentence; of a constructor with who calls it: `` `Series::Series` called from `last_reading` ``.
pub(super) fn name_with_maker(
    analysis: &Analysis,
    tree: &FlameTree,
    function: FunctionHandle,
) -> Option<String> {
    let row = analysis.function(function)?;
    let name = format!("`{}`", shorten(&row.name));
    let maker = is_constructor(&row.name).then(|| maker(analysis, tree, function)).flatten();
    let Some(maker) = maker.and_then(|maker| analysis.function(maker)) else { return Some(name) };
    Some(format!("{name} called from `{}`", shorten(&maker.name)))
}

#[cfg(test)]
mod tests {
    use super::is_constructor;

    #[test]
    fn constructors_are_told_by_their_names() {
        for name in [
            "Series::Series",
            "shop::Series::Series(std::string const&)",
            "Wish.__init__",
            "Wish.__init__.<listcomp>",
            "Wish.__new__",
            "shop.Draft.<init>",
            "Shop.Draft..ctor",
            "shop::Draft::new",
            "std::vector<int, std::allocator<int>>::vector(unsigned long)",
        ] {
            assert!(is_constructor(name), "{name}");
        }
        for name in [
            "Series::~Series",
            "last_reading",
            "Shop.Draft.Draw",
            "renew",
            "new",
            "main.newDraft",
            "shop::Draft::renew",
            "store.<locals>.one",
            "",
        ] {
            assert!(!is_constructor(name), "{name}");
        }
    }
}
