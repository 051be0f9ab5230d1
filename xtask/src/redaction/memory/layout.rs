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
