//! Signatures (ECMA-335 II.23.2) as text.

use biopsy_bytes::Cursor;

use super::schema::{TYPE_DEF_OR_REF, Table};
use super::tables::compressed_u32;
use super::{Metadata, MetadataError, RowOf};

/// Parts of one type: real ones have a dozen, generated ones some hundreds.
const PARTS: usize = 4096;
/// Bytes of text of one signature.
const TEXT: usize = 16 << 10;
/// Parameters of one method.
const PARAMETERS: u32 = 4096;

/// What has to be written once the type that is being read is complete.
enum Pending {
    /// `*`, `&`, `[]`.
    Suffix(&'static str),
    /// Dimensions of an array, which follow its element type.
    Dimensions,
    /// So many type arguments are left.
    Arguments(u32),
    /// So many types of a function pointer are left.
    Function(u32),
}

/// Name of a primitive type by `CorElementType`.
#[must_use]
pub(crate) fn primitive(element: u8) -> Option<&'static str> {
    Some(match element {
        0x01 => "System.Void",
        0x02 => "System.Boolean",
        0x03 => "System.Char",
        0x04 => "System.SByte",
        0x05 => "System.Byte",
        0x06 => "System.Int16",
        0x07 => "System.UInt16",
        0x08 => "System.Int32",
        0x09 => "System.UInt32",
        0x0a => "System.Int64",
        0x0b => "System.UInt64",
        0x0c => "System.Single",
        0x0d => "System.Double",
        0x0e => "System.String",
        0x16 => "System.TypedReference",
        0x18 => "System.IntPtr",
        0x19 => "System.UIntPtr",
        0x1c => "System.Object",
        _ => return None,
    })
}

/// The parameters of a method as text: `(System.Int32, T, System.String[])`. Type parameters have their names when `method` says
/// whose signature it is.
///
/// # Errors
/// When the signature is damaged.
pub fn method_parameters(
    metadata: &Metadata,
    signature: &[u8],
    method: Option<u32>,
) -> Result<String, MetadataError> {
    let mut cursor = Cursor::new(signature);
    let convention = cursor.u8("calling convention")?;
    if convention & 0x10 != 0 {
        compressed_u32(&mut cursor)?;
    }
    let count = compressed_u32(&mut cursor)?.min(PARAMETERS);
    let owner = method.and_then(|method| metadata.method_owner(method));
    let of = |table, row: Option<u32>| {
        row.map(|row| metadata.type_parameters(RowOf { table, row })).unwrap_or_default()
    };
    let reader =
        TypeReader { metadata, of_type: of(Table::TypeDef, owner), of_method: of(Table::MethodDef, method) };
    let mut text = String::new();
    reader.read(&mut cursor, &mut text)?;
    text.clear();
    text.push('(');
    for number in 0..count {
        if number > 0 {
            text.push_str(", ");
        }
        reader.read(&mut cursor, &mut text)?;
    }
    text.push(')');
    Ok(text)
}

struct TypeReader<'a> {
    metadata: &'a Metadata,
    of_type: Vec<&'a str>,
    of_method: Vec<&'a str>,
}

