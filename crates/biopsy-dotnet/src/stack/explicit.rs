//! Explicit frames: what the runtime leaves on a stack where it changes between managed and native code.
//!
//! ```text
//! Thread.Frame ─► Frame { identifier or vtable, Next, ... } ─► ... ─► all bits set
//! InlinedCallFrame { .., Datum: the method that is called, CallSiteSP, CallerReturnAddress, CalleeSavedFP }
//! FaultingExceptionFrame, SoftwareExceptionFrame { .., TargetContext: all registers }
//! ```
//!
//! They are not needed to walk a stack that has unwind information throughout. They say where managed code goes on when the
//! native part cannot be walked (code without unwind information, a dump without the files), which native method was called,
//! and that an exception was under way.

use biopsy_model::Avma;
use biopsy_stacks::unwind::UserRegisters;

use super::method_text;
use crate::runtime::{ManagedThread, MethodDesc, Runtime};

/// Frames of one thread: each takes room on its stack.
const FRAMES: usize = 100_000;

/// One explicit frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplicitFrame {
    /// Its address, which is on the stack of the thread.
    pub address: Avma,
    /// What kind, as the runtime's sources call it: `InlinedCallFrame`.
    pub kind: Option<&'static str>,
    /// The native method (P/Invoke) that is called, for those frames that keep it.
    pub method_desc: Option<MethodDesc>,
    /// Where managed code goes on when the native call returns: registers of the managed caller.
    pub resumes: Option<UserRegisters>,
}

impl ExplicitFrame {
    /// As shown: `[InlinedCallFrame]`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("[{}]", self.kind.unwrap_or("explicit frame of the runtime"))
    }

    /// Name and file name of the assembly of the native method that is called.
    #[must_use]
    pub fn method(&self, runtime: &Runtime<'_>) -> Option<(String, String)> {
        let text = method_text(runtime, self.method_desc?)?;
        Some((text.shown, text.module))
    }
}

/// Which kind of frame a first word means, for one runtime.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FrameKinds {
    kinds: Vec<(u64, &'static str)>,
}

impl FrameKinds {
    /// Learns them: numbers that the descriptor tells (10 and later), or addresses of virtual function tables (8, 9).
    #[must_use]
    pub fn of(runtime: &Runtime<'_>, threads: &[ManagedThread]) -> Self {
        let layout = runtime.layout();
        let numbered = TABLES.iter().chain(NUMBERED).filter_map(|kind| {
            let number = layout.find_global(&format!("{kind}Identifier"))?;
            Some((number, *kind))
        });
        let kinds: Vec<_> = numbered.collect();
        if !kinds.is_empty() {
            return Self { kinds };
        }
        Self { kinds: tables(runtime, threads).unwrap_or_default() }
    }

    fn find(&self, word: u64) -> Option<&'static str> {
        self.kinds.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }
}

/// Kinds of frames in the order of their tables in `g_dacTable` (`vptr_list.h`), those that Linux has.
const TABLES: &[&str] = &[
    "DebuggerClassInitMarkFrame",
    "DebuggerSecurityCodeMarkFrame",
    "DebuggerExitFrame",
    "DebuggerU2MCatchHandlerFrame",
    "FaultingExceptionFrame",
    "FuncEvalFrame",
    "HelperMethodFrame",
    "HelperMethodFrame_1OBJ",
    "HelperMethodFrame_2OBJ",
    "HelperMethodFrame_3OBJ",
    "HelperMethodFrame_PROTECTOBJ",
    "HijackFrame",
    "InlinedCallFrame",
    "MulticastFrame",
    "PInvokeCalliFrame",
    "PrestubMethodFrame",
    "ProtectByRefsFrame",
    "ProtectValueClassFrame",
    "ResumableFrame",
    "RedirectedThreadFrame",
    "StubDispatchFrame",
    "CallCountingHelperFrame",
    "ExternalMethodFrame",
    "DynamicHelperFrame",
    "ExceptionFilterFrame",
];
/// Kinds that came later.
const NUMBERED: &[&str] = &["SoftwareExceptionFrame", "InterpreterFrame"];
/// The outermost frame of every thread that the runtime itself has started, and its place among [`TABLES`].
const OUTERMOST: usize = 3;
/// Words of `g_dacTable`.
const DAC_TABLE: u64 = 512;

