//! finds and masks secrets in text; rule packs are data; a separate pass verifies.
