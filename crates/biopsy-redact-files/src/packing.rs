//! How a file is packed, by its first bytes.

use std::io::{self, Read};

use biopsy_redact::is_text;

/// Bytes that are looked at.
const HEAD: usize = 8192;

/// How the text in a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// RFC 1952, several members too.
    Gzip,
    /// RFC 8878, several frames too.
    Zstd,
    /// A zip archive, of which each member may be packed again, but by no zip.
    Zip,
}

impl Packing {
    /// Of a file, by its beginning; `None`: it is no text.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(file: impl Read) -> io::Result<Option<Self>> {
        let mut head = Vec::with_capacity(HEAD);
        file.take(HEAD as u64).read_to_end(&mut head)?;
        Ok(Self::of_head(&head))
    }

    /// The text of what is packed so.
    ///
    /// # Errors
    /// It cannot be unpacked; an archive is not one text.
    pub(crate) fn unpack<'r>(self, from: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
        match self {
            Self::Plain => Ok(Box::new(from)),
            Self::Gzip => Ok(Box::new(flate2::read::MultiGzDecoder::new(from))),
            Self::Zstd => Ok(Box::new(zstd::Decoder::new(from)?)),
            Self::Zip => Err(io::Error::new(io::ErrorKind::InvalidData, "it is an archive")),
        }
    }

    /// The same, of its first bytes.
    pub(crate) fn of_head(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            _ => is_text(head).then_some(Self::Plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packings_are_told_by_their_first_bytes() {
        let cases: [(&[u8], Option<Packing>); 9] = [
            (b"", Some(Packing::Plain)),
            (b"2026-11-23 12:00 started\n", Some(Packing::Plain)),
            ("Gr\u{fc}\u{df}e".as_bytes(), Some(Packing::Plain)),
            (b"Gr\xfc\xdfe", Some(Packing::Plain)),
            (b"\xff\xfes\0t\0a\0r\0t\0", Some(Packing::Plain)),
            (b"\x1f\x8b\x08\0", Some(Packing::Gzip)),
            (b"\x28\xb5\x2f\xfd\0", Some(Packing::Zstd)),
            (b"PK\x03\x04", Some(Packing::Zip)),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0", None),
        ];
        for (head, wanted) in cases {
            assert_eq!(Packing::of(head).unwrap(), wanted, "{head:?}");
        }
    }
}
