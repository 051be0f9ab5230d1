//! Go: every program built by the Go tool chain has a section that says with which version.

use biopsy_model::process::{Runtime, RuntimeKind};

use super::evidence::Evidence;
use crate::process::elf;

/// `debug/buildinfo` of Go's library describes the layout.
const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Flag in byte 15: the version follows the header as a varint length and text (Go 1.18 and later).
const INLINE: u8 = 2;
const HEADER: usize = 32;

pub(super) fn detect(evidence: &Evidence<'_>) -> Option<Runtime> {
    let exe = evidence.seen.dir.file("exe").ok()?;
    let version = match elf::section_bytes(&exe, ".go.buildinfo", 256) {
        Some(info) => build_version(&info),
        None => {
            elf::section(&exe, ".note.go.buildid")?;
            None
        }
    };
    Some(Runtime { kind: RuntimeKind::Go, version, entry: None })
}

fn build_version(info: &[u8]) -> Option<String> {
    if !info.starts_with(MAGIC) || info.get(15)? & INLINE == 0 {
        return None;
    }
    let length = usize::from(*info.get(HEADER)?);
    // One byte of varint says up to 127; versions are shorter.
    let text = info.get(HEADER + 1..)?.get(..length).filter(|_| length < 128)?;
    let text = std::str::from_utf8(text).ok()?.strip_prefix("go")?;
    text.chars().all(|c| c.is_ascii_graphic() || c == ' ').then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_version() {
        let mut info = MAGIC.to_vec();
        info.extend_from_slice(&[8, INLINE]);
        info.resize(HEADER, 0);
        info.extend_from_slice(b"\x08go1.22.1");
        assert_eq!(build_version(&info).as_deref(), Some("1.22.1"));
        assert_eq!(build_version(&info[..36]), None);
        info[15] = 0;
        assert_eq!(build_version(&info), None);
        assert_eq!(build_version(b""), None);
    }
}
