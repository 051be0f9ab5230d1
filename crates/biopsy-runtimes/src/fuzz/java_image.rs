//! A made-up process with HotSpot 17 in it: its tables, a thread, and frames of the interpreter.

use biopsy_image::GeneralRegisters;

use super::MadeImage;
use super::java_heap::{self, JavaHeapPlaces};
use super::made_module::{Data, STACK, image};

/// Types, the types above them, and their fields; a field is at 8 times its index, and the type as large as all. Names that
/// begin with a dash are just room.
const TYPES: &[(&str, Option<&str>, &[&str])] = &[
    ("ThreadsList", None, &["_length", "_threads"]),
    (
        "JavaThread",
        None,
        &[
            "_threadObj",
            "_anchor",
            "-",
            "-",
            "_osthread",
            "_stack_base",
            "_stack_size",
            "_current_pending_monitor",
            "_current_waiting_monitor",
        ],
    ),
    ("OSThread", None, &["_thread_id"]),
    ("JavaFrameAnchor", None, &["_last_Java_sp", "_last_Java_fp", "_last_Java_pc"]),
    ("JavaCallWrapper", None, &["_anchor"]),
    ("Method", None, &["_constMethod", "_access_flags"]),
    ("ConstMethod", None, &["_constants", "_flags", "_code_size", "_name_index"]),
    ("ConstantPool", None, &["_length", "_pool_holder", "_source_file_name_index"]),
    ("Symbol", None, &["_length", "_body"]),
    ("Array<u1>", None, &["_length", "_data"]),
    ("Array<u2>", None, &["_length", "_data"]),
    ("oopDesc", None, &["_mark", "_metadata._klass", "_metadata._compressed_klass"]),
    ("Klass", None, &["_name", "_super"]),
    ("InstanceKlass", Some("Klass"), &["-", "-", "_constants", "_fields", "_java_fields_count"]),
    ("ObjectMonitor", None, &["_object", "_owner"]),
    ("GrowableArrayBase", None, &["_len"]),
    ("GrowableArray<int>", None, &["-", "_data"]),
    ("CodeHeap", None, &["_memory", "-", "_segmap", "-", "_log2_segment_size"]),
    ("VirtualSpace", None, &["_low", "_high"]),
    ("StubQueue", None, &["_stub_buffer", "_buffer_limit"]),
    ("CodeBlob", None, &["_name", "_frame_size", "_frame_complete_offset", "_code_begin"]),
    (
        "nmethod",
        Some("CodeBlob"),
        &[
            "-",
            "-",
            "-",
            "-",
            "_method",
            "_orig_pc_offset",
            "_deopt_handler_begin",
            "_scopes_data_begin",
            "_scopes_pcs_offset",
            "_dependencies_offset",
            "_metadata_offset",
        ],
    ),
    ("PcDesc", None, &["_pc_offset", "_scope_decode_offset"]),
    ("HeapBlock", None, &["-", "-"]),
    ("JVMFlag", None, &["_name", "_addr"]),
];
/// Bytes of a frame of the interpreter here.
const FRAME: u64 = 96;
/// Where the interpreter's code would be.
const INTERPRETER: u64 = 0x5000_0000;
/// A compiled method that is called by the first frame.
const CODE: u64 = 0x5100_0000;

/// The thread.
const TID: u32 = 7;

/// Where things are that tests change.
#[derive(Clone, Copy, Debug, Default)]
pub struct JavaPlaces {
    /// How many threads the list says to have.
    pub thread_count: u64,
    /// The name of the class, its length first.
    pub class_name: u64,
    /// The table of fields: rows of 40 bytes that begin with the address of a name.
    pub fields: u64,
    /// Frame pointer of the third frame; frames are 96 bytes, and those above have higher addresses.
    pub third_frame: u64,
    /// Where the thread left Java: stack pointer, frame pointer, address. All zero while it runs Java.
    pub anchor: u64,
    /// Places of the heap.
    pub heap: JavaHeapPlaces,
}

