//! Entry points for fuzzing: arbitrary bytes as assemblies and as metadata. Any panic and any unbounded memory is a bug.

use std::sync::Arc;

use super::{Metadata, PeFile, PeLayout, RowOf, Table, method_parameters};

/// Rows of each table that are looked at.
const ROWS: u32 = 64;

/// Reads the bytes as a PE file in both layouts, and as bare metadata.
pub fn fuzz_metadata(bytes: &[u8]) {
    for layout in [PeLayout::Flat, PeLayout::Mapped] {
        if let Ok(pe) = PeFile::parse(bytes, layout)
            && let Ok(metadata) = pe.metadata(bytes)
        {
            visit(&metadata);
        }
    }
    if let Ok(metadata) = Metadata::parse(Arc::from(bytes)) {
        visit(&metadata);
    }
}

/// Asks for everything that can be asked for.
fn visit(metadata: &Metadata) {
    let _ = (metadata.assembly_name(), metadata.pdb_stream());
    for row in 0..metadata.rows(Table::TypeDef).min(ROWS) {
        let _ = metadata.type_name(row);
        let _ = metadata.type_parameters(RowOf { table: Table::TypeDef, row });
    }
    for row in 0..metadata.rows(Table::TypeRef).min(ROWS) {
        let _ = metadata.type_ref_name(row);
    }
    for row in 0..metadata.rows(Table::TypeSpec).min(ROWS) {
        let _ =
            metadata.blob_cell(Table::TypeSpec, row, 0).map(|blob| method_parameters(metadata, blob, None));
    }
    for row in 0..metadata.rows(Table::MethodDef).min(ROWS) {
        if let Ok(method) = metadata.method(row) {
            let _ = method_parameters(metadata, method.signature, Some(row));
        }
        let _ = metadata.method_owner(row);
    }
    for row in 0..metadata.rows(Table::Field).min(ROWS) {
        let _ = metadata.field_name(row);
    }
}
