//! What is shown of a name that may hold anything.

use std::fmt::Write;

/// Longer names are cut in the middle, to so many characters.
pub const LONGEST: usize = 400;

/// Without anything that disturbs a terminal, a page or a reader: control characters, marks that turn the direction of text
/// (so that `evil` reads as `live`), invisible characters, and those of private use that obfuscators take, are written as
/// `\u{202e}`.
#[must_use]
pub fn clean(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if is_harmful(character) {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    cut(text)
}

fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}')
}

fn cut(text: String) -> String {
    const KEPT: usize = (LONGEST - 1) / 2;
    let count = text.chars().count();
    if count <= LONGEST {
        return text;
    }
    let start: String = text.chars().take(KEPT).collect();
    let end: String = text.chars().skip(count - KEPT).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tricks_are_written_out_and_other_scripts_stay() {
        assert_eq!(clean("a\u{202e}b\u{200b}\u{7}\u{1b}[31m"), r"a\u{202e}b\u{200b}\u{7}\u{1b}[31m");
        assert_eq!(clean("Überprüfung.实例.😀"), "Überprüfung.实例.😀");
        let long = "x".repeat(5000);
        assert_eq!(clean(&long).chars().count(), LONGEST - 1);
        assert_eq!(clean(&"é".repeat(LONGEST)).chars().count(), LONGEST);
    }
}
