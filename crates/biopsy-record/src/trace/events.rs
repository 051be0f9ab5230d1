//! The perf events of a trace, by method.

use biopsy_sys::perf::{EventConfig, Source};
use perf_event_open_sys::bindings as raw;

/// Registers that unwinding needs: BP, SP and IP of `enum perf_event_x86_regs`.
pub(crate) const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// Bytes of stack that the kernel copies with each sample where no program of ours decides: below 64 KiB, multiple of 8.
pub(crate) const COPIED_STACK: u32 = 16 * 1024;

/// What every record carries: thread, time, CPU.
const TRAILER: u64 =
    (raw::PERF_SAMPLE_TID as u64) | (raw::PERF_SAMPLE_TIME as u64) | (raw::PERF_SAMPLE_CPU as u64);

/// The timer (or cycles) event whose samples the kernel part handles.
pub(crate) fn sampling(source: Source, frequency_hz: u32) -> EventConfig {
    EventConfig {
        source,
        frequency_hz,
        // The same trailer as the side band's records, whose ring it shares.
        sample_type: TRAILER,
        user_registers: 0,
        user_stack_bytes: 0,
        exclude_kernel: false,
        side_band: false,
        switches: false,
        inherit: false,
        wakeup_watermark: 0,
    }
}

/// The same, with the samples written to the ring as the kernel does it by itself.
pub(crate) fn sampling_to_ring(
    source: Source,
    frequency_hz: u32,
    exclude_kernel: bool,
    inherit: bool,
) -> EventConfig {
    EventConfig {
        sample_type: TRAILER
            | u64::from(
                raw::PERF_SAMPLE_CALLCHAIN | raw::PERF_SAMPLE_REGS_USER | raw::PERF_SAMPLE_STACK_USER,
            ),
        user_registers: USER_REGISTERS,
        user_stack_bytes: COPIED_STACK,
        exclude_kernel,
        inherit,
        ..sampling(source, frequency_hz)
    }
}

/// Carries mappings, names, forks, exits, and on request context switches.
pub(crate) fn side_band(switches: bool, exclude_kernel: bool, inherit: bool) -> EventConfig {
    EventConfig {
        source: Source::Dummy,
        frequency_hz: 0,
        sample_type: TRAILER,
        user_registers: 0,
        user_stack_bytes: 0,
        exclude_kernel,
        side_band: true,
        switches,
        inherit,
        wakeup_watermark: 0,
    }
}
