//! Messages: structure to bytes, and bytes to structure.
//!
//! ```text
//! "DOTNET_IPC_V1\0"  u16 size of all  u8 set  u8 id  u16 0   payload
//! answers: set 0xff, id 0x00 with what the command gives, or id 0xff with an i32 result code
//! string:  u32 number of UTF-16 units with the closing zero, 0 for none; then the units
//! ```
//!
//! Everything is little-endian. Source: `documentation/design-docs/ipc-protocol.md` of dotnet/diagnostics.

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};

use crate::hresult::HResult;

/// First bytes of each message.
pub(crate) const MAGIC: [u8; 14] = *b"DOTNET_IPC_V1\0";
/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 20;
/// Set of all answers.
const ANSWER_SET: u8 = 0xff;
/// Id of an answer that is none.
const ERROR_ID: u8 = 0xff;

/// A command: its numbers, and what it is called in messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    pub(crate) set: u8,
    pub(crate) id: u8,
    pub(crate) name: &'static str,
}

/// Commands that are used here.
pub(crate) mod commands {
    use super::Command;

    const fn command(set: u8, id: u8, name: &'static str) -> Command {
        Command { set, id, name }
    }

    pub(crate) const STOP_TRACING: Command = command(2, 1, "StopTracing");
    pub(crate) const COLLECT_1: Command = command(2, 2, "CollectTracing");
    pub(crate) const COLLECT_2: Command = command(2, 3, "CollectTracing2");
    pub(crate) const COLLECT_3: Command = command(2, 4, "CollectTracing3");
    pub(crate) const COLLECT_4: Command = command(2, 5, "CollectTracing4");
    pub(crate) const COLLECT_5: Command = command(2, 6, "CollectTracing5");
    pub(crate) const COLLECT_6: Command = command(2, 7, "CollectTracing6");
    pub(crate) const PROCESS_INFO_1: Command = command(4, 0, "ProcessInfo");
    pub(crate) const RESUME: Command = command(4, 1, "ResumeRuntime");
    pub(crate) const SET_VARIABLE: Command = command(4, 3, "SetEnvironmentVariable");
    pub(crate) const PROCESS_INFO_2: Command = command(4, 4, "ProcessInfo2");
    pub(crate) const PROCESS_INFO_3: Command = command(4, 8, "ProcessInfo3");
}

/// The payload of a command.
#[derive(Clone, Default, Debug)]
pub(crate) struct Payload(Vec<u8>);

impl Payload {
    pub(crate) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A string; an empty one is written as none.
    pub(crate) fn string(mut self, text: &str) -> Self {
        if text.is_empty() {
            return self.u32(0);
        }
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        self = self.u32(u32::try_from(units.len()).unwrap_or(u32::MAX));
        self.0.extend(units.into_iter().flat_map(u16::to_le_bytes));
        self
    }
}

/// The bytes of a command; `None`: it is longer than the protocol's 16-bit size can say.
pub(crate) fn encode(command: Command, payload: &Payload) -> Option<Vec<u8>> {
    let size = u16::try_from(HEADER_BYTES + payload.0.len()).ok()?;
    let mut bytes = Vec::with_capacity(usize::from(size));
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&[command.set, command.id, 0, 0]);
    bytes.extend_from_slice(&payload.0);
    Some(bytes)
}

/// The head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AnswerHead {
    pub(crate) is_error: bool,
    /// Bytes that follow.
    pub(crate) payload: usize,
}

/// Parses the head of an answer.
pub(crate) fn parse_head(bytes: &[u8; HEADER_BYTES]) -> Result<AnswerHead, ReadError> {
    let mut cursor = Cursor::new(bytes);
    let before = cursor;
    if cursor.array::<14>("magic")? != MAGIC {
        let found = u64::from_le_bytes(before.rest().first_chunk().copied().unwrap_or_default());
        let expected = u64::from_le_bytes(MAGIC.first_chunk().copied().unwrap_or_default());
        return Err(before.error("magic", ReadErrorKind::Unexpected { expected, found }));
    }
    let at_size = cursor;
    let size = cursor.u16("size")?;
    let payload = usize::from(size).checked_sub(HEADER_BYTES).ok_or_else(|| {
        at_size.error("size", ReadErrorKind::Unexpected { expected: HEADER_BYTES as u64, found: size.into() })
    })?;
    let at_set = cursor;
    let (set, id) = (cursor.u8("command set")?, cursor.u8("command id")?);
    if set != ANSWER_SET || !matches!(id, 0 | ERROR_ID) {
        let found = u64::from(set) << 8 | u64::from(id);
        return Err(at_set.error("command", ReadErrorKind::Unexpected { expected: 0xff00, found }));
    }
    Ok(AnswerHead { is_error: id == ERROR_ID, payload })
}

/// The code in an answer that is an error. A payload that is too short is an error without a name.
pub(crate) fn parse_error(payload: &[u8]) -> HResult {
    HResult(Cursor::new(payload).u32("error code").unwrap_or(HResult::UNKNOWN_ERROR.0))
}

