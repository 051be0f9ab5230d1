//! `/proc/PID/maps`, which Breakpad and Crashpad put into minidumps of Linux (proc_pid_maps(5)).

use crate::{Backing, Mapping, Protection};

/// Mappings of the lines that can be read; others are skipped. Sorted and cut by the caller.
pub(super) fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// `start-end perms offset major:minor inode   path`.
fn line(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    let (start, end) = field()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let flags = field()?.as_bytes();
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let device = hex(major)?.checked_shl(20)? | hex(minor)?;
    let inode = field()?.parse().ok()?;
    let name = fields.next().unwrap_or_default().trim_ascii_start();
    let has = |flag| flags.contains(&flag);
    let label = || String::from_utf8_lossy(name).into_owned();
    let backing = if inode != 0 || name.starts_with(b"/") {
        let (path, deleted) = match name.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (name, false),
        };
        Backing::File { path: path.to_vec(), offset, deleted, identity: (device, inode) }
    } else if [&b"[vdso]"[..], b"[vvar]", b"[vvar_vclock]", b"[vsyscall]"].contains(&name) {
        Backing::Kernel { label: label() }
    } else {
        Backing::Anonymous { label: label() }
    };
    let protection = Protection { read: has(b'r'), write: has(b'w'), execute: has(b'x') };
    (start < end).then_some(Mapping { start, end, protection, shared: has(b's'), backing, not_frozen: false })
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_all_kinds_are_read_and_others_are_skipped() {
        let text = b"5580c1000000-5580c1001000 r-xp 00001000 08:02 173521     /usr/bin/a b (deleted)\n\
            7ffd0000-7ffe0000 rw-p 00000000 00:00 0     [stack]\n\
            nonsense\n\
            7fff1000-7fff2000 r-xp 00000000 00:00 0   [vdso]\n\
            8000-7000 r-xp 00000000 00:00 0 \n\
            9000-a000 rw-s 00000000 00:00 0 \n";
        let mappings = parse(text);
        assert_eq!(mappings.len(), 4);
        assert_eq!(
            mappings[0].backing,
            Backing::File {
                path: b"/usr/bin/a b".to_vec(),
                offset: 0x1000,
                deleted: true,
                identity: (8 << 20 | 2, 173_521)
            }
        );
        assert_eq!(mappings[1].backing, Backing::Anonymous { label: "[stack]".into() });
        assert_eq!(mappings[2].backing, Backing::Kernel { label: "[vdso]".into() });
        assert!(mappings[3].shared && mappings[3].is_anonymous());
    }

    proptest! {
        #[test]
        fn a_line_as_the_kernel_writes_it_is_read_back(
            start in 0..u64::MAX - 0x1000, pages in 1..8_u64, flags in 0..16_u8, offset in any::<u32>(),
            (major, minor) in (0..256_u64, 0..256_u64), inode in 0..3_u64, name in "(/[a-z (:]{1,20}[a-z])?",
        ) {
            let flag = |bit: u8, letter: char, other: char| if flags >> bit & 1 == 1 { letter } else { other };
            let letters: String = [flag(0, 'r', '-'), flag(1, 'w', '-'), flag(2, 'x', '-'), flag(3, 's', 'p')].iter().collect();
            let end = start.saturating_add(pages << 8);
            let text = format!("{start:08x}-{end:08x} {letters} {offset:08x} {major:02x}:{minor:02x} {inode}    {name}\n");
            let found = parse(text.as_bytes());
            prop_assert_eq!(found.len(), 1, "{}", text);
            let one = &found[0];
            prop_assert_eq!((one.start, one.end, one.shared), (start, end, flags >> 3 & 1 == 1));
            let Protection { read, write, execute } = one.protection;
            prop_assert_eq!((read, write, execute), (flags & 1 == 1, flags >> 1 & 1 == 1, flags >> 2 & 1 == 1));
            let backing = if inode != 0 || !name.is_empty() {
                let identity = (major << 20 | minor, inode);
                Backing::File { path: name.into_bytes(), offset: offset.into(), deleted: false, identity }
            } else {
                Backing::Anonymous { label: String::new() }
            };
            prop_assert_eq!(&one.backing, &backing);
        }

        #[test]
        fn any_bytes_are_read_without_harm(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&text).iter().all(|one| one.start < one.end));
        }
    }
}
