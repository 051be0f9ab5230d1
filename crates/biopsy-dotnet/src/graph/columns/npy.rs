//! Headers of NumPy's array files (`numpy/lib/format.py`, version 1.0).

use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";
/// The data begins at a multiple of this.
const ALIGNMENT: usize = 64;

/// Writes a header: the type of elements in NumPy's words, and how many there are.
pub(super) fn write_header(out: &mut dyn Write, element: &str, shape: &str) -> io::Result<()> {
    let quoted = if element.starts_with('[') { element.to_owned() } else { format!("'{element}'") };
    let mut text = format!("{{'descr': {quoted}, 'fortran_order': False, 'shape': {shape}, }}");
    while !(MAGIC.len() + 2 + text.len() + 1).is_multiple_of(ALIGNMENT) {
        text.push(' ');
    }
    text.push('\n');
    out.write_all(MAGIC)?;
    out.write_all(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes())?;
    out.write_all(text.as_bytes())
}

/// Reads a header: the type of elements, and the length of the first dimension.
pub(super) fn read_header(from: &mut dyn Read) -> io::Result<(String, u64)> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut head = [0; 10];
    from.read_exact(&mut head)?;
    if !head.starts_with(MAGIC) {
        return Err(bad("it does not begin like a `.npy` of version 1"));
    }
    let mut text = vec![0; usize::from(u16::from_le_bytes([head[8], head[9]]))];
    from.read_exact(&mut text)?;
    let text = String::from_utf8(text).map_err(|_| bad("its header is no text"))?;
    let after = |key: &str| text.split_once(key).map(|(_, rest)| rest.trim_start());
    let descr = after("'descr':").ok_or_else(|| bad("its header has no `descr`"))?;
    let element = if descr.starts_with('[') {
        descr.split_inclusive(']').next().unwrap_or_default()
    } else {
        descr.trim_start_matches('\'').split('\'').next().unwrap_or_default()
    };
    let count = after("'shape': (").and_then(|shape| shape.split([',', ')']).next()?.trim().parse().ok());
    if text.contains("'fortran_order': True") {
        return Err(bad("its order is Fortran's"));
    }
    Ok((element.to_owned(), count.ok_or_else(|| bad("its header has no `shape`"))?))
}
