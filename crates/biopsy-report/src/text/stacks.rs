//! Stacks for the terminal: what is wrong first, then every stack once, or every thread.
//!
//! ```text
//! server (pid 4711) · .NET 8.0.31 · 43 threads in 12 different stacks · stood still 4.2 ms
//!
//! critical    Deadlock: deploy-worker (4720) and release-worker (4721) wait for each other
//!
//! 1 ×  deploy-worker (4720) · deadlocked
//!      waits for the monitor of ReleaseLock at 0x7f…, held by thread 4721
//!      holds the monitor of DeploymentLock at 0x7f…
//!        6 native frames in libcoreclr.so and libc.so.6
//!        …Sick.DeploymentLocks.LockDeploymentThenRelease                  server.dll
//! ```

use biopsy_analyze::dump::managed::ManagedLock;
use biopsy_analyze::dump::strands::RuntimeKind;
use biopsy_analyze::dump::{DumpAnalysis, DumpThread, FrameRow, StackGroup};
use biopsy_analyze::{Source, Whose};
use biopsy_model::Tid;

use super::findings::findings;
use super::page::{Page, StacksOptions, TextOptions, clean, cut_end};
use super::strands::strands;
use crate::units::{count, counted, duration};
use crate::words::dump as words;

/// Threads of a group that are named.
const NAMED: usize = 8;
/// Chains of asynchronous operations that are shown.
const OPERATIONS: usize = 12;
/// Methods of one chain that are shown.
const METHODS: usize = 5;
/// Locks that a thread holds, at most.
const HELD: usize = 6;

/// Functions of Go's runtime below which C is at work, in the same file.
const CALLS_OF_C: [&str; 2] = ["runtime.cgocall", "runtime.asmcgocall"];

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const YELLOW: &str = "33";

/// All stacks of a process.
pub(crate) fn stacks(analysis: &DumpAnalysis, options: StacksOptions) -> String {
    let mut page = Page::new(TextOptions { width: options.width.or(Some(120)), color: options.color });
    let mut out = Out { text: String::new(), options };
    out.head(analysis);
    let found: Vec<_> = analysis.findings.iter().map(|finding| (Source::Dump(0), finding)).collect();
    findings(&mut page, &found, false);
    summaries(&mut page, analysis);
    out.text.push_str(&page.text);
    // What a language calls its own comes first: the interpreter's functions tell little.
    out.text.push_str(&strands(&analysis.strands, options));
    if options.all {
        for index in 0..analysis.threads.len() {
            if let Some(group) = analysis.threads.get(index).and_then(|one| analysis.groups.get(one.group)) {
                out.one(analysis, group, &[index]);
            }
        }
    } else {
        let shown = |group: &&StackGroup| options.native || !is_of_language(analysis, group);
        for group in analysis.groups.iter().filter(shown) {
            out.one(analysis, group, &group.members);
        }
        out.left_out(analysis.groups.iter().filter(|group| !shown(group)));
    }
    out.rest(analysis);
    out.text
}

/// The thread pool.
fn summaries(page: &mut Page, analysis: &DumpAnalysis) {
    let Some(managed) = &analysis.managed else { return };
    for runtime in &managed.runtimes {
        if let Some(problem) = &runtime.problem {
            page.line("not read", "1;33", &format!("{}: {problem}; its frames are addresses", runtime.name));
        }
    }
    if let Some(pool) = &managed.pool {
        let mut body = counted(pool.workers as u64, "worker", "workers");
        body.push_str(&format!(", {} waiting for work, {} blocked", pool.idle, pool.blocked.len()));
        if !pool.waiting_for_tasks.is_empty() {
            body.push_str(&format!(" ({} until a task completes)", pool.waiting_for_tasks.len()));
        }
        if let Some(queued) = managed.operations.as_ref().and_then(|one| one.queued) {
            body.push_str(&format!("; {} in its queues", counted(queued, "work item", "work items")));
        }
        page.line("thread pool", DIM, &body);
    }
    let Some(operations) = &managed.operations else { return };
    let mut parts = vec![format!("{} at an await", count(operations.pending))];
    if operations.timers > 0 {
        parts.push(counted(operations.timers, "timer", "timers"));
    }
    if let Some(requests) = operations.requests {
        parts.push(format!("{} being answered", counted(requests, "request", "requests")));
    }
    page.line("async", DIM, &parts.join(", "));
    for group in operations.groups.iter().take(OPERATIONS) {
        let shown = group.methods.iter().take(METHODS).map(String::as_str).collect::<Vec<_>>().join(" ← ");
        let more = group.methods.len().saturating_sub(METHODS);
        let more = if more > 0 { format!(" ← {more} more") } else { String::new() };
        let on = match &group.object {
            Some((address, name)) if group.count > 1 => {
                format!("{} (all on one {name} at {address})", group.awaits)
            }
            _ => group.awaits.clone(),
        };
        page.line(&format!("  {} ×", group.count), BOLD, &format!("{shown}{more} awaits {on}"));
    }
    if operations.groups.len() > OPERATIONS {
        page.line(
            "",
            DIM,
            &format!(
                "and {}: see `--json`",
                counted((operations.groups.len() - OPERATIONS) as u64, "other chain", "other chains")
            ),
        );
    }
}

