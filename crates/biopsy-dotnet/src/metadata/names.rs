//! Names of types, methods, fields and parameters.

use super::schema::{
    CUSTOM_ATTRIBUTE_TYPE, HAS_CUSTOM_ATTRIBUTE, MEMBER_REF_PARENT, RESOLUTION_SCOPE, TYPE_OR_METHOD_DEF,
    Table,
};
use super::tables::partition;
use super::{Metadata, MetadataError, RowOf};

/// Types around each other.
const NESTING: usize = 64;
/// Type parameters of one type or method.
const PARAMETERS: usize = 1024;
/// Attributes of one thing.
const ATTRIBUTES: usize = 4096;

/// One type of a path of nested types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeSegment<'a> {
    /// Namespace; empty for nested types.
    pub namespace: &'a str,
    /// Name as in the metadata: ``List`1``.
    pub name: &'a str,
    /// Row in the table of types.
    pub row: u32,
}

/// A type and those around it, the outermost first.
pub type TypePath<'a> = Vec<TypeSegment<'a>>;

/// What the table of methods says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MethodRow<'a> {
    /// Where its IL is.
    pub rva: u32,
    /// `ImplFlags`.
    pub implementation: u16,
    /// `Flags`: 0x10 is static.
    pub flags: u16,
    /// Name.
    pub name: &'a str,
    /// Signature.
    pub signature: &'a [u8],
}

