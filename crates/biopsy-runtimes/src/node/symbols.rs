//! What V8 exports about itself: variables whose names begin with `v8dbg_`, made for debuggers after death.
//!
//! Offsets of fields, tags of strings, types of frames. The name of a field ends with its type, which changes between versions,
//! so that a field is looked for under all the names that it had.

use biopsy_elf::{Dynamic, MappedElf};

use crate::Memory;

/// Program headers of an executable; real ones have about a dozen.
pub(super) const PROGRAM_HEADERS: u64 = 256;
/// Largest offset of a field in an object; classes of V8 have some dozens of fields.
const OFFSET: i32 = 4_096;

/// Constants of V8, by name.
pub(super) struct Symbols<'a> {
    pub(super) memory: &'a Memory<'a>,
    pub(super) elf: &'a MappedElf<'a>,
    pub(super) dynamic: &'a Dynamic,
}

impl Symbols<'_> {
    /// The value of `v8dbg_` and this name.
    pub(super) fn number(&self, name: &str) -> Option<i32> {
        let (address, _) = self.elf.symbol(self.dynamic, format!("v8dbg_{name}").as_bytes())?;
        self.memory.i32(address)
    }

    /// Offset of a field, under the first name that is there.
    pub(super) fn field(&self, names: &[&str]) -> Option<u64> {
        let found = names.iter().find_map(|name| self.number(&format!("class_{name}")))?;
        (0..OFFSET).contains(&found).then_some(found.unsigned_abs().into())
    }

    pub(super) fn kind(&self, name: &str) -> Option<u16> {
        u16::try_from(self.number(name)?).ok()
    }
}

/// Offsets in bytes from the beginning of an object, types and tags.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) map_type: u64,
    pub(super) function_shared: u64,
    pub(super) shared_name: u64,
    pub(super) shared_script: u64,
    /// What a function runs; `None` where it is not exported.
    pub(super) shared_data: Option<u64>,
    pub(super) script_name: u64,
    pub(super) script_source: u64,
    pub(super) string_length: u64,
    pub(super) one_byte: u64,
    pub(super) two_bytes: u64,
    pub(super) cons_first: u64,
    pub(super) cons_second: u64,
    pub(super) sliced_parent: u64,
    pub(super) sliced_offset: u64,
    pub(super) thin_actual: u64,
    pub(super) external_resource: u64,
    pub(super) bytecode_data: u64,
    /// Scopes say first where they are written, and byte code has a wrapper before its tables (12.x).
    pub(super) places_first: bool,
    pub(super) array_length: u64,
    pub(super) array_data: u64,
    /// Compiled code; `None` in versions in which it is not known.
    pub(super) code: Option<CodeLayout>,
    pub(super) strings: Strings,
    pub(super) types: Types,
    pub(super) frames: Frames,
}

/// Bits of the type of a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strings {
    pub(super) first_other: u16,
    pub(super) representation: u16,
    pub(super) sequential: u16,
    pub(super) cons: u16,
    pub(super) external: u16,
    pub(super) sliced: u16,
    pub(super) thin: u16,
    pub(super) encoding: u16,
    pub(super) one_byte: u16,
}

/// Types of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    pub(super) shared: u16,
    pub(super) script: u16,
    pub(super) scope: u16,
    pub(super) bytecode: u16,
    /// Calls of async functions, and promises: `None` where they are not exported.
    pub(super) async_function: Option<u16>,
    pub(super) promise: Option<u16>,
    /// Of tables of bytes, under both names.
    pub(super) bytes: [u16; 2],
}

/// Markers of frames that are no functions.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    pub(super) entry: [u64; 2],
    pub(super) exits: Vec<u64>,
    /// Those of `exits` that are functions of JavaScript, made of native code.
    pub(super) builtins: Vec<u64>,
    /// Of compiled regular expressions, where they say so.
    pub(super) regular_expression: Option<u64>,
    /// The largest number of a type of frames.
    pub(super) most: u64,
}

/// Versions of V8 whose frames were held against what the program says: Node 18, 20 and 22.
const UNDERSTOOD: [(u32, u32, &str); 3] = [(10, 2, "18"), (11, 3, "20"), (12, 4, "22")];

/// The version of V8: major, minor, build, patch.
pub(super) fn version(symbols: &Symbols<'_>) -> Option<[u32; 4]> {
    let number = |name: &str| {
        let name = format!("_ZN2v88internal7Version{}{name}_E", name.len() + 1);
        symbols.memory.u32(symbols.elf.symbol(symbols.dynamic, name.as_bytes())?.0)
    };
    Some([number("major")?, number("minor")?, number("build")?, number("patch")?])
}

/// The major version of Node with this V8, where it is one that is understood.
pub(super) fn node_of(v8: [u32; 4]) -> Option<&'static str> {
    UNDERSTOOD.iter().find(|(major, minor, _)| v8[..2] == [*major, *minor]).map(|(_, _, node)| *node)
}

/// Whether the module has V8 and says so.
pub(super) fn is_v8(symbols: &Symbols<'_>) -> bool {
    symbols.number("off_fp_function").is_some()
}

