//! The stable schema of the report of a dump, described field by field in `docs/formats/dump-report-schema.md`.
//!
//! Rules as for [`crate::schema`]: a field that is not known is absent, never a made-up zero; readers accept every field as
//! absent and ignore fields they do not know; `version` goes up when the meaning of a field changes or one goes away.
//! Addresses are texts in hexadecimal (`0x7f...`), because many readers of JSON cannot hold 64 bits.

use biopsy_analyze::dump::{self, DumpAnalysis, LockOwner, LockWait, MemoryRow, ThreadState};
use biopsy_analyze::{Finding, Reference};
use serde::{Deserialize, Serialize};

use super::words;

/// Version of the schema that this crate writes.
pub const VERSION: u32 = 1;

/// The report of a dump.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DumpReport {
    /// Always `biopsy-dump-report`.
    pub schema: String,
    /// Version of the schema: [`VERSION`].
    pub version: u32,
    /// Which process, and which file.
    pub identity: Identity,
    /// Findings, the most important first.
    pub findings: Vec<DumpFinding>,
    /// What it died of; absent when it did not, or the dump does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// All threads, in the order of the dump.
    pub threads: Vec<Thread>,
    /// Threads with equal stacks.
    pub groups: Vec<Group>,
    /// Who waits for whom.
    pub waits: Waits,
    /// What managed runtimes say; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<super::managed_schema::Managed>,
    /// Language runtimes other than .NET, with their goroutines, threads and tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<super::strands::Runtime>,
    /// What the memory is.
    pub memory: Memory,
    /// Mapped code.
    pub modules: Vec<Module>,
    /// What could not be determined, and why.
    pub undetermined: Vec<String>,
}

/// Which process, and which file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// Name of the process.
    pub name: String,
    /// Its pid.
    pub pid: u32,
    /// Its parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Path of the executable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Command line, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// When it was taken, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// The program that wrote the dump.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// What the file is: `ELF core, zstd`.
    pub format: String,
    /// What is in it: `full`, `heap`, `stacks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Secrets of known shapes were masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrubbed: Option<bool>,
    /// Size of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// How long the process was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u64>,
}

/// A finding.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DumpFinding {
    /// Stable id: `deadlock`, `null-pointer` ...
    pub id: String,
    /// `critical`, `warning`, `notice`, `info`.
    pub severity: String,
    /// 0 to 1.
    pub impact: f64,
    /// One sentence.
    pub title: String,
    /// A few.
    pub explanation: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do next.
    pub next_steps: Vec<String>,
}

/// A piece of evidence.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// In words.
    pub text: String,
    /// The thread it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The group of stacks it is about: index into `groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
}

/// What it died of.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Crash {
    /// The thread.
    pub thread: u32,
    /// Number of the signal.
    pub signal: i32,
    /// Its name.
    pub signal_name: String,
    /// `si_code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_words: Option<String>,
    /// The process that sent the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<u32>,
    /// The address; absent when it may be contents of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What kind of address, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_words: Option<String>,
    /// `read`, `written`, `executed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// The instruction, in Intel syntax.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What the functions on the way say of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the C library said, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `running`, `system-call`, `unknown`.
    pub state: String,
    /// Name of the system call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_call: Option<String>,
    /// In words.
    pub doing: String,
    /// What it waits for at a futex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    /// What a managed runtime knows of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<super::managed_schema::ManagedThread>,
    /// CPU time since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// The kernel function it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_channel: Option<String>,
    /// The signal it was stopped by or died of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Index into `groups`.
    pub group: usize,
}

/// What a thread waits for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lock {
    /// Address of the lock.
    pub address: String,
    /// In words.
    pub kind: String,
    /// Type of the managed object that is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The thread that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The owner is not in the dump.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_is_gone: bool,
    /// What this was told from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proof: String,
}

/// Threads with equal stacks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Their ids.
    pub threads: Vec<u32>,
    /// What they do.
    pub doing: String,
    /// The thread of the crash is in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub crashed: bool,
    /// A thread of a deadlock is in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deadlocked: bool,
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// Frames before recursion was put together.
    pub depth: usize,
    /// Why it ends before the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_early: Option<String>,
}

/// A frame.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Demangled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Name of the module.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Address in the module, as its file states it.
    pub offset: String,
    /// Address in the process.
    pub address: String,
    /// Source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// A method of managed code.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub managed: bool,
    /// Inlined into the next.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
    /// `registers`, `unwind-info`, `frame-pointer`, `call-site`, `signal-frame`.
    pub found_by: String,
    /// The rows from this one on, `repeated_rows` of them, stand here so often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u32>,
    /// How many rows repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated_rows: Option<u32>,
    /// Rows left out before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u32>,
}

