//! A Go process by hand: a few functions, two goroutines that wait for each other's mutex, one that waits for a channel.

use super::MadeImage;
use crate::go::Layout;

const TEXT: u64 = 0x40_0000;
const CONSTANTS: u64 = 0x40_2000;
const DATA: u64 = 0x40_4000;
const HEAP: u64 = 0xc0_0000_0000;
/// Bytes of each function.
const FUNCTION: u64 = 0x100;
/// Names, and sizes of frames.
const FUNCTIONS: [(&str, u8); 7] = [
    ("runtime.goexit", 0),
    ("runtime.gopark", 0x10),
    ("sync.(*Mutex).lockSlow", 0x20),
    ("main.transfer", 0x18),
    ("runtime.chanrecv", 0x20),
    ("main.(*relay[go.shape.int]).run", 0x18),
    ("runtime.main", 0x18),
];
const REASONS: [&str; 5] = ["GC assist marking", "IO wait", "chan receive", "semacquire", "sync.Mutex.Lock"];
/// `mov rax, [rsp + 8]; mov ecx, -1; lock xadd [rax], ecx; ret`: unlocks the mutex whose address is on the stack.
const UNLOCKS: [u8; 15] =
    [0x48, 0x8b, 0x44, 0x24, 0x08, 0xb9, 0xff, 0xff, 0xff, 0xff, 0xf0, 0x0f, 0xc1, 0x08, 0xc3];
/// Where a frame's call returns to.
const CALL: u64 = 5;
/// Two mutexes and a channel.
const LOCKS: [u64; 2] = [HEAP + 0x7000, HEAP + 0x7100];
const CHANNEL: u64 = HEAP + 0x7200;

fn function(number: u64) -> u64 {
    TEXT + number * FUNCTION
}

/// The process, of this minor version.
///
/// # Panics
/// When the version is none whose layout is known.
#[must_use]
pub fn go_image(minor: u32) -> MadeImage {
    let layout = Layout::of(minor).expect("a known version");
    let mappings =
        [(TEXT, 0x2000, false), (CONSTANTS, 0x2000, false), (DATA, 0x2000, true), (HEAP, 0x8000, true)];
    let mut image = MadeImage::new(b"/bin/made", &mappings);
    let version = format!("go1.{minor}.3");
    image.put(DATA + 0x100, b"\xff Go buildinf:\x08\x02");
    image.put(DATA + 0x120, &[version.len() as u8]);
    image.put(DATA + 0x121, version.as_bytes());
    tables(&mut image, &layout);
    // What goroutines wait for: an array of texts.
    for (number, text) in REASONS.iter().enumerate() {
        let at = CONSTANTS + 0x1800 + number as u64 * 32;
        image.put(at, text.as_bytes());
        image.word(DATA + 0x800 + number as u64 * 16, at);
        image.word(DATA + 0x808 + number as u64 * 16, text.len() as u64);
    }
    // The list of all goroutines.
    for (offset, word) in [(0, HEAP + 0x6000), (8, 4), (16, 8)] {
        image.word(DATA + 0x1000 + offset, word);
    }
    for number in 0..4u64 {
        let g = HEAP + number * 0x400;
        image.word(HEAP + 0x6000 + number * 8, g);
        goroutine(&mut image, &layout, number, g);
    }
    // Held, and waited for by one.
    for lock in LOCKS {
        image.half(lock, 1 | 1 << 3);
    }
    image
}

