//! A virtual machine that was found: its version, its settings, and how its references and class pointers are stored.

use biopsy_elf::MappedElf;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::compressed::Form;
use super::layout::Layout;
use super::method::Method;
use super::tables::Tables;
use crate::{Limits, Memory, Module};

/// Program headers of a library; real ones have about a dozen.
const PROGRAM_HEADERS: u64 = 256;
/// Flags that are looked through; version 21 has some 1,400.
const FLAGS: u64 = 8_192;
/// Longest name of a flag; longer texts are none.
const FLAG_NAME: usize = 100;
/// Versions whose layout was held against what they say themselves.
const UNDERSTOOD: [u32; 3] = [17, 21, 25];

/// Offsets of the fields of a class, by name.
pub(super) type FieldOffsets = FxHashMap<Box<str>, u32>;

/// A virtual machine.
pub(super) struct Vm<'m> {
    pub(super) memory: &'m Memory<'m>,
    pub(super) limits: &'m Limits,
    pub(super) layout: Layout,
    pub(super) major: u32,
    pub(super) form: Form,
    pub(super) references: References,
    pub(super) class_pointers: ClassPointers,
    pub(super) fields: RefCell<FxHashMap<u64, Rc<FieldOffsets>>>,
    pub(super) methods: RefCell<FxHashMap<u64, Option<Rc<Method>>>>,
    /// Bytes of names and tables of lines that may still be kept.
    texts_left: Cell<usize>,
}

/// What is not a virtual machine that can be read, and why.
pub(super) struct Refused {
    /// As it says it, where it could be read.
    pub(super) version: Option<String>,
    /// In words.
    pub(super) why: String,
}

/// How a reference in an object is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum References {
    /// In 4 bytes: `base + (value << shift)`.
    Narrow { base: u64, shift: u32 },
    /// In 8 bytes, as it is.
    Wide,
    /// In 8 bytes, with colours of ZGC: other bits than those of `mask` are colours, and `view` makes an address of it.
    Masked { mask: u64, view: u64 },
    /// In 8 bytes, with colours of generational ZGC below.
    Shifted { shift: u32 },
}

impl References {
    /// The address that 8 bytes mean: those of handles are never narrow.
    pub(super) fn wide(self, value: u64) -> u64 {
        match self {
            _ if value == 0 => 0,
            Self::Narrow { .. } | Self::Wide => value,
            Self::Masked { mask, view } => value & mask | view,
            Self::Shifted { shift } => value.checked_shr(shift).unwrap_or(0),
        }
    }
}

/// How an object says its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClassPointers {
    /// In 8 bytes.
    Wide,
    /// In 4 bytes.
    Narrow { base: u64, shift: u32 },
    /// In the upper bits of the first word.
    InMark { base: u64, shift: u32, bits_below: u32 },
}

/// The version that a text begins with: `17.0.15+6-Debian` is 17.
fn major_of(version: &str) -> Option<u32> {
    let end = version.find(|one: char| !one.is_ascii_digit()).unwrap_or(version.len());
    version.get(..end)?.parse().ok()
}

/// A virtual machine whose version is understood, before anything is asked of it.
pub(super) struct Opened<'m> {
    pub(super) tables: Tables,
    pub(super) version: String,
    pub(super) major: u32,
    pub(super) flags: Flags<'m>,
}

