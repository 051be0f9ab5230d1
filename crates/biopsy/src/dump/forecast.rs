//! What a dump would cost, said before anything is touched.

use std::io::Write;

use biopsy_model::Pid;
use biopsy_model::printable::printable;
use biopsy_target::freeze::{self, FreezeOptions, FreezePlan, Method, ProcessPlan};
use biopsy_target::{Check, FindError, Selector, Status};
use serde::Serialize;

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::out;
use crate::render::terminal::Terminal;
use crate::session::progress::{grouped, size};
use crate::session::subject::NOTE;

use super::args::{DumpArgs, Format, Kind};
use super::place::Destination;
use super::show::pause_text;
use super::subject::Subject;

/// A compressed dump of ordinary memory has about this share of its size; text and pointers pack better, packed data not at all.
const USUAL_SHARE: f64 = 0.3;

/// The options of the freeze that follow from the command line.
pub(crate) fn freeze_options(args: &DumpArgs) -> FreezeOptions {
    FreezeOptions {
        max_pause: args.max_pause,
        collapse: args.collapse,
        stacks_only: args.kind() == Kind::Stacks,
        ..FreezeOptions::default()
    }
}

/// Plans, says so, and refuses where it would do harm.
pub(crate) fn forecast(
    args: &DumpArgs,
    subject: &Subject,
    destination: &Destination,
    terminal: Terminal,
) -> Result<FreezePlan, Failure> {
    let plan = plan_all(args, subject)?;
    let disk = Disk::of(args, &plan, destination);
    if args.json && args.dry_run {
        return print_json(args, subject, &plan, &disk).map(|()| plan);
    }
    if !args.quiet || args.dry_run {
        let mut text = Vec::new();
        // Writing to a Vec does not fail.
        let _ = write_plan(&mut text, args, subject, &plan, &disk, terminal);
        let text = String::from_utf8_lossy(&text);
        if args.dry_run {
            out::text(&text, terminal.colour)?;
        } else {
            out::to_stderr(&text, terminal.colour);
        }
    }
    if let Some(refused) = plan.processes.iter().find(|one| one.method == Method::Refused) {
        return Err(refusal(refused));
    }
    if plan.predicted_pause > args.max_pause {
        return Err(too_long(args, &plan));
    }
    disk.check()?;
    Ok(plan)
}

/// The plan for those processes that are still there; the target itself must be.
fn plan_all(args: &DumpArgs, subject: &Subject) -> Result<FreezePlan, Failure> {
    let mut keys = subject.keys();
    loop {
        match freeze::plan(&keys, &freeze_options(args)) {
            Ok(mut plan) => {
                let target = keys.first().map(|key| key.pid);
                plan.processes.retain(|process| {
                    let pid = process.key.pid;
                    process.method != Method::Refused || Some(pid) == target || !has_ended(pid)
                });
                return Ok(plan);
            }
            Err(freeze::FreezeError::Ended { pid }) if keys.iter().skip(1).any(|key| key.pid == pid) => {
                keys.retain(|key| key.pid != pid);
            }
            Err(error) => return Err(freeze_failure(&error)),
        }
    }
}

/// Gone, or a zombie: there is no memory to dump.
fn has_ended(pid: Pid) -> bool {
    let found = biopsy_target::find(&Selector::Pid(pid));
    matches!(found, Err(FindError::NotFound { .. } | FindError::Zombie { .. }))
}

/// What the disk has, and what the dump will take.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Disk {
    /// What it will probably be.
    expected_bytes: u64,
    /// What it could be at worst.
    most_bytes: u64,
    /// What is free; `None`: not a disk.
    free_bytes: Option<u64>,
}