impl Layout {
    /// From the symbols; the error is what is missing.
    pub(super) fn of(symbols: &Symbols<'_>) -> Result<Self, String> {
        let field = |names: &[&str]| symbols.field(names).ok_or_else(|| format!("v8dbg_class_{}", names[0]));
        let kind = |name: &str| symbols.kind(name).ok_or_else(|| format!("v8dbg_{name}"));
        let marker = |name: &str| symbols.kind(&format!("frametype_{name}Frame")).map(u64::from);
        let all = |names: &[&str]| -> Vec<u64> { names.iter().filter_map(|name| marker(name)).collect() };
        if symbols.number("off_fp_function") != Some(-16)
            || symbols.number("off_fp_context_or_frame_type") != Some(-8)
        {
            return Err(String::from("frames as they are known (v8dbg_off_fp_function)"));
        }
        let entry = |name: &str| marker(name).ok_or_else(|| format!("v8dbg_frametype_{name}Frame"));
        let bytes = kind("type_ByteArray__BYTE_ARRAY_TYPE")?;
        let trusted = symbols.kind("type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE");
        Ok(Self {
            map_type: field(&["Map__instance_type__uint16_t"])?,
            function_shared: field(&["JSFunction__shared__SharedFunctionInfo"])?,
            shared_name: field(&[
                "SharedFunctionInfo__name_or_scope_info__Object",
                "SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
            ])?,
            shared_script: field(&[
                "SharedFunctionInfo__script_or_debug_info__HeapObject",
                "SharedFunctionInfo__script__Tagged_HeapObject_",
                "SharedFunctionInfo__raw_script__Tagged_Object_",
            ])?,
            shared_data: symbols.field(&[
                "SharedFunctionInfo__function_data__Object",
                "SharedFunctionInfo__function_data__Tagged_Object_",
            ]),
            script_name: field(&["Script__name__Object"])?,
            script_source: field(&["Script__source__Object"])?,
            string_length: field(&["String__length__int32_t"])?,
            one_byte: field(&["SeqOneByteString__chars__char"])?,
            two_bytes: field(&["SeqTwoByteString__chars__char"])?,
            cons_first: field(&["ConsString__first__String"])?,
            cons_second: field(&["ConsString__second__String"])?,
            sliced_parent: field(&["SlicedString__parent__String"])?,
            sliced_offset: field(&["SlicedString__offset__SMI"])?,
            thin_actual: field(&["ThinString__actual__String"])?,
            external_resource: field(&["ExternalString__resource__Object"])?,
            bytecode_data: field(&["BytecodeArray__data__uintptr_t"])?,
            places_first: trusted.is_some(),
            array_length: field(&["FixedArrayBase__length__SMI"])?,
            array_data: field(&["FixedArray__data__uintptr_t"])?,
            code: version(symbols).and_then(|v8| CodeLayout::of(symbols, v8)),
            strings: Strings {
                first_other: kind("FirstNonstringType")?,
                representation: kind("StringRepresentationMask")?,
                sequential: kind("SeqStringTag")?,
                cons: kind("ConsStringTag")?,
                external: kind("ExternalStringTag")?,
                sliced: kind("SlicedStringTag")?,
                thin: kind("ThinStringTag")?,
                encoding: kind("StringEncodingMask")?,
                one_byte: kind("OneByteStringTag")?,
            },
            types: Types {
                shared: kind("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
                script: kind("type_Script__SCRIPT_TYPE")?,
                scope: kind("type_ScopeInfo__SCOPE_INFO_TYPE")?,
                bytecode: kind("type_BytecodeArray__BYTECODE_ARRAY_TYPE")?,
                async_function: symbols.kind("type_JSAsyncFunctionObject__JS_ASYNC_FUNCTION_OBJECT_TYPE"),
                promise: symbols.kind("type_JSPromise__JS_PROMISE_TYPE"),
                bytes: [bytes, trusted.unwrap_or(bytes)],
            },
            frames: Frames {
                entry: [entry("Entry")?, entry("ConstructEntry")?],
                exits: all(&["Exit", "BuiltinExit", "ApiCallbackExit", "ApiAccessorExit"]),
                builtins: all(&["BuiltinExit"]),
                regular_expression: marker("Irregexp"),
                most: 64,
            },
        })
    }
}

/// Where compiled code says what it is made of: offsets in bytes, places in arrays.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeLayout {
    /// Type of the object.
    pub(super) kind: u16,
    /// In a function.
    pub(super) of_function: u64,
    pub(super) deoptimization: u64,
    pub(super) positions: u64,
    pub(super) start: u64,
    pub(super) flags: u64,
    pub(super) size: u64,
    /// In deoptimization data.
    pub(super) literals: u64,
    pub(super) inlined: u64,
    /// Bits of the flags that say who made it, and the last compiler that puts nothing into anything.
    pub(super) kind_mask: u32,
    pub(super) baseline: u32,
}

impl CodeLayout {
    /// What is not exported holds for V8 11.3 alone, in which it was looked at.
    pub(super) fn of(symbols: &Symbols<'_>, v8: [u32; 4]) -> Option<Self> {
        let place = |name: &str| u64::try_from(symbols.number(name)?).ok();
        let bits = |name: &str| u32::try_from(symbols.number(name)?).ok();
        let of_function = symbols.field(&["JSFunction__raw_feedback_cell__FeedbackCell"])?.checked_add(8)?;
        (v8[..2] == [11, 3]).then_some(Self {
            kind: symbols.kind("type_Code__CODE_TYPE")?,
            of_function,
            deoptimization: symbols.field(&["Code__deoptimization_data__FixedArray"])?,
            positions: symbols.field(&["Code__source_position_table__ByteArray"])?,
            start: 40,
            flags: 48,
            size: 56,
            literals: place("DeoptimizationDataLiteralArrayIndex")?,
            inlined: place("DeoptimizationDataInliningPositionsIndex")?,
            kind_mask: bits("CodeKindFieldMask")?,
            baseline: bits("CodeKindBaseline")?,
        })
    }
}
