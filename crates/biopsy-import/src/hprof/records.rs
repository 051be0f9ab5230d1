//! The records of a heap dump, one after the other, for whoever listens.

use std::io::{BufRead, Seek};

use biopsy_dotnet::graph::RootKind;
use biopsy_model::Avma;

use super::stream::{HprofError, Stream};
use super::types::FieldType;

/// How such a file begins; a version and a zero follow.
pub(crate) const MAGIC: &[u8] = b"JAVA PROFILE 1.0.";
/// Longest line at the beginning.
const MOST_VERSION: usize = 32;
/// Longest name that is believed.
const MOST_NAME: u32 = 1 << 20;

/// Listens to records. What is not of interest is not answered to.
pub(super) trait Listener {
    /// A name, by its number.
    fn name(&mut self, _id: u64, _text: &[u8]) -> Result<(), HprofError> {
        Ok(())
    }
    /// A class was loaded: its object, and the number of its name.
    fn loaded(&mut self, _class: u64, _name: u64) -> Result<(), HprofError> {
        Ok(())
    }
    fn root(&mut self, _kind: RootKind, _object: Avma) -> Result<(), HprofError> {
        Ok(())
    }
    fn class(&mut self, class: ClassRecord) -> Result<(), HprofError>;
    /// `fields`: the values of all fields, those of the class itself first.
    fn instance(&mut self, object: Avma, class: u64, fields: &[u8]) -> Result<(), HprofError>;
    fn references(&mut self, array: Avma, class: u64, elements: &[u8]) -> Result<(), HprofError>;
    fn numbers(&mut self, array: Avma, length: u32, element: FieldType) -> Result<(), HprofError>;
    /// The file's identifiers have eight bytes, or four.
    fn wide(&mut self, wide: bool);
}

/// What is said of a class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ClassRecord {
    pub(super) object: u64,
    pub(super) parent: u64,
    /// What its static fields refer to, and its loader.
    pub(super) holds: Vec<u64>,
    /// Its own fields, in the order of their values.
    pub(super) fields: Vec<FieldType>,
    /// Bytes of its static fields.
    pub(super) static_bytes: u64,
}