struct Out {
    text: String,
    options: StacksOptions,
}

impl Out {
    fn width(&self) -> usize {
        self.options.width.unwrap_or(usize::MAX)
    }

    fn painted(&self, code: &str, word: &str) -> String {
        if self.options.color && !word.is_empty() {
            format!("\x1b[{code}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    fn push(&mut self, indent: usize, code: &str, line: &str) {
        let line = cut_end(&clean(line), self.width().saturating_sub(indent));
        let painted = if code.is_empty() { line } else { self.painted(code, &line) };
        self.text.push_str(&" ".repeat(indent));
        self.text.push_str(&painted);
        self.text.push('\n');
    }

    fn head(&mut self, analysis: &DumpAnalysis) {
        let identity = &analysis.identity;
        let mut parts = vec![format!("{} (pid {})", identity.name, identity.pid)];
        let runtimes = analysis.managed.iter().flat_map(|managed| &managed.runtimes);
        parts.extend(runtimes.map(|runtime| runtime.name.clone()));
        let threads = counted(analysis.threads.len() as u64, "thread", "threads");
        let stacks = counted(analysis.groups.len() as u64, "different stack", "different stacks");
        parts.push(format!("{threads} in {stacks}"));
        parts.extend(identity.pause.map(|pause| format!("stood still {}", duration(pause))));
        self.push(0, BOLD, &parts.join(" · "));
        if let Some(looks) = words::looks(analysis) {
            self.push(0, DIM, &looks);
        }
        self.text.push('\n');
    }

    fn one(&mut self, analysis: &DumpAnalysis, group: &StackGroup, members: &[usize]) {
        let threads: Vec<&DumpThread> =
            members.iter().filter_map(|index| analysis.threads.get(*index)).collect();
        let count = format!("{} ×", threads.len());
        let indent = count.chars().count() + 2;
        let names: Vec<String> = threads.iter().take(NAMED).map(|thread| thread.label()).collect();
        let more = threads.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = if threads.len() <= NAMED {
            names.join(", ")
        } else {
            format!("{} ({}{more})", words::names(analysis, group), ids(&threads))
        };
        let mark = match (group.crashed, group.in_cycle) {
            (true, _) => " · crashed",
            (_, true) => " · deadlocked",
            _ => "",
        };
        self.text.push('\n');
        let color = if mark.is_empty() { BOLD } else { RED };
        let shown = cut_end(&clean(&format!("{shown}{mark}")), self.width().saturating_sub(indent));
        let line = format!("{}  {}", self.painted(DIM, &count), self.painted(color, &shown));
        self.text.push_str(&line);
        self.text.push('\n');
        if let Some(movement) = words::movement(threads.iter().copied()) {
            self.push(indent, DIM, movement);
        }
        for line in facts(analysis, group, &threads) {
            self.push(indent, YELLOW, &line);
        }
        self.frames(group, indent + 2);
    }

    fn left_out<'a>(&mut self, groups: impl Iterator<Item = &'a StackGroup>) {
        let threads: usize = groups.map(|group| group.members.len()).sum();
        if threads > 0 {
            let what = counted(threads as u64, "thread", "threads");
            self.text.push('\n');
            self.push(
                0,
                DIM,
                &format!("native frames of {what} are those of the language alone: see `--native`"),
            );
        }
    }

    fn frames(&mut self, group: &StackGroup, indent: usize) {
        let lines = lines(group, self.options.native);
        // The innermost matter most, and where it all began is known.
        let shown = if lines.len() > self.options.frames { self.options.frames } else { lines.len() };
        for line in lines.iter().take(shown) {
            match line {
                Line::Frame(row) => self.frame(row, indent),
                Line::Note(note) => self.push(indent, DIM, note),
            }
        }
        if lines.len() > shown {
            let more = counted((lines.len() - shown) as u64, "more frame", "more frames");
            self.push(indent, DIM, &format!("… {more}"));
        }
        if let Some(end) = words::end(group) {
            self.push(indent, DIM, &format!("({end})"));
        }
    }

    fn frame(&mut self, row: &FrameRow, indent: usize) {
        let room = self.width().saturating_sub(indent);
        let mut label = clean(&row.label());
        if row.inlined {
            label.push_str(" (inlined)");
        }
        let (times, rows) = row.repeats;
        match (times, rows) {
            (2.., 1) => label.push_str(&format!(" ({times} times)")),
            (2.., _) => label.push_str(&format!(" (these {rows} frames {times} times)")),
            _ => {}
        }
        let source = row.source.as_ref().map(|(file, line)| {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("{name}{}", line.map_or(String::new(), |line| format!(":{line}")))
        });
        let place = match (&row.function, source) {
            (None, _) => String::new(),
            (Some(_), Some(source)) => source,
            (Some(_), None) => row.module.clone(),
        };
        let place = clean(&place);
        let wanted = label.chars().count() + 2 + place.chars().count();
        self.text.push_str(&" ".repeat(indent));
        if place.is_empty() || wanted > room {
            self.text.push_str(&cut_start(&label, room));
        } else {
            self.text.push_str(&label);
            self.text.push_str("  ");
            let painted = self.painted(DIM, &place);
            self.text.push_str(&painted);
        }
        self.text.push('\n');
    }

    fn rest(&mut self, analysis: &DumpAnalysis) {
        if analysis.undetermined.is_empty() {
            return;
        }
        self.text.push('\n');
        let mut page =
            Page::new(TextOptions { width: self.options.width.or(Some(120)), color: self.options.color });
        for (index, one) in analysis.undetermined.iter().enumerate() {
            page.line(if index == 0 { "not known" } else { "" }, DIM, &one.replace('`', ""));
        }
        self.text.push_str(&page.text);
    }
}

/// Its native frames say nothing that the strands of a language do not say better: they are an interpreter or a runtime at work, and
/// the C library below it. Code of an extension is shown, and of the program where it is in none of the strands.
fn is_of_language(analysis: &DumpAnalysis, group: &StackGroup) -> bool {
    let runtimes = || analysis.strands.iter().map(|one| &one.runtime);
    let strands = || runtimes().flat_map(|runtime| &runtime.strands);
    if group.crashed || strands().next().is_none() {
        return false;
    }
    let is_go = runtimes().any(|runtime| runtime.kind == RuntimeKind::Go);
    let is_of_runtime = |row: &FrameRow| {
        // What is compiled at run time is in no file.
        row.module.is_empty() || runtimes().any(|runtime| row.module.as_bytes() == file_name(&runtime.path))
    };
    let is_plain = |row: &FrameRow| {
        let calls_c =
            row.function.as_deref().is_some_and(|name| CALLS_OF_C.iter().any(|one| name.starts_with(one)));
        !calls_c && (row.whose == Whose::Plumbing || is_of_runtime(row))
    };
    let has_own = group.frames.iter().any(|row| row.whose == Whose::Program);
    let shown_there = |index: &usize| {
        let tid = analysis.threads.get(*index).map(|thread| thread.tid);
        tid.is_some() && strands().any(|strand| strand.tid == tid && !strand.frames.is_empty())
    };
    // Code in Go is in both.
    group.frames.iter().all(is_plain) && (!has_own || is_go && group.members.iter().all(shown_there))
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn ids(threads: &[&DumpThread]) -> String {
    let shown: Vec<String> = threads.iter().take(NAMED).map(|thread| thread.tid.to_string()).collect();
    shown.join(", ")
}

/// What is to be said of the threads of a stack, beside their frames.
fn facts(analysis: &DumpAnalysis, group: &StackGroup, threads: &[&DumpThread]) -> Vec<String> {
    let mut lines = Vec::new();
    let doing = if threads.len() == 1 { threads[0].words() } else { group.doing.clone() };
    let telling = threads.iter().any(|thread| {
        thread.lock.as_ref().is_some_and(|lock| lock.object.is_some() || lock.thread().is_some())
    });
    let native = group.frames.iter().all(|row| !row.managed);
    if telling || native || group.running > 0 {
        lines.push(with_names(analysis, threads, &doing.replace('`', "")));
    }
    let locks = analysis.managed.iter().flat_map(|managed| &managed.locks);
    let held: Vec<&ManagedLock> =
        locks.filter(|lock| threads.iter().any(|thread| lock.owner == Some(thread.tid))).collect();
    for lock in held.iter().take(HELD) {
        lines.push(holds(lock));
    }
    if held.len() > HELD {
        lines.push(format!("and holds {}", counted((held.len() - HELD) as u64, "more lock", "more locks")));
    }
    for exception in threads.iter().filter_map(|thread| thread.managed.as_ref()?.exception.as_ref()).take(1) {
        lines.push(format!("last exception: {}", exception.words()));
    }
    lines
}

/// The owner by its name, where a sentence has its id.
fn with_names(analysis: &DumpAnalysis, threads: &[&DumpThread], words: &str) -> String {
    let owner = threads.first().and_then(|thread| thread.lock.as_ref()?.thread());
    let Some(owner) = owner.and_then(|owner: Tid| analysis.thread(owner)).filter(|owner| owner.named) else {
        return words.to_owned();
    };
    words.replace(&format!("held by thread {}", owner.tid), &format!("held by {}", owner.label()))
}

fn holds(lock: &ManagedLock) -> String {
    use biopsy_analyze::dump::LockKind;
    let what = match lock.kind {
        LockKind::Monitor => format!("the monitor of {}", lock.type_name),
        _ => format!("a {}", lock.type_name),
    };
    let waiting = match lock.waiters.len() {
        0 => String::new(),
        count => format!(", which {} for", counted(count as u64, "thread waits", "threads wait")),
    };
    format!("holds {what} at {:#x}{waiting}", lock.object)
}

enum Line<'a> {
    Frame(&'a FrameRow),
    Note(String),
}

/// The rows, native ones of managed threads put together unless they are wanted.
fn lines(group: &StackGroup, native: bool) -> Vec<Line<'_>> {
    let managed = group.frames.iter().any(|row| row.managed);
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut hidden: Vec<&FrameRow> = Vec::new();
    let mut folding = Folding::default();
    for row in &group.frames {
        if !native && (row.is_note() || row.managed && folding.leaves_out(row)) {
            continue;
        }
        if row.skipped > 0 {
            lines.push(Line::Note(format!("… {} left out", counted(row.skipped.into(), "frame", "frames"))));
        }
        if !native && managed && !row.managed {
            hidden.push(row);
            continue;
        }
        lines.extend(together(&mut hidden));
        lines.push(Line::Frame(row));
    }
    lines.extend(together(&mut hidden));
    lines
}

/// What compilers and runtimes add to async methods: the method that starts the state machine has the name of the machine, and
/// between them stand the frames of a builder.
#[derive(Default)]
struct Folding {
    /// Name of the state machine's method, from its frame on up to the method that started it.
    started: Option<String>,
}

impl Folding {
    fn leaves_out(&mut self, row: &FrameRow) -> bool {
        const COMPILER: &str = "System.Runtime.CompilerServices.";
        const CONTEXT: &str = "System.Threading.ExecutionContext.Run";
        let Some(name) = row.function.as_deref() else { return false };
        if let Some(own) = name.strip_prefix(COMPILER) {
            let starts = own.contains("MethodBuilder") && own.contains(".Start<");
            return starts || own.contains("StateMachineBox<");
        }
        if name.starts_with(CONTEXT) {
            return true;
        }
        let is_kickoff = self.started.take().is_some_and(|started| started == name);
        self.started = name.strip_suffix(" (async)").map(str::to_owned);
        is_kickoff
    }
}

/// One native frame is shown; several are one line.
fn together<'a>(hidden: &mut Vec<&'a FrameRow>) -> Option<Line<'a>> {
    let rows = std::mem::take(hidden);
    let first = rows.first()?;
    if rows.len() == 1 {
        return Some(Line::Frame(first));
    }
    let mut modules: Vec<&str> = Vec::new();
    for row in &rows {
        let module = if row.module.is_empty() { "no module" } else { row.module.as_str() };
        if !modules.contains(&module) {
            modules.push(module);
        }
    }
    let more = modules.len().saturating_sub(3);
    let mut names = modules.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    // The innermost named one says what it is about.
    let function = rows.iter().find_map(|row| row.function.as_deref());
    let inner = function.map_or(String::new(), |name| format!(": {name}"));
    Some(Line::Note(format!(
        "{} in {names}{inner}",
        counted(rows.len() as u64, "native frame", "native frames")
    )))
}

/// Without its beginning, where it is too long: of a method's name the end tells more than the namespace.
fn cut_start(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let skip = count.saturating_sub(width.saturating_sub(1));
    let rest: String = text.chars().skip(skip).collect();
    // From the next part of the name on.
    let rest =
        rest.split_once('.').map_or(rest.as_str(), |(_, after)| if after.len() > 8 { after } else { &rest });
    format!("…{rest}")
}

#[cfg(test)]
mod tests;
