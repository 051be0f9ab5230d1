//! Columns of the metadata tables: ECMA-335 II.22, and the tables of portable debug information.

/// A table of metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "these are the names of ECMA-335 II.22 and of the Portable PDB format")]
pub enum Table {
    Module = 0x00,
    TypeRef = 0x01,
    TypeDef = 0x02,
    FieldPtr = 0x03,
    Field = 0x04,
    MethodPtr = 0x05,
    MethodDef = 0x06,
    ParamPtr = 0x07,
    Param = 0x08,
    InterfaceImpl = 0x09,
    MemberRef = 0x0a,
    Constant = 0x0b,
    CustomAttribute = 0x0c,
    FieldMarshal = 0x0d,
    DeclSecurity = 0x0e,
    ClassLayout = 0x0f,
    FieldLayout = 0x10,
    StandAloneSig = 0x11,
    EventMap = 0x12,
    EventPtr = 0x13,
    Event = 0x14,
    PropertyMap = 0x15,
    PropertyPtr = 0x16,
    Property = 0x17,
    MethodSemantics = 0x18,
    MethodImpl = 0x19,
    ModuleRef = 0x1a,
    TypeSpec = 0x1b,
    ImplMap = 0x1c,
    FieldRva = 0x1d,
    EncLog = 0x1e,
    EncMap = 0x1f,
    Assembly = 0x20,
    AssemblyProcessor = 0x21,
    AssemblyOs = 0x22,
    AssemblyRef = 0x23,
    AssemblyRefProcessor = 0x24,
    AssemblyRefOs = 0x25,
    File = 0x26,
    ExportedType = 0x27,
    ManifestResource = 0x28,
    NestedClass = 0x29,
    GenericParam = 0x2a,
    MethodSpec = 0x2b,
    GenericParamConstraint = 0x2c,
    Document = 0x30,
    MethodDebugInformation = 0x31,
    LocalScope = 0x32,
    LocalVariable = 0x33,
    LocalConstant = 0x34,
    ImportScope = 0x35,
    StateMachineMethod = 0x36,
    CustomDebugInformation = 0x37,
}

/// What is in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    /// A number of so many bytes.
    Fixed(u8),
    /// An offset into `#Strings`.
    String,
    /// An index into `#GUID`.
    Guid,
    /// An offset into `#Blob`.
    Blob,
    /// A row of a table.
    Row(Table),
    /// A row of one of several tables; the lowest bits say which.
    Coded(Coded),
}

/// Which tables a coded index may be into: tag bits, and the table of each tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coded {
    pub(super) bits: u8,
    pub(super) tables: &'static [Option<Table>],
}

use Column::{Blob, Coded as C, Fixed, Guid, Row, String};
use Table as T;

const fn coded(bits: u8, tables: &'static [Option<Table>]) -> Coded {
    Coded { bits, tables }
}

/// `TypeDefOrRef`.
pub(super) const TYPE_DEF_OR_REF: Coded = coded(2, &[Some(T::TypeDef), Some(T::TypeRef), Some(T::TypeSpec)]);
/// `HasConstant`.
const HAS_CONSTANT: Coded = coded(2, &[Some(T::Field), Some(T::Param), Some(T::Property)]);
/// What may have attributes, in the order of their tags, then what else may have debug information of its own.
const DESCRIBED: [Option<Table>; 27] = [
    Some(T::MethodDef),
    Some(T::Field),
    Some(T::TypeRef),
    Some(T::TypeDef),
    Some(T::Param),
    Some(T::InterfaceImpl),
    Some(T::MemberRef),
    Some(T::Module),
    Some(T::DeclSecurity),
    Some(T::Property),
    Some(T::Event),
    Some(T::StandAloneSig),
    Some(T::ModuleRef),
    Some(T::TypeSpec),
    Some(T::Assembly),
    Some(T::AssemblyRef),
    Some(T::File),
    Some(T::ExportedType),
    Some(T::ManifestResource),
    Some(T::GenericParam),
    Some(T::GenericParamConstraint),
    Some(T::MethodSpec),
    Some(T::Document),
    Some(T::LocalScope),
    Some(T::LocalVariable),
    Some(T::LocalConstant),
    Some(T::ImportScope),
];
/// `HasCustomAttribute`.
const HAS_CUSTOM_ATTRIBUTE: Coded = coded(5, DESCRIBED.split_at(22).0);
/// `HasCustomDebugInformation` of the Portable PDB format.
const HAS_CUSTOM_DEBUG_INFORMATION: Coded = coded(5, &DESCRIBED);
const HAS_FIELD_MARSHAL: Coded = coded(1, &[Some(T::Field), Some(T::Param)]);
const HAS_DECL_SECURITY: Coded = coded(2, &[Some(T::TypeDef), Some(T::MethodDef), Some(T::Assembly)]);
/// `MemberRefParent`.
const MEMBER_REF_PARENT: Coded = coded(
    3,
    &[Some(T::TypeDef), Some(T::TypeRef), Some(T::ModuleRef), Some(T::MethodDef), Some(T::TypeSpec)],
);
const HAS_SEMANTICS: Coded = coded(1, &[Some(T::Event), Some(T::Property)]);
const METHOD_DEF_OR_REF: Coded = coded(1, &[Some(T::MethodDef), Some(T::MemberRef)]);
const MEMBER_FORWARDED: Coded = coded(1, &[Some(T::Field), Some(T::MethodDef)]);
const IMPLEMENTATION: Coded = coded(2, &[Some(T::File), Some(T::AssemblyRef), Some(T::ExportedType)]);
/// `CustomAttributeType`.
const CUSTOM_ATTRIBUTE_TYPE: Coded = coded(3, &[None, None, Some(T::MethodDef), Some(T::MemberRef), None]);
/// `ResolutionScope`.
pub(super) const RESOLUTION_SCOPE: Coded =
    coded(2, &[Some(T::Module), Some(T::ModuleRef), Some(T::AssemblyRef), Some(T::TypeRef)]);