/// Who waits for whom.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Waiter and owner.
    pub edges: Vec<[u32; 2]>,
    /// Circles: each thread waits for the next, the last for the first.
    pub cycles: Vec<Vec<u32>>,
    /// Locks with those who wait for them.
    pub queues: Vec<Queue>,
}

/// A lock with those who wait for it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// The lock.
    pub lock: Lock,
    /// Ids of threads.
    pub waiters: Vec<u32>,
}

/// What the memory is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Bytes of all mappings.
    pub mapped_bytes: u64,
    /// What the dump has of them.
    pub in_dump_bytes: u64,
    /// Mappings.
    pub mappings: u64,
    /// By kind.
    pub classes: Vec<Row>,
    /// By file or label.
    pub names: Vec<Row>,
    /// What is not in the dump, by reason.
    pub missing: Vec<MissingBytes>,
    /// Bytes from another moment than the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_frozen_bytes: Option<u64>,
}

/// A sum over mappings.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// What kind.
    pub kind: String,
    /// Name of the file or label.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Mappings.
    pub mappings: u64,
    /// Bytes of addresses.
    pub mapped_bytes: u64,
    /// Bytes in the dump.
    pub in_dump_bytes: u64,
}

/// What is not there.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingBytes {
    /// Why.
    pub reason: String,
    /// How many bytes.
    pub bytes: u64,
}

/// A module.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// Path as the process saw it.
    pub path: String,
    /// Where its code begins.
    pub start: String,
    /// And ends.
    pub end: String,
    /// GNU build id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// `none`, `exported`, `symbols`, `debug`, `compiled`.
    pub symbols: String,
    /// In words.
    pub status: String,
    /// Frames of all threads in it.
    pub frames: u64,
    /// Its name was gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

pub(super) fn hex(address: u64) -> String {
    format!("{address:#x}")
}

impl DumpReport {
    pub(super) fn new(analysis: &DumpAnalysis) -> Self {
        let memory = &analysis.memory;
        Self {
            schema: "biopsy-dump-report".to_owned(),
            version: VERSION,
            identity: identity(&analysis.identity),
            findings: analysis.findings.iter().map(finding).collect(),
            crash: analysis.crash.as_ref().map(crash),
            threads: analysis.threads.iter().map(thread).collect(),
            groups: analysis.groups.iter().map(|one| group(analysis, one)).collect(),
            waits: Waits {
                edges: analysis.waits.edges.iter().map(|(waiter, owner)| [waiter.0, owner.0]).collect(),
                cycles: analysis
                    .waits
                    .cycles
                    .iter()
                    .map(|cycle| cycle.iter().map(|tid| tid.0).collect())
                    .collect(),
                queues: analysis.waits.queues.iter().map(queue).collect(),
            },
            managed: analysis.managed.as_ref().map(super::managed_schema::managed),
            runtimes: analysis.strands.iter().map(super::strands::runtime).collect(),
            memory: Memory {
                mapped_bytes: memory.mapped,
                in_dump_bytes: memory.in_dump,
                mappings: memory.mappings,
                classes: memory.classes.iter().map(row).collect(),
                names: memory.names.iter().map(row).collect(),
                missing: memory
                    .missing
                    .iter()
                    .map(|missing| MissingBytes {
                        reason: missing.reason.words().to_owned(),
                        bytes: missing.bytes,
                    })
                    .collect(),
                not_frozen_bytes: (memory.not_frozen > 0).then_some(memory.not_frozen),
            },
            modules: analysis.modules.iter().map(module).collect(),
            undetermined: analysis.undetermined.clone(),
        }
    }
}

fn identity(identity: &dump::Identity) -> Identity {
    Identity {
        name: identity.name.clone(),
        pid: identity.pid.0,
        parent: identity.parent.map(|pid| pid.0),
        uid: identity.owner.map(|(uid, _)| uid),
        executable: identity.executable.clone(),
        command_line: identity.command_line.clone(),
        kernel: identity.kernel.clone(),
        taken_at: words::taken(identity),
        writer: identity.writer.clone(),
        format: identity.format.clone(),
        kind: identity.kind.clone(),
        scrubbed: identity.scrubbed,
        file_bytes: identity.file_bytes,
        pause_ns: identity.pause.map(|pause| pause.0),
    }
}

fn finding(finding: &Finding) -> DumpFinding {
    DumpFinding {
        id: finding.id.as_str().to_owned(),
        severity: finding.severity.word().to_owned(),
        impact: finding.impact,
        title: finding.title.clone(),
        explanation: finding.explanation.clone(),
        evidence: finding
            .evidence
            .iter()
            .map(|evidence| Evidence {
                text: evidence.text.clone(),
                thread: match evidence.reference {
                    Reference::Thread(tid) => Some(tid.0),
                    _ => None,
                },
                group: match evidence.reference {
                    Reference::Group(group) => Some(group),
                    _ => None,
                },
            })
            .collect(),
        next_steps: finding.next_steps.clone(),
    }
}

