//! Measures the analysis of a large graph: `heap_graph make FOLDER OBJECTS` writes one as a recording has it, `heap_graph read FOLDER` loads it
//! and works out who holds what.

#![allow(clippy::disallowed_methods, reason = "it reads what it wrote")]
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::{Dominators, HolderTree, Ways};
use biopsy_dotnet::graph::columns::{self, Column, ColumnSource};
use biopsy_model::heap::HeapType;

const TYPES: u64 = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", folder, objects] => make(Path::new(folder), objects.parse()?)?,
        ["read", folder] => read(Path::new(folder))?,
        _ => return Err("heap_graph make FOLDER OBJECTS | read FOLDER".into()),
    }
    Ok(())
}

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most.max(1)
    }
}

fn make(folder: &Path, objects: u64) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut chance = Chance(1);
    let degrees: Vec<u8> = (0..objects).map(|_| chance.below(6) as u8).collect();
    let edges: u64 = degrees.iter().map(|degree| u64::from(*degree)).sum();
    column(folder, Column::Addresses, "<u8", objects, |out| {
        each(out, objects, |at| (0x7000_0000_0000 + at * 40).to_le_bytes())
    })?;
    column(folder, Column::Types, "<u4", objects, |out| {
        each(out, objects, |at| (((at * at) % TYPES) as u32).to_le_bytes())
    })?;
    column(folder, Column::Sizes, "<u4", objects, |out| {
        each(out, objects, |at| (24 + (at % 3) as u32 * 8).to_le_bytes())
    })?;
    column(folder, Column::Generations, "|u1", objects, |out| each(out, objects, |_| [2]))?;
    let mut start = 0_u32;
    column(folder, Column::EdgeStarts, "<u4", objects + 1, |out| {
        each(out, objects + 1, |at| {
            let here = start;
            start += u32::from(degrees.get(at as usize).copied().unwrap_or(0));
            here.to_le_bytes()
        })
    })?;
    column(folder, Column::Edges, "<u4", edges, |out| {
        for (at, degree) in degrees.iter().enumerate() {
            for edge in 0..*degree {
                // The next one, mostly near ones, some anywhere.
                let target = match edge {
                    0 => at as u64 + 1,
                    1..=3 => at as u64 + chance.below(2000),
                    _ => chance.below(objects),
                };
                out.write_all(&((target % objects) as u32).to_le_bytes())?;
            }
        }
        Ok(())
    })?;
    let root =
        "[('kind', '|u1'), ('interior', '|u1'), ('thread', '<u4'), ('address', '<u8'), ('object', '<u4')]";
    column(folder, Column::Roots, root, 1000, |out| {
        for at in 0..1000 {
            out.write_all(&[0, 0])?;
            out.write_all(&[0; 12])?;
            out.write_all(&((at * objects / 1000) as u32).to_le_bytes())?;
        }
        Ok(())
    })?;
    println!("{objects} objects, {edges} references");
    Ok(())
}

fn each<const N: usize>(
    out: &mut dyn Write,
    count: u64,
    mut value: impl FnMut(u64) -> [u8; N],
) -> io::Result<()> {
    (0..count).try_for_each(|at| out.write_all(&value(at)))
}

fn file(folder: &Path, column: Column) -> PathBuf {
    folder.join(format!("{}.npy.zst", column.name()))
}

fn column(
    folder: &Path,
    column: Column,
    element: &str,
    count: u64,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let packed = zstd::Encoder::new(File::create(file(folder, column))?, 1)?;
    let mut out = BufWriter::with_capacity(1 << 16, packed);
    let quoted = if element.starts_with('[') { element.to_owned() } else { format!("'{element}'") };
    let mut header = format!("{{'descr': {quoted}, 'fortran_order': False, 'shape': ({count},), }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\0")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.finish().map(drop)
}

struct Folder<'p>(&'p Path);

impl ColumnSource for Folder<'_> {
    fn open(&self, column: Column) -> io::Result<Option<Box<dyn Read + '_>>> {
        match File::open(file(self.0, column)) {
            Ok(file) => Ok(Some(Box::new(zstd::Decoder::new(file)?))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn read(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut last = Instant::now();
    // Time on a core: other work on the machine does not count.
    let on_core = || {
        let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
    };
    let mut core = on_core();
    let mut told = |what: &str| {
        let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?").trim().to_owned();
        let (wall, of_core) = (last.elapsed().as_secs_f64(), on_core() - core);
        println!("{what:<28} {of_core:>7.2} s of a core in {wall:>7.2} s, peak {peak}");
        (last, core) = (Instant::now(), on_core());
    };
    let types = (0..TYPES).map(|of| HeapType { name: format!("App.T{of}"), ..HeapType::default() }).collect();
    let graph = columns::read(&Folder(folder), types)?;
    told("loaded");
    let dominators = Dominators::of(&graph)?;
    told("dominators, retained sizes");
    let tree = HolderTree::of(&graph, &dominators)?;
    told("holders");
    println!("{} nodes, cut: {}", tree.nodes.len(), tree.is_cut);
    drop((tree, dominators));
    let summary = HeapSummary::new("graph", &graph, &graph.facts());
    told("summary, all of it again");
    drop(summary);
    Ways::of(&graph)?;
    told("shortest ways");
    let bytes: u64 =
        std::fs::read_dir(folder)?.flatten().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let (objects, edges) = (graph.len() as f64, graph.edge_count() as f64);
    println!(
        "packed: {bytes} bytes, {:.2} for each object, {:.2} for each object and reference",
        bytes as f64 / objects,
        bytes as f64 / (objects + edges)
    );
    Ok(())
}
