//! Types by their method tables: sizes, flags, names.

use std::fmt::Write as _;
use std::sync::Arc;

use biopsy_model::Avma;

use super::places::Places;
use super::{ElementType, Memory, RuntimeError, TypeHandle, TypeInfo, TypeShape};
use crate::metadata::{RowOf, Table, TypePath};

/// Type arguments of one type.
const ARGUMENTS: u16 = 1024;
/// Bytes of a name: generated code nests generics deeply.
const NAME_BYTES: usize = 16 << 10;
/// Arguments that could not be read, in a name: each is a `?`. A count beyond that is not believed.
const UNKNOWN_ARGUMENTS: usize = 8;
/// Stands for what has no room in a name.
const CUT: &str = "...";

/// Row of a type that has no room in the 16 bits of 8: it is elsewhere, and never guessed.
const NO_ROW: u32 = 0xffff;
/// Kind of type in the flags of a method table: an interface.
const INTERFACE: u32 = 0x000c_0000;
/// Type descriptor of a pointer.
const POINTER: u8 = 0x0f;
/// Of a reference.
const BY_REFERENCE: u8 = 0x10;
const TYPE_VARIABLE: u8 = 0x13;
const FUNCTION_POINTER: u8 = 0x1b;
const METHOD_VARIABLE: u8 = 0x1e;

/// What is read of a type before its name is made.
#[derive(Debug)]
pub(super) struct RawType {
    pub(super) info: TypeInfo,
    /// Types whose names it needs: the element, the arguments.
    pub(super) needs: Vec<TypeHandle>,
    /// What stands behind the name of the only needed type (pointers), or is the whole name.
    pub(super) fixed: Fixed,
}

/// How a name is made.
#[derive(Debug)]
pub(super) enum Fixed {
    /// From metadata.
    Metadata,
    /// The name of the only type it needs, and this.
    Suffix(String),
    /// This.
    Whole(String),
}

/// Method tables that are known by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WellKnown {
    pub(super) free: TypeHandle,
    pub(super) string: TypeHandle,
    pub(super) object: TypeHandle,
    pub(super) exception: TypeHandle,
}

/// Reads what a method table or type descriptor says.
pub(super) fn read(
    memory: &Memory<'_>,
    places: &Places,
    known: &WellKnown,
    handle: TypeHandle,
) -> Result<RawType, RuntimeError> {
    if handle.is_descriptor() {
        return read_descriptor(memory, places, handle);
    }
    let at = |offset| handle.at(offset);
    let table = &places.method_table;
    if handle.0.0 & 7 != 0 || handle.0.0 < 0x1000 {
        return Err(no_type(handle, "not an address of a method table".to_string()));
    }
    let flags = memory.u32(at(table.flags))?;
    let base_size = memory.u32(at(table.base_size))?;
    let parent = memory.u64(at(table.parent))?;
    let parent = (parent != 0).then(|| parent.into());
    let module = Avma(memory.u64(at(table.module))?);
    let class_or_canonical = memory.u64(at(table.class))?;
    let canonical =
        if class_or_canonical & 1 != 0 { TypeHandle::from(class_or_canonical & !1) } else { handle };
    let class =
        if canonical == handle { class_or_canonical } else { memory.u64(canonical.at(table.class))? };
    // The class points back: what is not a method table fails here, with certainty for all that was seen. Holes have no class,
    // and interfaces have no objects.
    if handle != known.free {
        let back = memory.u64(class.wrapping_add(places.class.method_table))?;
        if back != canonical.0.0 || base_size < 8 && flags & 0x000f_0000 != INTERFACE {
            return Err(no_type(handle, format!("class {class:#x} belongs to {back:#x}")));
        }
    }
    let component_size = if flags & 0x8000_0000 != 0 { (flags & 0xffff) as u16 } else { 0 };
    let element_type = match places.class.element_type {
        Some(offset) if handle != known.free => memory.u8(class.wrapping_add(offset))?,
        _ => 0,
    };
    let row = match (table.token, table.flags2) {
        (Some(token), _) => u32::from(memory.u16(at(token))?),
        (None, Some(flags2)) => memory.u32(at(flags2))? >> 8,
        (None, None) => 0,
    };
    let mut raw = RawType {
        info: TypeInfo {
            method_table: handle,
            name: "".into(),
            base_size,
            component_size,
            flags,
            contains_pointers: flags & 0x0100_0000 != 0,
            collectible: flags & table.collectible != 0,
            has_finalizer: flags & 0x0010_0000 != 0,
            shape: TypeShape::Class,
            element_type: ElementType(element_type),
            parent,
            module,
            type_row: row,
            canonical,
            arguments: Vec::new(),
        },
        needs: Vec::new(),
        fixed: Fixed::Metadata,
    };
    if table.token.is_some() && row == NO_ROW {
        raw.fixed = Fixed::Whole(format!("?{}", handle.0));
    }
    let category = flags & 0x000c_0000;
    if handle == known.free {
        raw.info.shape = TypeShape::Free;
        raw.fixed = Fixed::Whole("Free".to_string());
    } else if handle == known.string {
        raw.info.shape = TypeShape::String;
    } else if flags & 0x8000_0000 != 0 && category == 0x0008_0000 {
        let element = memory.u64(at(table.instantiation))?.into();
        raw.needs.push(element);
        raw.info.type_row = 0;
        if flags & 0x0002_0000 != 0 {
            raw.info.shape = TypeShape::Vector { element };
            raw.fixed = Fixed::Suffix("[]".to_string());
        } else {
            let rank = memory.u8(class.wrapping_add(places.class.rank))?;
            raw.info.shape = TypeShape::Array { element, rank };
            let commas = ",".repeat(usize::from(rank.min(32)).saturating_sub(1));
            raw.fixed = Fixed::Suffix(if rank <= 1 { "[*]".to_string() } else { format!("[{commas}]") });
        }
        return Ok(raw);
    } else if category == 0x0004_0000 {
        raw.info.shape = TypeShape::Value;
    }
    if flags & 0x30 != 0 && flags & 0x8000_0000 == 0 {
        // Dictionaries are replaced by larger ones while the program runs, in memory that is shared with a frozen copy and so goes on
        // changing (the runtime's double mapping): what such a one names may be behind the end of the copy. Sizes are known still.
        let arguments = arguments(memory, places, handle).unwrap_or_default();
        // The definition itself has type variables: their names are in the metadata.
        if flags & 0x30 != 0x30 {
            raw.needs.clone_from(&arguments);
        }
        raw.info.arguments = arguments;
    }
    Ok(raw)
}

