//! Finds and masks secrets in text before it is written anywhere.
//!
//! Promises:
//! - what a rule finds is replaced by `[redacted:RULE:PSEUDONYM]`; keys and everything around stay readable
//! - a pseudonym is the start of an HMAC under a random key of the bundle: equal values are comparable inside one
//!   bundle and nowhere else
//! - values found by key are searched for everywhere else, in every form they may have taken
//! - redacting what is redacted changes nothing
//! - linear time, bounded memory, no panics, whatever the bytes are
//!
//! Does not promise to know every secret: a password that stands alone in a sentence, and was never seen behind a key,
//! is a word like any other. `docs/guide/privacy.md` says so to the people concerned.
//!
//! ```
//! use biopsy_redact::{Options, Redactor};
//! let redactor = Redactor::new(Options::default()).expect("random bytes");
//! let redacted = redactor.text("Server=db1;User Id=app;Password=hunter2;");
//! assert!(redacted.text.starts_with("Server=db1;User Id=app;Password=[redacted:password:"));
//! ```
//!
//! The map: [`Redactor`] is the door; `rules` (data in `rules/*.toml`), `scan` (one pass), `keywords` (where rules are asked at all), `shape` and `key` (the two
//! kinds of rules), `place`, `cells` and `below` (where a value is), `quote` and `value` (where it ends), `plausible` (is it one at all), `learned` and `forms`
//! (values seen elsewhere), `wide` (UTF-16), [`in_place`](Redactor::in_place) (bytes with texts in them), [`stream`](Redactor::stream) (files of any size), `env` and
//! `command_line`; [`memory`] is another door: secrets in the memory of processes, masked with as many bytes. [`verify`] is the second opinion: code of its own that shares nothing with the rest.

#![forbid(unsafe_code)]

mod aligned;
mod answered;
mod attribute;
mod below;
mod called;
mod cells;
mod check;
mod columns;
mod command_line;
mod composite;
mod counts;
mod declared;
mod element;
mod encoded;
mod env;
mod error;
mod escapes;
mod examples;
mod extent;
mod fallback;
mod forms;
mod fuzz;
mod grouped;
mod harmless;
mod hexdump;
mod in_making;
mod in_place;
mod json;
mod key;
mod key_name;
mod keywords;
mod lead;
mod learned;
mod lines;
mod made_up;
mod manifest;
mod marks;
mod markup;
pub mod memory;
mod mention;
mod names;
mod numbered;
mod outline;
mod pairs;
mod parameters;
mod peeled;
mod phrase;
mod place;
mod plausible;
mod precheck;
mod pseudonym;
mod published;
mod quote;
mod records;
mod redactor;
mod reference;
mod reported;
mod rows;
mod rules;
mod run;
mod run_shapes;
mod scan;
mod scrambled;
mod shape;
mod source;
mod stream;
mod unlisted;
mod unpack;
mod unquoted;
mod value;
pub mod verify;
mod wide;
mod word_lists;
mod words;

pub use command_line::RedactedCommand;
pub use counts::{Hit, RedactionLog};
pub use env::EnvValue;
pub use error::RedactError;
pub use examples::{broken_examples, first_wrong_pack};
pub use fuzz::fuzz_redact;
pub use in_making::InMaking;
pub use in_place::InPlace;
pub use keywords::TooManyKeywords;
pub use learned::Learning;
pub use lines::LineRedactor;
pub use names::pack_of_names;
pub use pseudonym::{BundleKey, MASK_START};
pub use redactor::{LEARNED_RULE, Options, Redacted, RedactedBytes, Redactor};
pub use rules::rule_pack_digest;
pub use stream::{ChunkRedactor, StreamSummary};
pub use wide::is_text;
