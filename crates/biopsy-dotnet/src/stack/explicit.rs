//! Explicit frames: what the runtime leaves on a stack where managed code called native code.
//!
//! ```text
//! Thread.Frame ─► Frame { identifier or vtable, Next, ... } ─► ... ─► all bits set
//! InlinedCallFrame { .., CallSiteSP, CallerReturnAddress, CalleeSavedFP }
//! ```
//!
//! They are not needed to walk a stack that has unwind information throughout. They say where managed code was left when the
//! native part cannot be walked (code without unwind information, a dump without the files), and that it was.

use biopsy_stacks::unwind::UserRegisters;

use crate::runtime::{ManagedThread, Runtime};

/// Frames of one thread at most: each takes room on its stack.
const FRAMES: usize = 100_000;

/// One explicit frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplicitFrame {
    /// Its address, which is on the stack of the thread.
    pub address: u64,
    /// What kind, where the runtime's descriptor says: `InlinedCallFrame`.
    pub kind: Option<&'static str>,
    /// Where managed code goes on when the native call returns: registers of the managed caller, where it is an active
    /// `InlinedCallFrame`.
    pub resumes: Option<UserRegisters>,
}

/// The explicit frames of a thread, innermost first. Ends where the chain cannot be followed.
#[must_use]
pub fn explicit_frames(runtime: &Runtime<'_>, thread: &ManagedThread) -> Vec<ExplicitFrame> {
    let layout = runtime.layout();
    let next = layout.find_field("Frame", "Next").map_or(8, u64::from);
    let mut frames = Vec::new();
    let mut at = thread.frame;
    while at != 0 && at != u64::MAX && frames.len() < FRAMES {
        let Ok(identifier) = runtime.memory().u64(at) else { break };
        let kind = kind(runtime, identifier);
        let resumes = (kind == Some("InlinedCallFrame")).then(|| resumes(runtime, at)).flatten();
        frames.push(ExplicitFrame { address: at, kind, resumes });
        let Ok(above) = runtime.memory().u64(at.wrapping_add(next)) else { break };
        // The stack grows downwards: outer frames are above.
        if above <= at {
            break;
        }
        at = above;
    }
    frames
}

/// The kinds that a descriptor numbers (from .NET 10 on). Before, the first word is the address of a virtual function table,
/// and only whether it looks like an inlined call can be told.
fn kind(runtime: &Runtime<'_>, identifier: u64) -> Option<&'static str> {
    const KINDS: &[(&str, &str)] = &[
        ("InlinedCallFrameIdentifier", "InlinedCallFrame"),
        ("ResumableFrameIdentifier", "ResumableFrame"),
        ("RedirectedThreadFrameIdentifier", "RedirectedThreadFrame"),
        ("FaultingExceptionFrameIdentifier", "FaultingExceptionFrame"),
        ("SoftwareExceptionFrameIdentifier", "SoftwareExceptionFrame"),
        ("FuncEvalFrameIdentifier", "FuncEvalFrame"),
        ("PInvokeCalliFrameIdentifier", "PInvokeCalliFrame"),
        ("HijackFrameIdentifier", "HijackFrame"),
        ("PrestubMethodFrameIdentifier", "PrestubMethodFrame"),
        ("CallCountingHelperFrameIdentifier", "CallCountingHelperFrame"),
        ("StubDispatchFrameIdentifier", "StubDispatchFrame"),
        ("ExternalMethodFrameIdentifier", "ExternalMethodFrame"),
        ("DynamicHelperFrameIdentifier", "DynamicHelperFrame"),
        ("ProtectValueClassFrameIdentifier", "ProtectValueClassFrame"),
        ("DebuggerClassInitMarkFrameIdentifier", "DebuggerClassInitMarkFrame"),
        ("DebuggerExitFrameIdentifier", "DebuggerExitFrame"),
        ("DebuggerU2MCatchHandlerFrameIdentifier", "DebuggerU2MCatchHandlerFrame"),
        ("ExceptionFilterFrameIdentifier", "ExceptionFilterFrame"),
    ];
    let layout = runtime.layout();
    KINDS.iter().find(|(name, _)| layout.find_global(name) == Some(identifier)).map(|(_, kind)| *kind)
}

/// Only while the call is under way the return address is set.
fn resumes(runtime: &Runtime<'_>, frame: u64) -> Option<UserRegisters> {
    let field = |name: &str| {
        let offset = runtime.layout().find_field("InlinedCallFrame", name)?;
        runtime.memory().u64(frame.checked_add(offset.into())?).ok()
    };
    let ip = field("CallerReturnAddress").filter(|ip| *ip != 0)?;
    Some(UserRegisters::new(ip, field("CallSiteSP")?, field("CalleeSavedFP")?))
}