/// Reads a string. What is no UTF-16 is replaced; the closing zero is not part of it.
pub(crate) fn read_string(cursor: &mut Cursor<'_>, field: &'static str) -> Result<String, ReadError> {
    let before = *cursor;
    let units = cursor.u32(field)?;
    let bytes = usize::try_from(units).ok().and_then(|units| units.checked_mul(2));
    let Some(bytes) = bytes.filter(|bytes| *bytes <= cursor.remaining()) else {
        let limit = cursor.remaining() as u64 / 2;
        *cursor = before;
        return Err(before.error(field, ReadErrorKind::OverLimit { claimed: units.into(), limit }));
    };
    let text = cursor.take(field, bytes)?;
    let units = text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let mut text: String = char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect();
    if text.ends_with('\0') {
        text.pop();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_command_as_the_document_draws_it() {
        let bytes = encode(commands::STOP_TRACING, &Payload::default().u64(7)).unwrap();
        assert_eq!(bytes.len(), 28);
        assert_eq!(&bytes[..20], b"DOTNET_IPC_V1\0\x1c\x00\x02\x01\x00\x00");
        assert_eq!(&bytes[20..], 7_u64.to_le_bytes());
    }

    #[test]
    fn an_error_as_the_document_draws_it() {
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(b"DOTNET_IPC_V1\0\x18\x00\xff\xff\x00\x00");
        assert_eq!(parse_head(&head), Ok(AnswerHead { is_error: true, payload: 4 }));
        assert_eq!(parse_error(&[0x85, 0x13, 0x13, 0x80]), HResult::UNKNOWN_COMMAND);
        assert_eq!(parse_error(&[0x85]), HResult::UNKNOWN_ERROR);
    }

    #[test]
    fn odd_heads_are_refused() {
        let head = |bytes: &[u8; HEADER_BYTES]| parse_head(bytes).unwrap_err().to_string();
        assert_eq!(
            head(b"DOTNET_IPC_V1\0\x10\x00\xff\x00\x00\x00"),
            "field `size` at offset 0xe is 0x10, expected 0x14"
        );
        assert!(head(b"DOTNET_IPC_V2\0\x14\x00\xff\x00\x00\x00").starts_with("field `magic`"));
        assert!(head(b"DOTNET_IPC_V1\0\x14\x00\x02\x01\x00\x00").starts_with("field `command`"));
    }

    #[test]
    fn a_command_that_is_too_long_is_none() {
        let long = Payload::default().string(&"x".repeat(40_000));
        assert!(encode(commands::COLLECT_4, &long).is_none());
    }

    proptest! {
        #[test]
        fn strings_come_back(text in "[^\\x00]{0,60}") {
            let Payload(bytes) = Payload::default().string(&text);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(read_string(&mut cursor, "text").unwrap(), text);
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn no_string_makes_us_allocate_or_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_string(&mut Cursor::new(&bytes), "text");
        }
    }

    /// Everything but the reserved bytes says something; a byte that is another one is refused or says something else.
    #[test]
    fn each_byte_of_a_head_counts() {
        let good = *b"DOTNET_IPC_V1\0\x18\x01\xff\x00\x00\x00";
        let head = parse_head(&good).unwrap();
        assert_eq!(head, AnswerHead { is_error: false, payload: 0x118 - HEADER_BYTES });
        for at in 0..HEADER_BYTES {
            let mut other = good;
            other[at] ^= 0x5a;
            let parsed = parse_head(&other);
            match at {
                0..14 => assert_eq!(parsed.unwrap_err().field, "magic", "{at}"),
                14 | 15 => assert_ne!(parsed.unwrap(), head, "{at}"),
                16 | 17 => assert_eq!(parsed.unwrap_err().field, "command", "{at}"),
                _ => assert_eq!(parsed.unwrap(), head, "{at}"),
            }
        }
        for size in 0..HEADER_BYTES as u16 {
            let mut short = good;
            short[14..16].copy_from_slice(&size.to_le_bytes());
            assert_eq!(parse_head(&short).unwrap_err().field, "size", "{size}");
        }
    }

    #[test]
    fn texts_are_as_long_as_they_say_and_what_is_no_text_is_replaced() {
        let read = |units: &[u16], count: u32| {
            let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let whole = [&count.to_le_bytes()[..], &bytes].concat();
            let mut cursor = Cursor::new(&whole);
            read_string(&mut cursor, "text").map(|text| (text, cursor.remaining()))
        };
        for (units, count, wanted, rest) in [
            (&[][..], 0, "", 0),
            (&[0x41, 0], 2, "A", 0),
            // Without a zero at the end, with one in the middle, and with more behind it.
            (&[0x41, 0x42], 2, "AB", 0),
            (&[0x41, 0, 0x42, 0], 4, "A\0B", 0),
            (&[0x41, 0, 0x42], 2, "A", 2),
            (&[0xd83e, 0xddea, 0], 3, "\u{1f9ea}", 0),
            (&[0xd83e, 0x41, 0], 3, "\u{fffd}A", 0),
        ] {
            assert_eq!(read(units, count), Ok((wanted.to_owned(), rest)), "{units:x?}");
        }
        for count in [2, 0x8000_0000, u32::MAX] {
            let error = read(&[0x41], count).unwrap_err();
            let kind = ReadErrorKind::OverLimit { claimed: count.into(), limit: 1 };
            assert_eq!((error.field, error.kind), ("text", kind));
        }
    }

    #[test]
    fn a_command_may_be_as_long_as_its_size_can_say() {
        let of = |bytes: usize| encode(commands::COLLECT_4, &Payload(vec![7; bytes]));
        let most = usize::from(u16::MAX) - HEADER_BYTES;
        let longest = of(most).unwrap();
        assert_eq!((longest.len(), &longest[14..16]), (usize::from(u16::MAX), &[0xff, 0xff][..]));
        assert!(of(most + 1).is_none());
    }
}