/// Reads all records. Returns when the dump was made, in milliseconds since 1970, and why it ends before its end.
pub(super) fn read<R: BufRead + Seek>(
    mut stream: Stream<R>,
    listener: &mut impl Listener,
) -> Result<(u64, Option<HprofError>), HprofError> {
    let mut version = Vec::new();
    loop {
        match stream.u8("version")? {
            0 => break,
            byte if version.len() < MOST_VERSION => version.push(byte),
            byte => return Err(stream.unexpected("version", byte)),
        }
    }
    if !version.starts_with(MAGIC) {
        return Err(stream.unexpected("version", version.len() as u64));
    }
    let wide = match stream.u32("bytes of an identifier")? {
        8 => true,
        4 => false,
        other => return Err(stream.unexpected("bytes of an identifier", other)),
    };
    stream.set_wide(wide);
    listener.wide(wide);
    let millis = stream.u64("time")?;
    let mut buffer = Vec::new();
    while !stream.is_at_end() {
        match record(&mut stream, listener, &mut buffer) {
            Ok(()) => {}
            Err(cut @ (HprofError::Cut { .. } | HprofError::Unexpected { .. })) => {
                return Ok((millis, Some(cut)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((millis, None))
}

fn record<R: BufRead + Seek>(
    stream: &mut Stream<R>,
    listener: &mut impl Listener,
    buffer: &mut Vec<u8>,
) -> Result<(), HprofError> {
    let tag = stream.u8("tag of a record")?;
    stream.skip("time of a record", 4)?;
    let length = stream.u32("length of a record")?;
    match tag {
        0x01 => {
            let id = stream.id("number of a name")?;
            let text = u64::from(length).checked_sub(stream.id_bytes());
            let text = text.and_then(|text| u32::try_from(text).ok()).filter(|text| *text <= MOST_NAME);
            let Some(text) = text else { return Err(stream.unexpected("length of a name", length)) };
            stream.take("name", text, buffer)?;
            listener.name(id, buffer)
        }
        0x02 => {
            stream.skip("number of a class", 4)?;
            let class = stream.id("class")?;
            stream.skip("stack of a class", 4)?;
            let name = stream.id("name of a class")?;
            listener.loaded(class, name)
        }
        0x0c | 0x1c => {
            let end = stream.offset().saturating_add(length.into());
            // Of a dump that was written as it went, the length of the first kind may be 0: then it goes to the end.
            while !stream.is_at_end() && (stream.offset() < end || tag == 0x0c && length == 0) {
                object(stream, listener, buffer)?;
            }
            Ok(())
        }
        _ => stream.skip("record", length.into()),
    }
}

fn object<R: BufRead + Seek>(
    stream: &mut Stream<R>,
    listener: &mut impl Listener,
    buffer: &mut Vec<u8>,
) -> Result<(), HprofError> {
    let tag = stream.u8("kind of an object")?;
    // What stands behind the object of a root.
    let root = match tag {
        0xff => Some((RootKind::Other, 0)),
        0x01 => Some((RootKind::NativeGlobal, stream.id_bytes())),
        0x02 | 0x03 => Some((RootKind::Stack, 8)),
        0x04 | 0x06 => Some((RootKind::Stack, 4)),
        0x05 => Some((RootKind::SystemClass, 0)),
        0x07 => Some((RootKind::Monitor, 0)),
        0x08 => Some((RootKind::Thread, 8)),
        _ => None,
    };
    if let Some((kind, more)) = root {
        let object = Avma(stream.id("root")?);
        stream.skip("root", more)?;
        return listener.root(kind, object);
    }
    match tag {
        0x20 => {
            let class = class(stream)?;
            listener.class(class)
        }
        0x21 => {
            let object = Avma(stream.id("object")?);
            stream.skip("stack of an object", 4)?;
            let class = stream.id("class of an object")?;
            let length = stream.u32("bytes of an object")?;
            stream.take("object", length, buffer)?;
            listener.instance(object, class, buffer)
        }
        0x22 => {
            let array = Avma(stream.id("array")?);
            stream.skip("stack of an array", 4)?;
            let length = stream.u32("length of an array")?;
            let class = stream.id("class of an array")?;
            let bytes = u64::from(length) * stream.id_bytes();
            let Ok(bytes) = u32::try_from(bytes) else {
                return Err(stream.unexpected("length of an array", length));
            };
            stream.take("array", bytes, buffer)?;
            listener.references(array, class, buffer)
        }
        0x23 => {
            let array = Avma(stream.id("array")?);
            stream.skip("stack of an array", 4)?;
            let length = stream.u32("length of an array")?;
            let element = field_type(stream)?;
            stream.skip("array", u64::from(length) * element.bytes(stream.id_bytes()))?;
            listener.numbers(array, length, element)
        }
        other => Err(stream.unexpected("kind of an object", other)),
    }
}

fn class<R: BufRead + Seek>(stream: &mut Stream<R>) -> Result<ClassRecord, HprofError> {
    let mut class = ClassRecord { object: stream.id("class")?, ..ClassRecord::default() };
    stream.skip("stack of a class", 4)?;
    class.parent = stream.id("parent of a class")?;
    class.holds.push(stream.id("loader of a class")?);
    // Signers, protection domain, two that are reserved.
    stream.skip("class", 4 * stream.id_bytes())?;
    stream.skip("size of objects", 4)?;
    for _ in 0..stream.u16("constants of a class")? {
        stream.skip("constant", 2)?;
        let of = field_type(stream)?;
        stream.skip("constant", of.bytes(stream.id_bytes()))?;
    }
    for _ in 0..stream.u16("static fields of a class")? {
        stream.id("name of a field")?;
        let of = field_type(stream)?;
        if of == FieldType::Reference {
            class.holds.push(stream.id("static field")?);
        } else {
            stream.skip("static field", of.bytes(stream.id_bytes()))?;
        }
        class.static_bytes += of.bytes(4);
    }
    for _ in 0..stream.u16("fields of a class")? {
        stream.id("name of a field")?;
        class.fields.push(field_type(stream)?);
    }
    Ok(class)
}

fn field_type<R: BufRead + Seek>(stream: &mut Stream<R>) -> Result<FieldType, HprofError> {
    let number = stream.u8("type of a field")?;
    FieldType::of(number).ok_or_else(|| stream.unexpected("type of a field", number))
}
