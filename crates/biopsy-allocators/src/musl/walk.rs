//! From group to group, and through the slots of each.

use std::ops::Range;

use biopsy_image::{Image, MemoryExt, mapping};
use biopsy_model::footprint::Blocks;

use super::context::{AREA_BYTES, CLASSES, Context};
use super::group::{Group, UNIT};
use super::slots::{Content, content};
use crate::blocks::Classes;
use crate::kept::Kept;

/// Slots that are so far apart are looked at one by one; with others all that lies between is read.
const FAR: u64 = 16 << 10;

/// What is in all groups.
pub(super) struct Walk<'i, 'k> {
    image: &'i dyn Image,
    /// A group's bytes, and where they are.
    bytes: Vec<u8>,
    start: u64,
    kept: &'k mut Kept,
    pub(super) classes: Classes,
    /// Groups that were gone through.
    pub(super) groups: u64,
    /// Their slots by class, as musl counts them.
    pub(super) slots: [u64; CLASSES],
    pub(super) used: Blocks,
    pub(super) free: Blocks,
    /// Bytes of slots of which nothing can be told, and how many they are.
    pub(super) unknown: u64,
    pub(super) torn: u64,
    pub(super) mapped_blocks: Blocks,
    /// Memory of groups that are in no other, and of blocks with a mapping of their own, by address.
    pub(super) heaps: Vec<Range<u64>>,
    pub(super) mapped: Vec<Range<u64>>,
}

impl<'i, 'k> Walk<'i, 'k> {
    pub(super) fn new(image: &'i dyn Image, kept: &'k mut Kept) -> Self {
        Self {
            image,
            bytes: Vec::new(),
            start: 0,
            kept,
            classes: Classes::default(),
            groups: 0,
            slots: [0; CLASSES],
            used: Blocks::default(),
            free: Blocks::default(),
            unknown: 0,
            torn: 0,
            mapped_blocks: Blocks::default(),
            heaps: Vec::new(),
            mapped: Vec::new(),
        }
    }

    /// Goes through all `groups`, which are by address. Those that overlap one before, or the bookkeeping, are left out.
    pub(super) fn all(&mut self, context: &Context, groups: &[Group]) {
        let mut behind = 0;
        let mut inner = Vec::new();
        for group in groups.iter().filter(|group| !group.is_nested()) {
            let Some(range) = group.end().map(|end| group.start..end) else { continue };
            if range.start < behind || has_area(context, &range) || !self.is_mapped(&range) {
                continue;
            }
            self.fill(group);
            if !self.leads_back(group) {
                continue;
            }
            behind = range.end;
            if group.is_mapped() {
                self.mapped.push(range);
            } else {
                self.heaps.push(range);
            }
            self.group(group, groups, &mut inner);
            // Each is inside of the one it was found in, and found once: slots do not overlap.
            while let Some(group) = inner.pop() {
                self.group(&group, groups, &mut inner);
            }
        }
    }

    fn is_mapped(&self, range: &Range<u64>) -> bool {
        let is_there = |at| mapping::find(self.image.mappings(), at).is_some_and(|one| one.protection.write);
        is_there(range.start) && is_there(range.end - 1)
    }

    /// Reads what of a group is needed at once, up to its last slot in use.
    fn fill(&mut self, group: &Group) {
        self.start = group.start;
        let highest = u64::from(32 - (!group.unused() & (u32::MAX >> (32 - group.slots()))).leading_zeros());
        let length = match group.stride() {
            Some(stride) if stride < FAR => UNIT + stride * highest,
            _ => UNIT,
        };
        self.bytes.resize(usize::try_from(length).unwrap_or_default(), 0);
        let read = self.image.read_available(self.start, &mut self.bytes);
        self.bytes.truncate(read);
    }

    fn eight(&self, address: u64) -> Option<[u8; 8]> {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        if let Some(held) = at.and_then(|at| self.bytes.get(at..at.checked_add(8)?)) {
            return held.try_into().ok();
        }
        let mut bytes = [0; 8];
        self.image.read_exact(address, &mut bytes).ok()?;
        Some(bytes)
    }

    fn leads_back(&self, group: &Group) -> bool {
        self.eight(group.start).is_some_and(|word| u64::from_le_bytes(word) == group.meta)
    }

    /// Goes through the slots of one group; those that hold groups are appended to `inner`.
    fn group(&mut self, group: &Group, groups: &[Group], inner: &mut Vec<Group>) {
        let Some(stride) = group.stride() else { return };
        self.groups += 1;
        if let Some(slots) = self.slots.get_mut(usize::from(group.class())).filter(|_| group.is_counted()) {
            *slots += group.slots();
        }
        for index in 0..group.slots() {
            if group.unused() >> index & 1 == 1 {
                self.free.add(stride);
                self.classes.free(stride);
                continue;
            }
            match content(group, index, stride, &mut |at| self.eight(at)) {
                Content::Block { start, size } => {
                    self.kept.block(start, size);
                    self.taken(group, stride);
                }
                Content::Group { start, end } => match self.nested(groups, start, end) {
                    Some(nested) => inner.push(nested),
                    None => self.torn(group, stride),
                },
                Content::Torn => self.torn(group, stride),
            }
        }
    }

    fn taken(&mut self, group: &Group, stride: u64) {
        if group.is_mapped() {
            let bytes = stride.saturating_add(UNIT);
            self.mapped_blocks.add(bytes);
            self.classes.used(bytes);
        } else {
            self.used.add(stride);
            self.classes.used(stride);
        }
    }

    fn torn(&mut self, group: &Group, stride: u64) {
        self.torn += 1;
        // Of a block with a mapping of its own it is known how large it is.
        if group.is_mapped() {
            self.taken(group, stride);
        } else {
            self.unknown = self.unknown.saturating_add(stride);
        }
    }

    /// The group in a slot, if there is one that leads back and ends before `end`.
    fn nested(&self, groups: &[Group], start: u64, end: u64) -> Option<Group> {
        let from = groups.partition_point(|group| group.start < start);
        let group = groups.get(from).filter(|group| group.start == start && group.is_nested())?;
        (group.end()? <= end && self.leads_back(group)).then_some(*group)
    }
}

/// Whether some area of metas is in it.
fn has_area(context: &Context, range: &Range<u64>) -> bool {
    let from = context.areas.partition_point(|area| area + AREA_BYTES <= range.start);
    context.areas.get(from).is_some_and(|&area| area < range.end)
}
