//! Lines that are not UTF-8: their code page is told by their letters, once for each file.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

/// Bytes of such lines that are looked at: what they do not say the rest does not either.
const LOOKED_AT: usize = 16 << 10;

/// The code page of a file.
pub(crate) struct CodePage {
    detector: EncodingDetector,
    looked_at: usize,
    encoding: Option<&'static Encoding>,
}

impl CodePage {
    pub(crate) fn new() -> CodePage {
        CodePage { detector: EncodingDetector::new(Iso2022JpDetection::Deny), looked_at: 0, encoding: None }
    }

    /// The text of a line.
    pub(crate) fn text<'l>(&mut self, line: &'l [u8]) -> Cow<'l, str> {
        match std::str::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            // One letter that was cut or damaged in a text that is UTF-8.
            Err(_) if has_utf8(line) => String::from_utf8_lossy(line),
            Err(_) => {
                if self.looked_at < LOOKED_AT {
                    self.looked_at += line.len();
                    self.detector.feed(line, false);
                    self.encoding = Some(self.detector.guess(None, Utf8Detection::Deny));
                }
                match self.encoding {
                    Some(encoding) => encoding.decode_without_bom_handling(line).0,
                    None => String::from_utf8_lossy(line),
                }
            }
        }
    }

    /// Its name, if a line had to be told.
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.encoding.map(Encoding::name)
    }
}

/// Does it hold a character of several bytes, whole?
fn has_utf8(line: &[u8]) -> bool {
    line.utf8_chunks().any(|chunk| !chunk.valid().is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&[u8]]) -> (Vec<String>, Option<&'static str>) {
        let mut page = CodePage::new();
        let lines = lines.iter().map(|line| page.text(line).into_owned()).collect();
        (lines, page.name())
    }

    #[test]
    fn letters_tell_the_code_page() {
        let (lines, name) = told(&[b"plain", b"Gr\xfc\xdfe aus K\xf6ln, 5 \x80", "Größe".as_bytes()]);
        assert_eq!(lines, ["plain", "Grüße aus Köln, 5 €", "Größe"]);
        assert_eq!(name, Some("windows-1252"));
        let russian = b"\xce\xf8\xe8\xe1\xea\xe0: \xed\xe5\xe2\xe5\xf0\xed\xfb\xe9 \xef\xe0\xf0\xee\xeb\xfc \xef\xee\xeb\xfc\xe7\xee\xe2\xe0\xf2\xe5\xeb\xff";
        assert_eq!(told(&[russian]).0, ["Ошибка: неверный пароль пользователя"]);
    }

    #[test]
    fn damage_is_no_code_page() {
        let (lines, name) = told(&["Größe \u{20ac}".as_bytes().split_at(9).0]);
        assert_eq!((lines[0].as_str(), name), ("Größe \u{fffd}", None));
    }
}
