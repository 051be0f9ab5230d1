//! Events of `Microsoft-Windows-DotNETRuntime`, by id and version.
//!
//! Layouts: `ClrEtwAll.man` of the runtime (its `NativeRuntimeEventSource` has the same as C# signatures). Fields are packed and
//! little-endian, texts are UTF-16 and end with a zero. A later version only adds fields, so a version nobody has seen yet is
//! read as the newest that is known. A payload that ends too early gives `None`.

use crate::nettrace::Text;
use biopsy_bytes::{Cursor, ReadError};

/// The provider.
pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// The provider that tells at the end what is there.
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// A collection of garbage starts (1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcStart {
    /// Its number.
    pub count: u32,
    /// Oldest generation collected.
    pub depth: u32,
    /// Why.
    pub reason: u32,
    /// 0 all threads stand still, 1 in the background, 2 in the foreground of a background one.
    pub kind: u32,
}

/// A collection ends (2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcEnd {
    /// Its number.
    pub count: u32,
    /// Oldest generation collected.
    pub depth: u32,
}

/// Threads are about to be suspended (9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcSuspendBegin {
    /// 1 for a collection, 6 to prepare one; others are no collections.
    pub reason: u32,
}

/// Sizes after a collection (4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GcHeapStats {
    /// Bytes in generations 0, 1, 2, large, pinned.
    pub sizes: [u64; 5],
    /// Bytes that survived, of these.
    pub promoted: [u64; 5],
    /// Pinned objects that were met.
    pub pinned: u32,
}

/// About every 100 KB of allocations (10), or at random (303).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation<'a> {
    /// Bytes it stands for.
    pub bytes: u64,
    /// 0 small, 1 large, 2 pinned.
    pub kind: u32,
    /// Type of the object that was allocated at this moment.
    pub type_name: Text<'a>,
}

/// An exception is thrown (80).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExceptionThrown<'a> {
    /// Its type, with namespace.
    pub type_name: Text<'a>,
    /// Its message.
    pub message: Text<'a>,
    /// Its HRESULT.
    pub code: u32,
    /// 1 has an inner one, 2 is one, 4 thrown again, 8 may be a corrupted state, 16 CLS compliant.
    pub flags: u16,
}

/// A thread waits for a monitor (81).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentionStart {
    /// 0 managed, 1 of the runtime.
    pub flags: u8,
    /// The lock, since version 2.
    pub lock: Option<u64>,
    /// The object it is part of, since version 2.
    pub object: Option<u64>,
    /// Thread that holds it, as the system numbers it, since version 2.
    pub owner: Option<u64>,
}

/// It has it (91).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ContentionStop {
    /// 0 managed, 1 of the runtime.
    pub flags: u8,
    /// How long in nanoseconds, since version 1.
    pub nanos: Option<f64>,
}

/// The number of worker threads is changed (55).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PoolAdjustment {
    /// Work items a second.
    pub throughput: f64,
    /// Worker threads wanted now.
    pub threads: u32,
    /// Why; see [`pool_reason`].
    pub reason: u32,
}

/// A method is there (143): what the collector counts of it. [`crate::methods`] reads the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MethodLoad {
    /// Identity of the method.
    pub method: u64,
    /// Bytes of code.
    pub size: u32,
    /// Flags; see [`tier`].
    pub flags: u32,
}

/// An assembly is loaded (154).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssemblyLoaded<'a> {
    /// Name, version, culture, token.
    pub name: Text<'a>,
}

/// Which runtime it is (187).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeStart<'a> {
    /// Version: `10.0.1226.42308` is 10.0.12.
    pub version: [u16; 4],
    /// Command line.
    pub command_line: Text<'a>,
}

/// A type that objects of a heap dump have (one of 15).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkType<'a> {
    /// Its identity (method table).
    pub id: u64,
    /// Its module.
    pub module: u64,
    /// Token.
    pub token: u32,
    /// 8: an array.
    pub flags: u32,
    /// Name, where it needs no parameters to be written.
    pub name: Text<'a>,
}

fn whole<'a, T>(payload: &'a [u8], read: impl FnOnce(&mut Cursor<'a>) -> Result<T, ReadError>) -> Option<T> {
    read(&mut Cursor::new(payload)).ok()
}

impl GcStart {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let count = cursor.u32("Count")?;
            if version == 0 {
                return Ok(Self { count, depth: 0, reason: cursor.u32("Reason")?, kind: 0 });
            }
            Ok(Self {
                count,
                depth: cursor.u32("Depth")?,
                reason: cursor.u32("Reason")?,
                kind: cursor.u32("Type")?,
            })
        })
    }
}