/// `pclntab` and `moduledata`.
fn tables(image: &mut MadeImage, layout: &Layout) {
    let (header, names, pairs, functions, rows) =
        (CONSTANTS, CONSTANTS + 0x40, CONSTANTS + 0x300, CONSTANTS + 0x600, CONSTANTS + 0x1000);
    let (file_numbers, files) = (CONSTANTS + 0x500, CONSTANTS + 0x520);
    let magic: [u8; 8] = if layout.function_table_count == 39 {
        *b"\xf0\xff\xff\xff\0\0\x01\x08"
    } else {
        *b"\xf1\xff\xff\xff\0\0\x01\x08"
    };
    image.put(header, &magic);
    image.word(header + 32, names - header);
    image.put(files, b"/src/made.go\0");
    let mut name_at = 1u64;
    for (number, (name, size)) in FUNCTIONS.iter().enumerate() {
        let number = number as u64;
        image.put(names + name_at, name.as_bytes());
        // Values are changes from -1, twice, for all of the function; then an end.
        let table = 1 + number * 16;
        image.put(pairs + table, &[2 * (size + 1), 0x80, 0x02, 0]);
        image.put(pairs + table + 4, &[2 * (10 + number as u8 + 1), 0x80, 0x02, 0]);
        image.put(pairs + table + 8, &[2, 0x80, 0x02, 0]);
        let at = number * 0x60;
        let entry = (function(number) - TEXT) as u32;
        let fields = [entry, name_at as u32, 0, 0, table as u32, table as u32 + 8, table as u32 + 4, 0, 0];
        for (place, field) in fields.iter().enumerate() {
            image.half(functions + at + place as u64 * 4, *field);
        }
        let last = functions + at + layout.function_table_count;
        image.put(last - 2, &[u8::from(number == 0), 0, 0]);
        image.half(rows + number * 8, entry);
        image.half(rows + number * 8 + 4, at as u32);
        name_at += name.len() as u64 + 1;
    }
    image.half(file_numbers, 0);
    image.half(rows + FUNCTIONS.len() as u64 * 8, (function(FUNCTIONS.len() as u64) - TEXT) as u32);
    image.put(function(3) + CALL, &UNLOCKS);
    let module = DATA + 0x400;
    let fields = [
        (0, header),
        (8, names),
        (32, file_numbers),
        (56, files),
        (80, pairs),
        (104, functions),
        (128, rows),
        (136, FUNCTIONS.len() as u64 + 1),
        (176, TEXT),
        (184, function(FUNCTIONS.len() as u64)),
        (192, DATA),
        (200, DATA + 0x800),
        (208, DATA + 0x800),
        (216, DATA + 0x1000),
        (224, DATA + 0x1000),
        (232, DATA + 0x2000),
        (240, DATA + 0x2000),
        (248, DATA + 0x2000),
        (layout.module_function_data, CONSTANTS),
    ];
    for (offset, word) in fields {
        image.word(module + offset, word);
    }
}

/// The first sleeps in `main`, two transfer, one is a relay.
fn goroutine(image: &mut MadeImage, layout: &Layout, number: u64, g: u64) {
    let stack = HEAP + 0x2000 + number * 0x800;
    let sp = stack + 0x400;
    let (calls, reason): (&[u64], u8) = match number {
        0 => (&[1, 6, 0], 0),
        1 | 2 => (&[1, 2, 3, 0], 5),
        _ => (&[1, 4, 5, 0], 3),
    };
    let mut at = sp;
    for pair in calls.windows(2) {
        let [callee, caller] = [pair[0], pair[1]];
        let size = u64::from(FUNCTIONS[callee as usize].1);
        image.word(at + size, function(caller) + CALL);
        at += size + 8;
        if caller == 3 {
            // The mutex that it has.
            image.word(at + 8, LOCKS[number as usize - 1]);
        }
    }
    let note = HEAP + 0x7400 + number * 0x80;
    let fields = [
        (0, stack),
        (8, stack + 0x800),
        (56, sp),
        (64, function(calls[0]) + CALL),
        (72, g),
        (layout.g_status, 4),
        (layout.g_id, number + 1),
        (layout.g_wait_reason, u64::from(reason)),
        (layout.g_start_pc, function(if number == 0 { 6 } else { calls[calls.len() - 2] })),
        (layout.g_go_pc, function(6) + CALL),
    ];
    for (offset, word) in fields {
        image.word(g + offset, word);
    }
    image.word(note, g);
    match number {
        0 => {}
        1 | 2 => {
            // It waits for the mutex of the other; the note is on its stack.
            image.word(note + 24, LOCKS[2 - number as usize] + 4);
            image.word(sp, note);
        }
        _ => {
            image.word(note + layout.sudog_channel, CHANNEL);
            image.word(g + layout.g_waiting, note);
        }
    }
}