fn crash(crash: &dump::Crash) -> Crash {
    let shown = crash.address_kind.as_ref().is_none_or(dump::AddressKind::may_be_shown);
    Crash {
        thread: crash.thread.0,
        signal: crash.signal,
        signal_name: crash.signal_name.clone(),
        code: crash.code.map(|(code, _)| code),
        code_words: crash.code.and_then(|(_, words)| words).map(str::to_owned),
        sender: crash.sender,
        address: crash.address.filter(|_| shown).map(hex),
        address_words: crash.address_kind.as_ref().map(dump::AddressKind::words),
        access: crash.access.map(|access| access.word().to_owned()),
        instruction: crash.instruction.as_ref().map(|instruction| instruction.text.clone()),
        function: crash.function.clone(),
        reason: crash.reason.map(str::to_owned),
        message: crash.message.clone(),
    }
}

fn thread(thread: &dump::DumpThread) -> Thread {
    let (state, system_call) = match &thread.state {
        ThreadState::Running => ("running", None),
        ThreadState::InSystemCall { name, .. } => ("system-call", Some(name.clone())),
        ThreadState::Unknown => ("unknown", None),
    };
    Thread {
        tid: thread.tid.0,
        name: thread.named.then(|| thread.name.clone()),
        state: state.to_owned(),
        system_call,
        doing: thread.words(),
        lock: thread.lock.as_ref().map(lock),
        managed: thread.managed.as_ref().map(super::managed_schema::thread),
        cpu_ns: thread.cpu.map(|time| time.0),
        wait_channel: thread.wait_channel.clone(),
        signal: thread.signal,
        group: thread.group,
    }
}

fn lock(lock: &LockWait) -> Lock {
    self::owned(lock.lock, lock.kind, lock.object.as_ref(), lock.owner, &lock.proof)
}

fn owned(address: u64, kind: dump::LockKind, object: Option<&String>, owner: LockOwner, proof: &str) -> Lock {
    let (owner, gone) = match owner {
        LockOwner::Thread(tid) => (Some(tid.0), false),
        LockOwner::Elsewhere(tid) => (Some(tid.0), true),
        LockOwner::Readers | LockOwner::NotKnown => (None, false),
    };
    Lock {
        address: hex(address),
        kind: kind.words().to_owned(),
        object: object.cloned(),
        owner,
        owner_is_gone: gone,
        proof: proof.to_owned(),
    }
}

fn queue(queue: &dump::LockQueue) -> Queue {
    Queue {
        lock: owned(queue.lock, queue.kind, queue.object.as_ref(), queue.owner, &queue.proof),
        waiters: queue.waiters.iter().map(|tid| tid.0).collect(),
    }
}

fn group(analysis: &DumpAnalysis, group: &dump::StackGroup) -> Group {
    let members = group.members.iter().filter_map(|index| analysis.threads.get(*index));
    Group {
        threads: members.map(|thread| thread.tid.0).collect(),
        doing: group.doing.clone(),
        crashed: group.crashed,
        deadlocked: group.in_cycle,
        frames: group.frames.iter().map(frame).collect(),
        depth: group.depth,
        ends_early: words::end(group).map(str::to_owned),
    }
}

fn frame(row: &dump::FrameRow) -> Frame {
    let (times, rows) = row.repeats;
    Frame {
        function: row.function.clone(),
        module: row.module.clone(),
        offset: hex(row.offset),
        address: hex(row.address.0),
        file: row.source.as_ref().map(|(file, _)| file.clone()),
        line: row.source.as_ref().and_then(|(_, line)| *line),
        managed: row.managed,
        inlined: row.inlined,
        found_by: row.found_word().to_owned(),
        repeated: (times > 1).then_some(times),
        repeated_rows: (times > 1).then_some(rows),
        skipped: (row.skipped > 0).then_some(row.skipped),
    }
}

fn row(row: &MemoryRow) -> Row {
    Row {
        kind: row.class.words().to_owned(),
        name: row.name.clone(),
        mappings: row.mappings,
        mapped_bytes: row.mapped,
        in_dump_bytes: row.in_dump,
    }
}

fn module(module: &dump::ModuleRow) -> Module {
    Module {
        path: module.path.clone(),
        start: hex(module.start.0),
        end: hex(module.end.0),
        build_id: module.build_id.clone(),
        symbols: match module.symbols {
            dump::SymbolStatus::None => "none",
            dump::SymbolStatus::Exported => "exported",
            dump::SymbolStatus::Symbols => "symbols",
            dump::SymbolStatus::Debug => "debug",
            dump::SymbolStatus::Compiled => "compiled",
        }
        .to_owned(),
        status: module.words.clone(),
        frames: module.frames,
        deleted: module.deleted,
    }
}
