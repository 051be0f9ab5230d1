//! A made-up process with Node 22 in it: what V8 exports, an isolate, and frames of one function.

use biopsy_image::GeneralRegisters;

use super::MadeImage;
use super::made_module::{Data, FILE, STACK, image};

/// What is exported: the numbers of V8 12.4.
const NUMBERS: &[(&str, u64)] = &[
    ("off_fp_function", 0xffff_fff0),
    ("off_fp_context_or_frame_type", 0xffff_fff8),
    ("class_Map__instance_type__uint16_t", 12),
    ("class_JSFunction__shared__SharedFunctionInfo", 32),
    ("class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_", 16),
    ("class_SharedFunctionInfo__script__Tagged_HeapObject_", 32),
    ("class_Script__name__Object", 16),
    ("class_Script__source__Object", 8),
    ("class_String__length__int32_t", 12),
    ("class_SeqOneByteString__chars__char", 16),
    ("class_SeqTwoByteString__chars__char", 16),
    ("class_ConsString__first__String", 16),
    ("class_ConsString__second__String", 24),
    ("class_SlicedString__parent__String", 16),
    ("class_SlicedString__offset__SMI", 24),
    ("class_ThinString__actual__String", 16),
    ("class_ExternalString__resource__Object", 16),
    ("class_BytecodeArray__data__uintptr_t", 64),
    ("class_FixedArrayBase__length__SMI", 8),
    ("class_FixedArray__data__uintptr_t", 16),
    ("FirstNonstringType", 128),
    ("StringRepresentationMask", 7),
    ("SeqStringTag", 0),
    ("ConsStringTag", 1),
    ("ExternalStringTag", 2),
    ("SlicedStringTag", 3),
    ("ThinStringTag", 5),
    ("StringEncodingMask", 8),
    ("OneByteStringTag", 8),
    ("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", SHARED),
    ("type_Script__SCRIPT_TYPE", SCRIPT),
    ("type_ScopeInfo__SCOPE_INFO_TYPE", 272),
    ("type_BytecodeArray__BYTECODE_ARRAY_TYPE", BYTECODE),
    ("type_ByteArray__BYTE_ARRAY_TYPE", 186),
    ("type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE", BYTES),
    ("frametype_EntryFrame", 1),
    ("frametype_ConstructEntryFrame", 2),
    ("frametype_ExitFrame", 3),
    ("frametype_BuiltinExitFrame", 26),
];
const SHARED: u64 = 274;
const SCRIPT: u64 = 167;
const BYTECODE: u64 = 205;
const BYTES: u64 = 212;
const ONE_BYTE: u64 = 8;
const SMALL: u32 = 32;
/// Bytes of a frame here.
const FRAME: u64 = 64;

/// An object of a type, as a tagged word; its words after the first.
fn object(data: &mut Data, kind: u64, words: &[u64]) -> u64 {
    let map = data.words(&[0, kind << 32]) + 1;
    let all: Vec<u64> = std::iter::once(map).chain(words.iter().copied()).collect();
    data.words(&all) + 1
}

fn string(data: &mut Data, text: &str) -> u64 {
    let at = object(data, ONE_BYTE, &[(text.len() as u64) << 32]);
    data.text(text.as_bytes());
    at
}

/// A process with so many frames on its stack below a call of native code, and the frame pointer of the third.
#[must_use]
pub fn node_image(frames: u64) -> (MadeImage, u64) {
    let mut data = Data::default();
    let (name, script_name) = (string(&mut data, "work"), string(&mut data, "/srv/main.js"));
    let source = string(&mut data, "function work() {\n  wait();\n}\n");
    let script = object(&mut data, SCRIPT, &[source, script_name]);
    let shared = object(&mut data, SHARED, &[0, name, 0, script]);
    let function = object(&mut data, 1_000, &[0, 0, 0, shared]);
    // The instruction at 4 is of character 20.
    let table = object(&mut data, BYTES, &[2 << SMALL]);
    data.text(&[10, 84]);
    let bytecode = object(&mut data, BYTECODE, &[0, 0, table, 0, 0, 0, 0, 0]);

    let exit = STACK + FRAME;
    let isolate = data.words(&[0, 0, 0, exit]);
    data.set(isolate + 8, isolate);
    let slot = data.words(&[isolate, 0]);
    let words: Vec<(String, u64)> = NUMBERS
        .iter()
        .map(|(name, value)| (format!("v8dbg_{name}"), *value))
        .chain(
            [("major", 12), ("minor", 4), ("build", 254), ("patch", 21)]
                .map(|(name, value)| (format!("_ZN2v88internal7Version{}{name}_E", name.len() + 1), value)),
        )
        .collect();
    let mut symbols: Vec<(String, u64)> =
        words.iter().map(|(name, value)| (name.clone(), data.words(&[*value]))).collect();
    // The first 8 bytes of what each thread has of the file.
    symbols.push(("_ZN2v88internal18g_current_isolate_E".to_owned(), FILE));
    let mut image = image(b"/usr/bin/node", &symbols, &data, (frames + 4) * FRAME);
    image.word(exit - 8, 3 << 1);
    image.word(exit, exit + FRAME);
    for number in 1..=frames {
        let fp = exit + number * FRAME;
        image.word(fp, fp + FRAME);
        image.word(fp - 8, function);
        image.word(fp - 16, function);
        image.word(fp - 32, bytecode);
        image.word(fp - 40, (4 + 63) << SMALL);
    }
    image.word(exit + (frames + 1) * FRAME - 8, 1 << 1);
    image.thread(7, GeneralRegisters { rsp: STACK, fs_base: slot + 8, ..GeneralRegisters::default() });
    (image, exit + 3 * FRAME)
}
