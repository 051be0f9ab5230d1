//! Methods from the runtime's events: `MethodLoadVerbose` while it runs, `MethodDC...Verbose` of a rundown, IL maps, modules.
//!
//! Layouts: `ClrEtwAll.man` of the runtime. Fields are little-endian and packed, texts are UTF-16 and end with a zero.

use std::sync::Arc;

use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::{Avma, MonoNanos};

use crate::nettrace::Event;

use super::{IlMap, Method, MethodKind, MethodMap, MethodName, Tier};

/// Events while the runtime runs.
const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// Events that tell what is there.
const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// A name of a type or a method longer than this is cut: obfuscators and generators make names of any length.
const LONGEST_NAME: usize = 16 << 10;

const DYNAMIC: u32 = 0x1;
const JITTED: u32 = 0x8;
const HELPER: u32 = 0x10;

/// What an event said of methods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodEvent {
    /// A body is there.
    Loaded,
    /// A body is gone.
    Unloaded,
    /// Where the IL of a body is.
    Map,
    /// A module's file.
    Module,
}

/// Takes what an event of a stream says of methods into the map; see [`feed_payload`].
pub fn feed(map: &mut MethodMap, event: &Event<'_>) -> Option<MethodEvent> {
    let metadata = event.metadata;
    feed_payload(map, &metadata.provider, metadata.id, metadata.version, event.payload, event.time)
}

/// Takes what an event says of methods into the map; `None`: it says nothing, or is damaged. `rundown` events describe what has
/// been there for an unknown time.
pub fn feed_payload(
    map: &mut MethodMap,
    provider: &str,
    id: u32,
    version: u32,
    payload: &[u8],
    time: MonoNanos,
) -> Option<MethodEvent> {
    let rundown = match provider {
        RUNTIME => false,
        RUNDOWN => true,
        _ => return None,
    };
    let mut cursor = Cursor::new(payload);
    // The manifest gives the start and the end of a rundown different numbers; EventPipe sends the end.
    match (rundown, id) {
        (false, 143) | (true, 143 | 144) => {
            let mut method = read_method(&mut cursor, version).ok()?;
            method.from = if rundown { MonoNanos(0) } else { time };
            map.insert(method);
            Some(MethodEvent::Loaded)
        }
        (false, 142 | 144) => {
            let id = cursor.u64("MethodID").ok()?;
            cursor.skip("ModuleID", 8).ok()?;
            let start = cursor.u64("MethodStartAddress").map(Avma).ok()?;
            map.remove(start, id, time);
            Some(MethodEvent::Unloaded)
        }
        (false, 190) | (true, 149 | 150) => {
            let (method, version, il) = read_il_map(&mut cursor).ok()?;
            map.set_il_map(method, version, il);
            Some(MethodEvent::Map)
        }
        (false, 149 | 152) | (true, 151..=154) => {
            let (module, path) = read_module(&mut cursor).ok()?;
            map.set_module(module, &path);
            Some(MethodEvent::Module)
        }
        _ => None,
    }
}

fn read_method(cursor: &mut Cursor<'_>, version: u32) -> Result<Method, ReadError> {
    let method_id = cursor.u64("MethodID")?;
    let module_id = cursor.u64("ModuleID")?;
    let start = cursor.u64("MethodStartAddress").map(Avma)?;
    let size = cursor.u32("MethodSize")?;
    let token = cursor.u32("MethodToken")?;
    let flags = cursor.u32("MethodFlags")?;
    let namespace_type: Arc<str> = utf16(cursor, "MethodNamespace")?.into();
    let method = utf16(cursor, "MethodName")?.into();
    let signature = utf16(cursor, "MethodSignature")?.into();
    let number = if version >= 2 {
        cursor.skip("ClrInstanceID", 2)?;
        cursor.u64("ReJITID")?
    } else {
        0
    };
    let kind = if flags & HELPER != 0 {
        MethodKind::Helper
    } else if flags & DYNAMIC != 0 {
        MethodKind::Dynamic
    } else if flags & JITTED != 0 {
        MethodKind::Jit
    } else {
        MethodKind::ReadyToRun
    };
    let tier = match (kind, Tier::from_flags(flags)) {
        (MethodKind::ReadyToRun, Tier::Unknown) => Tier::ReadyToRun,
        (_, tier) => tier,
    };
    let name = MethodName { namespace_type, method, signature };
    Ok(Method {
        start,
        size,
        name,
        module_id,
        method_id,
        tier,
        kind,
        token,
        version: number,
        ..Method::default()
    })
}

fn read_il_map(cursor: &mut Cursor<'_>) -> Result<(u64, u64, IlMap), ReadError> {
    let method = cursor.u64("MethodID")?;
    let version = cursor.u64("ReJITID")?;
    cursor.skip("MethodExtent", 1)?;
    let count = usize::from(cursor.u16("CountOfMapEntries")?);
    let il = cursor.take("ILOffsets", count * 4)?;
    let native = cursor.take("NativeOffsets", count * 4)?;
    let words = |bytes: &[u8]| {
        let chunks = bytes.chunks_exact(4);
        chunks.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect::<Vec<_>>()
    };
    Ok((method, version, IlMap::new(words(native).into_iter().zip(words(il)).collect())))
}