/// Type arguments of an instance of a generic type.
fn arguments(
    memory: &Memory<'_>,
    places: &Places,
    handle: TypeHandle,
) -> Result<Vec<TypeHandle>, RuntimeError> {
    let table = &places.method_table;
    let dictionaries = memory.u64(handle.at(table.instantiation))?;
    // Counts lie in front of the array of dictionaries; the last one is the type's own.
    let counts = dictionaries.wrapping_sub(8);
    let count = memory.u16(counts.wrapping_add(table.dictionary_count))?;
    let number = memory.u16(counts.wrapping_add(table.argument_count))?;
    if count == 0 || number > ARGUMENTS {
        return Err(no_type(handle, format!("{number} type arguments in dictionary {count}")));
    }
    let last = memory.u64(dictionaries.wrapping_add((u64::from(count) - 1) * 8))?;
    (0..u64::from(number)).map(|one| Ok(memory.u64(last.wrapping_add(one * 8))?.into())).collect()
}

fn read_descriptor(
    memory: &Memory<'_>,
    places: &Places,
    handle: TypeHandle,
) -> Result<RawType, RuntimeError> {
    let address = handle.0.0 & !3;
    let kind = (memory.u32(address)? & 0xff) as u8;
    let mut needs = Vec::new();
    let fixed = match kind {
        POINTER | BY_REFERENCE => {
            needs.push(memory.u64(address.wrapping_add(places.method_table.type_argument))?.into());
            Fixed::Suffix(if kind == POINTER { "*" } else { "&" }.to_string())
        }
        FUNCTION_POINTER => Fixed::Whole("delegate*".to_string()),
        TYPE_VARIABLE | METHOD_VARIABLE => Fixed::Whole("T".to_string()),
        _ => return Err(no_type(handle, format!("descriptor of kind {kind:#x}"))),
    };
    Ok(RawType {
        info: TypeInfo {
            method_table: handle,
            name: "".into(),
            base_size: 0,
            component_size: 0,
            flags: 0,
            contains_pointers: false,
            collectible: false,
            has_finalizer: false,
            shape: TypeShape::Descriptor,
            element_type: ElementType(kind),
            parent: None,
            module: Avma(0),
            type_row: 0,
            canonical: handle,
            arguments: needs.clone(),
        },
        needs,
        fixed,
    })
}

/// `Namespace.Outer<A>+Inner<B>`: each segment takes as many arguments as its name says, in order. Those that could not be read are
/// `?`: `Map<>` would be another type, its definition.
pub(super) fn compose(path: &TypePath<'_>, arguments: &[Arc<str>]) -> String {
    let mut name = String::new();
    let mut rest = arguments;
    for (number, segment) in path.iter().enumerate() {
        if name.len() + segment.namespace.len() + segment.name.len() > NAME_BYTES {
            name.push_str(CUT);
            break;
        }
        if number > 0 {
            name.push('+');
        } else if !segment.namespace.is_empty() {
            name.push_str(segment.namespace);
            name.push('.');
        }
        let generic =
            segment.name.rsplit_once('`').and_then(|(bare, count)| Some((bare, count.parse().ok()?)));
        let Some((bare, count)) = generic.filter(|&(_, count): &(&str, usize)| count > 0) else {
            name.push_str(segment.name);
            continue;
        };
        name.push_str(bare);
        let (mine, others) = rest.split_at(count.min(rest.len()));
        rest = others;
        let unknown = (count - mine.len()).min(UNKNOWN_ARGUMENTS);
        push_arguments(&mut name, &[mine, &vec!["?".into(); unknown]].concat());
    }
    name
}

