//! Assemblies made by hand: metadata with the tables that are read, and a PE file around it.

use crate::metadata::Table;

/// A row: its columns one after the other.
type Row = Vec<u8>;

/// An assembly in the making. Rows are numbered from 1, and every offset and row number has two bytes.
#[derive(Clone, Debug)]
pub(crate) struct Assembly {
    strings: Vec<u8>,
    blobs: Vec<u8>,
    tables: std::collections::BTreeMap<u8, Vec<Row>>,
    /// `#~` says that it is sorted.
    sorted: bool,
}

impl Assembly {
    /// With a module and the type `<Module>` in it.
    pub(crate) fn new(name: &str) -> Self {
        let mut this = Self { strings: vec![0], blobs: vec![0], tables: Default::default(), sorted: false };
        let at = this.string(name);
        this.push(Table::Module, &[0, at, 0, 0, 0]);
        this.of_type("", "<Module>");
        this
    }

    /// As compilers write it: the tables with keys are sorted, and say so.
    pub(crate) fn sorted(mut self) -> Self {
        self.sorted = true;
        self
    }

    pub(crate) fn string(&mut self, text: &str) -> u16 {
        let at = self.strings.len();
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        if text.is_empty() { 0 } else { u16::try_from(at).expect("few names") }
    }

    pub(crate) fn blob(&mut self, bytes: &[u8]) -> u16 {
        let at = self.blobs.len();
        self.blobs.push(u8::try_from(bytes.len()).expect("short blobs"));
        self.blobs.extend(bytes);
        u16::try_from(at).expect("few blobs")
    }

    /// A row whose columns have two bytes each.
    pub(crate) fn push(&mut self, table: Table, columns: &[u16]) -> u32 {
        self.push_row(table, columns.iter().flat_map(|column| column.to_le_bytes()).collect())
    }

    fn push_row(&mut self, table: Table, row: Row) -> u32 {
        let rows = self.tables.entry(table as u8).or_default();
        rows.push(row);
        rows.len() as u32
    }

    fn rows(&self, table: Table) -> u16 {
        self.tables.get(&(table as u8)).map_or(0, |rows| rows.len() as u16)
    }

    /// A type; the fields and methods that follow are its own.
    pub(crate) fn of_type(&mut self, namespace: &str, name: &str) -> u32 {
        let (fields, methods) = (self.rows(Table::Field) + 1, self.rows(Table::MethodDef) + 1);
        let (name, namespace) = (self.string(name), self.string(namespace));
        self.push(Table::TypeDef, &[0, 0, name, namespace, 0, fields, methods])
    }

    /// A type of another assembly; `within`: of the type reference in that row.
    pub(crate) fn type_ref(&mut self, namespace: &str, name: &str, within: Option<u32>) -> u32 {
        let scope = within.map_or(0, |row| (row as u16) << 2 | 3);
        let (name, namespace) = (self.string(name), self.string(namespace));
        self.push(Table::TypeRef, &[scope, name, namespace])
    }

    pub(crate) fn field(&mut self, name: &str) -> u32 {
        let name = self.string(name);
        self.push(Table::Field, &[0, name, 0])
    }

    pub(crate) fn method(&mut self, name: &str, signature: &[u8]) -> u32 {
        let (name, signature) = (self.string(name), self.blob(signature));
        self.push(Table::MethodDef, &[0, 0, 0, 0, name, signature, 1])
    }

    pub(crate) fn nested(&mut self, inner: u32, outer: u32) {
        self.push(Table::NestedClass, &[inner as u16, outer as u16]);
    }

    /// A type parameter of a type, or (`of_method`) of a method.
    pub(crate) fn parameter(&mut self, of: u32, of_method: bool, number: u16, name: &str) {
        let name = self.string(name);
        let owner = (of as u16) << 1 | u16::from(of_method);
        self.push(Table::GenericParam, &[number, 0, owner, name]);
    }

    /// The name of the assembly, which may be another one than that of its module.
    pub(crate) fn named(&mut self, name: &str) {
        let name = self.string(name);
        self.push(Table::Assembly, &[0, 0, 0, 0, 0, 0, 0, 0, 0, name, 0]);
    }

