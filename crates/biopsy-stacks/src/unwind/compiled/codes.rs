//! UNWIND_INFO: how Windows, and .NET everywhere on x86-64, describe the frame of a function.
//!
//! ```text
//! RUNTIME_FUNCTION   0 begin  4 end  8 unwind information      (u32 each, from the base of the image or code range)
//! UNWIND_INFO        0 version:3 flags:5   1 size of prologue   2 count of codes   3 frame register:4 offset / 16:4
//!                    4 codes, u16 each: offset of the next instruction, operation:4, information:4; latest first
//!                    then, to an even count of codes: with flag 4 the RUNTIME_FUNCTION that this one continues
//! ```
//!
//! The codes undo the prologue. A code counts when the prologue has got so far. Published by Microsoft as "x64 exception
//! handling"; operation 11, a frame offset above 240 bytes, is .NET's own, for Unix (`UWOP_SET_FPREG_LARGE`).

use biopsy_model::Avma;

use super::epilogue;
use crate::unwind::registers::{CALLEE_SAVED, RBP, RBX, RSP};
use crate::unwind::rule::FrameRule;

/// Functions that continue each other, at most: what the format's own readers allow.
const CHAIN: usize = 32;
/// One more than the largest count of codes, so that an odd count can be rounded up.
const CODES: usize = 256;
/// Flag: this continues another function.
const CHAINED: u8 = 4;
/// Bytes of code that an epilogue may have: `vzeroupper`, `add`, eight pops, a jump.
const EPILOGUE: usize = 48;

/// Where a function is, and where its unwind information: offsets from the base of its image or code range, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeFunction {
    /// First byte of code.
    pub begin: u32,
    /// Behind the last one.
    pub end: u32,
    /// UNWIND_INFO.
    pub unwind_info: u32,
}

impl RuntimeFunction {
    /// Size in bytes.
    pub const SIZE: usize = 12;

    /// From its twelve bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        Self {
            begin: u32::from_le_bytes([a, b, c, d]),
            end: u32::from_le_bytes([e, f, g, h]),
            unwind_info: u32::from_le_bytes([i, j, k, l]),
        }
    }
}

/// Reads memory of the process: fills the buffer with what is at the address, or says that it cannot.
pub type ReadMemory<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// The rule for code at `address`, in `function` of the image or code range at `base`. `exact`: the thread stands there, so
/// that it may be in an epilogue. Nothing is allocated. `None`: the information is damaged, or says what no function of .NET
/// needs (a frame of the machine).
#[must_use]
pub fn windows_rule(
    base: Avma,
    function: RuntimeFunction,
    address: Avma,
    exact: bool,
    read: ReadMemory<'_>,
) -> Option<FrameRule> {
    let (Avma(base), Avma(address)) = (base, address);
    let offset = address.checked_sub(base.checked_add(u64::from(function.begin))?)?;
    let mut undone = Undone::new();
    let mut function = function;
    // Inside the first function, and behind the prologue of those that it continues.
    let mut offset = u32::try_from(offset).unwrap_or(u32::MAX);
    let body = function;
    for link in 0..CHAIN {
        let info = Info::read(base.checked_add(u64::from(function.unwind_info))?, read)?;
        if exact && link == 0 && offset >= u32::from(info.prologue) {
            let inside = base.checked_add(u64::from(body.begin))?..base.checked_add(u64::from(body.end))?;
            let mut code = [0; EPILOGUE];
            let code = &mut code[..code_bytes(address, inside.end)];
            if read(address, code)
                && let Some(rule) = epilogue::rule(address, code, &inside)
            {
                return Some(rule);
            }
        }
        undone.undo(&info, offset)?;
        let Some(next) = info.continues else { return undone.rule() };
        function = next;
        offset = u32::MAX;
    }
    None
}

/// Bytes of code from `address` on that are surely there: to the end of the function, or of the page where that is not known.
fn code_bytes(address: u64, end: u64) -> usize {
    const PAGE: u64 = 4096;
    let left = end.checked_sub(address).filter(|left| *left > 0).unwrap_or(PAGE - address % PAGE);
    usize::try_from(left).map_or(EPILOGUE, |left| left.min(EPILOGUE))
}

struct Info {
    prologue: u8,
    frame_register: u8,
    /// In bytes.
    frame_offset: u32,
    codes: [u16; CODES],
    count: usize,
    continues: Option<RuntimeFunction>,
}

impl Info {
    fn read(address: u64, read: ReadMemory<'_>) -> Option<Self> {
        let mut header = [0; 4];
        if !read(address, &mut header) {
            return None;
        }
        let [version_flags, prologue, count, frame] = header;
        if !matches!(version_flags & 7, 1 | 2) {
            return None;
        }
        let count = usize::from(count);
        let even = count.next_multiple_of(2);
        let mut bytes = [0; CODES * 2];
        let used = bytes.get_mut(..even * 2)?;
        if even > 0 && !read(address.checked_add(4)?, used) {
            return None;
        }
        let mut codes = [0; CODES];
        for (code, pair) in codes.iter_mut().zip(used.as_chunks::<2>().0) {
            *code = u16::from_le_bytes(*pair);
        }
        let continues = if version_flags >> 3 & CHAINED != 0 {
            let mut next = [0; RuntimeFunction::SIZE];
            if !read(address.checked_add(4 + even as u64 * 2)?, &mut next) {
                return None;
            }
            Some(RuntimeFunction::from_bytes(&next))
        } else {
            None
        };
        Some(Self {
            prologue,
            frame_register: frame & 15,
            frame_offset: u32::from(frame >> 4) * 16,
            codes,
            count,
            continues,
        })
    }

