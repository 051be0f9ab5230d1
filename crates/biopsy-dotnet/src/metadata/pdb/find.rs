//! Which debug information belongs to an assembly, and where it is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_bytes::Cursor;
use biopsy_elf::{LE, rows};
use biopsy_files::{Links, Refused, Root};
use biopsy_image::pe::PeHeaders;
use biopsy_image::pe::raw::{IMAGE_DIRECTORY_ENTRY_DEBUG, ImageDebugDirectory};

use super::{Pdb, PdbError, PortablePdb, WindowsId};

/// Largest debug information that is read: that of a large server is 20 MB.
const LARGEST: u64 = 256 << 20;
/// Entries of a debug directory that are looked at.
const ENTRIES: usize = 64;
const LONGEST_PATH: usize = 4096;

const CODE_VIEW: u32 = 2;
const EMBEDDED: u32 = 17;
/// `RSDS`, how what names a file begins.
const RSDS: u32 = 0x5344_5352;
/// Minor version `PDB` of an entry that names a portable one.
const PORTABLE: u16 = 0x504d;

/// What an assembly says of its debug information.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DebugInfo {
    /// Id that a portable file must have: a GUID and a stamp.
    pub id: Option<[u8; 20]>,
    /// Id that a file of Windows must have.
    pub windows: Option<WindowsId>,
    /// Path at which the compiler wrote it.
    pub path: Option<String>,
    /// It is inside the assembly: file offset and bytes.
    pub embedded: Option<(u32, u32)>,
}

/// Where debug information was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PdbPlace {
    /// In a file of its own.
    File(PathBuf),
    /// In the assembly.
    Embedded,
}

/// Reads the debug directory of an assembly in the layout of its file.
///
/// # Errors
/// When it is not a PE file, or damaged.
pub fn debug_info(assembly: &[u8]) -> Result<DebugInfo, PdbError> {
    let mut found = DebugInfo::default();
    let pe = PeHeaders::parse(assembly)?;
    let Some((rva, size)) = pe.directory(IMAGE_DIRECTORY_ENTRY_DEBUG) else { return Ok(found) };
    let Some(at) = pe.offset_of(rva) else { return Ok(found) };
    let mut directory = Cursor::new(assembly);
    directory.skip("debug directory", usize::try_from(at).unwrap_or(usize::MAX))?;
    let size = directory.remaining().min(size as usize);
    for entry in rows::<ImageDebugDirectory>(directory.take("debug directory", size)?).iter().take(ENTRIES) {
        let (at, size) = (entry.pointer_to_raw_data.get(LE), entry.size_of_data.get(LE));
        let (stamp, minor) = (entry.time_date_stamp.get(LE), entry.minor_version.get(LE));
        match entry.typ.get(LE).0 {
            CODE_VIEW => {
                let mut data = Cursor::new(assembly);
                data.skip("CodeView", at as usize)?;
                let mut data = data.sub("CodeView", size as usize)?;
                if data.u32("signature")? != RSDS {
                    continue;
                }
                let guid = data.array::<16>("GUID")?;
                let age = data.u32("age")?;
                let path = data.rest().split(|byte| *byte == 0).next().unwrap_or_default();
                let path = &path[..path.len().min(LONGEST_PATH)];
                found.path = Some(String::from_utf8_lossy(path).into_owned()).filter(|path| !path.is_empty());
                if minor == PORTABLE {
                    let mut id = [0; 20];
                    id[..16].copy_from_slice(&guid);
                    id[16..].copy_from_slice(&stamp.to_le_bytes());
                    found.id = Some(id);
                } else {
                    found.windows = Some(WindowsId { guid, age });
                }
            }
            EMBEDDED => found.embedded = Some((at, size)),
            _ => {}
        }
    }
    Ok(found)
}

