//! What the user sees: the table of types.

use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use biopsy_dotnet::graph::{Graph, Totals};
use biopsy_model::heap::{HeapFacts, HeapSource};
use biopsy_recording::SnapshotDocument;
use serde::Serialize;

use crate::exit_codes::Code;
use crate::render::out;
use crate::render::table::{Align, Cell, Column, write_table};
use crate::render::terminal::{ColorChoice, Terminal};
use biopsy_capture::Failure;
use biopsy_capture::snapshot::Snapshot;
use biopsy_capture::words::{grouped, pause_text, size};

use super::args::SnapshotArgs;

/// The result for programs.
#[derive(Serialize)]
pub(crate) struct Document {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    snapshot: SnapshotDocument,
    types: Vec<Row>,
}

/// One type.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    module: String,
    objects: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_bytes: Option<u64>,
}

/// Types by bytes, those of one name and module in one row; free space is no type.
pub(super) fn rows(graph: &Graph) -> Vec<Row> {
    let mut sums: std::collections::HashMap<(&str, &str), (Totals, Option<Totals>)> =
        std::collections::HashMap::new();
    let by_type = graph.by_type();
    for one in &by_type {
        let Some(of) = graph.type_of(one.of).filter(|of| !of.is_free) else { continue };
        let (all, live) = sums.entry((&of.name, &of.module)).or_default();
        all.add_all(one.all);
        if let Some(more) = one.live {
            live.get_or_insert_default().add_all(more);
        }
    }
    let mut rows: Vec<Row> = sums
        .into_iter()
        .map(|((name, module), (all, live))| Row {
            name: name.to_owned(),
            module: module.to_owned(),
            objects: all.objects,
            bytes: all.bytes,
            live_objects: live.map(|live| live.objects),
            live_bytes: live.map(|live| live.bytes),
        })
        .collect();
    rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module))));
    rows
}

pub(crate) fn document(facts: &HeapFacts, graph: &Graph, top: usize) -> Document {
    let mut types = rows(graph);
    if top > 0 {
        types.truncate(top);
    }
    Document { version: 1, path: None, bytes: None, snapshot: facts.into(), types }
}

/// Shows what was made.
pub(super) fn show(args: &SnapshotArgs, made: &Snapshot, color: ColorChoice) -> Result<Code, Failure> {
    if args.json {
        let document = Document {
            path: Some(made.result.path.to_string_lossy().into_owned()),
            bytes: Some(made.result.bytes),
            ..document(&made.facts, &made.graph, args.top)
        };
        out::document(&document)?;
    } else {
        let mut shown = Vec::new();
        let terminal = Terminal::of_stdout(color);
        // Writing to a Vec does not fail.
        let _ = text(&mut shown, &made.name, &made.facts, &made.graph, args.top, terminal);
        let _ = writeln!(shown, "\n{} ({})", made.result.path.display(), size(made.result.bytes));
        out::bytes_of_text(&shown, terminal.colour)?;
    }
    Ok(if made.facts.whole { Code::Ok } else { Code::Partial })
}

