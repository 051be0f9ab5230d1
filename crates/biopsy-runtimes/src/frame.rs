//! One call of a function of the language.

use std::sync::Arc;

use biopsy_model::Avma;

/// One call.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StrandFrame {
    /// The function, as the language writes it. Shared: a hundred thousand goroutines are in a few places.
    pub function: Arc<str>,
    /// Path of the source file as the runtime has it; not redacted.
    pub file: Option<Arc<str>>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Machine code: the instruction that is next, or the return address. `None` where the language has none.
    pub address: Option<Avma>,
    /// Stack pointer of the frame around it, where known: what orders it among native frames.
    pub sp: Option<Avma>,
    /// It has no frame of its own: the compiler put it into the next one.
    pub inlined: bool,
}
