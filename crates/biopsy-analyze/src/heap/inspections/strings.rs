//! Strings of equal contents: all but one of each could go. What they say is not known here.

use biopsy_model::heap::SAME_TEXT;

use super::inspection::InspectionKind;
use super::marks::{Mark, Marks};
use super::view::View;

pub(super) fn mark(view: View<'_>, marks: &mut Marks) {
    let places: Vec<Option<usize>> = view.graph.types().iter().map(|of| of.noted(SAME_TEXT)).collect();
    let text =
        |of: usize, numbers: &[u32]| numbers.get((*places.get(of)?)?).copied().filter(|text| *text != 0);
    // How many of each are alive.
    let mut count: Vec<u32> = Vec::new();
    view.graph.for_each_noted(|object, of, numbers| {
        if let Some(text) = text(of.0 as usize, numbers).filter(|_| view.is_live(object)) {
            let text = text as usize;
            if text >= count.len() && text <= view.graph.len() {
                count.resize(text + 1, 0);
            }
            count.get_mut(text).into_iter().for_each(|count| *count += 1);
        }
    });
    let mut seen = vec![false; count.len()];
    view.graph.for_each_noted(|object, of, numbers| {
        let Some(text) = text(of.0 as usize, numbers).filter(|_| view.is_live(object)) else { return };
        let same = count.get(text as usize).copied().unwrap_or(0);
        if same < 2 {
            return;
        }
        let size = view.graph.type_and_size(object).map_or(0, |(_, size)| size.next_multiple_of(8));
        // Nobody can say which of them is the one that is needed: each has a part of it.
        let bytes = size - size / u64::from(same);
        let first = seen.get_mut(text as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        let mark =
            Mark { kind: InspectionKind::DuplicateStrings, about: None, objects: u64::from(!first), bytes };
        marks.add(object, mark);
    });
}