impl<'m> Opened<'m> {
    /// That in this module; `None` where there is none, an error where it is not understood.
    pub(super) fn read(memory: &'m Memory<'m>, module: &Module<'_>) -> Option<Result<Self, Refused>> {
        if module.file_name() != b"libjvm.so" {
            return None;
        }
        let refused = |version: Option<&str>, why: String| {
            Some(Err(Refused { version: version.map(str::to_owned), why }))
        };
        let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
        let Ok(elf) = MappedElf::read(&read, module.module.start, PROGRAM_HEADERS) else {
            return refused(None, String::from("the library's header is not in the image"));
        };
        let Some(tables) = Tables::read(memory, &elf, &elf.dynamic().unwrap_or_default()) else {
            return refused(
                None,
                String::from("the tables that the library exports (gHotSpotVMStructs) are not in the image"),
            );
        };
        let text = || {
            let at = memory.pointer(tables.variable("Abstract_VM_Version", "_s_vm_release")?)?;
            memory.c_string(at, FLAG_NAME).filter(|text| text.chars().all(|one| !one.is_control()))
        };
        let Some((version, major)) =
            text().and_then(|text| Some((major_of(&text)?, text))).map(|(a, b)| (b, a))
        else {
            return refused(None, String::from("its version is not in the image"));
        };
        if !UNDERSTOOD.contains(&major) {
            return refused(
                Some(&version),
                format!("the layout of version {major} is not known (17, 21 and 25 are)"),
            );
        }
        let flags = Flags::read(memory, &tables);
        Some(Ok(Self { tables, version, major, flags }))
    }
}

impl<'m> Vm<'m> {
    /// The virtual machine in this module; `None` where there is none, an error where it is not understood.
    pub(super) fn open(
        memory: &'m Memory<'m>,
        module: &Module<'_>,
        limits: &'m Limits,
    ) -> Option<Result<(Self, String), Refused>> {
        let refused = |version: Option<&str>, why: String| {
            Some(Err(Refused { version: version.map(str::to_owned), why }))
        };
        let Opened { tables, version, major, flags } = match Opened::read(memory, module)? {
            Ok(opened) => opened,
            Err(why) => return Some(Err(why)),
        };
        let layout = match Layout::of(&tables) {
            Ok(layout) => layout,
            Err(missing) => return refused(Some(&version), format!("its tables do not have {missing}")),
        };
        let Some(references) = references(memory, &tables, &flags) else {
            return refused(Some(&version), String::from("how it stores references is not understood"));
        };
        let Some(class_pointers) = class_pointers(memory, &tables, &layout, &flags) else {
            return refused(
                Some(&version),
                String::from("how it stores classes of objects is not understood"),
            );
        };
        let version_and_form = (major, Form::of(major));
        let vm = Self::known(memory, limits, layout, version_and_form, references, class_pointers);
        Some(Ok((vm, version)))
    }

    /// One whose layout is known.
    pub(super) fn known(
        memory: &'m Memory<'m>,
        limits: &'m Limits,
        layout: Layout,
        (major, form): (u32, Form),
        references: References,
        class_pointers: ClassPointers,
    ) -> Self {
        Self {
            memory,
            limits,
            layout,
            major,
            form,
            references,
            class_pointers,
            fields: RefCell::default(),
            methods: RefCell::default(),
            texts_left: Cell::new(limits.texts),
        }
    }

    /// Takes so many bytes of what may be kept; `None` when there is no more.
    pub(super) fn keep(&self, bytes: usize) -> Option<()> {
        self.texts_left.set(self.texts_left.get().checked_sub(bytes)?);
        Some(())
    }
}

/// Switches of the virtual machine, by name: addresses of their values.
pub(super) struct Flags<'m> {
    memory: &'m Memory<'m>,
    addresses: FxHashMap<String, u64>,
}

impl<'m> Flags<'m> {
    fn read(memory: &'m Memory<'m>, tables: &Tables) -> Self {
        let mut addresses = FxHashMap::default();
        let place = || {
            let start = memory.pointer(tables.variable("JVMFlag", "flags")?)?;
            let count = memory.u64(tables.variable("JVMFlag", "numFlags")?)?;
            let (name, address) = (tables.field("JVMFlag", "_name")?, tables.field("JVMFlag", "_addr")?);
            Some((start, count.min(FLAGS), tables.size("JVMFlag")?, name, address))
        };
        if let Some((start, count, size, name, address)) = place() {
            for number in 0..count {
                let at = start.wrapping_add(number * size);
                let text =
                    memory.pointer(at.wrapping_add(name)).and_then(|text| memory.c_string(text, FLAG_NAME));
                if let Some((text, value)) = text.zip(memory.u64(at.wrapping_add(address))) {
                    addresses.entry(text).or_insert(value);
                }
            }
        }
        Self { memory, addresses }
    }