/// `<A, B>`, cut where it gets too long.
pub(super) fn push_arguments(name: &mut String, arguments: &[Arc<str>]) {
    name.push('<');
    for (number, argument) in arguments.iter().enumerate() {
        if number > 0 {
            name.push_str(", ");
        }
        if name.len() + argument.len() > NAME_BYTES {
            name.push_str(CUT);
            break;
        }
        name.push_str(argument);
    }
    name.push('>');
}

/// `[]`, `*`, as long as there is room: a type of types of types, each asked after the one before, has a name as long as the chain.
pub(super) fn push_suffix(name: &mut String, suffix: &str) {
    if name.len() + suffix.len() <= NAME_BYTES {
        name.push_str(suffix);
    } else if !name.ends_with(CUT) {
        name.push_str(CUT);
    }
}

/// Names of type variables: `T1`, `T2` where the metadata has none.
pub(super) fn variables(metadata: &crate::metadata::Metadata, of: RowOf, count: usize) -> Vec<Arc<str>> {
    let names = metadata.type_parameters(of);
    (0..count)
        .map(|number| match names.get(number) {
            Some(name) => Arc::from(*name),
            None => {
                let mut name = String::new();
                let _ = write!(name, "T{}", number + 1);
                name.into()
            }
        })
        .collect()
}

/// Whose variables they are.
pub(super) fn of_type(row: u32) -> RowOf {
    RowOf { table: Table::TypeDef, row }
}

pub(super) fn no_type(handle: TypeHandle, found: String) -> RuntimeError {
    RuntimeError::Unexpected { what: "a method table", address: handle.0, found }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metadata::TypeSegment;

    fn composed(path: &[(&str, &str)], arguments: &[&str]) -> String {
        let path: Vec<_> =
            path.iter().map(|(namespace, name)| TypeSegment { namespace, name, row: 1 }).collect();
        let arguments: Vec<Arc<str>> = arguments.iter().map(|one| Arc::from(*one)).collect();
        compose(&path, &arguments)
    }

    #[test]
    fn each_type_of_a_path_takes_the_arguments_that_its_name_counts() {
        for (path, arguments, wanted) in [
            (vec![("System", "String")], vec![], "System.String"),
            (vec![("", "Program")], vec![], "Program"),
            (vec![("App", "Feed"), ("", "Item")], vec![], "App.Feed+Item"),
            (vec![("App", "Map`2")], vec!["A", "B"], "App.Map<A, B>"),
            (vec![("App", "Outer`1"), ("", "Inner`2")], vec!["A", "B", "C"], "App.Outer<A>+Inner<B, C>"),
            (vec![("App", "Outer`1"), ("", "Plain")], vec!["A"], "App.Outer<A>+Plain"),
            // Fewer arguments than there should be, and more.
            (vec![("App", "Map`2")], vec!["A"], "App.Map<A, ?>"),
            (vec![("App", "Map`2")], vec![], "App.Map<?, ?>"),
            (vec![("App", "Outer`1"), ("", "Inner`1")], vec!["A"], "App.Outer<A>+Inner<?>"),
            (vec![("App", "Map`1")], vec!["A", "B"], "App.Map<A>"),
            // What looks like a count and is none.
            (vec![("App", "Odd`0")], vec!["A"], "App.Odd`0"),
            (vec![("App", "Odd`x")], vec!["A"], "App.Odd`x"),
            (vec![("App", "Odd`")], vec!["A"], "App.Odd`"),
            (vec![("App", "A`B`1")], vec!["A"], "App.A`B<A>"),
        ] {
            assert_eq!(composed(&path, &arguments), wanted, "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn names_are_cut_whatever_they_are_made_of(
            counts in prop::collection::vec(0u64..1_000_000_000_000, 1..5),
            length in 0usize..20_000,
            arguments in 0usize..8,
        ) {
            let names: Vec<String> = counts.iter().map(|count| format!("T`{count}")).collect();
            let path: Vec<_> = names.iter().map(|name| ("", name.as_str())).collect();
            let argument = "x".repeat(length);
            let name = composed(&path, &vec![argument.as_str(); arguments]);
            prop_assert!(name.len() <= NAME_BYTES + 40 * counts.len(), "{}", name.len());
            prop_assert_eq!(name.matches('<').count(), name.matches('>').count());
        }
    }
}
