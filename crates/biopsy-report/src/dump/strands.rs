//! Goroutines, and threads and tasks of Python and others: for the terminal, and as JSON.
//!
//! ```text
//! Go 1.22.10 · 39 goroutines in 21 different stacks
//!
//! 2 ×  goroutine 18, 19 · waiting
//!      waits for a mutex at 0xc0000aa020 (sync.Mutex.Lock), which goroutine 19 very likely has
//!        sync.(*Mutex).Lock                                    mutex.go:90
//!        main.transfer                                         bank.go:52
//!      started by main.main
//! ```

use biopsy_analyze::dump::StrandRuntime;
use biopsy_analyze::dump::strands::{Holder, Strand, StrandFrame, StrandGroup, WaitKind};
use serde::{Deserialize, Serialize};

use crate::text::clean;
use crate::units::counted;

/// Members of a group that are named.
const NAMED: usize = 8;
/// Groups and their members that are written as JSON.
const GROUPS: usize = 1_000;
const IDS: usize = 1_000;
/// Columns of a function's name before its file.
const FUNCTION: usize = 56;
const BOLD: &str = "1";
const DIM: &str = "2";

/// How they are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    /// Columns; `None`: lines are not cut.
    pub(super) width: Option<usize>,
    /// Use ANSI colours.
    pub(super) color: bool,
    /// Strands of the runtime itself too.
    pub(super) all: bool,
    /// Frames of one stack at most.
    pub(super) frames: usize,
}

/// All runtimes, for the terminal.
pub(super) fn render(runtimes: &[StrandRuntime], options: Shown) -> String {
    let mut out = String::new();
    let mut line = |indent: usize, code: &str, text: &str| {
        let width = options.width.unwrap_or(usize::MAX).saturating_sub(indent);
        let text: String = clean(text).chars().take(width).collect();
        let text =
            if options.color && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
        out.push_str(&format!("{}{text}\n", " ".repeat(indent)));
    };
    for runtime in runtimes {
        let word = runtime.runtime.strands.first().map_or("strand", |first| first.kind.word());
        let total = counted(runtime.runtime.total, word, &format!("{word}s"));
        let stacks = counted(runtime.groups.len() as u64, "different stack", "different stacks");
        line(0, "", "");
        line(0, BOLD, &format!("{} · {total} in {stacks}", runtime.runtime.label()));
        for warning in &runtime.runtime.warnings {
            line(0, "33", &format!("not read: {warning}"));
        }
        let mut hidden = 0;
        for group in runtime.groups.iter().take(GROUPS) {
            let Some(first) = runtime.first(group) else { continue };
            if first.of_runtime && !options.all {
                hidden += group.members.len();
                continue;
            }
            line(0, "", "");
            line(
                0,
                BOLD,
                &format!("{} ×  {} · {}", group.members.len(), names(runtime, group), first.state.words()),
            );
            if let Some(wait) = wait(runtime, first) {
                line(5, "", &wait);
            }
            for frame in first.frames.iter().take(options.frames) {
                let place = place(frame).unwrap_or_default();
                line(7, "", format!("{:FUNCTION$}  {place}", frame.function).trim_end());
            }
            if first.cut || first.frames.len() > options.frames {
                line(7, DIM, "…");
            }
            if let Some(start) = &first.started_at {
                let at = place(start).map_or(String::new(), |place| format!(" ({place})"));
                line(5, DIM, &format!("started by {}{at}", start.function));
            }
        }
        if runtime.groups.len() > GROUPS {
            line(0, "", "");
            line(0, DIM, &format!("and {} other stacks", runtime.groups.len() - GROUPS));
        }
        if hidden > 0 {
            line(0, "", "");
            line(0, DIM, &format!("and {hidden} of the runtime itself: see `--all`"));
        }
    }
    out
}

fn names(runtime: &StrandRuntime, group: &StrandGroup) -> String {
    let members = group.members.iter().filter_map(|index| runtime.runtime.strands.get(*index));
    let mut named: Vec<String> = members
        .take(NAMED)
        .enumerate()
        .map(|(index, strand)| {
            let label = runtime.label(strand);
            // The word once, then numbers and names.
            let short = label.strip_prefix(strand.kind.word()).map(|rest| rest.trim_start().to_owned());
            if index == 0 { label } else { short.unwrap_or(label) }
        })
        .collect();
    if group.members.len() > NAMED {
        named.push(format!("{} more", group.members.len() - NAMED));
    }
    named.join(", ")
}

fn wait(runtime: &StrandRuntime, strand: &Strand) -> Option<String> {
    let wait = strand.wait.as_ref()?;
    let mut text = match wait.kind {
        WaitKind::Other if !wait.reason.is_empty() => format!("waits for {}", wait.reason),
        kind => format!("waits for {}", kind.words()),
    };
    if let Some(address) = wait.address {
        text.push_str(&format!(" at {address:#x}"));
    }
    if let Some(descriptor) = wait.descriptor {
        text.push_str(&format!(" (descriptor {descriptor})"));
    }
    if wait.kind != WaitKind::Other && !wait.reason.is_empty() {
        text.push_str(&format!(" ({})", wait.reason));
    }
    if wait.never_ends {
        text.push_str(", which nothing can end");
    }
    for (holder, owner) in runtime.owners(strand).take(NAMED) {
        let frame = owner.frame.and_then(|frame| holder.frames.get(frame));
        let since = frame.map_or(String::new(), |frame| {
            let at = place(frame).map_or(String::new(), |place| format!(" ({place})"));
            format!(" in {}{at}", frame.function)
        });
        let (label, sure) = (runtime.label(holder), owner.confidence.words());
        match wait.kind {
            WaitKind::Join | WaitKind::Future => text.push_str(&format!(": {label}")),
            _ => text.push_str(&format!(", which {label} {sure} has{since}")),
        }
    }
    Some(text)
}

