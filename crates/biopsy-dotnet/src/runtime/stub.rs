//! Glue that the runtime lists nowhere, told by its instructions: entries of methods, counters of calls, the write barrier.
//!
//! The runtime copies this code from templates (`thunktemplates.S`, `patchedcode.S` of dotnet/runtime) into pages of its own. Only
//! the distance to the data behind it differs (a page of 4 KiB in .NET 7 and before, 16 KiB since), so that the bytes name it.

use biopsy_model::Avma;

use super::{MethodDesc, Runtime};

/// Bytes before an address in which the stub may begin, and bytes from it on that are looked at.
const BEFORE: usize = 96;
const BEHIND: usize = 40;

/// Which glue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StubKind {
    /// The entry of a method: a jump to the code that it has at the moment (`FixupPrecode`, `StubPrecode`).
    MethodEntry,
    /// Counts the calls of a method until it is worth optimising (`CallCountingStub`).
    CallCounting,
    /// Tells the collector of a reference that is written into an object (`JIT_WriteBarrier`).
    WriteBarrier,
}

impl StubKind {
    /// Its description, as shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MethodEntry => "(entry of a method)",
            Self::CallCounting => "(call counter of the runtime)",
            Self::WriteBarrier => "(write barrier)",
        }
    }
}

/// Any byte.
const ANY: i16 = -1;

/// `jmp [rip+d]; mov r10, [rip+d]; jmp [rip+d]`
const FIXUP: [i16; 19] =
    [0xff, 0x25, ANY, ANY, ANY, ANY, 0x4c, 0x8b, 0x15, ANY, ANY, ANY, ANY, 0xff, 0x25, ANY, ANY, ANY, ANY];
/// `mov r10, [rip+d]; jmp [rip+d]`
const PRECODE: [i16; 13] = [0x4c, 0x8b, 0x15, ANY, ANY, ANY, ANY, 0xff, 0x25, ANY, ANY, ANY, ANY];
/// `mov rax, [rip+d]; dec word [rax]; je +6; jmp [rip+d]; jmp [rip+d]`
const COUNTING: [i16; 24] = [
    0x48, 0x8b, 0x05, ANY, ANY, ANY, ANY, 0x66, 0xff, 0x08, 0x74, 0x06, 0xff, 0x25, ANY, ANY, ANY, ANY, 0xff,
    0x25, ANY, ANY, ANY, ANY,
];
/// `mov [rdi], rsi`, the first instruction of all write barriers.
const BARRIER: [i16; 3] = [0x48, 0x89, 0x37];
/// `shr rdi, 0xb`: the size of a card. It is in all of them, and nowhere else.
const CARD: [i16; 4] = [0x48, 0xc1, 0xef, 0x0b];

fn is(bytes: &[u8], pattern: &[i16]) -> bool {
    bytes.len() >= pattern.len()
        && bytes.iter().zip(pattern).all(|(byte, wanted)| *wanted == ANY || i16::from(*byte) == *wanted)
}

/// The stub that `bytes[at]` is in.
fn stub_in(bytes: &[u8], at: usize) -> Option<StubKind> {
    let from = |start: usize| bytes.get(start..).unwrap_or_default();
    for (kind, pattern) in [
        (StubKind::CallCounting, &COUNTING[..]),
        (StubKind::MethodEntry, &FIXUP[..]),
        (StubKind::MethodEntry, &PRECODE[..]),
    ] {
        let first = (at + 1).saturating_sub(pattern.len());
        if (first..=at).any(|start| is(from(start), pattern)) {
            return Some(kind);
        }
    }
    // The barrier is longer than the window may be: its beginning, or the touch of its card, is near.
    let begins = (0..=at).rev().find(|&start| is(from(start), &BARRIER))?;
    let card = (begins..bytes.len()).any(|start| is(from(start), &CARD));
    // Two returns in between: that one had ended.
    let ended =
        bytes.get(begins..at)?.windows(2).filter(|two| *two == [0xc3, 0x66] || *two == [0xf3, 0xc3]).count();
    (card && ended < 4).then_some(StubKind::WriteBarrier)
}

/// Where the entry of a method that `bytes[at]` is in has the address of its `MethodDesc`: relative to `bytes`.
fn entry_data(bytes: &[u8], at: usize) -> Option<i64> {
    for (pattern, load) in [(&FIXUP[..], 6), (&PRECODE[..], 0)] {
        let first = (at + 1).saturating_sub(pattern.len());
        let found = (first..=at).find(|&start| is(bytes.get(start..).unwrap_or_default(), pattern));
        if let Some(start) = found {
            let distance = bytes.get(start + load + 3..)?.first_chunk::<4>()?;
            let behind = i64::try_from(start + load + 7).ok()?;
            return Some(behind + i64::from(i32::from_le_bytes(*distance)));
        }
    }
    None
}

