//! `CONTEXT_AMD64` (`winnt.h`, and Breakpad's `minidump_cpu_amd64.h`).

use crate::Thread;

/// Size of the structure.
const SIZE: usize = 1232;
/// `CONTEXT_AMD64` with control, integer, segment and floating-point registers.
const FLAGS: u32 = 0x10_000f;

/// The registers of a thread; `None` when it has none.
pub(super) fn context(thread: &Thread) -> Option<Vec<u8>> {
    let r = thread.registers.as_ref()?;
    let mut out = vec![0; SIZE];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = out.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(48, &FLAGS.to_le_bytes());
    // Selectors and flags are 16 and 32 bits wide.
    for (number, selector) in [r.cs, r.ds, r.es, r.fs, r.gs, r.ss].into_iter().enumerate() {
        put(56 + number * 2, &(selector as u16).to_le_bytes());
    }
    put(68, &(r.eflags as u32).to_le_bytes());
    let general = [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15, r.rip,
    ];
    for (number, register) in general.into_iter().enumerate() {
        put(120 + number * 8, &register.to_le_bytes());
    }
    if let Some(legacy) = thread.extended.get(..512) {
        put(256, legacy);
        put(52, legacy.get(24..28).unwrap_or_default());
    }
    Some(out)
}