/// `bank.go:52`.
fn place(frame: &StrandFrame) -> Option<String> {
    let file = frame.file.as_deref()?;
    let name = file.rsplit('/').next().unwrap_or(file);
    Some(frame.line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}")))
}

/// A language runtime other than .NET.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// `Go 1.22.10`.
    pub name: String,
    /// Path of the executable or library that it is in.
    pub path: String,
    /// Goroutines, threads and tasks.
    pub strands: u64,
    /// What was not understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Number of the strand that has the interpreter's lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter_lock: Option<String>,
    /// Circles: numbers of strands, each waits for the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<Vec<String>>,
    /// Equal ones together.
    pub groups: Vec<Group>,
}

/// Strands that stand in the same place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// How many.
    pub count: usize,
    /// `goroutine`, `thread`, `task`.
    pub kind: String,
    /// Their numbers, the first of them.
    pub ids: Vec<String>,
    /// Their names, as far as they have any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Threads of the system that they are on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<u32>,
    /// `running`, `runnable`, `in native code`, `waiting`.
    pub state: String,
    /// What the first of them waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// There are more frames.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The function that started them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by: Option<Frame>,
    /// They are the runtime's own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_runtime: bool,
}

/// What is waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// In words: `a mutex`.
    pub kind: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The runtime's words.
    pub reason: String,
    /// Type of the thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The descriptor, for input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<u32>,
    /// Since when at the latest, on `CLOCK_MONOTONIC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<u64>,
    /// Nothing can end it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_ends: bool,
    /// Who has it, candidates too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<WaitOwner>,
}

/// Who has what is waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitOwner {
    /// Number of the strand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strand: Option<String>,
    /// Thread of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// `certainly`, `almost certainly`, `very likely`, `possibly`.
    pub confidence: String,
    /// What it was read from.
    pub proof: String,
}

/// A call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// The function.
    pub function: String,
    /// Path of the source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Put into the next one by the compiler.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

/// As JSON has it.
pub(super) fn runtime(runtime: &StrandRuntime) -> Runtime {
    let id = |index: &usize| runtime.runtime.strands.get(*index).map(|strand| strand.id.to_string());
    Runtime {
        name: runtime.runtime.label(),
        path: String::from_utf8_lossy(&runtime.runtime.path).into_owned(),
        strands: runtime.runtime.total,
        problems: runtime.runtime.warnings.clone(),
        interpreter_lock: runtime
            .runtime
            .interpreter_lock
            .as_ref()
            .and_then(|lock| lock.holder)
            .map(|holder| holder.to_string()),
        cycles: runtime.cycles.iter().map(|cycle| cycle.members.iter().filter_map(id).collect()).collect(),
        groups: runtime.groups.iter().take(GROUPS).filter_map(|one| group(runtime, one)).collect(),
    }
}

fn group(runtime: &StrandRuntime, group: &StrandGroup) -> Option<Group> {
    let first = runtime.first(group)?;
    let members = || group.members.iter().take(IDS).filter_map(|index| runtime.runtime.strands.get(*index));
    Some(Group {
        count: group.members.len(),
        kind: first.kind.word().to_owned(),
        ids: members().map(|member| member.id.to_string()).collect(),
        names: members().filter_map(|member| member.name.clone()).collect(),
        threads: members().filter_map(|member| member.tid.map(|tid| tid.0)).collect(),
        state: first.state.words().to_owned(),
        wait: first.wait.as_ref().map(|wait| Wait {
            kind: wait.kind.words().to_owned(),
            address: wait.address.map(|address| format!("{address:#x}")),
            reason: wait.reason.clone(),
            object: wait.object.clone(),
            descriptor: wait.descriptor,
            since_ns: wait.since.map(|since| since.0),
            never_ends: wait.never_ends,
            owners: wait
                .owners
                .iter()
                .map(|owner| WaitOwner {
                    strand: match owner.holder {
                        Holder::Strand(id) => Some(id.to_string()),
                        Holder::Thread(_) => None,
                    },
                    thread: match owner.holder {
                        Holder::Thread(tid) => Some(tid.0),
                        Holder::Strand(_) => None,
                    },
                    confidence: owner.confidence.words().to_owned(),
                    proof: owner.proof.clone(),
                })
                .collect(),
        }),
        frames: first.frames.iter().map(frame).collect(),
        cut: first.cut,
        started_by: first.started_at.as_ref().map(frame),
        of_runtime: first.of_runtime,
    })
}

fn frame(frame: &StrandFrame) -> Frame {
    Frame {
        function: frame.function.to_string(),
        file: frame.file.as_deref().map(str::to_owned),
        line: frame.line,
        inlined: frame.inlined,
    }
}
