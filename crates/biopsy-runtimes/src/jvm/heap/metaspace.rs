//! Metaspace: what the virtual machine knows of classes. No table says where it is, but two variables lead to contexts that begin with a name.
//!
//! ```text
//! variable ─► context: 0 name ("non-class-space", "class-space")  8 list
//! list:     [table of functions]  name  first node  ...  words reserved  words committed
//! node:     0 next  8 address  16 bytes  ...  and again address and words, of what is used
//! ```
//! `memory/metaspace/{metaspaceContext,virtualSpaceList,virtualSpaceNode}.hpp`, since 16.

use std::ops::Range;

use biopsy_model::footprint::MemoryKind;

use super::found::Found;
use crate::{Limits, Memory, Module};

/// Names of the contexts, and of the pools.
const CONTEXTS: [(&str, &str); 2] = [("non-class-space", "metaspace"), ("class-space", "class space")];
/// Bytes of a name, and one.
const NAME: usize = 17;
/// Nodes of a list: each has 64 MiB, and a class space is one.
const NODES: usize = 4096;
/// What looks like a context and is asked for its list.
const ASKED: u32 = 64;
/// Words of a node, among which its address stands twice.
const NODE_WORDS: u64 = 20;
/// Words of a list, among which there is how much it has.
const LIST_WORDS: u64 = 10;

/// Adds both.
pub(super) fn read(found: &mut Found<'_>, module: &Module<'_>, limits: &Limits) -> Result<(), &'static str> {
    let mut nodes: [Option<Vec<Range<u64>>>; 2] = [None, None];
    let memory = found.memory;
    let mut asked = 0;
    for range in module.writable() {
        let _ = memory.search::<()>(range, 0, limits.searched_bytes, |_, piece| {
            for word in piece.as_chunks::<8>().0 {
                let context = u64::from_le_bytes(*word);
                let Some(which) = context_at(memory, module, context) else { continue };
                if let Some(nodes) = nodes.get_mut(which).filter(|nodes| nodes.is_none() && asked < ASKED) {
                    asked += 1;
                    *nodes = nodes_of(memory, context);
                }
            }
            // Both are there.
            nodes.iter().all(Option::is_some).then_some(())
        });
    }
    let [without_classes, _] = &nodes;
    if without_classes.is_none() {
        return Err("nothing leads to it");
    }
    for (nodes, (_, pool)) in nodes.into_iter().zip(CONTEXTS) {
        for node in nodes.into_iter().flatten() {
            found.whole(pool, MemoryKind::RuntimeData, node);
        }
    }
    Ok(())
}

/// Which context is there.
fn context_at(memory: &Memory<'_>, module: &Module<'_>, context: u64) -> Option<usize> {
    if !context.is_multiple_of(8) || !(0x1_0000..1 << 47).contains(&context) {
        return None;
    }
    let name = memory.u64(context).filter(|name| (module.module.start..module.module.end).contains(name))?;
    let name = memory.c_string(name, NAME)?;
    CONTEXTS.iter().position(|(known, _)| *known == name)
}

/// The nodes of a context's list; `None` where their sizes are not what the list says.
fn nodes_of(memory: &Memory<'_>, context: u64) -> Option<Vec<Range<u64>>> {
    let (name, list) = (memory.u64(context)?, memory.pointer(context.checked_add(8)?)?);
    let place = (0..2).find(|place| memory.u64(list.saturating_add(place * 8)) == Some(name))?;
    let mut at = memory.u64(list.checked_add(place * 8 + 8)?)?;
    let (mut nodes, mut words) = (Vec::new(), 0_u64);
    while at != 0 {
        if nodes.len() == NODES {
            return None;
        }
        let word = |place: u64| memory.u64(at.checked_add(place * 8)?);
        let (start, bytes) = (word(1)?, word(2)?);
        let end = start.checked_add(bytes)?;
        let again =
            (3..NODE_WORDS).any(|place| word(place) == Some(start) && word(place + 1) == Some(bytes / 8));
        if !again || start == 0 || bytes == 0 || end >= 1 << 47 {
            return None;
        }
        words = words.checked_add(bytes / 8)?;
        nodes.push(start..end);
        at = word(0)?;
    }
    let says = (place + 2..LIST_WORDS).any(|place| memory.u64(list.saturating_add(place * 8)) == Some(words));
    (says && !nodes.is_empty()).then_some(nodes)
}