/// A process with so many frames on its stack, and where things are in it.
#[must_use]
pub fn java_image(frames: u64) -> (MadeImage, JavaPlaces) {
    let mut data = Data::default();
    let mut places = JavaPlaces { third_frame: STACK + 3 * FRAME, ..JavaPlaces::default() };
    let top = STACK + (frames + 2) * FRAME;
    let variables = objects(&mut data, &mut places, top);
    places.fields = fields(&mut data, &variables);
    let flag = data.text(b"ConstMethod::_has_linenumber_table");
    let exports = [
        ("gHotSpotVMStructs", places.fields),
        ("gHotSpotVMStructEntryTypeNameOffset", 0),
        ("gHotSpotVMStructEntryFieldNameOffset", 8),
        ("gHotSpotVMStructEntryIsStaticOffset", 16),
        ("gHotSpotVMStructEntryOffsetOffset", 24),
        ("gHotSpotVMStructEntryAddressOffset", 32),
        ("gHotSpotVMStructEntryArrayStride", 40),
        ("gHotSpotVMTypes", types(&mut data)),
        ("gHotSpotVMTypeEntryTypeNameOffset", 0),
        ("gHotSpotVMTypeEntrySuperclassNameOffset", 8),
        ("gHotSpotVMTypeEntrySizeOffset", 16),
        ("gHotSpotVMTypeEntryArrayStride", 24),
        ("gHotSpotVMIntConstants", data.words(&[flag, 1, 0, 0])),
        ("gHotSpotVMIntConstantEntryNameOffset", 0),
        ("gHotSpotVMIntConstantEntryValueOffset", 8),
        ("gHotSpotVMIntConstantEntryArrayStride", 16),
    ];
    let symbols: Vec<(String, u64)> =
        exports.iter().map(|(name, value)| ((*name).to_owned(), data.words(&[*value]))).collect();
    let mut image = image(b"/opt/jdk/lib/server/libjvm.so", &symbols, &data, (frames + 3) * FRAME);
    image.thread(TID, GeneralRegisters { rsp: STACK, ..GeneralRegisters::default() });
    let method = variables.last().map_or(0, |(.., method)| *method);
    for number in 1..=frames {
        let fp = STACK + number * FRAME;
        image.word(fp - 24, method);
        image.word(fp - 8, fp + 16);
        // The last one returns to nowhere.
        image.word(fp, fp + FRAME);
        image.word(fp + 8, if number == frames { 0 } else { INTERPRETER + 8 });
    }
    (image, places)
}

fn fields(data: &mut Data, variables: &[(&str, &str, u64)]) -> u64 {
    let mut rows = Vec::new();
    for (owner, _, fields) in TYPES.iter().chain(java_heap::TYPES) {
        for (index, field) in fields.iter().enumerate().filter(|(_, field)| **field != "-") {
            rows.push([data.text(owner.as_bytes()), data.text(field.as_bytes()), 0, 8 * index as u64, 0]);
        }
    }
    for (owner, name, address) in variables.iter().filter(|(owner, ..)| !owner.is_empty()) {
        rows.push([data.text(owner.as_bytes()), data.text(name.as_bytes()), 1, 0, *address]);
    }
    rows.push([0; 5]);
    data.words(rows.as_flattened())
}

fn types(data: &mut Data) -> u64 {
    let mut rows = Vec::new();
    for (name, parent, fields) in TYPES.iter().chain(java_heap::TYPES) {
        let parent = parent.map_or(0, |parent| data.text(parent.as_bytes()));
        rows.push([data.text(name.as_bytes()), parent, 8 * fields.len() as u64]);
    }
    rows.push([0; 3]);
    data.words(rows.as_flattened())
}

fn symbol(data: &mut Data, text: &str) -> u64 {
    let at = data.words(&[text.len() as u64]);
    data.text(text.as_bytes());
    at
}

