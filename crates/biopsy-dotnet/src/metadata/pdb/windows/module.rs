//! What one module of a Windows PDB has: for managed code, the methods of a type with their lines.
//!
//! ```text
//!  signature │ symbols: length, kind, S_GMANPROC { token, place in the code ... } │ C11 │ C13: lines of a place { IL offset, line }, files
//! ```
//!
//! Layouts: `cvinfo.h` and `dbi` of microsoft/microsoft-pdb. What is of another kind is skipped.

use std::collections::BTreeMap;

use biopsy_bytes::{Cursor, ReadError};

/// A global and a local managed procedure.
const S_GMANPROC: u16 = 0x112a;
const S_LMANPROC: u16 = 0x112b;
/// Parts of the line information.
const LINES: u32 = 0xf2;
const FILES: u32 = 0xf4;
/// A part with this bit is to be skipped.
const IGNORED: u32 = 1 << 31;
/// What the lower bits of a row have, and what stands for no line there: hidden, and to be stepped into.
const LINE: u32 = 0xff_ffff;
const HIDDEN: [u32; 2] = [0xfe_efee, 0xf0_0f00];

/// Sizes of the parts of a module, as the list of modules has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) symbols: usize,
    pub(super) c11: usize,
    pub(super) c13: usize,
}

/// A place in the IL of a method, with a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Point {
    pub(super) token: u32,
    pub(super) il_offset: u32,
    pub(super) line: u32,
    /// Where the path of its file begins in the list of names.
    pub(super) name: u32,
}

/// Appends the points of all methods, until there are `most`; what is damaged ends it.
pub(super) fn points(
    module: &[u8],
    parts: Parts,
    most: usize,
    points: &mut Vec<Point>,
) -> Result<(), ReadError> {
    let mut module = Cursor::new(module);
    let methods = methods(module.sub("symbols", parts.symbols)?)?;
    module.skip("C11 lines", parts.c11)?;
    let lines = module.sub("C13 lines", parts.c13)?;
    let mut names = BTreeMap::new();
    of_kind(lines, FILES, |files| files_of(files, &mut names))?;
    of_kind(lines, LINES, |mut lines| {
        let place = (lines.u32("offset")?, lines.u16("segment")?);
        let row = if lines.u16("flags")? & 1 == 0 { 8 } else { 12 };
        lines.skip("bytes of code", 4)?;
        let Some(token) = methods.get(&place) else { return Ok(()) };
        while !lines.is_empty() {
            let file = lines.u32("file")?;
            let count = lines.u32("rows")? as usize;
            let size = lines.u32("size")? as usize;
            // Rows first, then their columns, each of which has half the size.
            let mut block = lines.sub("rows", size.saturating_sub(12))?;
            let mut rows = block.sub("rows", count.saturating_mul(8).min(block.remaining() / row * 8))?;
            let Some(name) = names.get(&file) else { continue };
            while !rows.is_empty() && points.len() < most {
                let (il_offset, line) = (rows.u32("IL offset")?, rows.u32("line")? & LINE);
                if !HIDDEN.contains(&line) {
                    points.push(Point { token: *token, il_offset, line, name: *name });
                }
            }
        }
        Ok(())
    })
}

/// Tokens of methods by the place of their code.
fn methods(mut symbols: Cursor<'_>) -> Result<BTreeMap<(u32, u16), u32>, ReadError> {
    let mut methods = BTreeMap::new();
    if symbols.is_empty() {
        return Ok(methods);
    }
    symbols.skip("signature", 4)?;
    while symbols.remaining() >= 4 {
        let length = usize::from(symbols.u16("length")?);
        let mut symbol = symbols.sub("symbol", length)?;
        if matches!(symbol.u16("kind")?, S_GMANPROC | S_LMANPROC) {
            // Parent, end, next, length, and where it can be stopped in.
            symbol.skip("scope", 24)?;
            let token = symbol.u32("token")?;
            methods.insert((symbol.u32("offset")?, symbol.u16("segment")?), token);
        }
    }
    Ok(methods)
}

/// Where the name of each file begins, by where the file is in its part.
fn files_of(mut files: Cursor<'_>, names: &mut BTreeMap<u32, u32>) -> Result<(), ReadError> {
    let start = files.offset();
    while files.remaining() >= 6 {
        let at = files.offset().saturating_sub(start);
        let name = files.u32("name")?;
        let checksum = usize::from(files.u8("bytes of checksum")?);
        files.skip("checksum", checksum + 1)?;
        align(&mut files, start);
        names.insert(u32::try_from(at).unwrap_or(u32::MAX), name);
    }
    Ok(())
}

fn of_kind<'a>(
    mut parts: Cursor<'a>,
    wanted: u32,
    mut each: impl FnMut(Cursor<'a>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let start = parts.offset();
    while parts.remaining() >= 8 {
        let kind = parts.u32("kind of part")?;
        let size = parts.u32("size of part")? as usize;
        let part = parts.sub("part", size)?;
        align(&mut parts, start);
        if kind == wanted && kind & IGNORED == 0 {
            each(part)?;
        }
    }
    Ok(())
}

/// Moves on to the next multiple of four, or to the end.
pub(super) fn align(cursor: &mut Cursor<'_>, start: u64) {
    let behind = cursor.offset().saturating_sub(start) % 4;
    let padding = if behind == 0 { 0 } else { 4 - behind as usize };
    let _ = cursor.skip("padding", padding.min(cursor.remaining()));
}
