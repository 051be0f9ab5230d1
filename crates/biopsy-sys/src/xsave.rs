//! Where the parts of the extended state lie in the standard layout of XSAVE, as this CPU says (CPUID leaf 0xD; Intel SDM
//! volume 1, 13.4.3).

/// Length of the FXSAVE area: x87 and SSE, and all that a CPU without XSAVE has.
pub const FXSAVE_BYTES: usize = 512;

/// Length of the part that every state has: the FXSAVE area and the header.
pub const LEGACY_BYTES: usize = 576;

/// Behind the last byte of component `bit`, or `None` where this CPU does not have it.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn component_end(bit: u32) -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if bit < 2 {
        return Some(LEGACY_BYTES);
    }
    if bit > 62 {
        return None;
    }
    #[allow(unused_unsafe, reason = "safe functions from Rust 1.94 on")]
    // SAFETY: every x86-64 CPU has the instruction, and leaf 0.
    let leaves = unsafe { __cpuid(0) };
    if leaves.eax < 0xd {
        return None;
    }
    #[allow(unused_unsafe, reason = "safe functions from Rust 1.94 on")]
    // SAFETY: as above; the leaf was checked to be there.
    let leaf = unsafe { __cpuid_count(0xd, bit) };
    let (size, offset) = (usize::try_from(leaf.eax).ok()?, usize::try_from(leaf.ebx).ok()?);
    // Offset 0: a component of supervisor state, which has no place in this layout.
    (size > 0 && offset >= LEGACY_BYTES).then(|| offset.checked_add(size)).flatten()
}

/// No other architecture has it.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn component_end(_bit: u32) -> Option<usize> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn components() {
        assert_eq!(component_end(0), Some(576));
        assert_eq!(component_end(63), None);
        if std::is_x86_feature_detected!("avx") {
            assert_eq!(component_end(2), Some(832), "the upper halves of ymm follow the header");
        }
    }
}