impl Disk {
    fn of(args: &DumpArgs, plan: &FreezePlan, destination: &Destination) -> Self {
        let present: u64 = plan.processes.iter().map(|process| process.present_bytes).sum();
        let threads: u64 = plan.processes.iter().map(|process| u64::from(process.threads)).sum();
        let all = match args.kind() {
            Kind::Full | Kind::Heap => present,
            Kind::Stacks => present.min(threads.saturating_mul(256 << 10).saturating_add(8 << 20)),
        };
        let all = args.max_size.map_or(all, |limit| {
            all.min(limit.saturating_mul(1 << 20).saturating_mul(plan.processes.len() as u64))
        });
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate"
        )]
        let usual = (all as f64 * USUAL_SHARE) as u64;
        let free_bytes = destination.path().and_then(crate::session::output::free_bytes);
        let packed = args.format() == Format::Core && !args.raw;
        Self { expected_bytes: if packed { usual } else { all }, most_bytes: all, free_bytes }
    }

    fn check(&self) -> Result<(), Failure> {
        match self.free_bytes {
            Some(free) if free < self.expected_bytes.saturating_add(crate::session::output::DISK_RESERVE) => {
                let message = format!(
                    "the disk has {} free, and the dump will need about {}",
                    size(free),
                    size(self.expected_bytes)
                );
                let hint =
                    "name another place with `--output`, or take less with `--kind stacks` or `--max-size`";
                Err(Failure::new(Code::Output, message).with_hint(Some(hint)))
            }
            _ => Ok(()),
        }
    }
}

fn write_plan(
    out: &mut dyn Write,
    args: &DumpArgs,
    subject: &Subject,
    plan: &FreezePlan,
    disk: &Disk,
    terminal: Terminal,
) -> std::io::Result<()> {
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
    let kind = match args.kind() {
        Kind::Full => "full",
        Kind::Heap => "heap",
        Kind::Stacks => "stacks",
    };
    let free = disk.free_bytes.map_or_else(String::new, |free| format!("; {} are free", size(free)));
    writeln!(
        out,
        "  size    about {} ({kind}, {}), {} at most{free}",
        size(disk.expected_bytes),
        match args.format() {
            Format::Minidump => "a minidump",
            Format::Core if args.raw => "not compressed",
            Format::Core => "compressed",
        },
        size(disk.most_bytes),
    )
}

fn write_check(out: &mut dyn Write, check: &Check, terminal: Terminal) -> std::io::Result<()> {
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

fn refusal(process: &ProcessPlan) -> Failure {
    let hint = process.checks.iter().find_map(|check| check.hint.clone());
    Failure::new(Code::Target, format!("process {} is not dumped: {}", process.key.pid, process.why))
        .with_hint(hint)
}

fn too_long(args: &DumpArgs, plan: &FreezePlan) -> Failure {
    let message = format!(
        "the pause would be about {}, more than the {} that are allowed",
        pause_text(plan.predicted_pause),
        pause_text(args.max_pause)
    );
    let collapse = if args.collapse {
        ""
    } else {
        "`--collapse` makes huge pages of the heap first and the pause far shorter; "
    };
    let hint = format!(
        "{collapse}`--kind stacks` needs less; `--max-pause {}` allows it",
        pause_text(plan.predicted_pause.saturating_mul(2)).replace(' ', "")
    );
    Failure::new(Code::Target, message).with_hint(Some(hint))
}

/// A freeze that did not work, in words.
pub(crate) fn freeze_failure(error: &freeze::FreezeError) -> Failure {
    let code = match error {
        freeze::FreezeError::NotPermitted { .. } => Code::Permission,
        _ => Code::Target,
    };
    let hint = (code == Code::Permission)
        .then_some("`biopsy doctor` says what this account may do, and the command that would allow more");
    Failure::from_error(code, error).with_hint(hint)
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    target: &'a str,
    kind: String,
    predicted_pause_ms: f64,
    disk: &'a Disk,
    processes: Vec<ProcessDocument<'a>>,
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

fn print_json(args: &DumpArgs, subject: &Subject, plan: &FreezePlan, disk: &Disk) -> Result<(), Failure> {
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
    let document = Document {
        version: 1,
        target: &subject.name,
        kind: format!("{:?}", args.kind()).to_lowercase(),
        predicted_pause_ms: plan.predicted_pause.as_secs_f64() * 1e3,
        disk,
        processes: processes.collect(),
    };
    super::show::print_document(&document)
}
