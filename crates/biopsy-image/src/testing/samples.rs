//! Small dumps that have a bit of everything: what property tests mutate and fuzzing starts from.

use super::{CoreBuilder, MinidumpBuilder, Segment, gzip, seekable_zstd, zstd_frames, zstd_stream};
use crate::GeneralRegisters;
use crate::vendor::{self, CaptureMethod, CoreKind, DumpNote, MissingRange, Reason};

/// A core with notes of all kinds, ours included, and segments that are whole, partly and not there.
#[must_use]
pub fn small_core() -> CoreBuilder {
    let dump = DumpNote {
        version: vendor::VERSION,
        kind: Some(CoreKind::Heap),
        scrubbed: false,
        absent_are_zeros: true,
        method: CaptureMethod::CopyOnWrite,
        taken_at_unix_nanos: Some(1),
        pause_nanos: Some(2),
        end_note_offset: 64,
        writer: "biopsy".into(),
        kernel: None,
        executable: None,
    };
    let left_out = [
        MissingRange { range: 0x9000..0xa000, reason: Reason::Kind },
        MissingRange { range: 0x6000..0x7000, reason: Reason::Zero },
    ];
    CoreBuilder::new()
        .page(64)
        .thread(12, 11, &GeneralRegisters { rsp: 0x8010, ..GeneralRegisters::default() })
        .process(11, "server", "server --port 80")
        .signal(11, 1, 0xdead_0000)
        .auxiliary(&[(3, 0x1040), (33, 0x7fff_1000)])
        .files(&[(0x1000, 0x3000, 0, b"/opt/server"), (0x5000, 0x6000, 1, b"/memfd:x (deleted)")])
        .note("CORE", 2, vec![7; 64])
        .thread(11, 11, &GeneralRegisters::default())
        .note("biopsy", vendor::DUMP.0, dump.encode())
        .note("biopsy", vendor::LEFT_OUT.0, vendor::encode_left_out(&left_out))
        .memory(0x1000, 5, [&b"\x7fELF\x02\x01"[..], &[0x40; 194]].concat())
        .segment(Segment { start: 0x2000, bytes: vec![3; 100], size: 0x1000, flags: 6 })
        .segment(Segment { start: 0x8000, bytes: vec![4; 300], size: 0x4000, flags: 6 })
}

/// A minidump with streams of all kinds that are read.
#[must_use]
pub fn small_minidump(windows: bool) -> Vec<u8> {
    let start = if windows { MinidumpBuilder::windows() } else { MinidumpBuilder::breakpad() };
    let start = if windows {
        start.module(0x1000, 0x1000, "a.exe", b"RSDSxxxxxxxxxxxxxxxxxxxxa.pdb\0").exception(
            1,
            0xc000_0005,
            0,
            1,
        )
    } else {
        start
            .module(0x1000, 0x1000, "/bin/a", b"LEpBxxxxxxxxxxxxxxxxxxxx")
            .exception(1, 11, 1, 1)
            .maps(b"00001000-00002000 r-xp 00000000 08:01 77    /bin/a\n")
    };
    start.pid(1).thread(1, 0x1000, 0x10_0000).name(1, "main").memory(0x10_0000, &[1; 100]).build()
}

/// All samples: the name of the fuzz target, the name of the sample, its bytes.
#[must_use]
pub fn samples() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let core = small_core().build();
    vec![
        ("core_packed", "seekable", seekable_zstd(&core, 700, true)),
        ("core_packed", "frames", zstd_frames(&core, 700)),
        ("core_packed", "stream", zstd_stream(&core)),
        ("core_packed", "gzip", gzip(&core)),
        ("minidump", "windows", small_minidump(true)),
        ("minidump", "breakpad", small_minidump(false)),
        ("core", "core", core),
    ]
}