    pub(super) fn is_on(&self, name: &str) -> Option<bool> {
        self.memory.u8(*self.addresses.get(name)?).map(|value| value != 0)
    }
}

/// Base and shift of narrow pointers.
fn narrow(memory: &Memory<'_>, tables: &Tables, owner: &str, inner: &str) -> Option<(u64, u32)> {
    let variable = |name: &str| {
        let long = format!("{inner}.{name}");
        tables.variable(owner, &long).or_else(|| tables.variable(owner, name))
    };
    let (base, shift) = (memory.u64(variable("_base")?)?, memory.u32(variable("_shift")?)?);
    (shift <= 10).then_some((base, shift))
}

fn references(memory: &Memory<'_>, tables: &Tables, flags: &Flags<'_>) -> Option<References> {
    // A field of the table of globals holds the address of the variable.
    let global = |owner: &str, name: &str| {
        let instance = memory.pointer(tables.variable(owner, "_instance_p")?)?;
        memory.u64(memory.pointer(instance.wrapping_add(tables.field(owner, name)?))?)
    };
    if flags.is_on("UseZGC") == Some(true) {
        if let Some(shift) = global("ZGlobalsForVMStructs", "_ZPointerLoadShift")
            && flags.is_on("ZGenerational") != Some(false)
        {
            return u32::try_from(shift)
                .ok()
                .filter(|shift| *shift < 64)
                .map(|shift| References::Shifted { shift });
        }
        let one = |letter: char| {
            let owner = format!("{letter}GlobalsForVMStructs");
            let (mask, view) = (format!("_{letter}AddressOffsetMask"), format!("_{letter}AddressGoodMask"));
            Some(References::Masked { mask: global(&owner, &mask)?, view: global(&owner, &view)? })
        };
        // What was Z to version 20 is X in 21.
        return one('X').or_else(|| one('Z'));
    }
    if flags.is_on("UseCompressedOops")? {
        let (base, shift) = narrow(memory, tables, "CompressedOops", "_narrow_oop")?;
        return Some(References::Narrow { base, shift });
    }
    Some(References::Wide)
}

fn class_pointers(
    memory: &Memory<'_>,
    tables: &Tables,
    layout: &Layout,
    flags: &Flags<'_>,
) -> Option<ClassPointers> {
    let in_mark = flags.is_on("UseCompactObjectHeaders") == Some(true);
    if !in_mark && !flags.is_on("UseCompressedClassPointers")? {
        return Some(ClassPointers::Wide);
    }
    let (base, shift) = narrow(memory, tables, "CompressedKlassPointers", "_narrow_klass")?;
    if in_mark {
        let bits_below = u32::try_from(layout.classes.class_shift?).ok()?;
        return Some(ClassPointers::InMark { base, shift, bits_below });
    }
    Some(ClassPointers::Narrow { base, shift })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_the_first_number() {
        assert_eq!(major_of("17.0.15+6-Debian-1deb12u1"), Some(17));
        assert_eq!(major_of("25+36-LTS"), Some(25));
        assert_eq!(major_of("internal"), None);
        assert_eq!(major_of("99999999999999"), None);
    }

    #[test]
    fn colours_are_taken_off_references_and_null_stays_null() {
        let masked = References::Masked { mask: 0xfff, view: 0x10_0000 };
        assert_eq!(masked.wide(0x40_0123), 0x10_0123);
        assert_eq!(masked.wide(0), 0);
        assert_eq!(References::Shifted { shift: 13 }.wide(0x1000 << 13 | 5), 0x1000);
        assert_eq!(References::Narrow { base: 1, shift: 3 }.wide(0x7000), 0x7000);
    }
}