/// Finds and reads the debug information of an assembly. `assembly`: its bytes in the layout of the file; `path`: where it is for
/// the process; `root`: where that process's files are (`/proc/PID/root`). `None`: there is none at any of the places.
///
/// # Errors
/// When there is some, and it cannot be used.
pub fn find_pdb(assembly: &[u8], path: &Path, root: &Path) -> Result<Option<(Pdb, PdbPlace)>, PdbError> {
    let info = debug_info(assembly)?;
    if let Some((at, size)) = info.embedded {
        let pdb = PortablePdb::parse(unpack(assembly, at, size)?)?;
        return Ok(Some((Pdb::Portable(pdb), PdbPlace::Embedded)));
    }
    let mut problem = None;
    let files = Root::at(root).map_err(|source| PdbError::File { path: root.to_owned(), source })?;
    for place in places(&info, path) {
        match open(&files, &place, &info) {
            Ok(pdb) => return Ok(Some((pdb, PdbPlace::File(place)))),
            Err(PdbError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => problem = Some(error),
        }
    }
    problem.map_or(Ok(None), Err)
}

/// Beside the assembly under its own name, then under the recorded one, then at the recorded path.
fn places(info: &DebugInfo, path: &Path) -> Vec<PathBuf> {
    // The compiler may have run on Windows.
    let recorded = info.path.as_deref();
    let file_name = recorded.and_then(|path| path.rsplit(['/', '\\']).next()).filter(|name| !name.is_empty());
    let mut places = vec![path.with_extension("pdb")];
    places.extend(file_name.map(|name| path.with_file_name(name)));
    places.extend(recorded.filter(|path| path.starts_with('/')).map(PathBuf::from));
    places.retain(|place| place.is_absolute());
    places.dedup();
    places
}

fn open(root: &Root, path: &Path, info: &DebugInfo) -> Result<Pdb, PdbError> {
    let failed = |source| PdbError::File { path: path.to_owned(), source };
    let file = match root.open(path, Links::Follow) {
        Ok(opened) => opened.file,
        Err(Refused::NotRegular(_)) => return Err(failed(std::io::ErrorKind::NotFound.into())),
        Err(refused) => return Err(failed(refused.into())),
    };
    check_size("the debug information", file.metadata().map_err(failed)?.len())?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
    let pdb = Pdb::parse(bytes.into())?;
    let another = |found: &[u8], expected: &[u8]| {
        Err(PdbError::AnotherBuild { found: hex(found), expected: hex(expected) })
    };
    // One that was converted has the GUID of the other form.
    match (&pdb, info.id, info.windows) {
        (Pdb::Portable(portable), Some(id), _) if id != portable.id() => another(&portable.id(), &id),
        (Pdb::Portable(portable), None, Some(id)) if id.guid != portable.id()[..16] => {
            another(&portable.id()[..16], &id.guid)
        }
        (Pdb::Windows(windows), _, Some(id)) if !windows.is_of(id) => another(&windows.guid(), &id.guid),
        (Pdb::Windows(windows), Some(id), None) if windows.guid() != id[..16] => {
            another(&windows.guid(), &id[..16])
        }
        _ => Ok(pdb),
    }
}

/// `MPDB`, the unpacked size, deflate.
fn unpack(assembly: &[u8], at: u32, size: u32) -> Result<Arc<[u8]>, PdbError> {
    let mut cursor = Cursor::new(assembly);
    cursor.skip("embedded", at as usize)?;
    let mut data = cursor.sub("embedded", size as usize)?;
    let found = data.u32("signature")?;
    if found != u32::from_le_bytes(*b"MPDB") {
        return Err(PdbError::NotPortable { found });
    }
    let unpacked = u64::from(data.u32("unpacked size")?);
    check_size("the embedded debug information", unpacked)?;
    let mut bytes = Vec::new();
    let mut inflate = flate2::read::DeflateDecoder::new(data.rest()).take(unpacked);
    inflate.read_to_end(&mut bytes).map_err(PdbError::Packed)?;
    Ok(bytes.into())
}

fn check_size(what: &'static str, found: u64) -> Result<(), PdbError> {
    if found > LARGEST { Err(PdbError::TooLarge { what, found, limit: LARGEST }) } else { Ok(()) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_assembly_is_refused() {
        for bytes in [&b""[..], b"MZ", b"\x7fELF", &[b'M'; 300]] {
            assert!(debug_info(bytes).is_err());
        }
    }

    /// Compiled with `-debug:embedded`.
    fn embedded() -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dotnet/Embedded.dll");
        std::fs::read(path).expect("the fixture is there")
    }

    #[test]
    fn debug_information_inside_the_assembly_is_read() {
        let found = find_pdb(&embedded(), Path::new("/nowhere/Embedded.dll"), Path::new("/")).unwrap();
        let (pdb, place) = found.expect("it is inside");
        assert_eq!(place, PdbPlace::Embedded);
        let lines: Vec<_> = (0..40).filter_map(|il| pdb.line(0x0600_0001, Some(il))).collect();
        assert!(lines.iter().all(|line| line.file == "/src/Embedded.cs"), "{lines:?}");
        assert!(lines.iter().any(|line| line.line == 18), "{lines:?}");
        assert_eq!(pdb.line(0x0600_0002, None).map(|line| line.line), Some(24));
    }

    #[test]
    fn packed_information_that_lies_is_refused() {
        let whole = embedded();
        let at = whole.windows(4).position(|four| four == b"MPDB").expect("it is inside");
        let find = |bytes: &[u8]| find_pdb(bytes, Path::new("/nowhere/Embedded.dll"), Path::new("/"));
        let with = |offset: usize, new: &[u8]| {
            let mut bytes = whole.clone();
            bytes[at + offset..at + offset + new.len()].copy_from_slice(new);
            find(&bytes)
        };
        assert!(matches!(with(0, b"XPDB"), Err(PdbError::NotPortable { .. })));
        assert!(matches!(with(4, &u32::MAX.to_le_bytes()), Err(PdbError::TooLarge { .. })));
        assert!(matches!(with(4, &16_u32.to_le_bytes()), Err(PdbError::Metadata(_))), "more than it says");
        assert!(matches!(with(8, &[0xff; 16]), Err(PdbError::Packed(_))));
        for cut in [at + 2, at + 7, at + 20, whole.len() - 1] {
            let _ = find(&whole[..cut]);
        }
        assert!(find(&whole[..at + 7]).is_err());
    }

    #[test]
    fn places_are_those_of_the_process() {
        let info = DebugInfo { path: Some(r"C:\agent\_work\App.pdb".into()), ..DebugInfo::default() };
        let found = places(&info, Path::new("/app/Renamed.dll"));
        assert_eq!(found, [Path::new("/app/Renamed.pdb"), Path::new("/app/App.pdb")]);
        let info = DebugInfo { path: Some("/src/obj/App.pdb".into()), ..DebugInfo::default() };
        let found = places(&info, Path::new("/app/App.dll"));
        assert_eq!(found, [Path::new("/app/App.pdb"), Path::new("/src/obj/App.pdb")]);
    }
}