    /// The stream of tables.
    pub(crate) fn table_stream(&self) -> Vec<u8> {
        let there = self.tables.keys().fold(0_u64, |there, table| there | 1 << table);
        let mut stream = vec![0, 0, 0, 0, 2, 0, 0, 1];
        stream.extend(there.to_le_bytes());
        stream.extend(if self.sorted { u64::MAX } else { 0 }.to_le_bytes());
        for rows in self.tables.values() {
            stream.extend((rows.len() as u32).to_le_bytes());
        }
        stream.extend(self.tables.values().flatten().flatten());
        stream
    }

    /// The metadata; `edited`: with the stream `#-` of Edit and Continue.
    pub(crate) fn metadata_as(&self, edited: bool) -> Vec<u8> {
        let tables = self.table_stream();
        let name = if edited { "#-" } else { "#~" };
        root(&[(name, &tables), ("#Strings", &self.strings), ("#Blob", &self.blobs)])
    }

    pub(crate) fn metadata(&self) -> Vec<u8> {
        self.metadata_as(false)
    }
}

/// The root of metadata with these streams.
pub(crate) fn root(streams: &[(&str, &[u8])]) -> Vec<u8> {
    let mut whole = b"BSJB\x01\0\x01\0\0\0\0\0\x0c\0\0\0v4.0.30319\0\0\0\0".to_vec();
    whole.extend((streams.len() as u16).to_le_bytes());
    let names: usize = streams.iter().map(|(name, _)| 8 + (name.len() + 4) / 4 * 4).sum();
    let mut at = whole.len() + names;
    for (name, body) in streams {
        whole.extend((at as u32).to_le_bytes());
        whole.extend((body.len() as u32).to_le_bytes());
        whole.extend(name.as_bytes());
        whole.extend(vec![0; 4 - name.len() % 4]);
        at += body.len();
    }
    streams.iter().for_each(|(_, body)| whole.extend(*body));
    whole
}

/// Where the only section of [`pe`] is in memory, and in the file.
pub(crate) const SECTION_RVA: u32 = 0x2000;
pub(crate) const SECTION_OFFSET: u32 = 0x400;

/// A PE file whose only section has the CLI header, the metadata, and `more` behind it. `ready`: relative to `more`, where the
/// ReadyToRun header is. `mapped`: laid out as in memory.
pub(crate) fn pe(metadata: &[u8], ready: Option<u32>, more: &[u8], mapped: bool) -> Vec<u8> {
    let behind = SECTION_RVA + 72 + metadata.len() as u32;
    let size = 72 + metadata.len() + more.len();
    let mut out = vec![0; SECTION_OFFSET as usize];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3c, &0x80_u32.to_le_bytes());
    put(0x80, b"PE\0\0\x64\x86\x01\0");
    put(0x94, &240_u16.to_le_bytes());
    put(0x98, &0x20b_u16.to_le_bytes());
    put(0x98 + 56, &(SECTION_RVA + size as u32).next_multiple_of(0x1000).to_le_bytes());
    put(0x98 + 60, &SECTION_OFFSET.to_le_bytes());
    put(0x98 + 108, &16_u32.to_le_bytes());
    put(0x98 + 112 + 14 * 8, &[SECTION_RVA, 72].map(u32::to_le_bytes).concat());
    let section = [size as u32, SECTION_RVA, size as u32, SECTION_OFFSET];
    put(0x98 + 240 + 8, &section.map(u32::to_le_bytes).concat());
    if mapped {
        out.resize(SECTION_RVA as usize, 0);
    }
    let mut cli = vec![0; 72];
    cli[8..16].copy_from_slice(&[SECTION_RVA + 72, metadata.len() as u32].map(u32::to_le_bytes).concat());
    let ready = ready.map_or([0, 0], |at| [behind + at, 64]);
    cli[64..72].copy_from_slice(&ready.map(u32::to_le_bytes).concat());
    out.extend(cli);
    out.extend(metadata);
    out.extend(more);
    out
}
