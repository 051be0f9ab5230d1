//! Texts of settings as trees whose nodes know where they stand: JSON with comments, or TOML.

mod edit;
mod json;
mod node;
mod toml;

pub use edit::{EditError, set};
pub use json::parse as parse_json;
pub use node::{DEEPEST, LONGEST, Member, Node, Place, SyntaxError, Value};
pub use toml::parse as parse_toml;

/// Parses a text by the ending of its file's name: `.toml` is TOML, all else JSON with comments.
///
/// # Errors
/// [`SyntaxError`]: where it stops making sense, and why.
pub fn parse(name: &str, text: &str) -> Result<Node, SyntaxError> {
    if text.len() > LONGEST {
        return Err(SyntaxError {
            at: 0,
            message: format!("the text has {} bytes, the limit is 1 MiB", text.len()),
        });
    }
    if name.to_ascii_lowercase().ends_with(".toml") { parse_toml(text) } else { parse_json(text) }
}
