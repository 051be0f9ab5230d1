//! Windows PDBs of managed assemblies: the form that compilers wrote before the portable one, and still write where a project says
//! `<DebugType>full</DebugType>` on Windows. The runtime on Linux runs such an assembly like any other.
//!
//! Of all that is in one, what leads from a method to its lines is read, once, and kept in 16 bytes for each place with a line. It is
//! read by hand: crates for this format step over managed procedures, or bring more than the 300 lines that it takes.

mod module;
mod msf;
#[cfg(test)]
mod tests;

use biopsy_bytes::{Cursor, ReadError};

use super::{PdbError, SourceLine};
use module::{Parts, Point, align};
use msf::Msf;

pub(super) use msf::MAGIC;

/// Streams that have a fixed number.
const INFO: usize = 1;
const DEBUG: usize = 3;
/// Bytes of the head of the list of modules.
const HEAD: usize = 64;
/// A module without a stream of its own.
const NO_STREAM: u16 = u16::MAX;
/// Places with a line that are kept: 64 MiB. An assembly of a million lines has two million.
const POINTS: usize = 4 << 20;
/// A longer path is cut.
const PATH_BYTES: usize = 4096;
/// How a list of names begins.
const NAMES: u32 = 0xeffe_effe;
/// Names of streams that are looked at.
const NAMED: usize = 4096;

/// Which build it belongs to, as the assembly says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowsId {
    /// Made by the compiler.
    pub guid: [u8; 16],
    /// How often it was written again since.
    pub age: u32,
}

/// Debug information of one assembly.
#[derive(Debug)]
pub struct WindowsPdb {
    guid: [u8; 16],
    /// Of the file, and of its list of modules.
    ages: [u32; 2],
    /// By token and IL offset.
    points: Vec<Point>,
    /// Paths of files, each ended by a zero.
    names: Vec<u8>,
}

impl WindowsPdb {
    /// Reads the lines of all methods. A module that is damaged has those that are before the damage.
    ///
    /// # Errors
    /// When it is no Windows PDB, or what leads to its modules is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self, PdbError> {
        if !bytes.starts_with(MAGIC) {
            return Err(PdbError::NotWindows { found: Cursor::new(bytes).u32("signature")? });
        }
        let msf = Msf::parse(bytes)?;
        let info = msf.stream("PDB information", INFO)?;
        let mut info = Cursor::new(&info);
        info.skip("version", 8)?;
        let age = info.u32("age")?;
        let guid = info.array("GUID")?;
        let names = names(&msf, info)?;
        let debug = msf.stream("debug information", DEBUG)?;
        let mut debug = Cursor::new(&debug);
        let mut head = debug.sub("head of debug information", HEAD)?;
        head.skip("version", 8)?;
        let ages = [age, head.u32("age")?];
        head.skip("streams", 12)?;
        let size = head.u32("bytes of modules")? as usize;
        let points = points(&msf, debug.sub("modules", size)?);
        Ok(Self { guid, ages, points, names })
    }

    /// Whether it belongs to a build.
    #[must_use]
    pub fn is_of(&self, id: WindowsId) -> bool {
        self.guid == id.guid && self.ages.contains(&id.age)
    }

    /// The GUID that its build was given.
    #[must_use]
    pub fn guid(&self) -> [u8; 16] {
        self.guid
    }

    /// The line of a place in a method. `il_offset` `None`: the method's first line.
    #[must_use]
    pub fn line(&self, method_token: u32, il_offset: Option<u32>) -> Option<SourceLine> {
        let first = self.points.partition_point(|point| point.token < method_token);
        let end = self.points.partition_point(|point| point.token <= method_token);
        let of_method = self.points.get(first..end)?;
        let after = of_method.partition_point(|point| point.il_offset <= il_offset.unwrap_or(0));
        // What stands before the first line belongs to it.
        let index = if il_offset.is_none() { 0 } else { after.saturating_sub(1) };
        let point = of_method.get(index)?;
        Some(SourceLine { file: self.name(point.name)?, line: point.line })
    }

    /// Tokens of methods that have lines.
    pub fn methods(&self) -> impl Iterator<Item = u32> {
        self.points.chunk_by(|a, b| a.token == b.token).filter_map(|of_method| Some(of_method.first()?.token))
    }

    fn name(&self, at: u32) -> Option<String> {
        let rest = self.names.get(at as usize..)?;
        let name = rest.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        Some(String::from_utf8_lossy(&name[..name.len().min(PATH_BYTES)]).into_owned())
    }
}

/// Of all modules, as far as they can be read.
fn points(msf: &Msf<'_>, mut modules: Cursor<'_>) -> Vec<Point> {
    let start = modules.offset();
    let mut points = Vec::new();
    while !modules.is_empty() && points.len() < POINTS {
        // What follows a damaged one is not found.
        let Ok((stream, parts)) = module(&mut modules, start) else { break };
        if stream == NO_STREAM || parts.c13 == 0 {
            continue;
        }
        let Ok(bytes) = msf.stream("module", usize::from(stream)) else { continue };
        let _ = module::points(&bytes, parts, POINTS, &mut points);
    }
    // Those of one method are in the order of its IL but for the files that they are in.
    points.sort_by_key(|point| (point.token, point.il_offset));
    points.shrink_to_fit();
    points
}

/// One row of the list of modules.
fn module(modules: &mut Cursor<'_>, start: u64) -> Result<(u16, Parts), ReadError> {
    // Its first part of the code, and flags.
    modules.skip("module", 34)?;
    let stream = modules.u16("stream")?;
    let mut size = |field| modules.u32(field).map(|size| size as usize);
    let parts =
        Parts { symbols: size("bytes of symbols")?, c11: size("bytes of C11")?, c13: size("bytes of C13")? };
    modules.skip("files", 16)?;
    for field in ["name", "object"] {
        let end = modules.rest().iter().position(|byte| *byte == 0).unwrap_or(modules.remaining());
        modules.skip(field, (end + 1).min(modules.remaining()))?;
    }
    align(modules, start);
    Ok((stream, parts))
}

/// The list of names, which is the stream with the name `/names`; empty: there is none.
fn names(msf: &Msf<'_>, mut info: Cursor<'_>) -> Result<Vec<u8>, ReadError> {
    let size = info.u32("bytes of stream names")? as usize;
    let texts = info.take("stream names", size)?;
    let count = info.u32("stream names")? as usize;
    info.skip("capacity", 4)?;
    for field in ["present", "deleted"] {
        let words = info.u32(field)? as usize;
        info.skip(field, words.saturating_mul(4))?;
    }
    for _ in 0..count.min(NAMED) {
        let (at, stream) = (info.u32("name")? as usize, info.u32("stream")? as usize);
        if texts.get(at..).is_some_and(|rest| rest.starts_with(b"/names\0")) {
            let names = msf.stream("names", stream)?;
            let mut names = Cursor::new(&names);
            names.expect_u32("names", NAMES)?;
            names.skip("version", 4)?;
            let size = names.u32("bytes of names")? as usize;
            return Ok(names.take("names", size)?.to_vec());
        }
    }
    Ok(Vec::new())
}
