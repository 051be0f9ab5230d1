//! Of which Python type a block is.
//!
//! ```text
//! block ─► [16: dictionary and values, or weak references] [16: head for the collector] object: 0 references  8 type
//! type:  8 its type  24 name  32 bytes  40 bytes of an item  168 flags  264 dictionary
//! ```

use std::collections::hash_map::Entry;
use std::ops::Range;

use biopsy_image::{Image, MemoryExt};
use rustc_hash::FxHashMap;

use super::statics::Statics;
use crate::heap::{BlockNumber, Heap};
use crate::type_names::TypeNames;

const TYPE: u64 = 8;
const NAME: u64 = 24;
const BYTES: u64 = 32;
const ITEM_BYTES: u64 = 40;
/// How many items an object has, where its type has such.
const ITEMS: u64 = 16;
/// Blocks of small objects are so many bytes larger than what is in them at most.
const ROUNDED: u64 = 16;
/// What objects are called that the interpreter keeps to use them again.
const FREE: &str = "free object";
const FLAGS: u64 = 168;
const DICTIONARY: u64 = 264;
/// `Py_TPFLAGS_READY`, `_HAVE_GC`, `_TYPE_SUBCLASS`, `_MANAGED_DICT`, `_MANAGED_WEAKREF`.
const READY: u64 = 1 << 12;
const COLLECTED: u64 = 1 << 14;
const IS_TYPE: u64 = 1 << 31;
const BEFORE: u64 = 1 << 4 | 1 << 3;
/// Longest name of a type, in bytes, and bytes of the largest object.
const LONGEST: usize = 200;
const LARGEST: u64 = 1 << 20;
/// Words that are remembered.
const REMEMBERED: usize = 1 << 20;

/// Blocks of a deque: what they are called, how large they are, and where each has the next one and where the one before. The deque has the
/// first and the last.
const DEQUE_BLOCK: &str = "deque block";
const DEQUE_BYTES: u64 = 528;
const DEQUE_NEXT: u64 = 520;
const DEQUE_BEFORE: u64 = 0;
const DEQUE_ENDS: [u64; 2] = [24, 32];
/// Keys of dictionaries may belong to several.
const SEVERAL: BlockNumber = BlockNumber::MAX;
/// By block, its owner.
pub(crate) type Owners = FxHashMap<BlockNumber, BlockNumber>;

/// What its objects have that is worth a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Module,
    /// Its objects are types.
    Type,
    /// A block that belongs to an object alone: where its address is, and what it is.
    Owner(&'static [(u64, &'static str)]),
    /// It has blocks that are linked both ways.
    Deque,
    /// Bytes and numbers: whatever their words look like, they lead nowhere.
    Leaf,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Type {
    name: u32,
    flags: u64,
    bytes: u64,
    item_bytes: u64,
    role: Role,
}

/// Types by their addresses, and blocks of which the type is known.
pub(crate) struct Objects<'i> {
    image: &'i dyn Image,
    types: FxHashMap<u64, Option<Type>>,
    found: Vec<(BlockNumber, u32)>,
    owned: Vec<(BlockNumber, u32)>,
    /// Of a block that belongs to one object: which; [`SEVERAL`]: to more.
    owners: Owners,
    /// Bytes before the object in each block.
    heads: Vec<u8>,
}

impl<'i> Objects<'i> {
    pub(crate) fn new(image: &'i dyn Image, blocks: usize) -> Self {
        let heads = vec![0; blocks];
        Self {
            image,
            types: FxHashMap::default(),
            found: Vec::new(),
            owned: Vec::new(),
            owners: Owners::default(),
            heads,
        }
    }

    /// Whether a word that leads so many bytes into a block leads to what is before the object: only lists of the collector do that.
    pub(crate) fn is_head(&self, number: BlockNumber, offset: u64) -> bool {
        self.heads.get(number as usize).is_some_and(|head| offset < u64::from(*head))
    }

