//! Groups of slots, as their metas describe them.

use biopsy_image::{Image, MemoryExt};

use super::context::{AREA_BYTES, CLASSES, Context, META_BYTES};

/// What sizes are multiples of (`UNIT`).
pub(super) const UNIT: u64 = 16;
/// The class of a block with a mapping of its own.
const MAPPED: u8 = 63;
/// Slots of each class, in units (`size_classes` of `malloc.c`).
const SIZES: [u16; CLASSES] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204,
    255, 292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460,
    6552, 8191,
];
/// Groups that are gone through: 32 bytes each here, 40 in the process.
const MOST_GROUPS: usize = 1 << 24;

/// Bytes of a slot of the class; `None`: there is no such class.
pub(super) fn class_bytes(class: usize) -> Option<u64> {
    SIZES.get(class).map(|&units| u64::from(units) * UNIT)
}

/// A group, as its meta says (`struct meta`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// Where its meta is.
    pub(super) meta: u64,
    /// Its first byte.
    pub(super) start: u64,
    /// Slots that can be taken (`avail_mask`), and those that can be after these (`freed_mask`), a bit each.
    avail: u32,
    freed: u32,
    /// The last slot, whether it can be given back, the class, and pages, as they stand in the meta.
    rest: u64,
}

impl Group {
    fn parse(meta: u64, bytes: &[u8; META_BYTES as usize]) -> Self {
        let word =
            |number: usize| bytes.as_chunks::<8>().0.get(number).map_or(0, |word| u64::from_le_bytes(*word));
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (avail, freed) = (word(3) as u32, (word(3) >> 32) as u32);
        Self { meta, start: word(2), avail, freed, rest: word(4) }
    }

    /// 1 to 32.
    pub(super) fn slots(&self) -> u64 {
        (self.rest & 31) + 1
    }

    /// What lay free in the data of a module is a group that is never given back (`donate.c`).
    fn is_donated(&self) -> bool {
        self.rest & 32 == 0
    }

    pub(super) fn class(&self) -> u8 {
        (self.rest >> 6 & 63) as u8
    }

    /// Pages of a mapping of its own; 0: it has none.
    fn pages(&self) -> u64 {
        self.rest >> 12
    }

    /// A single block with a mapping of its own.
    pub(super) fn is_mapped(&self) -> bool {
        self.class() == MAPPED
    }

    /// It is in a slot of another one.
    pub(super) fn is_nested(&self) -> bool {
        self.pages() == 0 && !self.is_donated()
    }

    /// Whether musl counts its slots among those of its class.
    pub(super) fn is_counted(&self) -> bool {
        !self.is_mapped() && !self.is_donated()
    }

    /// A bit for each slot that is not in use.
    pub(super) fn unused(&self) -> u32 {
        self.avail | self.freed
    }

    /// From slot to slot, in bytes (`get_stride`).
    pub(super) fn stride(&self) -> Option<u64> {
        if self.slots() == 1 && self.pages() > 0 {
            return self.pages().checked_mul(AREA_BYTES)?.checked_sub(UNIT);
        }
        class_bytes(self.class().into())
    }

    /// All of its bytes, its head included.
    pub(super) fn bytes(&self) -> Option<u64> {
        let filled = self.stride()?.checked_mul(self.slots())?.checked_add(UNIT)?;
        match self.pages() {
            0 => Some(filled),
            pages => pages.checked_mul(AREA_BYTES).filter(|&bytes| filled <= bytes),
        }
    }

    /// The first byte behind it.
    pub(super) fn end(&self) -> Option<u64> {
        self.start.checked_add(self.bytes()?)
    }

    /// Whether it can be one at all.
    fn is_sound(&self) -> bool {
        let all = u32::MAX >> (32 - self.slots());
        let masks = self.avail & self.freed == 0 && self.unused() & !all == 0;
        let class = match self.is_mapped() {
            true => self.slots() == 1 && self.pages() > 0 && self.unused() == 0 && !self.is_donated(),
            false => usize::from(self.class()) < CLASSES,
        };
        let place = if self.pages() > 0 { AREA_BYTES } else { UNIT };
        let donated = !self.is_donated() || (self.pages() == 0 && self.slots() == 1);
        masks && class && donated && self.start.is_multiple_of(place) && self.end().is_some()
    }
}

/// All groups.
#[derive(Default)]
pub(super) struct Groups {
    /// Those that can be groups, by address.
    pub(super) sound: Vec<Group>,
    /// Metas that describe what cannot be.
    pub(super) broken: u64,
}

/// Reads all metas; `None`: there are too many.
pub(super) fn all(image: &dyn Image, context: &Context) -> Option<Groups> {
    let mut groups = Groups::default();
    let mut bytes = [0; AREA_BYTES as usize];
    for &area in &context.areas {
        let metas = context.metas(area);
        let length = usize::try_from(metas.end - metas.start).ok()?;
        let wanted = bytes.get_mut(..length)?;
        let read = image.read_available(metas.start, wanted);
        let list = wanted.get(..read)?.as_chunks::<{ META_BYTES as usize }>().0;
        groups.broken = groups.broken.saturating_add((length as u64 / META_BYTES) - list.len() as u64);
        for (number, meta) in list.iter().enumerate() {
            let group = Group::parse(metas.start + number as u64 * META_BYTES, meta);
            match group.start {
                // Free.
                0 => {}
                _ if group.is_sound() => groups.sound.push(group),
                _ => groups.broken = groups.broken.saturating_add(1),
            }
        }
        if groups.sound.len() > MOST_GROUPS {
            return None;
        }
    }
    groups.sound.sort_unstable_by_key(|group| group.start);
    Some(groups)
}
