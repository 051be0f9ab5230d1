//! The first line of a file may have a byte order mark in front of it, and the last one no line end: what they hold is masked and learned as what is in any
//! other line.

use biopsy_redact::{BundleKey, Options, Redactor};

const SECRET: &str = "kuT8reBlau77xy9z";

fn redactor() -> Redactor {
    Redactor::new(Options { key: Some(BundleKey::from_bytes([5; 32])), ..Options::default() })
        .expect("the built-in packs are right")
}

fn streamed(redactor: &Redactor, bytes: &[u8], size: usize) -> Vec<u8> {
    let (mut out, mut chunks) = (Vec::new(), redactor.chunks());
    bytes.chunks(size).for_each(|piece| chunks.push(piece, &mut out));
    let _ = chunks.finish(&mut out);
    out
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const LINES: &[&str] =
    &["DB_PASSWORD=", "password\t", "password: ", "token = ", "--api-key ", "Authorization: Bearer "];

#[test]
fn a_value_that_ends_a_file_is_masked_elsewhere() {
    for line in LINES {
        let text = format!("{line}{SECRET}");
        let wide = utf16(&format!("\u{feff}{text}"));
        for (how, bytes) in [("UTF-8", text.as_bytes()), ("UTF-16", &wide)] {
            for size in [3, 1 << 20] {
                let redactor = redactor();
                let _ = streamed(&redactor, bytes, size);
                let other = redactor.text(&format!("the {SECRET} was tried")).text.into_owned();
                assert!(!other.contains(SECRET), "{line} {how} in pieces of {size}: {other}");
            }
        }
        let redactor = redactor();
        let _ = redactor.text(&text);
        assert!(!redactor.text(&format!("the {SECRET} was tried")).text.contains(SECRET), "{line}");
    }
}

#[test]
fn what_a_piece_ends_with_teaches_nothing_before_its_rest_is_there() {
    let redactor = redactor();
    let (mut out, mut chunks) = (Vec::new(), redactor.chunks());
    // More than is looked ahead, so that the end of the first piece is gone over before the rest comes.
    let filler = "all is well and nothing else happens in here\n".repeat(4000);
    chunks.push(format!("{filler}DB_PASSWORD=kuT8reBl").as_bytes(), &mut out);
    chunks.push(b"au77xy9z\n", &mut out);
    let _ = chunks.finish(&mut out);
    let masked = redactor.text("the kuT8reBlau77xy9z and kuT8reBl were tried").text.into_owned();
    assert!(!masked.contains(SECRET), "{masked}");
    assert!(masked.contains(" kuT8reBl were"), "half of it is no value: {masked}");
}

#[test]
fn a_byte_order_mark_hides_no_line_and_stays() {
    for line in LINES {
        let text = format!("\u{feff}{line}{SECRET}\nall is well\n");
        for (how, bytes) in [("UTF-8", text.as_bytes().to_vec()), ("UTF-16", utf16(&text))] {
            let whole = redactor().bytes(&bytes).bytes.into_owned();
            let pieces = streamed(&redactor(), &bytes, 5);
            let mark = if how == "UTF-8" { &b"\xef\xbb\xbf"[..] } else { b"\xff\xfe" };
            for (way, masked) in [("whole", whole), ("in pieces", pieces)] {
                assert!(masked.starts_with(mark), "{line} {how} {way}");
                let narrow: Vec<u8> = masked.into_iter().filter(|byte| *byte != 0).collect();
                let narrow = String::from_utf8_lossy(&narrow).into_owned();
                assert!(
                    !narrow.contains(SECRET) && narrow.contains("all is well"),
                    "{line} {how} {way}: {narrow}"
                );
                assert_eq!(narrow.matches("[redacted:").count(), 1, "{line} {how} {way}: {narrow}");
            }
        }
    }
}

#[test]
fn a_file_of_byte_order_marks_is_survived() {
    let marks = "\u{feff}".repeat(500_000);
    assert_eq!(redactor().text(&marks).text, marks);
    assert_eq!(streamed(&redactor(), marks.as_bytes(), 4096), marks.as_bytes());
}
