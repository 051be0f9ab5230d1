//! How fast event streams are read, and with how much memory.
//!
//! `cargo run --release -p biopsy-dotnet --features testing --example nettrace_bench -- FILE [MIB]`: makes FILE of so many MiB
//! (1,000) where it is absent, as a busy server would, and reads it three times. A real file does as well.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![expect(clippy::print_stdout, reason = "a bench prints")]

use biopsy_dotnet::events::{self, Collector};
use biopsy_dotnet::nettrace::write::{EventRow, Writer, text16};
use biopsy_dotnet::nettrace::{EventMetadata, Field, FieldType, Limits, Reader};
use biopsy_model::Pid;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("FILE [MIB]")?;
    let mib: u64 = arguments.next().map_or(Ok(1_000), |word| word.parse())?;
    let path = Path::new(&path);
    if !path.exists() {
        make(path, mib)?;
    }
    for (what, sorted, collected) in
        [("read", false, false), ("in order of time", true, false), ("collected", true, true)]
    {
        let start = Instant::now();
        let mut reader = Reader::new(File::open(path)?, &Limits::default())?;
        reader.sort_by_time(sorted);
        let limits = events::Limits::default();
        let mut collector = Collector::new(Pid(0), what.to_owned(), &limits, str::to_owned);
        let mut events = 0_u64;
        while let Some(event) = reader.next_event()? {
            events += 1;
            if collected {
                collector.event(&event);
            }
        }
        drop(collector.finish(&()));
        let seconds = start.elapsed().as_secs_f64();
        let megabytes = reader.offset() as f64 / 1e6;
        let lost = reader.lost();
        println!(
            "{what}: {events} events, {lost} lost, {megabytes:.0} MB in {seconds:.2} s, {:.0} MB/s, {} kB at most",
            megabytes / seconds,
            peak_memory()?
        );
    }
    Ok(())
}

/// `VmHWM` of this process.
fn peak_memory() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0))
}

fn description(
    provider: &str,
    id: u32,
    name: &str,
    version: u32,
    fields: &[(&str, FieldType)],
) -> EventMetadata {
    let field = |(name, kind): &(&str, FieldType)| Field { name: (*name).to_owned(), kind: kind.clone() };
    EventMetadata {
        provider: provider.to_owned(),
        id,
        name: name.to_owned(),
        version,
        level: 4,
        fields: fields.iter().map(field).collect(),
        ..EventMetadata::default()
    }
}

/// Requests of eight threads with three commands each, exceptions and allocations with stacks.
fn make(path: &Path, mib: u64) -> Result<(), Box<dyn Error>> {
    let text = || FieldType::Text16;
    let number = || FieldType::Int(4);
    let (hosting, sql) = ("Microsoft.AspNetCore.Hosting", "Microsoft.Data.SqlClient.EventSource");
    let runtime = "Microsoft-Windows-DotNETRuntime";
    let begin =
        [("objectId", number()), ("dataSource", text()), ("databaseName", text()), ("commandText", text())];
    let end = [("objectId", number()), ("compositestate", number()), ("sqlExceptionNumber", number())];
    let all = [
        description(hosting, 3, "RequestStart", 0, &[("method", text()), ("path", text())]),
        description(hosting, 4, "RequestStop", 0, &[]),
        description(sql, 1, "BeginExecute", 0, &begin),
        description(sql, 2, "EndExecute", 0, &end),
        description(runtime, 80, "", 1, &[]),
        description(runtime, 10, "", 4, &[]),
    ];
    let mut out = BufWriter::new(File::create(path)?);
    let mut writer = Writer::new(4);
    writer.metadata(&(1_u32..).zip(&all).collect::<Vec<_>>());
    out.write_all(writer.unfinished())?;
    let mut written = writer.unfinished().len() as u64;
    let mut made = Made { rows: Vec::new(), numbers: [0; 8], ticks: 1_000_000, request: 1, stack: 1 };
    while written < mib << 20 {
        writer.forget();
        let from = writer.unfinished().len();
        let stack =
            |index: u64| (0..30).map(|depth| 0x7f00_0000_0000 + index % 37 * 4096 + depth * 64).collect();
        writer.stacks(made.stack, &(0..100_u64).map(stack).collect::<Vec<Vec<u64>>>());
        for _ in 0..200 {
            made.request();
        }
        writer.events(&made.rows, true);
        made.rows.clear();
        made.stack += 100;
        if made.request % 2_000 < 200 {
            let threads: Vec<_> = (100..).zip(made.numbers).collect();
            writer.sequence_point(made.ticks, &threads);
        }
        let block = writer.unfinished().get(from..).unwrap_or_default();
        out.write_all(block)?;
        written += block.len() as u64;
    }
    out.write_all(&[1])?;
    Ok(())
}

struct Made {
    rows: Vec<EventRow>,
    numbers: [u32; 8],
    ticks: u64,
    request: u64,
    stack: u32,
}

impl Made {
    fn event(&mut self, metadata: u32, stack: u32, payload: Vec<u8>) {
        let thread = self.request % 8;
        let number = &mut self.numbers[thread as usize];
        *number += 1;
        self.ticks += 3_000;
        // A path of two numbers: the root, and the request in four bytes.
        let mut activity = [0; 16];
        activity[0] = 0x1f;
        activity[1..5].copy_from_slice(&(self.request as u32).to_le_bytes());
        self.rows.push(EventRow {
            metadata,
            sequence: *number,
            thread: 100 + thread,
            capture_thread: 100 + thread,
            stack,
            ticks: self.ticks,
            activity,
            sorted: self.rows.is_empty(),
            payload,
            ..EventRow::default()
        });
    }

    fn request(&mut self) {
        let request = self.request;
        let texts = |texts: &[&str]| {
            let mut payload = Vec::new();
            texts.iter().for_each(|text| text16(&mut payload, text));
            payload
        };
        self.event(1, 0, texts(&["GET", &format!("/api/releases/{request}")]));
        for command in 0..3_u32 {
            let id = (request as u32).wrapping_mul(4).wrapping_add(command).to_le_bytes();
            let text = format!("SELECT * FROM Deployment WHERE ReleaseId = {request}");
            self.event(3, 0, [&id[..], &texts(&["sql.example.test", "Deployments", &text])].concat());
            self.event(4, 0, [&id[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
        }
        let stack = self.stack + (request % 100) as u32;
        if request.is_multiple_of(4) {
            let names = texts(&["System.FormatException", "The input string was not in a correct format."]);
            self.event(5, stack, [&names[..], &[0; 16]].concat());
        }
        if request.is_multiple_of(3) {
            let head =
                [&106_496_u32.to_le_bytes()[..], &[0; 6], &106_496_u64.to_le_bytes(), &[1; 8]].concat();
            self.event(6, stack, [&head[..], &texts(&["System.String"]), &[0; 20]].concat());
        }
        self.event(2, 0, Vec::new());
        self.request += 1;
    }
}
