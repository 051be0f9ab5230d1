//! What a reader of Markdown makes of a text, as far as tests ask.

/// What is neither escaped nor in code (CommonMark 0.31, 2.4 and 6.1).
pub fn outside_code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let run = |at: usize| chars[at..].iter().take_while(|char| **char == '`').count();
    let (mut at, mut outside) = (0, String::new());
    while at < chars.len() {
        match chars[at] {
            '\\' if chars.get(at + 1).is_some_and(char::is_ascii_punctuation) => at += 2,
            '`' => {
                let length = run(at);
                let mut end = at + length;
                // The next run of the same length.
                while end < chars.len() && run(end) != length {
                    end += run(end).max(1);
                }
                at = if end < chars.len() { end + length } else { at + length };
            }
            other => {
                outside.push(other);
                at += 1;
            }
        }
    }
    outside
}

/// Bars that end a cell of a table: those that no backslash escapes, in code too (GFM 4.10).
pub fn ends_of_cells(text: &str) -> usize {
    let mut escaped = false;
    let is_end = |char: char| {
        let ends = char == '|' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    };
    text.chars().map(is_end).filter(|ends| *ends).count()
}

/// What a line is a part of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    Blank,
    Heading(usize),
    /// Of a table, with its cells.
    Row(usize),
    /// Of a list, with its indentation.
    Item(usize),
    Fence,
    /// Between two fences.
    Code,
    Text,
}

/// The blocks of a document, line by line.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut fenced = false;
    let block = |line: &str| {
        let inner = line.trim_start();
        let indent = line.len() - inner.len();
        // A fence may be indented by three columns.
        if inner.starts_with("```") && indent < 4 {
            fenced = !fenced;
            return Block::Fence;
        }
        match inner.chars().next() {
            _ if fenced => Block::Code,
            None => Block::Blank,
            Some('#') => Block::Heading(inner.chars().take_while(|char| *char == '#').count()),
            Some('|') => Block::Row(ends_of_cells(inner) - 1),
            Some('-' | '+' | '*') if inner[1..].starts_with(' ') => Block::Item(indent),
            Some('0'..='9')
                if inner.trim_start_matches(|char: char| char.is_ascii_digit()).starts_with(". ") =>
            {
                Block::Item(indent)
            }
            Some('>' | '=') => Block::Heading(0),
            Some(_) => Block::Text,
        }
    };
    markdown.split('\n').map(block).collect()
}
