//! What the core writer writes is what the reader reads, whatever goes wrong in between.

mod copied;
mod hostile;
mod minidump;
mod outputs;
mod round_trip;
mod synthetic;

use biopsy_image::write::{
    Compression, CoreError, CoreKind, CoreOptions, CoreOutput, CoreProgress, CoreSummary, NoProgress,
    write_core,
};
use biopsy_image::{Backing, Limits, Opened, open_bytes};
use synthetic::{PAGE, Synthetic};

/// A process with one of everything.
fn one_of_everything() -> Synthetic {
    let mut image = Synthetic::new();
    let text = image.file(0x40_0000, 64, "/opt/odd name\n\u{e9}");
    image.write(text.start + 17 * PAGE, 3);
    let heap = image.map(0x80_0000, 600, "rw", false, Backing::Anonymous { label: "[heap]".into() });
    for at in [0, 1, 5, 200, 201, 599] {
        image.write(heap.start + at * PAGE, 7 + at);
    }
    image.write(heap.start + 2 * PAGE, 0);
    image.map(0x1000_0000, 16, "", false, Backing::Anonymous { label: String::new() });
    let data = image.map(
        0x2000_0000,
        4,
        "rw",
        true,
        Backing::File { path: b"/var/lib/data.mdb".to_vec(), offset: 0, deleted: false, identity: (1, 2) },
    );
    let jit = image.map(
        0x3000_0000,
        300,
        "rw",
        true,
        Backing::File { path: b"/memfd:doublemapper".to_vec(), offset: 0, deleted: true, identity: (3, 4) },
    );
    image.write(jit.start, 11);
    image.write(jit.start + 299 * PAGE, 12);
    image.map(
        0x3800_0000,
        2,
        "rw",
        true,
        Backing::File { path: b"/dev/dri/card0".to_vec(), offset: 0, deleted: false, identity: (5, 6) },
    );
    let stack = image.anonymous(0x7000_0000, 2048);
    for at in 2000..2048 {
        image.write(stack.start + at * PAGE, at);
    }
    let main = image.map(0x7ffc_0000, 33, "rw", false, Backing::Anonymous { label: "[stack]".into() });
    for at in 30..33 {
        image.write(main.start + at * PAGE, at);
    }
    let vdso = image.map(0x7fff_0000, 2, "rx", false, Backing::Kernel { label: "[vdso]".into() });
    for at in 0..2 {
        image.write(vdso.start + at * PAGE, at + 1);
    }
    image.map(0x7fff_8000, 4, "r", false, Backing::Kernel { label: "[vvar]".into() });
    image.thread(4711, main.start + 31 * PAGE + 8);
    image.thread(4712, stack.start + 2010 * PAGE);
    assert_eq!(data.end - data.start, 4 * PAGE);
    image
}

fn options(kind: CoreKind, compression: Compression) -> CoreOptions {
    CoreOptions { compression, pause: Some(std::time::Duration::from_millis(3)), ..CoreOptions::new(kind) }
}

const ZSTD: Compression = Compression::SeekableZstd { level: 1 };

fn write_to_memory(
    image: &Synthetic,
    options: &CoreOptions,
    progress: &dyn CoreProgress,
) -> (Result<CoreSummary, CoreError>, Vec<u8>) {
    let mut bytes = Vec::new();
    let result = write_core(image, options, CoreOutput::Stream(&mut bytes), progress);
    (result, bytes)
}

fn written(image: &Synthetic, options: &CoreOptions) -> (CoreSummary, Vec<u8>) {
    let (summary, bytes) = write_to_memory(image, options, &NoProgress);
    (summary.unwrap(), bytes)
}

fn read_back(bytes: Vec<u8>) -> Opened {
    open_bytes("core", bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error:?}"))
}
