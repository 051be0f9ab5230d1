//! Text from other processes, made safe to show on a terminal.

/// Makes text from a process safe to print: control characters (a name may hold escape sequences that command the
/// terminal) and characters that turn the direction of writing become visible escapes.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// At most `limit` characters, with `…` where something was cut off.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(limit.saturating_sub(1)).collect();
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_commanded() {
        assert_eq!(printable("a b(c)é"), "a b(c)é");
        assert_eq!(printable("x\ny\u{1b}[2J\u{202e}"), "x\\ny\\u{1b}[2J\\u{202e}");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüx", 3), "äö…");
    }
}
