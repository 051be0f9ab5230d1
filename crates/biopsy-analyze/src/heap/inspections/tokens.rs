//! Callbacks that wait for the cancellation of one long-lived source: each stays until it is disposed.

use std::collections::HashMap;
use std::io;

use biopsy_dotnet::graph::ObjectIndex;

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};

/// What registers once and disposes of it, at the same time, is fewer than this.
const MANY: usize = 64;

pub(super) fn inspect(view: View<'_>) -> io::Result<Option<Inspection>> {
    let types = view.types(|of| of.name == "System.Threading.CancellationTokenSource+CallbackNode");
    let mut of_source: HashMap<ObjectIndex, Vec<ObjectIndex>> = HashMap::new();
    for node in view.objects_of(&types) {
        if !view.is_live(node) {
            continue;
        }
        // Nodes without a callback wait to be used again.
        let (Some(callback), Some(registrations)) =
            (view.field(node, "Callback")?, view.field(node, "Registrations")?)
        else {
            continue;
        };
        let called = view.called(callback, view.field(node, "CallbackState")?)?;
        of_source.entry(registrations).or_default().push(called);
    }
    let mut rows = Rows::default();
    for called in of_source.into_values().filter(|called| called.len() >= MANY).flatten() {
        rows.add(view.name(called).to_owned(), 1, view.retained(called));
    }
    Ok(Inspection::of(InspectionKind::TokenCallbacks, rows.all()))
}