/// The table of types as text.
pub(crate) fn text(
    out: &mut dyn Write,
    name: &str,
    facts: &HeapFacts,
    graph: &Graph,
    top: usize,
    terminal: Terminal,
) -> std::io::Result<()> {
    let rows = rows(graph);
    writeln!(out, "heap of {} (pid {}){}", biopsy_target::printable(name), facts.pid, of_runtime(facts))?;
    write_totals(out, facts, rows.len())?;
    if let Some(text) = not_whole(facts) {
        writeln!(out, "  {text}")?;
    }
    for warning in &facts.warnings {
        writeln!(out, "  note: {}", biopsy_target::printable(warning))?;
    }
    writeln!(out)?;
    // What the runtime tells is what a collection left: there is no garbage to show.
    let has_live = facts.live_objects.is_some() && facts.source != HeapSource::Runtime;
    let column = |title, align, expendable| Column { title, align, expendable };
    let mut columns = vec![column("BYTES", Align::Right, 0), column("OBJECTS", Align::Right, 0)];
    if has_live {
        columns.push(column("LIVE BYTES", Align::Right, 0));
        columns.push(column("LIVE", Align::Right, 2));
        columns.push(column("GARBAGE", Align::Right, 3));
    }
    columns.push(column("TYPE", Align::Left, 0));
    let shown = if top == 0 { rows.len() } else { top };
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .take(shown)
        .map(|row| {
            let mut cells = vec![Cell::new(grouped(row.bytes)), Cell::new(grouped(row.objects))];
            if has_live {
                let live = row.live_objects.unwrap_or_default();
                cells.push(Cell::new(grouped(row.live_bytes.unwrap_or_default())));
                cells.push(Cell::new(grouped(live)));
                cells.push(Cell::new(grouped(row.objects.saturating_sub(live))));
            }
            cells.push(Cell::styled(biopsy_target::printable(&row.name), Style::new()));
            cells
        })
        .collect();
    write_table(out, terminal, &columns, &cells)?;
    if rows.len() > shown {
        writeln!(out, "{} more types; `--top 0` lists all", grouped((rows.len() - shown) as u64))?;
    }
    Ok(())
}

/// What there is, all in all.
fn write_totals(out: &mut dyn Write, facts: &HeapFacts, types: usize) -> std::io::Result<()> {
    let told = facts.source == HeapSource::Runtime;
    let live = match (facts.live_objects, facts.live_bytes) {
        _ if told => "; garbage was collected before".to_owned(),
        (Some(objects), Some(bytes)) => format!(
            "; live {} ({}), garbage {} ({})",
            grouped(objects),
            size(bytes),
            grouped(facts.objects.saturating_sub(objects)),
            size(facts.bytes.saturating_sub(bytes))
        ),
        _ => String::new(),
    };
    writeln!(out, "  {} objects ({}){live}", grouped(facts.objects), size(facts.bytes))?;
    let free = if told {
        String::new()
    } else {
        format!("; {} of free space between objects", size(facts.free_bytes))
    };
    writeln!(out, "  {} references, {} types{free}", grouped(facts.references), grouped(types as u64))?;
    if !facts.generations.is_empty() {
        let parts = facts.generations.iter().map(|one| format!("{} {}", one.name, size(one.bytes)));
        writeln!(out, "  {}", parts.collect::<Vec<_>>().join(", "))?;
    }
    if !facts.roots.is_empty() {
        let parts = facts.roots.iter().map(|(kind, count)| format!("{kind} {}", grouped(*count)));
        writeln!(out, "  roots: {}", parts.collect::<Vec<_>>().join(", "))?;
    }
    let pause = pause_text(Duration::from_secs_f64(facts.pause_ms.max(0.0) / 1e3));
    if told {
        if facts.pause_ms > 0.0 {
            writeln!(out, "  told by the runtime, which collected garbage and stood still for {pause}")?;
        }
    } else if facts.attempts > 0 {
        let again = if facts.attempts > 1 {
            let all = pause_text(Duration::from_secs_f64(facts.all_pauses_ms.max(0.0) / 1e3));
            // Recordings of before say only how often.
            let why = facts.retries.text().map_or_else(String::new, |why| format!(": {why}"));
            format!("; frozen {} times ({all} in all){why}", facts.attempts)
        } else {
            String::new()
        };
        writeln!(out, "  pause {pause}, no collection forced{again}")?;
    }
    Ok(())
}

/// Says what is missing; `None`: nothing.
pub(super) fn not_whole(facts: &HeapFacts) -> Option<String> {
    (!facts.whole).then(|| {
        format!(
            "not whole: {} places could not be read, {} skipped, {} references lead nowhere",
            grouped(facts.problems),
            size(facts.skipped_bytes),
            grouped(facts.dangling)
        )
    })
}

fn of_runtime(facts: &HeapFacts) -> String {
    let version = if facts.runtime.is_empty() { String::new() } else { format!(", .NET {}", facts.runtime) };
    let collector = match facts.collector.as_str() {
        "" => String::new(),
        collector => format!(", {collector} collector"),
    };
    format!("{version}{collector}")
}
