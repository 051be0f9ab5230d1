//! How runtimes and protocols lay out a name and a value in memory.

use super::super::encode::{STANDARD, base64, wide};

/// A user and a password as a header carries them.
pub(super) fn basic(password: &str) -> String {
    base64(format!("app:{password}").as_bytes(), STANDARD, true)
}

/// The same as SASL's PLAIN carries them.
pub(super) fn sasl_plain(password: &str) -> String {
    base64(format!("\0app\0{password}").as_bytes(), STANDARD, true)
}

/// Behind its length, with a zero at its end.
pub(super) fn behind_length(_: &str, text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes(), b"\0"].concat()
}

/// Mark word, class, length, letters.
pub(super) fn bytes_of_java(_: &str, text: &str) -> Vec<u8> {
    let length = (text.len() as u32).to_le_bytes();
    [&1_u64.to_le_bytes()[..], &0x0000_2140_u32.to_le_bytes(), &length, text.as_bytes()].concat()
}

/// Count of references, type, length, hash, state, letters.
pub(super) fn string_of_python(_: &str, text: &str) -> Vec<u8> {
    let head = [3_u64, 0x0095_5e20, text.len() as u64, u64::MAX, 0xe4];
    [head.map(u64::to_le_bytes).as_flattened(), text.as_bytes(), b"\0"].concat()
}

/// A string of .NET: its length, its letters, and an end.
pub(super) fn string_of_dot_net(text: &str) -> Vec<u8> {
    let letters = text.encode_utf16().count() as u32;
    [&letters.to_le_bytes()[..], &wide(text, false), &[0, 0]].concat()
}

/// A member of a document of BSON: type, name, length with the end, letters.
pub(super) fn bson(name: &str, text: &str) -> Vec<u8> {
    let length = (text.len() as u32 + 1).to_le_bytes();
    [b"\x02", name.as_bytes(), b"\0", &length, text.as_bytes(), b"\0"].concat()
}

/// A parameter of FastCGI: lengths of name and value, in one byte or in four, then both.
pub(super) fn fast_cgi(name: &str, text: &str) -> Vec<u8> {
    let length = |part: &str| match part.len() {
        short @ ..0x80 => vec![short as u8],
        long => (long as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    };
    [&length(name)[..], &length(text), name.as_bytes(), text.as_bytes()].concat()
}

/// A password as it is told to PostgreSQL: type, length of all behind the type, text, end.
pub(super) fn password_message(_: &str, text: &str) -> Vec<u8> {
    [b"p", &(text.len() as u32 + 5).to_be_bytes()[..], text.as_bytes(), b"\0"].concat()
}

/// A map of one member, whose text has its length in two bytes.
pub(super) fn short_text_of_message_pack(_: &str, text: &str) -> Vec<u8> {
    [b"\x81\xa1v\xda", &(text.len() as u16).to_be_bytes()[..], text.as_bytes(), b"\xc0"].concat()
}

/// A message of protobuf: a text in field 1, a number behind it.
pub(super) fn protobuf(_: &str, text: &str) -> Vec<u8> {
    let mut message = vec![0x0a];
    let mut length = text.len();
    while length > 0x7f {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend(text.as_bytes());
    message.extend([0x10, 0x2a]);
    message
}

/// A command of Redis that sets one field of a hash, each word behind its length.
pub(super) fn field_of_redis(name: &str, text: &str) -> Vec<u8> {
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let words = ["HSET", "shop:settings", name, text].map(word).concat();
    format!("*4\r\n{words}").into_bytes()
}

/// Map, hash, length, letters of one byte.
pub(super) fn string_of_v8(_: &str, text: &str) -> Vec<u8> {
    let length = (text.len() as u32).to_le_bytes();
    [&0x0000_0115_u32.to_le_bytes()[..], &0x2b9c_41e7_u32.to_le_bytes(), &length, text.as_bytes()].concat()
}

/// A text of a header block of HTTP/2 that is not compressed: its length in seven bits and more, then the text.
fn text_of_hpack(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match text.len() {
        short @ ..0x7f => bytes.push(short as u8),
        long => {
            bytes.push(0x7f);
            let mut rest = long - 0x7f;
            while rest > 0x7f {
                bytes.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// Headers of HTTP/2: some of its table, then one that is never indexed.
pub(super) fn headers_of_http2(name: &str, text: &str) -> Vec<u8> {
    [&b"\x82\x87\x84\x41\x03db1\x10"[..], &text_of_hpack(name), &text_of_hpack(text)].concat()
}

/// A number as protobuf writes it.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Two members of a map of protobuf in field 3: name in field 1, text in field 2.
pub(super) fn map_of_protobuf(name: &str, text: &str) -> Vec<u8> {
    let field = |tag: u8, content: &[u8]| [&[tag][..], &varint(content.len()), content].concat();
    let member = |name: &str, text: &str| {
        field(0x1a, &[field(0x0a, name.as_bytes()), field(0x12, text.as_bytes())].concat())
    };
    [member("host", "db1"), member(name, text)].concat()
}

/// A string of PHP: count of references, type, hash, length, letters and an end, up to eight bytes.
pub(super) fn string_of_php(text: &str) -> Vec<u8> {
    let head = [0x0000_0016_0000_0002_u64, 0x8b3c_91d0_44e7_5a2f, text.len() as u64];
    let mut bytes = [head.map(u64::to_le_bytes).as_flattened(), text.as_bytes(), b"\0"].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// A string of C++ that is too long to stand in itself: where, length and room; then the piece of the heap.
pub(super) fn string_of_cpp(_: &str, text: &str) -> Vec<u8> {
    let room = text.len().next_power_of_two() as u64;
    let head = [0x0000_55d3_1c4a_82b0_u64, text.len() as u64, room, 0, 0x51];
    [head.map(u64::to_le_bytes).as_flattened(), text.as_bytes(), b"\0"].concat()
}

/// A row of MySQL: length and number of the packet, a column, the text.
pub(super) fn row_of_mysql(_: &str, text: &str) -> Vec<u8> {
    let length = match text.len() {
        short @ ..0xfb => vec![short as u8],
        long => [&[0xfc][..], &(long as u16).to_le_bytes()].concat(),
    };
    let columns = [&b"\x0241"[..], &length, text.as_bytes()].concat();
    [&(columns.len() as u32).to_le_bytes()[..3], b"\x05", &columns].concat()
}

/// A simple bind of LDAP: number of the message, version, who, password.
pub(super) fn bind_of_ldap(_: &str, text: &str) -> Vec<u8> {
    let element = |tag: u8, content: &[u8]| {
        let length = (content.len() as u16).to_be_bytes();
        [&[tag, 0x82][..], &length, content].concat()
    };
    let who = element(0x04, b"cn=app,ou=services,dc=example,dc=com");
    let bind = [&[0x02, 0x01, 0x03][..], &who, &element(0x80, text.as_bytes())].concat();
    element(0x30, &[&[0x02, 0x01, 0x01][..], &element(0x60, &bind)].concat())
}
