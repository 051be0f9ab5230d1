//! Objects of Java: their classes, fields, references and strings.

use std::rc::Rc;

use super::compressed::Packed;
use super::layout::Fields;
use super::vm::{ClassPointers, FieldOffsets, References, Vm};

/// Classes above a class that are looked at.
const PARENTS: usize = 64;
/// Fields of a class; a class file cannot have more.
const FIELDS: usize = 65_535;
/// Bytes of a field in the table of older versions, and where its parts are.
const ROW: usize = 12;
/// Bytes of a field in the stream: five numbers and up to three more.
const STREAM_ROW: usize = 40;
/// Fields of the stream that are followed by one number more if the bit is set: an initial value, a generic signature, a group.
const WITH_MORE: [u32; 3] = [0, 2, 4];
const ACC_STATIC: u32 = 0x8;
/// Constants of a class that are looked at.
const CONSTANTS: u16 = 10_000;
/// Classes whose fields are kept.
const KNOWN: usize = 10_000;

impl Vm<'_> {
    /// The reference in a handle of the runtime.
    pub(super) fn handle(&self, slot: u64) -> Option<u64> {
        let handle = self.memory.pointer(slot)?;
        Some(self.references.wide(self.memory.u64(handle)?)).filter(|object| *object != 0)
    }

    /// The reference in a field of an object.
    pub(super) fn reference_at(&self, address: u64) -> Option<u64> {
        let object = match self.references {
            References::Narrow { base, shift } => match self.memory.u32(address)? {
                0 => 0,
                value => base.wrapping_add(u64::from(value) << shift),
            },
            References::Wide | References::Masked { .. } | References::Shifted { .. } => {
                self.references.wide(self.memory.u64(address)?)
            }
        };
        (object != 0).then_some(object)
    }

    /// The class of an object.
    pub(super) fn class_of(&self, object: u64) -> Option<u64> {
        let classes = &self.layout.classes;
        let (base, shift, value) = match self.class_pointers {
            ClassPointers::Wide => return self.memory.pointer(object.checked_add(classes.class)?),
            ClassPointers::Narrow { base, shift } => {
                (base, shift, u64::from(self.memory.u32(object.checked_add(classes.compressed_class)?)?))
            }
            ClassPointers::InMark { base, shift, bits_below } => {
                let mark = self.memory.u64(object.checked_add(classes.mark)?)?;
                (base, shift, mark.checked_shr(bits_below)?)
            }
        };
        (value != 0).then(|| base.wrapping_add(value << shift))
    }

    /// A name of the runtime.
    pub(super) fn symbol(&self, symbol: u64) -> Option<String> {
        let methods = &self.layout.methods;
        let length = usize::from(self.memory.u16(symbol.checked_add(methods.symbol_length)?)?);
        if length == 0 || length > self.limits.text {
            return None;
        }
        let text = self.memory.text(symbol.checked_add(methods.symbol_body)?, length)?;
        text.chars().all(|one| !one.is_control()).then_some(text)
    }

    /// A name in the constants of a class.
    pub(super) fn constant_name(&self, pool: u64, index: u16) -> Option<String> {
        let length = self.memory.u32(pool.checked_add(self.layout.methods.pool_length)?)?;
        if index == 0 || u32::from(index) >= length {
            return None;
        }
        let slot = pool.checked_add(self.layout.methods.pool_size + 8 * u64::from(index))?;
        // The lowest bit says that something else is there yet, or was.
        self.symbol(self.memory.pointer(slot)? & !1)
    }

    /// Whether the constants of a class have this name.
    pub(super) fn mentions(&self, class: u64, name: &str) -> bool {
        let pool = class.checked_add(self.layout.classes.pool).and_then(|at| self.memory.pointer(at));
        let Some(pool) = pool else { return false };
        let length = pool.checked_add(self.layout.methods.pool_length).and_then(|at| self.memory.u32(at));
        let most = u16::try_from(length.unwrap_or(0)).unwrap_or(CONSTANTS).min(CONSTANTS);
        (1..most).any(|index| self.constant_name(pool, index).as_deref() == Some(name))
    }

    /// `java.util.concurrent.locks.ReentrantLock$NonfairSync`.
    pub(super) fn class_name(&self, class: u64) -> Option<String> {
        let name = self.symbol(self.memory.pointer(class.checked_add(self.layout.classes.name)?)?)?;
        Some(spelled(&name))
    }

    /// Offsets of the fields that objects of this very class have.
    fn fields_of(&self, class: u64) -> Rc<FieldOffsets> {
        if let Some(known) = self.fields.borrow().get(&class) {
            return Rc::clone(known);
        }
        let read = Rc::new(self.read_fields(class).unwrap_or_default());
        let mut known = self.fields.borrow_mut();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(class, Rc::clone(&read));
        read
    }

    fn read_fields(&self, class: u64) -> Option<FieldOffsets> {
        let memory = self.memory;
        let pool = memory.pointer(class.checked_add(self.layout.classes.pool)?)?;
        let mut fields = FieldOffsets::default();
        match self.layout.classes.fields {
            Fields::Table { array, count, data } => {
                let array = memory.pointer(class.checked_add(array)?)?;
                let count = usize::from(memory.u16(class.checked_add(count)?)?);
                let bytes = memory.bytes(array.checked_add(data)?, count.min(FIELDS) * ROW);
                for row in bytes.as_chunks::<ROW>().0 {
                    let number = |at: usize| u16::from_le_bytes([row[at], row[at + 1]]);
                    let (access, name, low, high) = (number(0), number(2), number(8), number(10));
                    if u32::from(access) & ACC_STATIC == 0
                        && let Some(name) = self.constant_name(pool, name)
                    {
                        self.keep(name.len())?;
                        fields.insert(name.into(), (u32::from(high) << 16 | u32::from(low)) >> 2);
                    }
                }
            }
            Fields::Stream { array } => {
                let array = memory.pointer(class.checked_add(array)?)?;
                let length = (memory.u32(array)? as usize).min(FIELDS * STREAM_ROW);
                let bytes = memory.bytes(array.checked_add(self.layout.classes.bytes_data)?, length);
                let mut packed = Packed::new(&bytes, self.form);
                let count = packed.number()?.min(FIELDS as u32);
                let _injected = packed.number()?;
                for _ in 0..count {
                    let Some([name, _, offset, access, flags]) = numbers(&mut packed) else { break };
                    for bit in WITH_MORE {
                        if flags >> bit & 1 != 0 {
                            packed.number()?;
                        }
                    }
                    if access & ACC_STATIC == 0
                        && let Some(name) =
                            u16::try_from(name).ok().and_then(|name| self.constant_name(pool, name))
                    {
                        self.keep(name.len())?;
                        fields.insert(name.into(), offset);
                    }
                }
            }
        }
        Some(fields)
    }

    /// Address of a field of an object, by its name.
    pub(super) fn field(&self, object: u64, name: &str) -> Option<u64> {
        let mut class = self.class_of(object)?;
        for _ in 0..PARENTS {
            if let Some(offset) = self.fields_of(class).get(name) {
                return object.checked_add(u64::from(*offset));
            }
            class = self.memory.pointer(class.checked_add(self.layout.classes.parent)?)?;
        }
        None
    }

    /// The object that a field refers to.
    pub(super) fn reference(&self, object: u64, name: &str) -> Option<u64> {
        self.reference_at(self.field(object, name)?)
    }

    /// An `int` of an object.
    pub(super) fn int(&self, object: u64, name: &str) -> Option<i32> {
        self.memory.i32(self.field(object, name)?)
    }

    /// A `long` of an object.
    pub(super) fn long(&self, object: u64, name: &str) -> Option<u64> {
        self.memory.u64(self.field(object, name)?)
    }

    /// The text of a `java.lang.String`, as far as the limit goes.
    pub(super) fn string(&self, object: u64) -> Option<String> {
        let value = self.reference(object, "value")?;
        let two_bytes = self.memory.u8(self.field(object, "coder")?)? != 0;
        // An array's length follows its header, its first byte follows the length; without compressed class pointers
        // versions before 23 leave a gap of 4 bytes.
        let (length, data) = match self.class_pointers {
            ClassPointers::InMark { .. } => (8, 12),
            ClassPointers::Narrow { .. } => (12, 16),
            ClassPointers::Wide if self.major < 23 => (16, 24),
            ClassPointers::Wide => (16, 20),
        };
        let length = usize::try_from(self.memory.i32(value.checked_add(length)?)?).ok()?;
        let length = length.min(self.limits.text * if two_bytes { 2 } else { 1 });
        let bytes = self.memory.bytes(value.checked_add(data)?, length);
        if two_bytes {
            let units = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
            return Some(
                char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
            );
        }
        Some(bytes.iter().map(|byte| char::from(*byte)).collect())
    }
}

fn numbers<const N: usize>(packed: &mut Packed<'_>) -> Option<[u32; N]> {
    let mut all = [0; N];
    for one in &mut all {
        *one = packed.number()?;
    }
    Some(all)
}

/// As Java writes a name; hidden classes have a slash before their number (`Main$$Lambda/0x0000000800c03000`).
fn spelled(name: &str) -> String {
    let name = name.replace('/', ".");
    match name.rsplit_once("+0x") {
        Some((class, number)) => format!("{class}/0x{number}"),
        None => name,
    }
}
