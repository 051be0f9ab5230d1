//! What is in a slot: a block of the program, another group, or nothing that can be told.

use super::group::{Group, UNIT};

/// Bytes before a block that say where in its group it is.
pub(super) const HEAD: u64 = 8;
/// Bytes at the end of a slot that belong to the head of the next one (`IB`).
const BEHIND: u64 = 4;
/// In place of the index at the beginning of a slot: the block begins further on.
const FURTHER: u8 = 7 << 5;
/// Bytes that are reserved behind what was asked for: up to four are told in the head, more stand at the end of the slot, and a group has
/// one more than that.
const AT_THE_END: u8 = 5;
const IS_A_GROUP: u8 = 6;
/// An offset that does not fit stands before it.
const LARGE: u64 = 0x1_0000;
/// Places that are tried where a block that was aligned to more than a mebibyte may begin.
const TRIES: u64 = 4096;

/// What is in a slot that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// A block: its first byte, and how many were asked for.
    Block { start: u64, size: u64 },
    /// Another group begins here, and ends before this address at the latest.
    Group { start: u64, end: u64 },
    /// Taken or given back just now, or overwritten.
    Torn,
}

/// What stands before a block.
#[derive(Clone, Copy)]
struct Head {
    offset: u64,
    index: u8,
    reserved: u8,
}

impl Head {
    /// `bytes`: the eight before the block.
    fn parse(bytes: [u8; HEAD as usize]) -> Option<Self> {
        let [a, b, c, d, is_large, index, low, high] = bytes;
        let small = u16::from_le_bytes([low, high]);
        let large = u32::from_le_bytes([a, b, c, d]);
        let offset = match is_large {
            0 => u64::from(small),
            _ => Some(u64::from(large)).filter(|&large| small == 0 && large >= LARGE)?,
        };
        Some(Self { offset, index: index & 31, reserved: index >> 5 })
    }
}

/// Looks into slot `index` of a group. `eight` gives the eight bytes at an address.
pub(super) fn content(
    group: &Group,
    index: u64,
    stride: u64,
    eight: &mut impl FnMut(u64) -> Option<[u8; 8]>,
) -> Content {
    look(group, index, stride, eight).unwrap_or(Content::Torn)
}

fn look(
    group: &Group,
    index: u64,
    stride: u64,
    eight: &mut impl FnMut(u64) -> Option<[u8; 8]>,
) -> Option<Content> {
    let storage = group.start + UNIT;
    let slot = storage + index * stride;
    let end = slot.checked_add(stride)?.checked_sub(BEHIND)?;
    let first = eight(slot - HEAD)?;
    let [.., mark, low, high] = first;
    let further = u64::from(u16::from_le_bytes([low, high])) * UNIT;
    // Where it begins further on by more than 16 bits can tell, some of it is not there.
    let tries = if group.is_mapped() { TRIES } else { 1 };
    let (start, head) = match mark {
        FURTHER => (0..tries)
            .map_while(|turn| slot.checked_add(further)?.checked_add(turn * LARGE * UNIT))
            .find_map(|start| {
            if start > end {
                return None;
            }
            let head = Head::parse(eight(start - HEAD)?)?;
            (head.offset * UNIT == start - storage).then_some((start, head))
        })?,
        _ => (slot, Head::parse(first)?),
    };
    if u64::from(head.index) != index || head.offset * UNIT != start - storage {
        return None;
    }
    let room = end.checked_sub(start)?;
    let reserved = match head.reserved {
        // Its last slot has the bytes at the end, as that of any group has.
        IS_A_GROUP => return Some(Content::Group { start, end: end + BEHIND }),
        AT_THE_END => {
            let [.., a, b, c, d] = eight(end - 8)?;
            Some(u64::from(u32::from_le_bytes([a, b, c, d]))).filter(|&bytes| bytes >= AT_THE_END.into())?
        }
        bytes if bytes < AT_THE_END => bytes.into(),
        _ => return None,
    };
    Some(Content::Block { start, size: room.checked_sub(reserved)? })
}