/// `TypeOrMethodDef`.
pub(super) const TYPE_OR_METHOD_DEF: Coded = coded(1, &[Some(T::TypeDef), Some(T::MethodDef)]);
/// Tables that have numbers.
pub(super) const TABLES: usize = 64;
/// Columns of the widest table.
pub(super) const COLUMNS: usize = 9;

/// Columns of a table, by its number; none for numbers without table.
pub(super) const fn columns(table: usize) -> &'static [Column] {
    match table {
        0x00 => &[Fixed(2), String, Guid, Guid, Guid],
        0x01 => &[C(RESOLUTION_SCOPE), String, String],
        0x02 => &[Fixed(4), String, String, C(TYPE_DEF_OR_REF), Row(T::Field), Row(T::MethodDef)],
        0x03 => &[Row(T::Field)],
        0x04 => &[Fixed(2), String, Blob],
        0x05 => &[Row(T::MethodDef)],
        0x06 => &[Fixed(4), Fixed(2), Fixed(2), String, Blob, Row(T::Param)],
        0x07 => &[Row(T::Param)],
        0x08 => &[Fixed(2), Fixed(2), String],
        0x09 => &[Row(T::TypeDef), C(TYPE_DEF_OR_REF)],
        0x0a => &[C(MEMBER_REF_PARENT), String, Blob],
        0x0b => &[Fixed(2), C(HAS_CONSTANT), Blob],
        0x0c => &[C(HAS_CUSTOM_ATTRIBUTE), C(CUSTOM_ATTRIBUTE_TYPE), Blob],
        0x0d => &[C(HAS_FIELD_MARSHAL), Blob],
        0x0e => &[Fixed(2), C(HAS_DECL_SECURITY), Blob],
        0x0f => &[Fixed(2), Fixed(4), Row(T::TypeDef)],
        0x10 => &[Fixed(4), Row(T::Field)],
        0x11 => &[Blob],
        0x12 => &[Row(T::TypeDef), Row(T::Event)],
        0x13 => &[Row(T::Event)],
        0x14 => &[Fixed(2), String, C(TYPE_DEF_OR_REF)],
        0x15 => &[Row(T::TypeDef), Row(T::Property)],
        0x16 => &[Row(T::Property)],
        0x17 => &[Fixed(2), String, Blob],
        0x18 => &[Fixed(2), Row(T::MethodDef), C(HAS_SEMANTICS)],
        0x19 => &[Row(T::TypeDef), C(METHOD_DEF_OR_REF), C(METHOD_DEF_OR_REF)],
        0x1a => &[String],
        0x1b => &[Blob],
        0x1c => &[Fixed(2), C(MEMBER_FORWARDED), String, Row(T::ModuleRef)],
        0x1d => &[Fixed(4), Row(T::Field)],
        0x1e => &[Fixed(4), Fixed(4)],
        0x1f => &[Fixed(4)],
        0x20 => &[Fixed(4), Fixed(4), Fixed(4), Fixed(4), Blob, String, String],
        0x21 => &[Fixed(4)],
        0x22 => &[Fixed(4), Fixed(4), Fixed(4)],
        0x23 => &[Fixed(4), Fixed(4), Fixed(4), Blob, String, String, Blob],
        0x24 => &[Fixed(4), Row(T::AssemblyRef)],
        0x25 => &[Fixed(4), Fixed(4), Fixed(4), Row(T::AssemblyRef)],
        0x26 => &[Fixed(4), String, Blob],
        0x27 => &[Fixed(4), Fixed(4), String, String, C(IMPLEMENTATION)],
        0x28 => &[Fixed(4), Fixed(4), String, C(IMPLEMENTATION)],
        0x29 => &[Row(T::TypeDef), Row(T::TypeDef)],
        0x2a => &[Fixed(2), Fixed(2), C(TYPE_OR_METHOD_DEF), String],
        0x2b => &[C(METHOD_DEF_OR_REF), Blob],
        0x2c => &[Row(T::GenericParam), C(TYPE_DEF_OR_REF)],
        0x30 => &[Blob, Guid, Blob, Guid],
        0x31 => &[Row(T::Document), Blob],
        0x32 => &[
            Row(T::MethodDef),
            Row(T::ImportScope),
            Row(T::LocalVariable),
            Row(T::LocalConstant),
            Fixed(4),
            Fixed(4),
        ],
        0x33 => &[Fixed(2), Fixed(2), String],
        0x34 => &[String, Blob],
        0x35 => &[Row(T::ImportScope), Blob],
        0x36 => &[Row(T::MethodDef), Row(T::MethodDef)],
        0x37 => &[C(HAS_CUSTOM_DEBUG_INFORMATION), Guid, Blob],
        _ => &[],
    }
}