impl GcEnd {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let count = cursor.u32("Count")?;
            let depth = if version == 0 { cursor.u16("Depth")?.into() } else { cursor.u32("Depth")? };
            Ok(Self { count, depth })
        })
    }
}

impl GcSuspendBegin {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let reason = if version == 0 { cursor.u16("Reason")?.into() } else { cursor.u32("Reason")? };
            Ok(Self { reason })
        })
    }
}

impl GcHeapStats {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let mut stats = Self::default();
            let Self { sizes, promoted, .. } = &mut stats;
            for (size, promoted) in sizes.iter_mut().zip(promoted.iter_mut()).take(4) {
                *size = cursor.u64("GenerationSize")?;
                *promoted = cursor.u64("TotalPromotedSize")?;
            }
            cursor.skip("FinalizationPromoted", 16)?;
            stats.pinned = cursor.u32("PinnedObjectCount")?;
            if version >= 2 {
                cursor.skip("SinkBlockCount, GCHandleCount, ClrInstanceID", 10)?;
                stats.sizes[4] = cursor.u64("GenerationSize4")?;
                stats.promoted[4] = cursor.u64("TotalPromotedSize4")?;
            }
            Ok(stats)
        })
    }
}

impl<'a> Allocation<'a> {
    /// Reads an allocation tick (10).
    #[must_use]
    pub fn read_tick(version: u32, payload: &'a [u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let amount = cursor.u32("AllocationAmount")?;
            let kind = cursor.u32("AllocationKind")?;
            if version < 2 {
                return Ok(Self { bytes: amount.into(), kind, type_name: Text::default() });
            }
            cursor.skip("ClrInstanceID", 2)?;
            let bytes = cursor.u64("AllocationAmount64")?;
            cursor.skip("TypeID", 8)?;
            Ok(Self { bytes, kind, type_name: Text::read(cursor, "TypeName")? })
        })
    }

    /// Reads a sample taken at random (303, since .NET 10).
    #[must_use]
    pub fn read_sample(payload: &'a [u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let kind = cursor.u32("AllocationKind")?;
            cursor.skip("ClrInstanceID", 2)?;
            cursor.skip("TypeID", 8)?;
            let type_name = Text::read(cursor, "TypeName")?;
            cursor.skip("Address", 8)?;
            let size = cursor.u64("ObjectSize")?;
            cursor.skip("SampledByteOffset", 8)?;
            Ok(Self { bytes: bytes_of_sample(size), kind, type_name })
        })
    }
}

/// The chance that an allocated byte makes its object a sample (`samplingDistributionMean` of the runtime).
const CHANCE: f64 = 1.0 / 102_400.0;

/// The bytes that a sampled object stands for: its size over the chance that one of this size is sampled, which is the estimator of the
/// runtime's design document. The more an object is above the mean distance, the more it stands for itself alone.
fn bytes_of_sample(size: u64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "objects have less than 2^53 bytes")]
    let size = size as f64;
    let chance = -(size * (-CHANCE).ln_1p()).exp_m1();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; too large ones saturate"
    )]
    let bytes = (size / chance).round() as u64;
    bytes
}

impl<'a> ExceptionThrown<'a> {
    /// Reads it.
    #[must_use]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let type_name = Text::read(cursor, "ExceptionType")?;
            let message = Text::read(cursor, "ExceptionMessage")?;
            cursor.skip("ExceptionEIP", 8)?;
            Ok(Self {
                type_name,
                message,
                code: cursor.u32("ExceptionHRESULT")?,
                flags: cursor.u16("ExceptionFlags")?,
            })
        })
    }
}

impl ContentionStart {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let flags = cursor.u8("ContentionFlags")?;
            if version < 2 {
                return Ok(Self { flags, lock: None, object: None, owner: None });
            }
            cursor.skip("ClrInstanceID", 2)?;
            Ok(Self {
                flags,
                lock: Some(cursor.u64("LockID")?).filter(|id| *id != 0),
                object: Some(cursor.u64("AssociatedObjectID")?).filter(|id| *id != 0),
                owner: Some(cursor.u64("LockOwnerThreadID")?).filter(|id| *id != 0),
            })
        })
    }
}

impl ContentionStop {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let flags = cursor.u8("ContentionFlags")?;
            cursor.skip("ClrInstanceID", 2)?;
            let nanos = match version {
                0 => None,
                _ => Some(f64::from_le_bytes(cursor.array("DurationNs")?)),
            };
            Ok(Self { flags, nanos })
        })
    }
}

impl PoolAdjustment {
    /// Reads it.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            Ok(Self {
                throughput: f64::from_le_bytes(cursor.array("AverageThroughput")?),
                threads: cursor.u32("NewWorkerThreadCount")?,
                reason: cursor.u32("Reason")?,
            })
        })
    }
}

