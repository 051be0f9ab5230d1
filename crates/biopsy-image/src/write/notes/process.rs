//! Notes of the process: `struct elf_prpsinfo` (`linux/elfcore.h`, x86-64) and the auxiliary vector.

use super::thread::put;
use crate::{Image, ProcessFacts};

/// Size of `struct elf_prpsinfo`.
const PRPSINFO: usize = 136;
/// Sizes of `pr_fname` and `pr_psargs`; gdb wants the terminating zero inside.
const NAME: usize = 16;
const ARGUMENTS: usize = 80;

/// NT_PRPSINFO.
pub(super) fn information(image: &dyn Image) -> Vec<u8> {
    let process = image.process();
    let mut out = vec![0; PRPSINFO];
    put(&mut out, 1, b"R");
    let (user, user_group) = process.owner.unwrap_or_default();
    let (group, session) = process.group.unwrap_or_default();
    put(&mut out, 16, &user.to_le_bytes());
    put(&mut out, 20, &user_group.to_le_bytes());
    put(&mut out, 24, &process.pid.0.to_le_bytes());
    put(&mut out, 28, &process.parent.map_or(0, |parent| parent.0).to_le_bytes());
    put(&mut out, 32, &group.to_le_bytes());
    put(&mut out, 36, &session.to_le_bytes());
    put(&mut out, 40, cut(&process.name, NAME - 1));
    put(&mut out, 56, cut(&process.command_line.join(&b' '), ARGUMENTS - 1));
    out
}

/// NT_AUXV: pairs of words, the last one zero.
pub(super) fn auxiliary_vector(process: &ProcessFacts) -> Vec<u8> {
    let mut out = Vec::with_capacity(process.auxiliary.len().saturating_mul(16));
    let pairs = process.auxiliary.iter().filter(|(kind, _)| *kind != 0);
    for (kind, value) in pairs.chain([&(0, 0)]) {
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&value.to_le_bytes());
    }
    out
}

fn cut(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}
