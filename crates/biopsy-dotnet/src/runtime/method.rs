//! Compiled code and methods.

use std::sync::Arc;

use biopsy_model::Avma;

use super::{MethodDesc, TypeHandle};

/// Where code comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CodeKind {
    /// Compiled at run time.
    Jit,
    /// Compiled ahead (ReadyToRun), in the assembly's image.
    ReadyToRun,
    /// Compiled at run time for a method without metadata (`DynamicMethod`, IL stubs).
    Dynamic,
    /// Glue that the runtime made by hand: no method. The number is `StubCodeBlockKind` of `codeman.h`.
    Stub(u8),
}

/// How well code is optimised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// Compiled quickly, without optimisation.
    Tier0,
    /// Optimised after it was called often.
    Tier1,
    /// Optimised while a loop ran (on-stack replacement).
    OnStackReplacement,
    /// Optimised from the start.
    Optimized,
    /// As tier 0, and counts what happens.
    Tier0Instrumented,
    /// As tier 1, and counts what happens.
    Tier1Instrumented,
    /// Compiled ahead.
    ReadyToRun,
}

impl Tier {
    /// A mark behind a method's name: `[tier-0]`, `[OSR]`. `None`: compiled ahead, which its module says already.
    #[must_use]
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Tier0 => Some("[tier-0]"),
            Self::Tier1 => Some("[tier-1]"),
            Self::OnStackReplacement => Some("[OSR]"),
            Self::Optimized => Some("[optimized]"),
            Self::Tier0Instrumented => Some("[tier-0 instrumented]"),
            Self::Tier1Instrumented => Some("[tier-1 instrumented]"),
            Self::ReadyToRun => None,
        }
    }
}

/// Where unwind information of one piece of code is (`UNWIND_INFO` of Windows x64, which the runtime uses everywhere).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnwindInfo {
    /// First address that it is about: start of the method or of one of its funclets.
    pub start: Avma,
    /// First address behind; 0 where the runtime does not say.
    pub end: Avma,
    /// Address of the `UNWIND_INFO`.
    pub address: Avma,
}

/// Code at an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Method {
    /// The method; stubs are none.
    pub method_desc: Option<MethodDesc>,
    /// First address of the method's code (its main body, when the address is in a funclet).
    pub code_start: Avma,
    /// First address behind the code, where that is known.
    pub code_end: Option<Avma>,
    /// Where the code comes from.
    pub kind: CodeKind,
    /// How well it is optimised, where that could be told.
    pub tier: Option<Tier>,
    /// Offsets in unwind information are relative to this address (start of the range section).
    pub range_begin: Avma,
    /// Unwind information for the address that was asked for; chained information of ReadyToRun code is not followed.
    pub unwind: Option<UnwindInfo>,
    /// Address of the code header (JIT only).
    pub code_header: Option<Avma>,
}

/// Name of a method.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MethodName {
    /// Namespace and types around it: `Namespace.Outer+Inner<System.__Canon>`; empty for dynamic methods.
    pub type_name: Arc<str>,
    /// Name of the method, with its own type arguments where there are some: `Map<System.Int32>`.
    pub method: Arc<str>,
    /// Types of the parameters, `(System.Int32, System.String)`, where they could be read.
    pub signature: Option<Arc<str>>,
    /// The type; dynamic methods have none.
    pub method_table: Option<TypeHandle>,
    /// Address of the module that defines it; 0 for none.
    pub module: Avma,
    /// Name of the assembly.
    pub module_name: Arc<str>,
    /// Token (`0x06xxxxxx`); 0 for methods without one.
    pub token: u32,
    /// It has no metadata (`DynamicMethod`, IL stubs).
    pub dynamic: bool,
}

impl MethodName {
    /// Bytes of all of its parts.
    pub(super) fn bytes(&self) -> usize {
        let signature = self.signature.as_ref().map_or(0, |signature| signature.len());
        self.type_name.len() + self.method.len() + self.module_name.len() + signature
    }
}
