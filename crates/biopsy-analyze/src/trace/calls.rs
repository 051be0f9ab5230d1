//! The call tree of all stacks: one node for each distinct path of functions from the root.
//!
//! Stacks are interned with the caller before the callee, so one pass in order finds the node of every stack, and
//! one pass backwards sums totals; nothing recurses and nothing walks a stack twice.

use crate::trace::frames::{FrameTable, Role};
use crate::trace::function::{FunctionHandle, FunctionKind};
use biopsy_model::Nanos;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use rustc_hash::FxHashMap;

/// Whether a tree is of CPU time or of waiting time; the scheduler's frames mean different things in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// CPU: scheduler frames become one heading, `kernel: scheduling`.
    Cpu {
        /// Samples come from a timer interrupt and so cannot land while interrupts are off.
        by_timer: bool,
    },
    /// Waiting: every wait ends in the scheduler, which says nothing; its frames are left out.
    Waiting,
}

/// Index of a node in a [`CallTree`]; 0 is the root.
pub(crate) type NodeIndex = u32;

/// One distinct path of functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallNode {
    pub(crate) parent: NodeIndex,
    /// Meaningless in the root.
    pub(crate) function: FunctionHandle,
}

/// The tree; a parent's index is smaller than its child's.
#[derive(Debug)]
pub(crate) struct CallTree {
    pub(crate) nodes: Vec<CallNode>,
    /// Node of each stack.
    of_stack: Vec<NodeIndex>,
    /// Node of things without a stack.
    no_stack: NodeIndex,
}

impl CallTree {
    /// Finds the node of every stack. Adds headings to `frames` where needed.
    pub(crate) fn new(timeline: &Timeline, frames: &mut FrameTable, purpose: Purpose) -> CallTree {
        let root = CallNode { parent: 0, function: FunctionHandle(u32::MAX) };
        let mut builder = Builder { nodes: vec![root], children: FxHashMap::default() };
        let scheduling = frames.intern(FunctionKind::Heading, "", "kernel: scheduling", true);
        let missing = frames.intern(FunctionKind::Heading, "", "(no stack)", true);
        let no_stack = builder.child(0, missing);
        let mut of_stack: Vec<NodeIndex> = Vec::with_capacity(timeline.stacks.len());
        for (number, stack) in timeline.stacks.iter().enumerate() {
            let caller = stack.caller.map(|caller| caller.0 as usize).filter(|&caller| caller < number);
            let mut at = caller.and_then(|caller| of_stack.get(caller).copied()).unwrap_or(0);
            // Outermost first: an inlined function is called by the one it was inlined into.
            for &function in frames.of(stack.frame).iter().rev() {
                let folded =
                    builder.nodes.get(at as usize).is_some_and(|node| at != 0 && node.function == scheduling);
                at = match (purpose, frames.role(function)) {
                    _ if folded => at,
                    (Purpose::Cpu { .. }, Role::Scheduler) => builder.child(at, scheduling),
                    (Purpose::Cpu { by_timer: true }, Role::InterruptsOn) if at != 0 => at,
                    (Purpose::Waiting, Role::Scheduler) if at != 0 => at,
                    _ => builder.child(at, function),
                };
            }
            of_stack.push(at);
        }
        CallTree { nodes: builder.nodes, of_stack, no_stack }
    }

    /// The node of a stack.
    pub(crate) fn node_of(&self, stack: Option<StackHandle>) -> NodeIndex {
        stack.and_then(|stack| self.of_stack.get(stack.0 as usize).copied()).unwrap_or(self.no_stack)
    }

    /// Times of all nodes, zero.
    pub(crate) fn zeros(&self) -> Vec<Nanos> {
        vec![Nanos(0); self.nodes.len()]
    }

    /// Totals by node from own times by node: own time and that of everything below.
    pub(crate) fn totals(&self, own: &[Nanos]) -> Vec<Nanos> {
        let mut totals = own.to_vec();
        for (number, node) in self.nodes.iter().enumerate().skip(1).rev() {
            let Some(&total) = totals.get(number) else { continue };
            if let Some(parent) = totals.get_mut(node.parent as usize) {
                *parent = *parent + total;
            }
        }
        totals
    }

    /// Own and total time of every function; a function that calls itself counts once.
    pub(crate) fn by_function(&self, own: &[Nanos], functions: usize) -> Vec<(Nanos, Nanos)> {
        let totals = self.totals(own);
        let mut sums = vec![(Nanos(0), Nanos(0)); functions];
        // Children lists as linked lists in two vectors, for a walk without recursion.
        let mut first = vec![0u32; self.nodes.len()];
        let mut next = vec![0u32; self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate().skip(1).rev() {
            if let (Some(head), Some(link)) = (first.get_mut(node.parent as usize), next.get_mut(number)) {
                *link = *head;
                *head = crate::trace::frames::as_u32(number);
            }
        }
        let mut depth_of = vec![0u32; functions];
        let mut at: NodeIndex = first.first().copied().unwrap_or(0);
        let mut leaving = false;
        while at != 0 {
            let index = at as usize;
            let (Some(node), Some(&total)) = (self.nodes.get(index), totals.get(index)) else { break };
            let function = node.function.0 as usize;
            if !leaving {
                if let (Some(sum), Some(depth)) = (sums.get_mut(function), depth_of.get_mut(function)) {
                    sum.0 = sum.0 + own.get(index).copied().unwrap_or_default();
                    if *depth == 0 {
                        sum.1 = sum.1 + total;
                    }
                    *depth += 1;
                }
                let child = first.get(index).copied().unwrap_or(0);
                if child != 0 {
                    at = child;
                    continue;
                }
            }
            if let Some(depth) = depth_of.get_mut(function) {
                *depth = depth.saturating_sub(1);
            }
            let sibling = next.get(index).copied().unwrap_or(0);
            leaving = sibling == 0;
            at = if leaving { node.parent } else { sibling };
        }
        sums
    }
}

struct Builder {
    nodes: Vec<CallNode>,
    children: FxHashMap<(NodeIndex, FunctionHandle), NodeIndex>,
}

impl Builder {
    fn child(&mut self, parent: NodeIndex, function: FunctionHandle) -> NodeIndex {
        let next = crate::trace::frames::as_u32(self.nodes.len());
        let nodes = &mut self.nodes;
        *self.children.entry((parent, function)).or_insert_with(|| {
            nodes.push(CallNode { parent, function });
            next
        })
    }
}

#[cfg(test)]
mod tests;