    fn slot(&self, index: usize) -> Option<u32> {
        (index < self.count).then(|| u32::from(self.codes[index]))
    }

    fn wide(&self, index: usize) -> Option<u32> {
        Some(self.slot(index)? | self.slot(index + 1)? << 16)
    }
}

/// A place on the stack: a register (DWARF number), and bytes from it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    register: u16,
    offset: i64,
}

/// The stack pointer as it was before what has been undone so far, and where registers are kept.
struct Undone {
    stack: Place,
    saved: [Option<Place>; CALLEE_SAVED.len()],
    /// The bottom of the fixed part of the frame, from which saved registers are counted, once it is known.
    frame: Option<Place>,
}

impl Undone {
    fn new() -> Self {
        Self { stack: Place { register: RSP, offset: 0 }, saved: [None; CALLEE_SAVED.len()], frame: None }
    }

    fn undo(&mut self, info: &Info, offset: u32) -> Option<()> {
        if self.frame.is_none() {
            self.frame = Some(frame_bottom(info, offset)?.unwrap_or(self.stack));
        }
        let mut index = 0;
        while index < info.count {
            let code = info.codes[index];
            let counts = offset >= u32::from(code & 0xff);
            let (operation, detail) = (code >> 8 & 15, u32::from(code >> 12));
            let at = index + 1;
            match operation {
                // A push.
                0 => {
                    if counts {
                        self.keep(detail, self.stack);
                        self.grow(8);
                    }
                    index += 1;
                }
                // Room on the stack, large or small.
                1 => {
                    let (bytes, slots) = match detail {
                        0 => (info.slot(at)? * 8, 2),
                        _ => (info.wide(at)?, 3),
                    };
                    if counts {
                        self.grow(bytes);
                    }
                    index += slots;
                }
                2 => {
                    if counts {
                        self.grow(detail * 8 + 8);
                    }
                    index += 1;
                }
                // The frame pointer was set.
                3 => {
                    if counts {
                        self.stack = from_frame_pointer(info, info.frame_offset)?;
                    }
                    index += 1;
                }
                11 => {
                    if counts {
                        self.stack = from_frame_pointer(info, info.wide(at)?.checked_mul(16)?)?;
                    }
                    index += 3;
                }
                // A register was stored, near or far.
                4 | 5 => {
                    let (bytes, slots) = match operation {
                        4 => (info.slot(at)? * 8, 2),
                        _ => (info.wide(at)?, 3),
                    };
                    if counts && let Some(frame) = self.frame {
                        self.keep(detail, Place { offset: frame.offset + i64::from(bytes), ..frame });
                    }
                    index += slots;
                }
                // Where epilogues are; vector registers, of which nothing is needed.
                6 | 8 => index += 2,
                7 | 9 => index += 3,
                // A frame of the machine, and what nobody defined.
                _ => return None,
            }
        }
        Some(())
    }

    fn grow(&mut self, bytes: u32) {
        self.stack.offset = self.stack.offset.saturating_add(i64::from(bytes));
    }

    fn keep(&mut self, register: u32, place: Place) {
        let Some(number) = dwarf(register) else { return };
        let slots = CALLEE_SAVED.into_iter().zip(&mut self.saved);
        if let Some((_, slot)) = slots.into_iter().find(|(saved, _)| *saved == number) {
            *slot = Some(place);
        }
    }

    /// Everything is undone: the return address is at the stack pointer.
    fn rule(&self) -> Option<FrameRule> {
        FrameRule::below(self.stack.register, self.stack.offset, |slot| {
            self.saved[slot].map(|place| (place.register, place.offset))
        })
    }
}

/// Where the fixed part of the frame begins, when the frame pointer tells it: it does from the code on that sets it.
/// `Some(None)`: the stack pointer is there.
fn frame_bottom(info: &Info, offset: u32) -> Option<Option<Place>> {
    if info.frame_register == 0 {
        return Some(None);
    }
    let mut index = 0;
    while index < info.count {
        let code = info.codes[index];
        let counts = offset >= u32::from(code & 0xff);
        let (operation, detail) = (code >> 8 & 15, code >> 12);
        match operation {
            3 if counts => return from_frame_pointer(info, info.frame_offset).map(Some),
            11 if counts => {
                return from_frame_pointer(info, info.wide(index + 1)?.checked_mul(16)?).map(Some);
            }
            _ => {}
        }
        index += match operation {
            1 if detail != 0 => 3,
            1 | 4 | 6 | 8 => 2,
            5 | 7 | 9 | 11 => 3,
            _ => 1,
        };
    }
    // The one that continues another has a frame pointer without setting it.
    if info.continues.is_some() {
        return from_frame_pointer(info, info.frame_offset).map(Some);
    }
    Some(None)
}

fn from_frame_pointer(info: &Info, offset: u32) -> Option<Place> {
    Some(Place { register: dwarf(u32::from(info.frame_register))?, offset: -i64::from(offset) })
}

/// Windows numbers registers as instructions do; DWARF does not.
fn dwarf(register: u32) -> Option<u16> {
    match register {
        0 => Some(0),
        1 => Some(2),
        2 => Some(1),
        3 => Some(RBX),
        4 => Some(RSP),
        5 => Some(RBP),
        6 => Some(4),
        7 => Some(5),
        8..=15 => u16::try_from(register).ok(),
        _ => None,
    }
}