impl Metadata {
    /// Name of the assembly, or of the module where there is no assembly.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn assembly_name(&self) -> Result<&str, MetadataError> {
        if self.rows(Table::Assembly) > 0 {
            return self.name(Table::Assembly, 1, 5);
        }
        self.name(Table::Module, 1, 1)
    }

    /// Id of the module (MVID): new with every compilation.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn module_id(&self) -> Result<[u8; 16], MetadataError> {
        self.guid(self.cell(Table::Module, 1, 2)?)
    }

    /// The type around a nested type.
    #[must_use]
    pub fn enclosing(&self, type_row: u32) -> Option<u32> {
        let row = *self.rows_with(Table::NestedClass, 0, type_row).first()?;
        self.cell(Table::NestedClass, row, 1).ok().filter(|&row| row != 0)
    }

    /// A type with those around it, the outermost first.
    ///
    /// # Errors
    /// When there is no such row; when types are nested in a circle.
    pub fn type_path(&self, type_row: u32) -> Result<TypePath<'_>, MetadataError> {
        let mut path = Vec::new();
        let mut next = Some(type_row);
        while let Some(row) = next {
            if path.len() == NESTING {
                return Err(MetadataError::Outside {
                    what: "depth of nested types",
                    index: type_row.into(),
                    limit: NESTING as u64,
                });
            }
            path.push(TypeSegment {
                name: self.name(Table::TypeDef, row, 1)?,
                namespace: self.name(Table::TypeDef, row, 2)?,
                row,
            });
            next = self.enclosing(row);
        }
        path.reverse();
        Ok(path)
    }

    /// Full name of a type, `Namespace.Outer+Inner`, with marks of generic types as they are.
    ///
    /// # Errors
    /// As [`Metadata::type_path`].
    pub fn type_name(&self, type_row: u32) -> Result<String, MetadataError> {
        Ok(joined(&self.type_path(type_row)?))
    }

    /// Full name of a type that another assembly defines.
    ///
    /// # Errors
    /// As [`Metadata::type_path`].
    pub fn type_ref_name(&self, row: u32) -> Result<String, MetadataError> {
        let mut path = Vec::new();
        let mut next = row;
        loop {
            if path.len() == NESTING {
                return Err(MetadataError::Outside {
                    what: "depth of nested types",
                    index: row.into(),
                    limit: NESTING as u64,
                });
            }
            path.push(TypeSegment {
                name: self.name(Table::TypeRef, next, 1)?,
                namespace: self.name(Table::TypeRef, next, 2)?,
                row: next,
            });
            match self.decode(RESOLUTION_SCOPE, self.cell(Table::TypeRef, next, 0)?) {
                Some(RowOf { table: Table::TypeRef, row }) => next = row,
                _ => break,
            }
        }
        path.reverse();
        Ok(joined(&path))
    }

    /// What the table of methods says of one.
    ///
    /// # Errors
    /// When there is no such row, or it is damaged.
    pub fn method(&self, row: u32) -> Result<MethodRow<'_>, MetadataError> {
        let short = |column| self.cell(Table::MethodDef, row, column).map(|cell| (cell & 0xffff) as u16);
        Ok(MethodRow {
            rva: self.cell(Table::MethodDef, row, 0)?,
            implementation: short(1)?,
            flags: short(2)?,
            name: self.name(Table::MethodDef, row, 3)?,
            signature: self.blob_cell(Table::MethodDef, row, 4)?,
        })
    }

    /// The type that declares a method.
    #[must_use]
    pub fn method_owner(&self, method: u32) -> Option<u32> {
        self.owner(5, Table::MethodPtr, method)
    }

    /// The type that declares a field.
    #[must_use]
    pub fn field_owner(&self, field: u32) -> Option<u32> {
        self.owner(4, Table::FieldPtr, field)
    }

    /// The methods of a type: rows of the table of methods.
    #[must_use]
    pub fn methods_of(&self, type_row: u32) -> Vec<u32> {
        self.members(type_row, 5, Table::MethodPtr, Table::MethodDef)
    }

    /// The fields of a type: rows of the table of fields.
    #[must_use]
    pub fn fields_of(&self, type_row: u32) -> Vec<u32> {
        self.members(type_row, 4, Table::FieldPtr, Table::Field)
    }

    /// Name of a field.
    ///
    /// # Errors
    /// When there is no such row.
    pub fn field_name(&self, row: u32) -> Result<&str, MetadataError> {
        self.name(Table::Field, row, 1)
    }

    /// Flags of a field: 0x10 is static, 0x40 is literal.
    ///
    /// # Errors
    /// When there is no such row.
    pub fn field_flags(&self, row: u32) -> Result<u16, MetadataError> {
        Ok((self.cell(Table::Field, row, 0)? & 0xffff) as u16)
    }

    /// Signature of a field.
    ///
    /// # Errors
    /// When there is no such row.
    pub fn field_signature(&self, row: u32) -> Result<&[u8], MetadataError> {
        self.blob_cell(Table::Field, row, 2)
    }

    /// Names of the parameters of a method: position (1 is the first, 0 what is returned) and name.
    #[must_use]
    pub fn parameters(&self, method: u32) -> Vec<(u16, &str)> {
        let first = |row| self.cell(Table::MethodDef, row, 5).unwrap_or(0);
        let total = self.pointers(Table::ParamPtr, Table::Param);
        let start = first(method);
        let end = if method < self.rows(Table::MethodDef) {
            first(method.saturating_add(1))
        } else {
            total.saturating_add(1)
        };
        let rows = start.max(1)..end.min(total.saturating_add(1));
        rows.take(PARAMETERS)
            .filter_map(|row| {
                let row = self.through(Table::ParamPtr, row)?;
                let position = (self.cell(Table::Param, row, 1).ok()? & 0xffff) as u16;
                Some((position, self.name(Table::Param, row, 2).ok()?))
            })
            .collect()
    }

    /// Names of the type parameters of a type (`Table::TypeDef`) or method (`Table::MethodDef`).
    #[must_use]
    pub fn type_parameters(&self, of: RowOf) -> Vec<&str> {
        let Some(key) = Self::encode(TYPE_OR_METHOD_DEF, of) else { return Vec::new() };
        let rows = self.rows_with(Table::GenericParam, 2, key);
        let mut found: Vec<_> = rows
            .into_iter()
            .take(PARAMETERS)
            .filter_map(|row| {
                let number = self.cell(Table::GenericParam, row, 0).ok()?;
                Some((number, self.name(Table::GenericParam, row, 3).ok()?))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// Custom attributes of something: full name of the attribute's type, and its arguments as a blob (II.23.3).
    #[must_use]
    pub fn attributes(&self, of: RowOf) -> Vec<(String, &[u8])> {
        let Some(key) = Self::encode(HAS_CUSTOM_ATTRIBUTE, of) else { return Vec::new() };
        let rows = self.rows_with(Table::CustomAttribute, 0, key);
        rows.into_iter()
            .take(ATTRIBUTES)
            .filter_map(|row| {
                let constructor = self.cell(Table::CustomAttribute, row, 1).ok()?;
                let name = self.attribute_type(self.decode(CUSTOM_ATTRIBUTE_TYPE, constructor)?)?;
                Some((name, self.blob_cell(Table::CustomAttribute, row, 2).ok()?))
            })
            .collect()
    }

    /// For a method with `AsyncStateMachineAttribute` or `IteratorStateMachineAttribute`: full name of the type that the
    /// compiler made for it.
    #[must_use]
    pub fn state_machine(&self, method: u32) -> Option<String> {
        let attributes = self.attributes(RowOf { table: Table::MethodDef, row: method });
        let (_, blob) = attributes
            .into_iter()
            .find(|(name, _)| name.ends_with("StateMachineAttribute") && name.starts_with("System."))?;
        // Prolog 1, then the type as a text with its length in front (SerString).
        let mut cursor = biopsy_bytes::Cursor::new(blob);
        cursor.skip("prolog", 2).ok()?;
        let length = super::tables::compressed_u32(&mut cursor).ok()?;
        let text = std::str::from_utf8(cursor.take("type", length as usize).ok()?).ok()?;
        Some(text.split(',').next().unwrap_or_default().to_string())
    }

    fn attribute_type(&self, constructor: RowOf) -> Option<String> {
        match constructor {
            RowOf { table: Table::MethodDef, row } => self.type_name(self.method_owner(row)?).ok(),
            RowOf { table: Table::MemberRef, row } => {
                let parent = self.cell(Table::MemberRef, row, 0).ok()?;
                match self.decode(MEMBER_REF_PARENT, parent)? {
                    RowOf { table: Table::TypeRef, row } => self.type_ref_name(row).ok(),
                    RowOf { table: Table::TypeDef, row } => self.type_name(row).ok(),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Rows of the pointer table where there is one, else of the table itself.
    fn pointers(&self, pointers: Table, table: Table) -> u32 {
        match self.rows(pointers) {
            0 => self.rows(table),
            rows => rows,
        }
    }

    /// A row through the pointer table where there is one.
    fn through(&self, pointers: Table, row: u32) -> Option<u32> {
        if self.rows(pointers) == 0 {
            return Some(row);
        }
        self.cell(pointers, row, 0).ok()
    }

    fn owner(&self, column: usize, pointers: Table, member: u32) -> Option<u32> {
        let at = match self.rows(pointers) {
            0 => member,
            rows => (1..=rows).find(|&row| self.cell(pointers, row, 0) == Ok(member))?,
        };
        let first = |row| self.cell(Table::TypeDef, row, column).unwrap_or(0);
        // Lists of members do not overlap and are in the order of their owners, in edited metadata too.
        let after = partition(self.rows(Table::TypeDef), |row| first(row) <= at);
        after.checked_sub(1).filter(|&row| row > 0)
    }

    fn members(&self, type_row: u32, column: usize, pointers: Table, table: Table) -> Vec<u32> {
        let first = |row| self.cell(Table::TypeDef, row, column).unwrap_or(0);
        let behind = self.pointers(pointers, table).saturating_add(1);
        let start = first(type_row).max(1);
        let end =
            if type_row < self.rows(Table::TypeDef) { first(type_row.saturating_add(1)) } else { behind };
        (start..end.min(behind)).filter_map(|row| self.through(pointers, row)).collect()
    }
}

/// `Namespace.Outer+Inner`.
fn joined(path: &[TypeSegment<'_>]) -> String {
    let mut name = String::new();
    for (number, segment) in path.iter().enumerate() {
        if number > 0 {
            name.push('+');
        } else if !segment.namespace.is_empty() {
            name.push_str(segment.namespace);
            name.push('.');
        }
        name.push_str(segment.name);
    }
    name
}
