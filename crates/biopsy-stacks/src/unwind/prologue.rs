//! The first instructions of compiled code that has no unwind information, as JIT compilers make it.
//!
//! ```text
//! 55                 push rbp          ◄ here rbp is still the caller's, the return address is at rsp
//! 41 57  53 ...      push r15, rbx ... ◄ at rsp + 8 for each push
//! 48 83 ec 20        sub rsp, 0x20
//! 48 8d 6c 24 30     lea rbp, [rsp+0x30]   or   48 89 e5  mov rbp, rsp     (before the other pushes)
//! ```

/// Longest prologue looked at, in bytes: seven pushes and a `sub` take 20.
const BEFORE: usize = 32;
const AFTER: usize = 8;

const PUSH_RBP: u8 = 0x55;
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes between the stack pointer and the return address, when `ip` is where the frame pointer is not set up yet or not any
/// more. `read`: fills a buffer from an address in the process's memory, or says that it cannot.
pub(super) fn return_address_offset(read: impl FnOnce(u64, &mut [u8]) -> bool, ip: u64) -> Option<u64> {
    let mut code = [0; BEFORE + AFTER];
    if !read(ip.checked_sub(BEFORE as u64)?, &mut code) {
        return None;
    }
    offset_in(&code[..BEFORE], &code[BEFORE..])
}

fn offset_in(before: &[u8], at: &[u8]) -> Option<u64> {
    let entry = at.strip_prefix(&ENDBR64).unwrap_or(at);
    if let [PUSH_RBP | 0xc3 | 0xc2, ..] | [0xf3, 0xc3, ..] = entry {
        return Some(0);
    }
    // Backwards, so that the nearest `push rbp` counts.
    (0..before.len()).rev().find_map(|start| {
        let prologue = before.get(start..)?;
        // `41 55` is `push r13`.
        let whole = start.checked_sub(1).and_then(|previous| before.get(previous)) != Some(&0x41);
        if prologue.first() == Some(&PUSH_RBP) && whole { pushed(prologue) } else { None }
    })
}

/// How far a sequence of pushes and one kind of `sub` moved the stack pointer; `None` for anything else.
fn pushed(mut code: &[u8]) -> Option<u64> {
    let mut moved = 0_u64;
    loop {
        let (bytes, rest) = match code {
            [] => return Some(moved),
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => (8, rest),
            [0x48, 0x83, 0xec, small, rest @ ..] => (u64::from(*small), rest),
            [0x48, 0x81, 0xec, a, b, c, d, rest @ ..] => {
                (u64::from(u32::from_le_bytes([*a, *b, *c, *d])), rest)
            }
            // `vzeroupper`, which .NET puts there.
            [0xc5, 0xf8, 0x77, rest @ ..] => (0, rest),
            _ => return None,
        };
        moved += bytes;
        code = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(before: &[u8], at: &[u8]) -> Option<u64> {
        let mut window = vec![0xcc; BEFORE - before.len()];
        window.extend(before);
        offset_in(&window, at)
    }

    #[test]
    fn prologues_and_ends() {
        assert_eq!(offset(&[], &[0x55, 0x48, 0x89, 0xe5]), Some(0), "at the entry");
        assert_eq!(offset(&[], &[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), Some(0), "at an entry with endbr64");
        assert_eq!(offset(&[0x55], &[0x48, 0x89, 0xe5]), Some(8), "rbp is pushed, not set");
        let net = [0x55, 0x41, 0x57, 0x41, 0x55, 0x53, 0x48, 0x83, 0xec, 0x20, 0xc5, 0xf8, 0x77];
        assert_eq!(offset(&net, &[0x48, 0x8d, 0x6c, 0x24, 0x30]), Some(0x40), "pushes, sub, vzeroupper");
        assert_eq!(offset(&[0x55, 0x48, 0x81, 0xec, 0, 1, 0, 0], &[0x48, 0x8d]), Some(0x108));
        assert_eq!(offset(&[0x5d], &[0xc3]), Some(0), "rbp is popped");
        assert_eq!(offset(&[0x55, 0x48, 0x89, 0xe5], &[0x90]), None, "the frame pointer is set");
        assert_eq!(offset(&[0x41, 0x55], &[0x90]), None, "push r13 alone");
        assert_eq!(offset(&[], &[0x90]), None);
    }
}
