//! One rule for one address, out of the unwind information (.eh_frame) of its module: where the caller's frame begins, and where the frame
//! pointer was saved. What compilers write is understood; anything else ends the stack there.

use crate::modules::{self, Unwind};

/// Bit 0: always. Bit 1: by the frame pointer. Bit 2: what is found there is an address. Bit 3: the stack ends. From bit 8: the offset, 24
/// bits; from bit 32: the offset of the saved frame pointer, 24 bits, with bit 4.
#[derive(Clone, Copy)]
pub struct Rule(pub u64);

const END: Rule = Rule(1 | 8);

impl Rule {
    fn new(by_bp: bool, indirect: bool, offset: i64, bp: Option<i64>) -> Self {
        let fits = |value: i64| (-(1 << 23)..1 << 23).contains(&value);
        if !fits(offset) || !bp.is_none_or(fits) {
            return END;
        }
        let bits = |value: i64| (value as u64) & 0xff_ffff;
        let saved = bp.map_or(0, |bp| bits(bp) << 32 | 16);
        Self(1 | u64::from(by_bp) << 1 | u64::from(indirect) << 2 | bits(offset) << 8 | saved)
    }

    fn signed(self, at: u32) -> i64 {
        ((self.0 >> at << 40) as i64) >> 40
    }

    pub fn base(self, sp: u64, bp: u64) -> Option<u64> {
        if self.0 & 8 != 0 {
            return None;
        }
        Some(if self.0 & 2 != 0 { bp } else { sp }.wrapping_add_signed(self.signed(8)))
    }

    pub fn is_indirect(self) -> bool {
        self.0 & 4 != 0
    }

    pub fn saved_bp(self) -> Option<i64> {
        (self.0 & 16 != 0).then(|| self.signed(32))
    }
}

/// The rule at a return address: of the call before it.
pub fn rule(address: u64) -> Rule {
    let address = address as usize - 1;
    modules::unwind_of(address).and_then(|unwind| of(address, unwind)).unwrap_or(END)
}

/// Bytes between two addresses that are mapped.
#[derive(Clone, Copy)]
struct Bytes {
    at: usize,
    from: usize,
    to: usize,
}

impl Bytes {
    fn new(at: usize, unwind: Unwind) -> Self {
        Self { at, from: unwind.from, to: unwind.to }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.at < self.from || self.at.checked_add(N)? > self.to {
            return None;
        }
        // SAFETY: inside of a segment that the loader has mapped.
        let bytes = unsafe { (self.at as *const [u8; N]).read_unaligned() };
        self.at += N;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let mut value = 0_i64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let unused = 64_u32.saturating_sub(shift + 7);
                return Some(value << unused >> unused);
            }
        }
        None
    }
}

/// Bytes of a pointer of this encoding.
fn size_of(encoding: u8) -> Option<usize> {
    match encoding & 15 {
        0 | 4 | 12 => Some(8),
        2 | 10 => Some(2),
        3 | 11 => Some(4),
        _ => None,
    }
}

fn of(address: usize, unwind: Unwind) -> Option<Rule> {
    let mut head = Bytes::new(unwind.table, unwind);
    // Version 1; the count as u32; a table of signed 32-bit distances from its beginning: what all linkers write.
    let [1, pointer, 3, 0x3b] = head.take()? else { return None };
    head.skip(size_of(pointer)?)?;
    let count = head.u32()? as usize;
    let table = head.at;
    let entry = |number: usize| {
        let mut bytes = Bytes::new(table + number * 8, unwind);
        let [start, at] = [bytes.u32()?, bytes.u32()?];
        let place = |distance: u32| unwind.table.wrapping_add_signed(distance as i32 as isize);
        Some((place(start), place(at)))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if entry(middle)?.0 <= address { low = middle + 1 } else { high = middle }
    }
    let (start, at) = entry(low.checked_sub(1)?)?;
    of_function(address, start, Bytes::new(at, unwind), unwind)
}

