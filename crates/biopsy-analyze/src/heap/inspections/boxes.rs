//! Values in boxes: an object of 24 bytes or more, and a reference to it, for what is a number.

use biopsy_model::heap::TypeFamily;

use super::inspection::InspectionKind;
use super::marks::{Mark, Marks};
use super::view::View;

pub(super) fn mark(view: View<'_>, marks: &mut Marks) {
    let types = view.types(|of| of.family == TypeFamily::Value);
    for object in view.objects_of(&types) {
        if let Some((of, _, size)) = view.of(object).filter(|_| view.is_live(object)) {
            let kind = InspectionKind::BoxedValues;
            marks.add(object, Mark { kind, about: Some(of), objects: 1, bytes: size.next_multiple_of(8) });
        }
    }
}
