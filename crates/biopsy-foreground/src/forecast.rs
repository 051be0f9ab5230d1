//! What a dump would cost, in words and as JSON.

use std::fmt::Write;

use biopsy_capture::Failure;
use biopsy_capture::dump::Forecast;
use biopsy_capture::words::{grouped, pause_text, size};
use biopsy_image::write::CoreKind;
use biopsy_model::printable::printable;
use biopsy_target::freeze::Method;
use biopsy_target::{Check, Status};
use serde::Serialize;

use crate::out;
use biopsy_terminal::terminal::{ColorChoice, NOTE, Terminal};

/// Shows it: as the result where nothing else is to be done, and else as something to know.
pub(crate) fn show_forecast(
    forecast: &Forecast<'_>,
    quiet: bool,
    json: bool,
    color: ColorChoice,
) -> Result<(), Failure> {
    let alone = forecast.dump.dry_run;
    let terminal = Terminal::of_stderr(color);
    if json && alone {
        return out::document(&document(forecast)).map(drop);
    }
    if alone || !quiet {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = write_plan(&mut text, forecast, terminal);
        if alone {
            out::text(&text, terminal.colour)?;
        } else {
            out::to_stderr(&text, terminal.colour);
        }
    }
    Ok(())
}

fn write_plan(out: &mut String, forecast: &Forecast<'_>, terminal: Terminal) -> std::fmt::Result {
    let Forecast { subject, dump, freeze: plan, disk } = forecast;
    let more = match plan.processes.len() {
        1 => String::new(),
        count => format!(" and {} below it, frozen in one moment", count - 1),
    };
    writeln!(out, "dump of {} (pid {}){more}", printable(&subject.name), subject.target().key.pid)?;
    for process in &plan.processes {
        let info = subject.processes.iter().find(|info| info.key == process.key);
        if let Some(info) = info.filter(|_| plan.processes.len() > 1) {
            writeln!(out, "  {} (pid {})", printable(&info.name), process.key.pid)?;
        }
        writeln!(out, "  method  {}: {}", method_words(process.method), process.why)?;
        writeln!(
            out,
            "  pause   about {}: {} threads, {} pages of 4 KiB, {} of 2 MiB",
            pause_text(process.predicted_pause),
            grouped(u64::from(process.threads)),
            grouped(process.small_pages),
            grouped(process.huge_pages),
        )?;
        let available = process.memory_available.map_or_else(|| "?".to_owned(), size);
        writeln!(
            out,
            "  memory  {} present; the freeze may need {} of {available} that can be had",
            size(process.present_bytes),
            size(process.memory_needed),
        )?;
        for check in process.checks.iter().filter(|check| check.status != Status::Ok) {
            write_check(out, check, terminal)?;
        }
    }
    let free = disk.free.map_or_else(String::new, |free| format!("; {} are free", size(free)));
    writeln!(
        out,
        "  size    about {} ({}, {}), {} at most{free}",
        size(disk.expected),
        kind_word(dump.kind),
        match (dump.minidump, dump.raw) {
            (true, _) => "a minidump",
            (_, true) => "not compressed",
            _ => "compressed",
        },
        size(disk.most),
    )
}

fn write_check(out: &mut String, check: &Check, terminal: Terminal) -> std::fmt::Result {
    writeln!(out, "  {} {}: {}", terminal.paint(NOTE, "note:"), check.name, check.detail)?;
    if let Some(hint) = &check.hint {
        writeln!(out, "        {hint}")?;
    }
    Ok(())
}

fn method_words(method: Method) -> &'static str {
    match method {
        Method::CopyOnWrite => "copy-on-write",
        Method::StopAndCopy => "stop and copy",
        Method::Refused => "none",
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    target: &'a str,
    kind: &'static str,
    predicted_pause_ms: f64,
    disk: DiskDocument,
    processes: Vec<ProcessDocument<'a>>,
}

#[derive(Serialize)]
struct DiskDocument {
    expected_bytes: u64,
    most_bytes: u64,
    free_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ProcessDocument<'a> {
    pid: u32,
    method: &'static str,
    why: &'a str,
    predicted_pause_ms: f64,
    threads: u32,
    small_pages: u64,
    huge_pages: u64,
    present_bytes: u64,
    memory_needed: u64,
    memory_available: Option<u64>,
}

fn document<'a>(forecast: &'a Forecast<'_>) -> Document<'a> {
    let (plan, disk) = (&forecast.freeze, &forecast.disk);
    let processes = plan.processes.iter().map(|process| ProcessDocument {
        pid: process.key.pid.0,
        method: method_words(process.method),
        why: &process.why,
        predicted_pause_ms: process.predicted_pause.as_secs_f64() * 1e3,
        threads: process.threads,
        small_pages: process.small_pages,
        huge_pages: process.huge_pages,
        present_bytes: process.present_bytes,
        memory_needed: process.memory_needed,
        memory_available: process.memory_available,
    });
    Document {
        version: 1,
        target: &forecast.subject.name,
        kind: kind_word(forecast.dump.kind),
        predicted_pause_ms: plan.predicted_pause.as_secs_f64() * 1e3,
        disk: DiskDocument { expected_bytes: disk.expected, most_bytes: disk.most, free_bytes: disk.free },
        processes: processes.collect(),
    }
}

fn kind_word(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Full => "full",
        CoreKind::Heap => "heap",
        CoreKind::Stacks => "stacks",
    }
}
