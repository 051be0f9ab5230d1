//! What roots of one kind keep: objects that wait for their finalizer, that are pinned, that a static field holds.

use std::collections::HashMap;

use biopsy_dotnet::graph::{ObjectIndex, RootKind};

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};
use crate::heap::names::root_text;

/// A static field is told from one of so many parts of what is alive on.
const PARTS: u64 = 100;

pub(super) fn inspect(view: View<'_>) -> [Option<Inspection>; 3] {
    let (mut waiting, mut pinned, mut statics) = (Rows::default(), Rows::default(), Rows::default());
    let mut seen: HashMap<(RootKind, ObjectIndex), ()> = HashMap::new();
    for root in view.graph.roots() {
        let object = root.object;
        if seen.insert((root.kind, object), ()).is_some() {
            continue;
        }
        let name = || view.name(object).to_owned();
        match root.kind {
            RootKind::FinalizerQueue => waiting.add(name(), 1, view.retained(object)),
            RootKind::PinnedHandle => {
                pinned.add(name(), 1, view.of(object).map_or(0, |(_, _, size)| size));
            }
            RootKind::Static if view.retained(object) >= view.dominators.retained(0) / PARTS => {
                let text = format!("{} ({})", root_text(view.graph, Some(root)), view.name(object));
                statics.add(text, 1, view.retained(object));
            }
            RootKind::Static
            | RootKind::StrongHandle
            | RootKind::OtherHandle
            | RootKind::Stack
            | RootKind::ThreadStatic
            | RootKind::Other
            | RootKind::NativeGlobal
            | RootKind::SystemClass
            | RootKind::Monitor
            | RootKind::Thread => {}
        }
    }
    [
        Inspection::of(InspectionKind::FinalizerQueue, waiting.all()),
        Inspection::of(InspectionKind::PinnedObjects, pinned.all()),
        Inspection::of(InspectionKind::Statics, statics.all()),
    ]
}
