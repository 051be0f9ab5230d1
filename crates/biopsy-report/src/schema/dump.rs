//! A dump: the memory of a process at one moment. Addresses are texts in hexadecimal (`0x7f...`), because many readers of JSON cannot
//! hold 64 bits.

use serde::{Deserialize, Serialize};

use super::managed::{Managed, ManagedThread};

/// A dump.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Dump {
    /// Which process, and which file.
    pub identity: Identity,
    /// What it died of; absent when it did not, or the dump does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// What crashes with the same cause have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// All threads, in the order of the dump.
    pub threads: Vec<Thread>,
    /// Threads with equal stacks.
    pub groups: Vec<Group>,
    /// Who waits for whom.
    pub waits: Waits,
    /// Waits that nobody is left to end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stuck: Vec<StuckWait>,
    /// A lock that was copied by fork, and that the process waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphaned: Option<OrphanedLock>,
    /// Waits for other processes; absent where nobody looked at them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<Across>,
    /// What earlier looks at the same process say; absent: there was one look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looks: Option<Looks>,
    /// What managed runtimes say; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<Managed>,
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

/// A text that is the same for crashes with the same cause.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Signature {
    /// The text.
    pub text: String,
    /// Of the rules that it was made by: texts of different versions are not compared.
    pub version: u32,
    /// `stack`, `goroutine`, `exception`.
    pub made_from: String,
    /// In words.
    pub how: String,
    /// What the rules of Mozilla's Socorro alone give, where that is another text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socorro: Option<String>,
    /// Crashes in different functions have the same: none that it names is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub coarse: bool,
    /// Frames that were looked at, the innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<SignatureFrame>,
}

/// A frame of a signature.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SignatureFrame {
    /// As it stands in a signature.
    pub name: String,
    /// What was done with it: `above`, `irrelevant`, `prefix`, `last`.
    pub role: String,
}

/// What several looks at one process say beyond the last of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Looks {
    /// How many there were, the last one included.
    pub count: usize,
    /// From the first to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u64>,
    /// How long the process stood still for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses_ns: Vec<u64>,
    /// Circles of waits that were there in all of them: indices into the cycles of `waits`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lasting_cycles: Vec<usize>,
    /// In a sentence.
    pub summary: String,
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
    /// Why it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It ends before everything was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Share of the threads whose stacks are whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_stacks: Option<f64>,
    /// Share of the frames that have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_frames: Option<f64>,
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
    /// What it did between several looks: `stuck`, `same-place`, `again`, `moved`, `new`; absent: there was one look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub movement: Option<String>,
    /// What a managed runtime knows of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedThread>,
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
    /// What a thread wants of it, in words: `wants its mutex`.
    pub wants: String,
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
    /// Their names, in short.
    pub names: String,
    /// Their ids.
    pub threads: Vec<u32>,
    /// How many of them ran.
    #[serde(skip_serializing_if = "is_zero")]
    pub running: usize,
    /// The innermost function of the program itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_function: Option<String>,
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
    /// How it is shown: the function, or the module and the offset.
    pub label: String,
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
    /// How sure each edge is: `certainly`, `almost certainly`, `very likely`.
    pub confidence: Vec<String>,
    /// Circles: each thread waits for the next, the last for the first.
    pub cycles: Vec<Vec<u32>>,
    /// How sure each circle is: its weakest edge.
    pub circles: Vec<Circle>,
    /// Locks with those who wait for them.
    pub queues: Vec<Queue>,
}

/// How sure a circle is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Circle {
    /// As for edges.
    pub confidence: String,
    /// Waiter and owner of the edge that is least sure.
    pub weakest: [u32; 2],
}

/// Who holds a lock, or would give what is waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LockHolder {
    /// Id of the thread.
    pub thread: u32,
    /// `certainly`, `almost certainly`, `very likely`, `possibly`.
    pub confidence: String,
    /// The function that gives it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Together with others: to read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A wait that nobody is left to end.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StuckWait {
    /// Address of the lock.
    pub address: String,
    /// In words.
    pub kind: String,
    /// Ids of threads.
    pub waiters: Vec<u32>,
    /// How sure it is.
    pub confidence: String,
    /// What it rests on.
    pub proof: String,
}

/// A lock that was copied by fork while another thread held it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrphanedLock {
    /// Who waits.
    pub waiter: u32,
    /// The thread of the parent that held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// What it rests on.
    pub proof: String,
}

/// Waits for other processes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Across {
    /// Circles through processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub circles: Vec<AcrossCircle>,
    /// From a thread that waits for another process to the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Step>,
    /// Processes that do not read what they were sent, while threads wait for their answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<SilentPeer>,
}

/// A circle through processes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AcrossCircle {
    /// How sure it is.
    pub confidence: String,
    /// Each waits for the next.
    pub steps: Vec<Step>,
}

/// A thread of a circle or chain.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Its process.
    pub pid: u32,
    /// Name of the process.
    pub process: String,
    /// The thread.
    pub tid: u32,
    /// What it waits for, as the rest of `waits for ...`; empty at the end of a chain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// What it does.
    pub does: String,
}

/// A process that does not read what it was sent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SilentPeer {
    /// Which.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Threads that wait for its answer.
    pub waiters: Vec<u32>,
    /// What it has not read.
    pub unread_bytes: u64,
    /// What its main thread does.
    pub does: String,
}

/// A lock with those who wait for it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// The lock.
    pub lock: Lock,
    /// Ids of threads.
    pub waiters: Vec<u32>,
    /// Who holds it, also those who only may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<LockHolder>,
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
    /// By file or label, address space that is only reserved left out.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
