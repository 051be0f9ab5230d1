//! Processes whose mapped files claim nonsense.

use proptest::prelude::*;

use super::synthetic::{PAGE, Synthetic};
use super::*;

/// The start of an ELF or PE file with bytes of it changed.
fn start(kind: bool, changes: &[(u16, u8)]) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    if kind {
        put(0, b"\x7fELF\x02\x01\x01");
        put(32, &64u64.to_le_bytes());
        put(54, &[56, 0, 4, 0]);
        for (number, (kind, address)) in
            [(1u32, 0u64), (2, 0x200), (0x6474_e550, 0x300), (4, 0x400)].into_iter().enumerate()
        {
            put(64 + number * 56, &kind.to_le_bytes());
            put(64 + number * 56 + 8, &address.to_le_bytes());
            put(64 + number * 56 + 16, &address.to_le_bytes());
            put(64 + number * 56 + 32, &0x800u64.to_le_bytes());
        }
        put(0x200, &6u64.to_le_bytes());
        put(0x208, &0x500u64.to_le_bytes());
        put(0x300, &[1, 0x1b, 3, 0x3b, 16, 0, 0, 0]);
        put(0x314, &8u32.to_le_bytes());
    } else {
        put(0, b"MZ");
        put(60, &0x80u32.to_le_bytes());
        put(0x80, b"PE\0\0\x64\x86\x02\0");
        put(0x80 + 20, &240u16.to_le_bytes());
        put(0x80 + 24, &0x20bu16.to_le_bytes());
        put(0x80 + 24 + 60, &0x200u32.to_le_bytes());
        put(0x80 + 24 + 108, &16u32.to_le_bytes());
        for directory in [3, 6, 14] {
            put(0x80 + 24 + 112 + directory * 8, &[0, 4, 0, 0, 0x48, 0, 0, 0]);
        }
        put(0x400 + 8, &[0, 6, 0, 0, 0, 1, 0, 0]);
        put(0x400 + 64, &[0, 7, 0, 0, 0, 1, 0, 0]);
        put(0x700, b"RTR\0");
        put(0x70c, &3u32.to_le_bytes());
        put(0x710, &105u32.to_le_bytes());
    }
    for (at, byte) in changes {
        page[usize::from(*at) % PAGE as usize] = *byte;
    }
    page
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_mapped_files_claim_a_core_is_written(
        kind: bool,
        changes in prop::collection::vec((any::<u16>(), prop::sample::select(vec![0u8, 1, 4, 0x7f, 0xff])), 0..20),
        high: bool,
        core in 0..3usize,
    ) {
        let mut image = Synthetic::new();
        let at = if high { 0xffff_ffff_fff0_0000 } else { 0x40_0000 };
        let backing = Backing::File { path: b"/lib/x".to_vec(), offset: 0, deleted: false, identity: (0, 0) };
        image.map(at, 64, "r", false, backing);
        image.bytes.insert(at, start(kind, &changes));
        let kind = [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks][core];
        let (summary, bytes) = written(&image, &options(kind, Compression::None));
        prop_assert!(summary.is_whole());
        prop_assert!(summary.contents.total() <= 64 * PAGE);
        read_back(bytes);
    }
}
