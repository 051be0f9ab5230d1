//! text, JSON, Markdown, HTML, and exports to other tools' formats; owns the output schema.