/// What is known at an instruction.
#[derive(Clone, Copy)]
struct Row {
    /// Register and offset; `None`: not understood.
    frame: Option<(u64, i64)>,
    indirect: bool,
    /// The frame pointer: where it was saved; `Err`: not understood.
    bp: Result<Option<i64>, ()>,
    /// The return address is where it always is.
    returns: bool,
}

const BP: u64 = 6;
const SP: u64 = 7;
const RETURN: u64 = 16;

fn of_function(address: usize, start: usize, mut entry: Bytes, unwind: Unwind) -> Option<Rule> {
    let length = entry.u32()? as usize;
    let at = entry.at;
    let end = at.checked_add(length)?;
    let common = at.checked_sub(entry.u32()? as usize)?;
    let mut cie = Bytes::new(common, unwind);
    let cie_end = cie.u32()? as usize + common + 4;
    cie.u32()?;
    let version = cie.u8()?;
    let mut letters = [0_u8; 8];
    let mut count = 0;
    loop {
        match cie.u8()? {
            0 => break,
            letter => *letters.get_mut(count)? = letter,
        }
        count += 1;
    }
    let code = cie.unsigned()?;
    let data = cie.signed()?;
    if version == 1 { cie.skip(1)? } else { cie.unsigned().map(drop)? }
    let mut encoding = 0;
    if letters[0] == b'z' {
        let length = cie.unsigned()? as usize;
        let begin = cie.at;
        for letter in letters.iter().skip(1) {
            match letter {
                b'R' => encoding = cie.u8()?,
                b'L' => cie.skip(1)?,
                b'P' => {
                    let of = cie.u8()?;
                    cie.skip(size_of(of)?)?;
                }
                // A frame of a signal: the registers of whoever was interrupted are somewhere else.
                b'S' => return None,
                _ => {}
            }
        }
        cie.at = begin.checked_add(length)?;
    }
    let size = size_of(encoding)?;
    entry.skip(size)?;
    let range = if size == 8 { usize::from_le_bytes(entry.take()?) } else { entry.u32()? as usize };
    if address.wrapping_sub(start) >= range {
        return None;
    }
    if letters[0] == b'z' {
        let length = entry.unsigned()? as usize;
        entry.skip(length)?;
    }
    let mut run = Run { row: Row { frame: None, indirect: false, bp: Ok(None), returns: true }, first: None, kept: [None; 8], depth: 0, code, data };
    run.until(Bytes { to: cie_end.min(unwind.to), ..cie }, 0, usize::MAX)?;
    run.first = Some(run.row);
    run.until(Bytes { to: end.min(unwind.to), ..entry }, start, address)?;
    let row = run.row;
    let (register, offset) = row.frame?;
    if !row.returns || register != BP && register != SP {
        return None;
    }
    Some(Rule::new(register == BP, row.indirect, offset, row.bp.ok()?))
}

struct Run {
    row: Row,
    first: Option<Row>,
    kept: [Option<Row>; 8],
    depth: usize,
    code: u64,
    data: i64,
}

impl Run {
    fn saved(&mut self, register: u64, at: Result<Option<i64>, ()>) {
        match register {
            BP => self.row.bp = at,
            RETURN => self.row.returns = at == Ok(Some(-8)),
            _ => {}
        }
    }

    fn restore(&mut self, register: u64) {
        match (register, self.first) {
            (BP, Some(first)) => self.row.bp = first.bp,
            (RETURN, Some(first)) => self.row.returns = first.returns,
            _ => {}
        }
    }