/// `ModuleLoad`, `ModuleDCStart`, `ModuleDCEnd` and their `DomainModule` forms, whose third number is the domain.
fn read_module(cursor: &mut Cursor<'_>) -> Result<(u64, String), ReadError> {
    let module = cursor.u64("ModuleID")?;
    cursor.skip("AssemblyID", 8)?;
    let mut short = *cursor;
    short.skip("ModuleFlags, Reserved1", 8)?;
    let path = utf16(&mut short, "ModuleILPath")?;
    if is_path(&path) {
        return Ok((module, path));
    }
    cursor.skip("AppDomainID, ModuleFlags, Reserved1", 16)?;
    Ok((module, utf16(cursor, "ModuleILPath")?))
}

/// The domain form read as the other one has a text that begins with half an address.
fn is_path(text: &str) -> bool {
    text.len() > 2 && text.chars().all(|character| !character.is_control())
}

/// A text up to its zero. Longer than allowed: cut, and the cursor is behind it.
fn utf16(cursor: &mut Cursor<'_>, field: &'static str) -> Result<String, ReadError> {
    let rest = cursor.rest();
    let units = rest.chunks_exact(2).position(|unit| unit == [0, 0]);
    let bytes = match units {
        Some(units) => cursor.take(field, units * 2)?,
        // Says which field is cut off.
        None => cursor.take(field, rest.len() + 1)?,
    };
    cursor.skip(field, 2)?;
    let units = bytes.chunks_exact(2).take(LONGEST_NAME).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    Ok(char::decode_utf16(units).map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn load(flags: u32, version: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [0x77_u64, 0x88, 0x1000] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [0x40_u32, 0x0600_0001, flags] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(text("App.Feed+<GetAsync>d__5"));
        bytes.extend(text("MoveNext"));
        bytes.extend(text("instance void  ()"));
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(version.to_le_bytes());
        bytes
    }

    #[test]
    fn a_life_of_a_method() {
        let mut map = MethodMap::new();
        let mut feed = |provider, id, payload: &[u8], time| {
            feed_payload(&mut map, provider, id, 2, payload, MonoNanos(time))
        };
        let tier1 = JITTED | 4 << 7;
        assert_eq!(feed(RUNTIME, 143, &load(tier1, 2), 50), Some(MethodEvent::Loaded));
        let mut il = Vec::new();
        il.extend(0x77_u64.to_le_bytes());
        il.extend(2_u64.to_le_bytes());
        il.push(0);
        il.extend(2_u16.to_le_bytes());
        for word in [0xffff_fffe_u32, 9, 0, 0x10] {
            il.extend(word.to_le_bytes());
        }
        assert_eq!(feed(RUNTIME, 190, &il, 51), Some(MethodEvent::Map));
        let mut module = 0x88_u64.to_le_bytes().to_vec();
        module.extend([0; 16]);
        module.extend(text("/app/App.dll"));
        assert_eq!(feed(RUNDOWN, 154, &module, 52), Some(MethodEvent::Module));
        assert_eq!(feed(RUNTIME, 144, &load(tier1, 2), 90), Some(MethodEvent::Unloaded));
        assert_eq!(feed("Another-Provider", 143, &load(tier1, 2), 90), None);
        let method = map.find(Avma(0x1010)).unwrap();
        assert_eq!((method.tier, method.kind, method.version), (Tier::Tier1, MethodKind::Jit, 2));
        assert_eq!((method.from, method.to), (MonoNanos(50), MonoNanos(90)));
        assert_eq!(method.il.as_ref().unwrap().il_offset(0x12), Some(9));
        assert_eq!(map.module(0x88).map(|path| &**path), Some("/app/App.dll"));
        assert_eq!(method.name.display(), "App.Feed.GetAsync (async)");
    }

    #[test]
    fn domain_modules_and_precompiled_methods() {
        let mut map = MethodMap::new();
        let mut module = Vec::new();
        for word in [0x88_u64, 1, 0x7fff_1234_5678, 0] {
            module.extend(word.to_le_bytes());
        }
        module.extend(text("/app/App.dll"));
        assert_eq!(feed_payload(&mut map, RUNDOWN, 152, 1, &module, MonoNanos(1)), Some(MethodEvent::Module));
        feed_payload(&mut map, RUNDOWN, 144, 1, &load(0, 0), MonoNanos(9)).unwrap();
        let method = map.find(Avma(0x1000)).unwrap();
        assert_eq!((method.tier, method.kind), (Tier::ReadyToRun, MethodKind::ReadyToRun));
        assert_eq!((method.from, method.module.as_deref()), (MonoNanos(0), Some("/app/App.dll")));
    }

    #[test]
    fn every_cut_is_refused_or_read() {
        let whole = load(JITTED, 1);
        for length in 0..whole.len() {
            let mut map = MethodMap::new();
            let _ = feed_payload(&mut map, RUNTIME, 143, 2, &whole[..length], MonoNanos(1));
            let _ = feed_payload(&mut map, RUNTIME, 190, 1, &whole[..length], MonoNanos(1));
            let _ = feed_payload(&mut map, RUNDOWN, 152, 1, &whole[..length], MonoNanos(1));
            assert!(map.len() <= 1);
        }
    }
}
