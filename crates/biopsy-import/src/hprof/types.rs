//! Types of fields, and names of classes.

/// A type of a field or of the elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FieldType {
    Reference,
    Boolean,
    Char,
    Float,
    Double,
    Byte,
    Short,
    Int,
    Long,
}

impl FieldType {
    /// By its number in the file.
    pub(super) fn of(number: u8) -> Option<Self> {
        Some(match number {
            2 => Self::Reference,
            4 => Self::Boolean,
            5 => Self::Char,
            6 => Self::Float,
            7 => Self::Double,
            8 => Self::Byte,
            9 => Self::Short,
            10 => Self::Int,
            11 => Self::Long,
            _ => return None,
        })
    }

    /// Bytes of a value, where a reference has `reference`.
    pub(super) fn bytes(self, reference: u64) -> u64 {
        match self {
            Self::Reference => reference,
            Self::Boolean | Self::Byte => 1,
            Self::Char | Self::Short => 2,
            Self::Float | Self::Int => 4,
            Self::Double | Self::Long => 8,
        }
    }

    /// As the language writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reference => "java.lang.Object",
            Self::Boolean => "boolean",
            Self::Char => "char",
            Self::Float => "float",
            Self::Double => "double",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
        }
    }
}

/// `[[Ljava/lang/String;` becomes `java.lang.String[][]`.
pub(super) fn class_name(raw: &str) -> String {
    let element = raw.trim_start_matches('[');
    let dimensions = raw.len() - element.len();
    let plain = match (dimensions, element) {
        (0, name) => name,
        (_, "Z") => "boolean",
        (_, "C") => "char",
        (_, "F") => "float",
        (_, "D") => "double",
        (_, "B") => "byte",
        (_, "S") => "short",
        (_, "I") => "int",
        (_, "J") => "long",
        (_, name) => name.strip_prefix('L').and_then(|name| name.strip_suffix(';')).unwrap_or(name),
    };
    let mut name = plain.replace('/', ".");
    name.push_str(&"[]".repeat(dimensions.min(255)));
    name
}

/// What the virtual machine adds to the fields. The file does not tell; these are HotSpot's defaults: class pointers are compressed on
/// machines of 64 bits, references are where the heap lies below 32 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) reference: u64,
    header: u64,
    array_header: u64,
}

impl Layout {
    /// `highest`: address of the last object.
    pub(super) fn guess(id_bytes: u64, highest: u64) -> Self {
        const COMPRESSED_BELOW: u64 = 32 << 30;
        match id_bytes {
            4 => Self { reference: 4, header: 8, array_header: 12 },
            _ if highest < COMPRESSED_BELOW => Self { reference: 4, header: 12, array_header: 16 },
            _ => Self { reference: 8, header: 12, array_header: 16 },
        }
    }

    pub(super) fn object(self, fields: u64) -> u64 {
        up(self.header.saturating_add(fields))
    }

    pub(super) fn array(self, length: u32, element: FieldType) -> u64 {
        let elements = u64::from(length).saturating_mul(element.bytes(self.reference));
        up(self.array_header.saturating_add(elements))
    }
}

/// The next multiple of what objects are aligned to.
fn up(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_the_language_writes_them() {
        for (raw, name) in [
            ("java/lang/String", "java.lang.String"),
            ("[I", "int[]"),
            ("[[Ljava/util/Map$Entry;", "java.util.Map$Entry[][]"),
            ("I", "I"),
            ("", ""),
            ("[", "[]"),
        ] {
            assert_eq!(class_name(raw), name);
        }
    }

    #[test]
    fn sizes_are_those_of_the_virtual_machine() {
        let small = Layout::guess(8, 26 << 30);
        // `jmap -histo` of OpenJDK 17: java.lang.String 24, byte[0] 16, byte[1] 24, Object[10] 56.
        assert_eq!(small.object(4 + 4 + 1 + 1), 24);
        assert_eq!([small.array(0, FieldType::Byte), small.array(1, FieldType::Byte)], [16, 24]);
        assert_eq!(small.array(10, FieldType::Reference), 56);
        assert_eq!(Layout::guess(8, 1 << 45).array(10, FieldType::Reference), 96);
        assert_eq!(Layout::guess(4, u64::MAX).object(0), 8);
        assert_eq!((small.object(u64::MAX - 20), small.object(u64::MAX)), (!7, u64::MAX));
    }
}