/// Where in `g_dacTable` the tables begin is found by the finalizer thread: its outermost frame is known. All others have to
/// be in the runtime's own image, and no two alike.
fn tables(runtime: &Runtime<'_>, threads: &[ManagedThread]) -> Option<Vec<(u64, &'static str)>> {
    let memory = runtime.memory();
    let next = runtime.layout().find_field("Frame", "Next").map_or(8, u64::from);
    let finalizer = threads.iter().find(|thread| thread.finalizer && !thread.dead)?;
    let outermost = chain(runtime, finalizer.frame.0, next).last().copied()?;
    let table = memory.u64(outermost).ok()?;
    let found = runtime.found();
    let (address, bytes) = found.dac_table?;
    let words: Vec<u64> = (0..(bytes / 8).min(DAC_TABLE))
        .map_while(|index| memory.u64(address.0.checked_add(index * 8)?).ok())
        .collect();
    let first = words.iter().position(|word| *word == table)?.checked_sub(OUTERMOST)?;
    let kinds: Vec<(u64, &'static str)> =
        words.get(first..)?.iter().copied().zip(TABLES.iter().copied()).collect();
    let own = |word: u64| (found.base..found.end).contains(&Avma(word));
    let fits = kinds.len() == TABLES.len()
        && kinds.iter().all(|(word, _)| own(*word))
        && kinds
            .iter()
            .enumerate()
            .all(|(at, (word, _))| kinds.iter().skip(at + 1).all(|(other, _)| other != word));
    fits.then_some(kinds)
}

/// Times that a chain may lead to a lower address: a handler of signals has a stack of its own.
const BACKWARDS: u32 = 4;

/// Addresses of frames, innermost first. The stack grows downwards: outer frames are above.
fn chain(runtime: &Runtime<'_>, first: u64, next: u64) -> Vec<u64> {
    let mut frames = Vec::new();
    let mut backwards = 0;
    let mut at = first;
    while at != 0 && at != u64::MAX && frames.len() < FRAMES {
        frames.push(at);
        let Ok(outer) = runtime.memory().u64(at.wrapping_add(next)) else { break };
        backwards += u32::from(outer <= at);
        if backwards > BACKWARDS {
            break;
        }
        at = outer;
    }
    frames
}

/// The explicit frames of a thread, innermost first. Ends where the chain cannot be followed.
#[must_use]
pub fn explicit_frames(
    runtime: &Runtime<'_>,
    kinds: &FrameKinds,
    thread: &ManagedThread,
) -> Vec<ExplicitFrame> {
    let next = runtime.layout().find_field("Frame", "Next").map_or(8, u64::from);
    let frames = chain(runtime, thread.frame.0, next).into_iter().filter_map(|address| {
        let kind = kinds.find(runtime.memory().u64(address).ok()?);
        let (method_desc, resumes) = match kind {
            Some("InlinedCallFrame") => (datum(runtime, address), returns(runtime, address)),
            Some(kind @ ("FaultingExceptionFrame" | "SoftwareExceptionFrame")) => {
                (None, context(runtime, kind, address))
            }
            _ => (None, None),
        };
        Some(ExplicitFrame { address: Avma(address), kind, method_desc, resumes })
    });
    frames.collect()
}

fn field(runtime: &Runtime<'_>, kind: &str, frame: u64, name: &str) -> Option<u64> {
    let offset = runtime.layout().find_field(kind, name)?;
    runtime.memory().u64(frame.checked_add(offset.into())?).ok()
}

/// The called method, where the frame keeps one; else it is a small number, or nothing.
fn datum(runtime: &Runtime<'_>, frame: u64) -> Option<MethodDesc> {
    field(runtime, "InlinedCallFrame", frame, "Datum")
        .filter(|datum| *datum > 0xffff && datum.is_multiple_of(8))
        .map(MethodDesc::from)
}

/// Only while the call is under way the return address is set.
fn returns(runtime: &Runtime<'_>, frame: u64) -> Option<UserRegisters> {
    let field = |name| field(runtime, "InlinedCallFrame", frame, name);
    let ip = field("CallerReturnAddress").filter(|ip| *ip != 0)?;
    Some(UserRegisters::new(ip, field("CallSiteSP")?, field("CalleeSavedFP")?))
}

/// Registers where the exception was thrown (`CONTEXT` of the platform layer, x86-64, as Windows has it).
fn context(runtime: &Runtime<'_>, kind: &str, frame: u64) -> Option<UserRegisters> {
    const RBX: u64 = 0x90;
    const RSP: u64 = 0x98;
    const RBP: u64 = 0xa0;
    const R12: u64 = 0xd8;
    const RIP: u64 = 0xf8;
    let base = frame.checked_add(runtime.layout().find_field(kind, "TargetContext")?.into())?;
    let word = |offset: u64| runtime.memory().u64(base.checked_add(offset)?).ok();
    let ip = word(RIP).filter(|ip| *ip != 0)?;
    // The frame has the address of the instruction a second time, which says that the context is where it is looked for.
    if field(runtime, kind, frame, "ReturnAddress").is_some_and(|told| told != ip) {
        return None;
    }
    let mut registers = UserRegisters::new(ip, word(RSP)?, word(RBP)?);
    registers.saved = Some([word(RBX)?, word(R12)?, word(R12 + 8)?, word(R12 + 16)?, word(R12 + 24)?]);
    Some(registers)
}