impl Runtime<'_> {
    /// The `MethodDesc` of the method that the glue at an address is the entry of (`r10` gets it from the data behind the code).
    /// Believed when it has a name: entries from native code have other data at the same place.
    #[must_use]
    pub fn entry_at(&self, address: Avma) -> Option<MethodDesc> {
        let (bytes, before) = self.around(address)?;
        let data = address.0.wrapping_sub(before as u64).checked_add_signed(entry_data(&bytes, before)?)?;
        let method = self.memory().u64(data).ok().filter(|method| *method != 0 && method % 8 == 0)?;
        let method = MethodDesc::from(method);
        self.method_name(method).ok().map(|_| method)
    }

    /// Bytes around an address, and which of them is there.
    fn around(&self, Avma(address): Avma) -> Option<(Vec<u8>, usize)> {
        // Stubs and barriers have pages of their own: what is before may be no memory.
        let start = address.saturating_sub(BEFORE as u64).max(address & !0xfff);
        let before = usize::try_from(address - start).ok()?;
        Some((self.memory().read_up_to(start, before + BEHIND).ok()?, before))
    }

    /// The glue at an address that [`find_method`](Runtime::find_method) knows nothing of, by its instructions.
    #[must_use]
    pub fn stub_at(&self, address: Avma) -> Option<StubKind> {
        let (bytes, before) = self.around(address)?;
        stub_in(&bytes, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.bytes().filter_map(|c| char::from(c).to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
    }

    /// Memory of .NET 10.0.12.
    const ENTRIES: &str = "ff25fa3f0000 4c8b15fb3f0000 ff25fd3f0000 90662e0f1f ff25fa3f0000 4c8b15fb3f0000 ff25fd3f0000 90662e0f1f";
    const COUNTERS: &str = "488b05f93f0000 66ff08 7406 ff25f63f0000 ff25f83f0000 488b05f93f0000 66ff08 7406 ff25f63f0000 ff25f83f0000";

    #[test]
    fn entries_of_methods() {
        let entries = bytes(ENTRIES);
        for at in [0, 6, 13, 24, 30] {
            assert_eq!(stub_in(&entries, at), Some(StubKind::MethodEntry), "{at}");
        }
        let precode = bytes("4c8b15f90f0000 ff25fb0f0000 9090");
        assert_eq!(stub_in(&precode, 7), Some(StubKind::MethodEntry));
    }

    #[test]
    fn entries_say_where_their_method_is() {
        let entries = bytes(ENTRIES);
        for (at, data) in
            [(0, 13 + 0x3ffb), (7, 13 + 0x3ffb), (18, 13 + 0x3ffb), (24, 37 + 0x3ffb), (40, 37 + 0x3ffb)]
        {
            assert_eq!(entry_data(&entries, at), Some(data), "{at}");
        }
        assert_eq!(entry_data(&bytes("4c8b15f93f0000 ff25fb3f0000 9090"), 3), Some(7 + 0x3ff9));
        assert_eq!(entry_data(&bytes(COUNTERS), 3), None);
    }

    #[test]
    fn counters_of_calls() {
        let counters = bytes(COUNTERS);
        for at in [0, 7, 10, 12, 18, 24, 36] {
            assert_eq!(stub_in(&counters, at), Some(StubKind::CallCounting), "{at}");
        }
    }

    #[test]
    fn the_write_barrier() {
        let barrier = bytes(
            "488937 0f1f00 48b80000000000000000 483bf0 7236 90 49b80000000000000000 493bf0 7326 90 48b80000000000000000 48c1ef0b \
             803c07ff 7502 f3c3 c60407ff c3",
        );
        for at in [0, 6, 30, 50] {
            assert_eq!(stub_in(&barrier, at), Some(StubKind::WriteBarrier), "{at}");
        }
    }

    #[test]
    fn ordinary_code_is_no_stub() {
        assert_eq!(stub_in(&bytes("554889e5 48893748 8b4508 5dc3 9090"), 6), None);
        assert_eq!(stub_in(&[], 0), None);
        assert_eq!(stub_in(&bytes("ff25"), 1), None);
    }
}
