//! One compiled body of a method.

use std::fmt;
use std::sync::Arc;

use biopsy_model::{Avma, MonoNanos};

use super::IlMap;

/// The runtime's words for a method, raw.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct MethodName {
    /// Type with namespace, in the style of reflection: ``System.Collections.Generic.List`1[System.__Canon]``,
    /// `App.Feed+<GetAsync>d__5`. Dynamic methods: `dynamicClass`.
    pub namespace_type: Arc<str>,
    /// Name in the metadata: `MoveNext`, `.ctor`, `<Get>b__0`.
    pub method: Box<str>,
    /// `instance void  (class System.String)`; empty where it was not reported.
    pub signature: Box<str>,
}

impl MethodName {
    /// As the programmer wrote it; see [`crate::names::display`].
    #[must_use]
    pub fn display(&self) -> String {
        crate::names::display_with(&self.namespace_type, &self.method, &self.signature)
    }
}

/// How well a body is optimised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Tier {
    /// Not reported.
    #[default]
    Unknown,
    /// Not optimised, for good: `NoOptimization`, debug builds.
    MinOpts,
    /// Compiled quickly, to be replaced if it is called often.
    Tier0,
    /// The same, counting what happens for the next tier.
    Tier0Instrumented,
    /// Optimised, counting.
    Tier1Instrumented,
    /// Optimised because it was called often.
    Tier1,
    /// Optimised while a loop of it ran (on-stack replacement).
    OnStack,
    /// Optimised at once, without tiers.
    Optimized,
    /// Compiled ahead of time (ReadyToRun).
    ReadyToRun,
}

impl Tier {
    /// From bits 7 to 9 of `MethodFlags` of method load events (`JitOptimizationTier` of the runtime's `prestub.cpp`). Code
    /// that was compiled ahead of time says nothing there.
    #[must_use]
    pub fn from_flags(flags: u32) -> Self {
        match flags >> 7 & 7 {
            1 => Self::MinOpts,
            2 => Self::Optimized,
            3 => Self::Tier0,
            4 => Self::Tier1,
            5 => Self::OnStack,
            6 => Self::Tier0Instrumented,
            7 => Self::Tier1Instrumented,
            _ => Self::Unknown,
        }
    }

    /// From the words of perf maps: `[Tier0]`, `[OptimizedTier1]`, `[PreJIT]` ... without brackets.
    #[must_use]
    pub fn from_words(words: &str) -> Option<Self> {
        Some(match words {
            "MinOptJitted" => Self::MinOpts,
            "Optimized" => Self::Optimized,
            "QuickJitted" | "Tier0" => Self::Tier0,
            "OptimizedTier1" | "Tier1" => Self::Tier1,
            "OptimizedTier1OSR" => Self::OnStack,
            "InstrumentedTier" | "QuickJittedInstrumented" => Self::Tier0Instrumented,
            "InstrumentedTierOptimized" | "OptimizedTier1Instrumented" => Self::Tier1Instrumented,
            "PreJIT" | "ReadyToRun" => Self::ReadyToRun,
            "Unknown" => Self::Unknown,
            _ => return None,
        })
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unknown => "unknown tier",
            Self::MinOpts => "not optimised",
            Self::Tier0 => "tier 0",
            Self::Tier0Instrumented => "tier 0, instrumented",
            Self::Tier1Instrumented => "tier 1, instrumented",
            Self::Tier1 => "tier 1",
            Self::OnStack => "on-stack replacement",
            Self::Optimized => "optimised",
            Self::ReadyToRun => "ready to run",
        })
    }
}

/// What kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum MethodKind {
    /// Compiled while the process runs.
    #[default]
    Jit,
    /// From an assembly's ahead-of-time image.
    ReadyToRun,
    /// Made by the application at run time (`DynamicMethod`), or by the runtime (`IL_STUB_...`).
    Dynamic,
    /// A helper of the runtime.
    Helper,
}

/// One compiled body of a method. A method has several in its life, and at times two at once (hot and cold parts).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Method {
    /// First address.
    pub start: Avma,
    /// Bytes of code.
    pub size: u32,
    /// The runtime's words.
    pub name: MethodName,
    /// Path or name of the assembly's file, where reported.
    pub module: Option<Arc<str>>,
    /// The runtime's number of the module (address of its `Module`); zero: not reported.
    pub module_id: u64,
    /// The runtime's number of the method (address of its `MethodDesc`); zero: not reported.
    pub method_id: u64,
    /// How well it is optimised.
    pub tier: Tier,
    /// What kind of code.
    pub kind: MethodKind,
    /// Token in the metadata of its module (`0x06......`); zero: none.
    pub token: u32,
    /// Number of this version of the code among those of the method; zero: the first, or not reported.
    pub version: u64,
    /// When it was compiled; zero: before anybody listened.
    pub from: MonoNanos,
    /// When it was freed, or its memory was used again; `u64::MAX`: not yet.
    pub to: MonoNanos,
    /// Which IL each native offset came from, where reported.
    pub il: Option<Arc<IlMap>>,
}

impl Method {
    /// Whether the address is in this body, at whatever time.
    #[must_use]
    pub fn contains(&self, address: Avma) -> bool {
        address.0.checked_sub(self.start.0).is_some_and(|offset| offset < u64::from(self.size))
    }

    /// Whether it was there at that time.
    #[must_use]
    pub fn lives_at(&self, time: MonoNanos) -> bool {
        self.from <= time && time < self.to
    }
}
