//! Texts of others as text in Markdown.

use biopsy_model::printable::is_harmful;

/// Text that stays text: no markup, no line ends, no cells of a table. `code` in back-ticks stays code.
pub(crate) fn plain(raw: &str) -> String {
    // Two of them in a row are the begin of another kind of code, which ends where two are again.
    let paired = raw.matches('`').count().is_multiple_of(2) && !raw.contains("``");
    // Nor can a table have a bar behind a backslash in code: there the backslash escapes nothing but the bar.
    let paired = paired && !raw.contains("\\|");
    let mut text = String::with_capacity(raw.len() + 8);
    let mut inside = false;
    let mut before = ' ';
    let mut chars = raw.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '`' if paired => {
                inside = !inside;
                text.push('`');
            }
            '|' => text.push_str("\\|"),
            // Inside a word an underscore is an underscore.
            '_' if before.is_alphanumeric() && chars.peek().is_some_and(|next| next.is_alphanumeric()) => {
                text.push('_');
            }
            '\\' | '`' | '[' | ']' | '<' | '>' | '#' | '_' | '*' | '&' | '~' if !inside => {
                text.push('\\');
                text.push(char);
            }
            '\n' | '\t' => text.push(' '),
            char if is_harmful(char) => {
                // In Markdown a backslash is written twice, in code once.
                text.push_str(if inside { "" } else { "\\" });
                text.extend(char.escape_default());
            }
            other => text.push(other),
        }
        before = char;
    }
    text
}

/// Text as code, whatever is in it.
pub(crate) fn code(raw: &str) -> String {
    let clean = crate::text::clean(raw).replace('|', "\\|");
    // In code a backslash stays one, and the bar behind it would end a cell of a table.
    if clean.contains("\\\\|") {
        return plain(raw);
    }
    let longest = clean.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    if clean.trim().is_empty() {
        return "–".to_owned();
    }
    if longest == 0 {
        return format!("`{clean}`");
    }
    // A fence longer than any run of back-ticks inside.
    let fence = "`".repeat(longest + 1);
    format!("{fence} {clean} {fence}")
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        assert_eq!(plain("<script>|x\n[a](b)"), "\\<script\\>\\|x \\[a\\](b)");
        assert_eq!(plain("threads `conn-*` wait"), "threads `conn-*` wait");
        assert_eq!(plain("a ` b"), "a \\` b");
        assert_eq!(plain("_perf_event_"), "\\_perf_event\\_");
        assert_eq!(plain("in ```<b>`"), "in \\`\\`\\`\\<b\\>\\`", "a name that begins with two back-ticks");
        assert_eq!(code("a`b"), "`` a`b ``");
        assert_eq!(code("operator||"), "`operator\\|\\|`");
        assert_eq!(plain("a\u{1b}[2J\u{202e}\r\nb"), "a\\\\u{1b}\\[2J\\\\u{202e}\\\\r b");
        assert_eq!(code("a\u{9b}\nb"), "`a\\u{9b} b`");
    }
}