/// Everything that the variables of the runtime lead to. The last row, without an owner, is the method.
fn objects(data: &mut Data, places: &mut JavaPlaces, top: u64) -> Vec<(&'static str, &'static str, u64)> {
    let (class_name, method_name, file) =
        (symbol(data, "Main"), symbol(data, "work"), symbol(data, "Main.java"));
    places.class_name = class_name;
    let class = data.words(&[class_name, 0, 0, 0, 0]);
    // Length, holder, number of the file's name; then the constants, of which the first is none.
    let pool = data.words(&[4, class, 3, 0, method_name, class_name, file]);
    data.set(class + 16, pool);
    // Constants, flags (lines), bytes of code, name; 8 bytes of code; line 5 from the first, 6 from the fifth.
    let constant = data.words(&[pool, 1, 8, 1, 0, u64::from_le_bytes([5, 0x21, 0, 0, 0, 0, 0, 0])]);
    let method = data.words(&[constant, 0]);
    let code = compiled(data, method);
    // A monitor that the thread itself has, of an object of the class.
    let object = data.words(&[0, class]);
    let handle = data.words(&[object]);
    let monitor = data.words(&[handle, 0]);
    let os_thread = data.words(&[TID.into()]);
    let sp = STACK + 8;
    let thread =
        data.words(&[0, sp, STACK + FRAME, INTERPRETER + 8, os_thread, top, top - STACK, monitor, 0]);
    places.anchor = thread + 8;
    data.set(monitor + 8, thread);
    let array = data.words(&[thread]);
    places.thread_count = data.words(&[1, array]);
    let list = data.words(&[places.thread_count]);
    let version = data.text(b"17.0.99+1");
    let version = data.words(&[version]);
    let on = data.words(&[0]);
    let (oops, classes) = (data.text(b"UseCompressedOops"), data.text(b"UseCompressedClassPointers"));
    let mut flags = vec![oops, on, classes, on];
    let (mut variables, heap) = java_heap::heap(data, &mut flags);
    places.heap = heap;
    let count = data.words(&[flags.len() as u64 / 2]);
    let flags = data.words(&flags);
    let flags = data.words(&[flags]);
    let queue = data.words(&[INTERPRETER, 0x1000]);
    let interpreter = data.words(&[queue]);
    let stub = data.words(&[0x5200_0000]);
    variables.extend([
        ("ThreadsSMRSupport", "_java_thread_list", list),
        ("Abstract_VM_Version", "_s_vm_release", version),
        ("JVMFlag", "flags", flags),
        ("JVMFlag", "numFlags", count),
        ("CodeCache", "_heaps", code),
        ("AbstractInterpreter", "_code", interpreter),
        ("StubRoutines", "_call_stub_return_address", stub),
        ("", "", method),
    ]);
    variables
}

/// A code cache with one compiled method of a frame of 32 bytes, whose memory is in the data; gives the variable.
fn compiled(data: &mut Data, method: u64) -> u64 {
    let name = data.text(b"nmethod");
    // Method 1 at its byte code 4, which a call of it at 0 is put into.
    let scopes = data.text(&[0, 0, 1, 1, 1, 1, 5]);
    let metadata = data.words(&[method]);
    let pcs = data.words(&[u64::from(u32::MAX), 1 << 32 | 0x10, i64::MAX.cast_unsigned()]);
    let start = data.next() + 16;
    let offset = |at: u64| u64::from((at as u32).wrapping_sub(start as u32));
    data.words(&[
        0,
        0,
        name,
        4,
        0,
        CODE,
        method,
        0,
        0,
        scopes,
        offset(pcs),
        offset(pcs + 24),
        offset(metadata),
    ]);
    let segments = data.words(&[0]);
    let heap = data.words(&[start - 16, start - 16 + 4096, segments, segments + 8, 12]);
    let array = data.words(&[heap]);
    let list = data.words(&[1, array]);
    data.words(&[list])
}