    /// Whether the block is an object: then which of its bytes are no references (the collector links all objects by their heads).
    pub(crate) fn object(
        &mut self,
        number: BlockNumber,
        bytes: &[u8],
        heap: &Heap,
        names: &mut TypeNames,
        statics: &mut Statics,
    ) -> Option<Range<u64>> {
        let word = |offset: u64| {
            let offset = usize::try_from(offset).ok()?;
            bytes.get(offset..offset.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
        };
        let (offset, of) = [0_u64, 16, 32].into_iter().find_map(|offset| {
            let of = self.type_at(word(offset + TYPE)?, names)?;
            let fits = match offset {
                0 => of.flags & COLLECTED == 0,
                16 => of.flags & COLLECTED != 0,
                _ => of.flags & COLLECTED != 0 && of.flags & BEFORE != 0,
            };
            fits.then_some((offset, of))
        })?;
        if word(offset)? == 0 {
            // Nobody has it: what it referred to may be somebody else's by now (lists, tuples, dictionaries and frames are kept like that).
            let size = heap.size(number)?;
            let items = if of.item_bytes == 0 { 0 } else { word(offset + ITEMS)? };
            let bytes = items.checked_mul(of.item_bytes)?.checked_add(of.bytes)?.checked_add(offset)?;
            size.checked_sub(bytes).filter(|rest| *rest < ROUNDED)?;
            self.found.push((number, names.number(FREE)));
            return Some(0..size);
        }
        self.found.push((number, of.name));
        if let Some(head) = self.heads.get_mut(number as usize) {
            *head = offset as u8;
        }
        match of.role {
            Role::Module => statics.module(word(offset + 16)?),
            Role::Type => statics.class(word(offset + NAME)?, word(offset + DICTIONARY)?),
            Role::Owner(owned) => {
                for (place, what) in owned {
                    let at = word(offset + place);
                    let block = at.and_then(|at| heap.find(at)).filter(|block| *block != number);
                    let Some(block) = block else { continue };
                    self.owned.push((block, names.number(what)));
                    if heap.start(block) == at {
                        self.own(block, number);
                    }
                }
            }
            Role::Deque => {
                let [first, last] = DEQUE_ENDS.map(|place| word(offset + place));
                self.deque(number, first?, last?, heap, names.number(DEQUE_BLOCK));
            }
            Role::Leaf => return Some(0..heap.size(number)?),
            Role::Other => {}
        }
        Some(offset.saturating_sub(16)..offset)
    }

    /// Notes that a block belongs to an object; `false`: it is known of it already, or another says the same.
    fn own(&mut self, block: BlockNumber, owner: BlockNumber) -> bool {
        match self.owners.entry(block) {
            Entry::Vacant(free) => {
                free.insert(owner);
                return true;
            }
            Entry::Occupied(mut taken) if *taken.get() != owner => {
                taken.insert(SEVERAL);
            }
            Entry::Occupied(_) => {}
        }
        false
    }

    /// Blocks of a deque, from the first to the last. A block that was emptied is kept to be used again, and still leads to those that were
    /// beside it: it would hold them, too.
    fn deque(&mut self, number: BlockNumber, first: u64, last: u64, heap: &Heap, what: u32) {
        let (mut at, mut before) = (first, None);
        // Each block is met once, so this ends.
        while let Some(block) = heap.find(at).filter(|block| *block != number) {
            let word = |place: u64| self.image.read_u64(at.checked_add(place)?).ok();
            let is_one = heap.start(block) == Some(at)
                && heap.size(block).is_some_and(|size| size >= DEQUE_BYTES)
                && before.is_none_or(|before| word(DEQUE_BEFORE) == Some(before));
            let next = word(DEQUE_NEXT);
            if !is_one || !self.own(block, number) {
                return;
            }
            self.owned.push((block, what));
            let Some(next) = next.filter(|_| at != last) else { return };
            (before, at) = (Some(at), next);
        }
    }

    /// Blocks that belong to one object each. Any other word that leads there was left by somebody, and holds nothing.
    pub(crate) fn take_owners(&mut self) -> Owners {
        let mut owners = std::mem::take(&mut self.owners);
        owners.retain(|_, owner| *owner != SEVERAL);
        owners
    }

    /// Blocks with the names of their types.
    pub(crate) fn take_found(&mut self) -> impl Iterator<Item = (BlockNumber, u32)> + use<> {
        std::mem::take(&mut self.found).into_iter().chain(std::mem::take(&mut self.owned))
    }

    fn type_at(&mut self, at: u64, names: &mut TypeNames) -> Option<Type> {
        if !at.is_multiple_of(8) || !(1 << 16..1 << 47).contains(&at) {
            return None;
        }
        if let Some(known) = self.types.get(&at) {
            return *known;
        }
        let of = self.read(at, names);
        if self.types.len() < REMEMBERED {
            self.types.insert(at, of);
        }
        of
    }

    fn read(&self, at: u64, names: &mut TypeNames) -> Option<Type> {
        let word = |at: u64, offset: u64| self.image.read_u64(at.checked_add(offset)?).ok();
        // A type is of a type, and that of one: all of them say so.
        let above = word(at, TYPE)?;
        let top = word(above, TYPE)?;
        let is_type =
            |of: u64| word(of, FLAGS).is_some_and(|flags| flags & IS_TYPE != 0 && flags & READY != 0);
        let flags = word(at, FLAGS)?;
        let bytes = word(at, BYTES)?;
        if !is_type(above) || !is_type(top) || flags & READY == 0 || !(16..LARGEST).contains(&bytes) {
            return None;
        }
        let name = name_at(self.image, word(at, NAME)?)?;
        let role = match name.as_str() {
            "module" => Role::Module,
            "bytes" | "int" | "float" | "complex" => Role::Leaf,
            _ if flags & IS_TYPE != 0 => Role::Type,
            "list" => Role::Owner(&[(24, "list items")]),
            "dict" | "collections.OrderedDict" | "collections.defaultdict" | "collections.Counter" => {
                Role::Owner(&[(32, "dict entries"), (40, "dict values")])
            }
            "bytearray" => Role::Owner(&[(32, "bytearray buffer")]),
            "set" | "frozenset" => Role::Owner(&[(40, "set entries")]),
            "collections.deque" => Role::Deque,
            _ => Role::Other,
        };
        let item_bytes = word(at, ITEM_BYTES)?;
        Some(Type { name: names.number(&name), flags, bytes, item_bytes, role })
    }
}

/// A name in the program's own text: an identifier, with modules before it.
pub(super) fn name_at(image: &dyn Image, at: u64) -> Option<String> {
    let mut bytes = [0; LONGEST];
    let read = image.read_available(at, &mut bytes);
    let end = bytes.get(..read)?.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    let name = std::str::from_utf8(bytes.get(..end)?).ok()?;
    name.chars().all(|one| !one.is_control()).then(|| name.to_owned())
}
