//! Entries for fuzzing: made-up processes with a runtime in them, which the bytes damage. Nothing may panic, nothing may take for
//! ever, and nothing may be more than [`Limits::small`](crate::Limits::small) lets it be.

pub(crate) mod hotspot;
mod synthetic;
pub(crate) mod v8;

use crate::{Limits, RuntimeStrands, read_strands};
use synthetic::Synthetic;

/// Damages a process with a virtual machine of Java in it, and reads it.
pub fn fuzz_java(bytes: &[u8]) {
    check(hotspot::process(3), bytes);
}

/// Damages a process with Node.js in it, and reads it.
pub fn fuzz_node(bytes: &[u8]) {
    check(v8::process(3), bytes);
}

fn check(mut process: Synthetic, bytes: &[u8]) {
    process.damage(bytes);
    let limits = Limits::small();
    let found = read_strands(&process, None, &limits);
    for runtime in &found {
        assert!(runtime.strands.len() <= limits.strands, "{} strands", runtime.strands.len());
        assert!(frames(runtime) <= limits.frames, "{} frames", frames(runtime));
    }
}

fn frames(runtime: &RuntimeStrands) -> usize {
    runtime.strands.iter().map(|strand| strand.frames.len()).sum()
}

#[cfg(test)]
mod tests;
