//! Names of members: which may be one, and how they are shown.

use crate::layout;

/// Whether a member is one that is left out silently: unfinished.
pub(super) fn is_temporary(name: &str) -> bool {
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.starts_with(crate::folder::TEMPORARY_PREFIX)
}

/// A member's name, if it may be one.
pub(super) fn checked_name(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| layout::is_member_name(name))
}

/// A name as it is shown in a message: short, and without control characters.
pub(super) fn shown(name: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(name).chars().take(80).collect();
    text.escape_debug().to_string()
}
