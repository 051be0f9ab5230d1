//! Versions of the runtime.

use std::fmt;

use biopsy_image::{ImageModule, Mapping};

use super::Memory;

/// In front of the version in the runtime's data, as `what(1)` wants it.
const MARK: &[u8] = b"@(#)Version ";
/// Bytes of one mapping that are searched for it.
const SEARCHED: u64 = 64 << 20;
/// Bytes that are searched at once.
const STEP: usize = 1 << 20;

/// Version of a runtime, as its own `@(#)Version` text says it: 8.0.31 is build `8.0.3126.xxxxx`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuntimeVersion {
    /// 8 in 8.0.31.
    pub major: u16,
    /// 0 in 8.0.31.
    pub minor: u16,
    /// 31 in 8.0.31, where it could be told.
    pub patch: Option<u16>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch}"),
            None => Ok(()),
        }
    }
}

/// The version of the runtime in a module: from the text in its data, from its path, from the text anywhere.
pub(super) fn find(memory: &Memory<'_>, module: &ImageModule) -> Option<RuntimeVersion> {
    let mappings = memory.image().mappings();
    let first = mappings.partition_point(|one| one.end <= module.start);
    let of_module = || mappings.iter().skip(first).take_while(|one| one.start < module.end);
    let searched = |write: bool| {
        of_module().filter(|one| one.protection.write == write).find_map(|one| search(memory, one))
    };
    searched(true).or_else(|| by_path(&module.path)).or_else(|| searched(false))
}

fn search(memory: &Memory<'_>, mapping: &Mapping) -> Option<RuntimeVersion> {
    mapping.path()?;
    let end = mapping.end.min(mapping.start.saturating_add(SEARCHED));
    let mut at = mapping.start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(STEP).min(STEP);
        let bytes = memory.read_up_to(at, wanted).ok()?;
        if let Some(found) = memchr::memmem::find(&bytes, MARK) {
            let rest = bytes.get(found + MARK.len()..).unwrap_or_default();
            if let Some(version) = parse_build(rest) {
                return Some(version);
            }
        }
        // The text may lie across the border.
        let step = bytes.len().saturating_sub(128).max(1);
        if bytes.len() < wanted || bytes.len() <= 128 {
            return None;
        }
        at += step as u64;
    }
    None
}

/// `8.0.3126.12345 @Commit: ...`.
fn parse_build(text: &[u8]) -> Option<RuntimeVersion> {
    let text = text.get(..text.len().min(64))?;
    let text: String = text
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .map(|&byte| byte as char)
        .collect();
    let mut numbers = text.split('.').map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    let (major, minor, build) = (next()?, next()?, next()?);
    if (major, minor) == (4, 700) {
        // 3.0 and 3.1 still called themselves by the number of the framework before; the third is the year.
        return Some(RuntimeVersion { major: 3, minor: 1, patch: None });
    }
    let short = |number: u32| u16::try_from(number).ok();
    Some(RuntimeVersion { major: short(major)?, minor: short(minor)?, patch: short(build / 100) })
}

/// `.../shared/Microsoft.NETCore.App/8.0.31/libcoreclr.so`.
fn by_path(path: &[u8]) -> Option<RuntimeVersion> {
    let path = std::str::from_utf8(path).ok()?;
    let folder = path.rsplit('/').nth(1)?;
    let mut numbers = folder.split('-').next()?.split('.').map(str::parse::<u16>);
    let mut next = || numbers.next()?.ok();
    Some(RuntimeVersion { major: next()?, minor: next()?, patch: Some(next()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_numbers_are_versions() {
        let version = parse_build(b"8.0.3126.12345 @Commit: abc").expect("a version");
        assert_eq!(version.to_string(), "8.0.31");
        let version = parse_build(b"10.0.926.7 @Commit").expect("a version");
        assert_eq!(version.to_string(), "10.0.9");
        let version = parse_build(b"4.700.22.11601 @Commit").expect("a version");
        assert_eq!(version.to_string(), "3.1");
        assert_eq!(parse_build(b"x"), None);
    }

    #[test]
    fn folders_are_versions() {
        let path = b"/usr/share/dotnet/shared/Microsoft.NETCore.App/9.0.20/libcoreclr.so";
        assert_eq!(by_path(path).expect("a version").to_string(), "9.0.20");
        assert_eq!(by_path(b"/opt/app/libcoreclr.so"), None);
    }
}
