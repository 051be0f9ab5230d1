//! Arbitrary bytes as debug information, and as an assembly with some inside.

use std::path::Path;
use std::sync::Arc;

use super::{PortablePdb, WindowsPdb, debug_info, find_pdb};

/// Any panic or unbounded memory is a bug.
pub fn fuzz_pdb(bytes: &[u8]) {
    if let Ok(pdb) = PortablePdb::parse(Arc::from(bytes)) {
        for row in (0..=pdb.method_count().min(256)).chain([0xff_ffff]) {
            for offset in [None, Some(0), Some(17), Some(u32::MAX)] {
                let _ = pdb.line(0x0600_0000 | row, offset);
            }
        }
    }
    let _ = debug_info(bytes);
    let _ = find_pdb(bytes, Path::new("/nowhere/App.dll"), Path::new("/nowhere"));
}

/// The same of debug information in the form of Windows.
pub fn fuzz_windows_pdb(bytes: &[u8]) {
    let Ok(pdb) = WindowsPdb::parse(bytes) else { return };
    for token in pdb.methods().take(256).chain([0, 0x0600_0001, u32::MAX]) {
        for offset in [None, Some(0), Some(17), Some(u32::MAX)] {
            let _ = pdb.line(token, offset);
        }
    }
}
