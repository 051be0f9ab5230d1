//! One way to open whatever holds evidence: recordings, dumps, heaps (`.gcdump`, Java's `.hprof`, V8's `.heapsnapshot`), and other tools' recordings (`perf.data` of `perf record`, `.nettrace`
//! of `dotnet-trace` and its like, profiles of pprof), told apart by what is in them.
//!
//! [`Evidence`] looks at a path and gives its pieces: a [`Capture`](biopsy_model::capture::Capture), dumps, a heap. Another tool's recording
//! becomes a capture like any other, with the method `imported`, and it says in its warnings what the other tool did not record. Files
//! are hostile until proven otherwise: lengths are checked before memory is taken, nothing recurses, damage costs the part that is damaged.

#![forbid(unsafe_code)]

mod error;
pub mod evidence;
pub mod heap;
pub mod heapsnapshot;
pub mod hprof;
mod limits;
pub mod nettrace;
pub mod perf_data;
pub mod pprof;

pub use biopsy_recording::Location;
pub use biopsy_stacks::symbols::{FileSources, FilesElsewhere};
pub use error::ImportError;
pub use evidence::{Evidence, EvidenceError, HeapPlace};
pub use limits::Limits;

/// Reads arbitrary bytes as perf.data, without looking at any other file.
pub fn fuzz_perf_data(bytes: &[u8]) {
    let _ = perf_data::read_bytes(bytes, &perf_data::Options::closed(), &Limits::small());
}

/// Reads arbitrary bytes as a nettrace file, up to names and samples.
pub fn fuzz_nettrace(bytes: &[u8]) {
    thread_local! {
        // Making one takes longer than hundreds of inputs.
        static REDACTOR: Option<biopsy_redact::Redactor> =
            biopsy_redact::Redactor::new(biopsy_redact::Options::default()).ok();
    }
    REDACTOR.with(|redactor| {
        if let Some(redactor) = redactor {
            let _ = nettrace::read_from(bytes, "fuzz.nettrace", redactor, &nettrace::Limits::small());
        }
    });
}
