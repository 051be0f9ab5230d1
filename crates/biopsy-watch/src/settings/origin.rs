//! Which file each value comes from.

use crate::text::{Node, Place, Value};

use super::layers::Layer;

/// A value, and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// `watch.rules.slow.perDay`.
    pub path: String,
    /// The value as it is written.
    pub value: String,
    /// Index of the layer.
    pub layer: usize,
    /// Where in its file.
    pub place: Place,
    /// A later layer has another value: this one has no effect.
    pub is_hidden: bool,
}

/// All values of all layers, by path; of one path the one that holds comes first.
#[must_use]
pub fn origins(layers: &[Layer]) -> Vec<Origin> {
    let mut all = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        leaves(&layer.root, &mut Vec::new(), &mut |path, node| {
            let value = layer.text.get(node.span.clone()).unwrap_or_default();
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let place = Place::of(&layer.text, node.span.start);
            all.push(Origin { path: path.join("."), value, layer: index, place, is_hidden: false });
        });
    }
    let key = |origin: &Origin| origin.path.to_lowercase();
    all.sort_by(|a, b| key(a).cmp(&key(b)).then(b.layer.cmp(&a.layer)));
    for at in 1..all.len() {
        all[at].is_hidden = key(&all[at]) == key(&all[at - 1]);
    }
    all
}

/// Calls for each value that is no object.
fn leaves(node: &Node, path: &mut Vec<String>, found: &mut dyn FnMut(&[String], &Node)) {
    if !matches!(node.value, Value::Map(_)) {
        return found(path, node);
    }
    for member in node.members() {
        path.push(member.key.clone());
        leaves(&member.node, path, found);
        path.pop();
    }
}
