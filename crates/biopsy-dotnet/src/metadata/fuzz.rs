//! Entry points for fuzzing: arbitrary bytes as assemblies and as metadata. Any panic and any unbounded memory is a bug.

use std::sync::Arc;

use super::{Metadata, PeFile, PeLayout, RowOf, Table, method_parameters, type_text};

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
    let _ = (metadata.assembly_name(), metadata.module_id(), metadata.pdb_stream(), metadata.user_strings());
    for row in 0..metadata.rows(Table::TypeDef).min(ROWS) {
        let _ = (metadata.type_name(row), metadata.methods_of(row).len(), metadata.fields_of(row).len());
        let _ = metadata.type_parameters(RowOf { table: Table::TypeDef, row });
    }
    for row in 0..metadata.rows(Table::TypeRef).min(ROWS) {
        let _ = metadata.type_ref_name(row);
    }
    for row in 0..metadata.rows(Table::TypeSpec).min(ROWS) {
        let _ = metadata.blob_cell(Table::TypeSpec, row, 0).map(|blob| type_text(metadata, blob));
    }
    for row in 0..metadata.rows(Table::MethodDef).min(ROWS) {
        if let Ok(method) = metadata.method(row) {
            let _ = method_parameters(metadata, method.signature, Some(row));
        }
        let _ = (metadata.method_owner(row), metadata.parameters(row), metadata.state_machine(row));
    }
    for row in 0..metadata.rows(Table::Field).min(ROWS) {
        let _ = (metadata.field_name(row), metadata.field_flags(row), metadata.field_owner(row));
        let _ = metadata.field_signature(row).map(|blob| type_text(metadata, blob));
    }
}