impl TypeReader<'_> {
    /// Reads one type. A stack of what is pending, not recursion: signatures may nest as deep as somebody likes.
    fn read(&self, cursor: &mut Cursor<'_>, text: &mut String) -> Result<(), MetadataError> {
        let mut pending = Vec::new();
        for _ in 0..PARTS {
            if text.len() > TEXT {
                break;
            }
            if !self.part(cursor, text, &mut pending)? {
                continue;
            }
            if complete(cursor, text, &mut pending)? {
                return Ok(());
            }
        }
        Err(MetadataError::TooLarge { what: "signature", found: text.len() as u64, limit: TEXT as u64 })
    }

    /// Reads one element; whether a type is complete with it.
    fn part(
        &self,
        cursor: &mut Cursor<'_>,
        text: &mut String,
        pending: &mut Vec<Pending>,
    ) -> Result<bool, MetadataError> {
        let element = cursor.u8("element type")?;
        if let Some(name) = primitive(element) {
            text.push_str(name);
            return Ok(true);
        }
        match element {
            0x0f => pending.push(Pending::Suffix("*")),
            0x10 => pending.push(Pending::Suffix("&")),
            0x1d => pending.push(Pending::Suffix("[]")),
            0x14 => pending.push(Pending::Dimensions),
            // Class, value type.
            0x11 | 0x12 => {
                let name = self.token(compressed_u32(cursor)?);
                text.push_str(&name);
                return Ok(true);
            }
            0x13 | 0x1e => {
                let number = compressed_u32(cursor)?;
                let (names, mark) =
                    if element == 0x13 { (&self.of_type, "!") } else { (&self.of_method, "!!") };
                match names.get(number as usize) {
                    Some(name) => text.push_str(name),
                    None => text.push_str(&format!("{mark}{number}")),
                }
                return Ok(true);
            }
            // Instance of a generic type: kind, type, count, arguments.
            0x15 => {
                cursor.skip("kind of generic type", 1)?;
                let name = self.token(compressed_u32(cursor)?);
                text.push_str(name.rsplit_once('`').map_or(&*name, |(before, _)| before));
                let count = compressed_u32(cursor)?;
                if count == 0 {
                    return Ok(true);
                }
                text.push('<');
                pending.push(Pending::Arguments(count));
            }
            // Function pointer: a whole signature.
            0x1b => {
                let convention = cursor.u8("calling convention")?;
                if convention & 0x10 != 0 {
                    compressed_u32(cursor)?;
                }
                let count = compressed_u32(cursor)?;
                text.push_str("delegate*<");
                pending.push(Pending::Function(count.saturating_add(1)));
            }
            // Modifiers: a type that says nothing here.
            0x1f | 0x20 => {
                compressed_u32(cursor)?;
            }
            // Sentinel, pinned.
            0x41 | 0x45 => {}
            other => {
                return Err(MetadataError::NotThis {
                    what: "element type",
                    found: other.into(),
                    expected: 0x1c,
                });
            }
        }
        Ok(false)
    }

    fn token(&self, coded: u32) -> String {
        let found = match self.metadata.decode(TYPE_DEF_OR_REF, coded) {
            Some(RowOf { table: Table::TypeDef, row }) => self.metadata.type_name(row).ok(),
            Some(RowOf { table: Table::TypeRef, row }) => self.metadata.type_ref_name(row).ok(),
            _ => None,
        };
        found.unwrap_or_else(|| "?".to_string())
    }
}

/// Ends what waits for the type that is complete now; whether nothing waits any more.
fn complete(
    cursor: &mut Cursor<'_>,
    text: &mut String,
    pending: &mut Vec<Pending>,
) -> Result<bool, MetadataError> {
    loop {
        match pending.pop() {
            None => return Ok(true),
            Some(Pending::Suffix(suffix)) => text.push_str(suffix),
            Some(Pending::Dimensions) => dimensions(cursor, text)?,
            Some(Pending::Arguments(left) | Pending::Function(left)) if left <= 1 => text.push('>'),
            Some(Pending::Arguments(left)) => {
                text.push_str(", ");
                pending.push(Pending::Arguments(left - 1));
                return Ok(false);
            }
            Some(Pending::Function(left)) => {
                text.push_str(", ");
                pending.push(Pending::Function(left - 1));
                return Ok(false);
            }
        }
    }
}

/// Rank, sizes, lower bounds.
fn dimensions(cursor: &mut Cursor<'_>, text: &mut String) -> Result<(), MetadataError> {
    let rank = compressed_u32(cursor)?;
    for _ in 0..2 {
        let count = compressed_u32(cursor)?;
        for _ in 0..count {
            compressed_u32(cursor)?;
        }
    }
    text.push('[');
    if rank <= 1 {
        text.push('*');
    }
    for _ in 1..rank.min(32) {
        text.push(',');
    }
    text.push(']');
    Ok(())
}