    /// Does what the instructions say, up to an address.
    fn until(&mut self, mut from: Bytes, start: usize, address: usize) -> Option<()> {
        let mut at = start;
        while from.at < from.to {
            let byte = from.u8()?;
            let low = u64::from(byte & 0x3f);
            let mut advance = 0;
            match (byte & 0xc0, byte) {
                (0x40, _) => advance = low,
                (0x80, _) => {
                    let offset = from.unsigned()? as i64 * self.data;
                    self.saved(low, Ok(Some(offset)));
                }
                (0xc0, _) => self.restore(low),
                (_, 0x00) => {}
                (_, 0x02) => advance = u64::from(from.u8()?),
                (_, 0x03) => advance = u64::from(u16::from_le_bytes(from.take()?)),
                (_, 0x04) => advance = u64::from(from.u32()?),
                (_, 0x05) => {
                    let register = from.unsigned()?;
                    let offset = from.unsigned()? as i64 * self.data;
                    self.saved(register, Ok(Some(offset)));
                }
                (_, 0x06) => {
                    let register = from.unsigned()?;
                    self.restore(register);
                }
                (_, 0x07) => {
                    let register = from.unsigned()?;
                    self.saved(register, Err(()));
                }
                (_, 0x08) => {
                    let register = from.unsigned()?;
                    self.saved(register, Ok(None));
                }
                (_, 0x09) => {
                    let register = from.unsigned()?;
                    from.unsigned()?;
                    self.saved(register, Err(()));
                }
                (_, 0x0a) => {
                    *self.kept.get_mut(self.depth)? = Some(self.row);
                    self.depth += 1;
                }
                (_, 0x0b) => {
                    self.depth = self.depth.checked_sub(1)?;
                    self.row = (*self.kept.get(self.depth)?)?;
                }
                (_, 0x0c) => (self.row.frame, self.row.indirect) = (Some((from.unsigned()?, from.unsigned()? as i64)), false),
                (_, 0x0d) => self.row.frame = Some((from.unsigned()?, self.row.frame?.1)),
                (_, 0x0e) => self.row.frame = Some((self.row.frame?.0, from.unsigned()? as i64)),
                (_, 0x0f) => {
                    let length = from.unsigned()? as usize;
                    let end = from.at.checked_add(length)?;
                    let mut words = Bytes { to: end.min(from.to), ..from };
                    // `*(rbp + n)`: functions that align their stack.
                    let is_breg6 = words.u8() == Some(0x76);
                    let offset = words.signed().unwrap_or(0);
                    let is_known = is_breg6 && words.u8() == Some(0x06) && words.at == end;
                    (self.row.frame, self.row.indirect) = (is_known.then_some((BP, offset)), true);
                    from.at = end;
                }
                (_, 0x10 | 0x16) => {
                    let register = from.unsigned()?;
                    let length = from.unsigned()? as usize;
                    let mut words = Bytes { ..from };
                    // `rbp + n` of such a function, which is where the frame pointer was saved: itself at rbp.
                    let is_own = byte == 0x10 && length == 2 && words.take::<2>() == Some([0x76, 0]);
                    from.skip(length)?;
                    if !(is_own && register == BP) {
                        self.saved(register, Err(()));
                    } else {
                        self.row.bp = Ok(Some(AT_BP));
                    }
                }
                (_, 0x11) => {
                    let register = from.unsigned()?;
                    let offset = from.signed()? * self.data;
                    self.saved(register, Ok(Some(offset)));
                }
                (_, 0x12) => (self.row.frame, self.row.indirect) = (Some((from.unsigned()?, from.signed()? * self.data)), false),
                (_, 0x13) => self.row.frame = Some((self.row.frame?.0, from.signed()? * self.data)),
                (_, 0x2e) => from.unsigned().map(drop)?,
                _ => return None,
            }
            if advance != 0 {
                at = at.checked_add(usize::try_from(advance.checked_mul(self.code)?).ok()?)?;
                if at > address {
                    return Some(());
                }
            }
        }
        Some(())
    }
}

/// Instead of an offset: saved where the frame pointer points to.
pub const AT_BP: i64 = (1 << 23) - 1;
