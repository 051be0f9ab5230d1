//! Names of types, methods, fields and parameters.

use super::schema::{RESOLUTION_SCOPE, TYPE_OR_METHOD_DEF, Table};
use super::tables::{Keyed, partition};
use super::{Metadata, MetadataError, RowOf};

/// Types around each other.
const NESTING: usize = 64;
/// Type parameters of one type or method.
const PARAMETERS: usize = 1024;

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

    /// The type around a nested type.
    #[must_use]
    pub fn enclosing(&self, type_row: u32) -> Option<u32> {
        let row = *self.rows_with(Keyed::NestedClass, type_row, 1).first()?;
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
        Ok(MethodRow {
            name: self.name(Table::MethodDef, row, 3)?,
            signature: self.blob_cell(Table::MethodDef, row, 4)?,
        })
    }

    /// The type that declares a method.
    #[must_use]
    pub fn method_owner(&self, method: u32) -> Option<u32> {
        let at = match self.rows(Table::MethodPtr) {
            0 => method,
            _ => *self.rows_with(Keyed::MethodPtr, method, 1).first()?,
        };
        let first = |row| self.cell(Table::TypeDef, row, 5).unwrap_or(0);
        // Lists of methods do not overlap and are in the order of their owners, in edited metadata too.
        let after = partition(self.rows(Table::TypeDef), |row| first(row) <= at);
        after.checked_sub(1).filter(|&row| row > 0)
    }

    /// Name of a field.
    ///
    /// # Errors
    /// When there is no such row.
    pub fn field_name(&self, row: u32) -> Result<&str, MetadataError> {
        self.name(Table::Field, row, 1)
    }

    /// Names of the type parameters of a type (`Table::TypeDef`) or method (`Table::MethodDef`).
    #[must_use]
    pub fn type_parameters(&self, of: RowOf) -> Vec<&str> {
        let Some(key) = Self::encode(TYPE_OR_METHOD_DEF, of) else { return Vec::new() };
        let rows = self.rows_with(Keyed::GenericParam, key, PARAMETERS);
        let mut found: Vec<_> = rows
            .into_iter()
            .filter_map(|row| {
                let number = self.cell(Table::GenericParam, row, 0).ok()?;
                Some((number, self.name(Table::GenericParam, row, 3).ok()?))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect()
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
