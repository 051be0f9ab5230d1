//! Where walks begin, and what stands for no number.

use biopsy_dotnet::graph::{ObjectIndex, Root, RootKind};

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// Objects that live by themselves.
pub(super) type Roots = [(ObjectIndex, Option<Root>)];

/// Whether it is a word on a stack, which may be left over.
pub(super) fn is_on_stack(root: Option<&Root>) -> bool {
    root.is_some_and(|root| root.kind == RootKind::Stack)
}