impl MethodLoad {
    /// Reads it.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        whole(payload, |cursor| {
            let method = cursor.u64("MethodID")?;
            cursor.skip("ModuleID, MethodStartAddress", 16)?;
            let size = cursor.u32("MethodSize")?;
            cursor.skip("MethodToken", 4)?;
            Ok(Self { method, size, flags: cursor.u32("MethodFlags")? })
        })
    }

    /// Reads the method's identity of `MethodJittingStarted` (145).
    #[must_use]
    pub fn read_jitting(payload: &[u8]) -> Option<u64> {
        Cursor::new(payload).u64("MethodID").ok()
    }
}

impl<'a> AssemblyLoaded<'a> {
    /// Reads it.
    #[must_use]
    pub fn read(version: u32, payload: &'a [u8]) -> Option<Self> {
        whole(payload, |cursor| {
            // Version 1 has a BindingID more.
            cursor.skip("AssemblyID, AppDomainID", if version == 0 { 16 } else { 24 })?;
            cursor.skip("AssemblyFlags", 4)?;
            Ok(Self { name: Text::read(cursor, "FullyQualifiedAssemblyName")? })
        })
    }
}

impl<'a> RuntimeStart<'a> {
    /// Reads it.
    #[must_use]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        whole(payload, |cursor| {
            cursor.skip("ClrInstanceID, Sku, Bcl version", 12)?;
            let mut version = [0; 4];
            for part in &mut version {
                *part = cursor.u16("Vm version")?;
            }
            cursor.skip("StartupFlags, StartupMode", 5)?;
            Ok(Self { version, command_line: Text::read(cursor, "CommandLine")? })
        })
    }
}

impl<'a> BulkType<'a> {
    /// Reads all types of one event (15), as far as they are whole.
    pub fn read_all(payload: &'a [u8]) -> impl Iterator<Item = BulkType<'a>> {
        let mut cursor = Cursor::new(payload);
        let count = cursor.u32("Count").unwrap_or(0);
        let _ = cursor.skip("ClrInstanceID", 2);
        (0..count).map_while(move |_| {
            let mut read = || -> Result<BulkType<'a>, ReadError> {
                let found = BulkType {
                    id: cursor.u64("TypeID")?,
                    module: cursor.u64("ModuleID")?,
                    token: cursor.u32("TypeNameID")?,
                    flags: cursor.u32("Flags")?,
                    name: {
                        cursor.skip("CorElementType", 1)?;
                        Text::read(&mut cursor, "Name")?
                    },
                };
                let parameters = cursor.u32("TypeParameterCount")?;
                let bytes = usize::try_from(parameters).unwrap_or(usize::MAX).saturating_mul(8);
                cursor.skip("TypeParameters", bytes)?;
                Ok(found)
            };
            read().ok()
        })
    }
}

/// Why worker threads are added or taken away, in the runtime's words.
#[must_use]
pub fn pool_reason(reason: u32) -> &'static str {
    match reason {
        0 => "Warmup",
        1 => "Initializing",
        2 => "RandomMove",
        3 => "ClimbingMove",
        4 => "ChangePoint",
        5 => "Stabilizing",
        6 => "Starvation",
        7 => "ThreadTimedOut",
        8 => "CooperativeBlocking",
        _ => "Unknown",
    }
}

/// Why garbage is collected, in the runtime's words.
#[must_use]
pub fn gc_reason(reason: u32) -> &'static str {
    match reason {
        0 => "AllocSmall",
        1 => "Induced",
        2 => "LowMemory",
        3 => "Empty",
        4 => "AllocLarge",
        5 => "OutOfSpaceSOH",
        6 => "OutOfSpaceLOH",
        7 => "InducedNotForced",
        8 => "Internal",
        9 => "InducedLowMemory",
        10 => "InducedCompacting",
        11 => "LowMemoryHost",
        12 => "PMFullGC",
        13 => "LowMemoryHostBlocking",
        14 => "BgcTuningSOH",
        15 => "BgcTuningLOH",
        16 => "BgcStepping",
        17 => "InducedAggressive",
        _ => "Unknown",
    }
}

/// How well a method is compiled, in the runtime's words, from its flags.
#[must_use]
pub fn tier(flags: u32) -> &'static str {
    const JITTED: u32 = 8;
    match flags >> 7 & 7 {
        0 if flags & JITTED == 0 => "ReadyToRun",
        0 => "Unknown",
        1 => "MinOptJitted",
        2 => "Optimized",
        3 => "QuickJitted",
        4 => "OptimizedTier1",
        5 => "OptimizedTier1OSR",
        6 => "InstrumentedTier",
        _ => "InstrumentedTierOptimized",
    }
}
