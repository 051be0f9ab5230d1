//! Sequence points of one method: places in its IL, and the lines they come from.

use biopsy_bytes::Cursor;

use crate::metadata::tables::{compressed_i32, compressed_u32};

/// A place in the IL with a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub(super) il_offset: u32,
    /// Row of the document, from 1.
    pub(super) document: u32,
    pub(super) line: u32,
}

/// The points with a line, by IL offset. `document`: the method's own; zero where the blob names it. Ends at the first damage.
pub(super) fn points(blob: &[u8], document: u32) -> impl Iterator<Item = Point> {
    let mut cursor = Cursor::new(blob);
    // The signature of the locals comes first.
    let mut next = || compressed_u32(&mut cursor).ok();
    let mut document = next().and_then(|_locals| if document == 0 { next() } else { Some(document) });
    let (mut il_offset, mut first, mut line) = (0_u32, true, None);
    std::iter::from_fn(move || {
        loop {
            if cursor.is_empty() {
                return None;
            }
            let delta = compressed_u32(&mut cursor).ok()?;
            if delta == 0 && !first {
                document = Some(compressed_u32(&mut cursor).ok()?);
                continue;
            }
            il_offset = il_offset.checked_add(delta)?;
            first = false;
            let lines = compressed_u32(&mut cursor).ok()?;
            let columns = if lines == 0 {
                i64::from(compressed_u32(&mut cursor).ok()?)
            } else {
                i64::from(compressed_i32(&mut cursor).ok()?)
            };
            if lines == 0 && columns == 0 {
                // Hidden: no line belongs to it.
                continue;
            }
            let start = match line {
                // The first one has its line and column whole, the others what they differ by.
                None => {
                    let start = compressed_u32(&mut cursor).ok()?;
                    compressed_u32(&mut cursor).ok()?;
                    start
                }
                Some(before) => {
                    let start = i64::from(before) + i64::from(compressed_i32(&mut cursor).ok()?);
                    compressed_i32(&mut cursor).ok()?;
                    u32::try_from(start).ok()?
                }
            };
            line = Some(start);
            return Some(Point { il_offset, document: document?, line: start });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_hidden_points_and_a_change_of_document() {
        let blob = [
            0x01, // locals
            0x00, 0x00, 0x05, 0x0a, 0x09, // il 0, one line of 5 columns, line 10 column 9
            0x04, 0x01, 0x02, 0x04, 0x00, // il 4, two lines, +2
            0x02, 0x00, 0x00, // il 6, hidden
            0x00, 0x02, // document 2
            0x03, 0x00, 0x05, 0x7d, 0x00, // il 9, -2 (0x7d: 0x3e | sign)
        ];
        let found: Vec<_> =
            points(&blob, 1).map(|point| (point.il_offset, point.document, point.line)).collect();
        assert_eq!(found, [(0, 1, 10), (4, 1, 12), (9, 2, 10)]);
        for length in 0..blob.len() {
            assert!(points(&blob[..length], 1).count() <= 3);
        }
    }
}
