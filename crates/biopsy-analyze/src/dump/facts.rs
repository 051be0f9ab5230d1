//! What the caller knows of a dump beside its image.

use biopsy_image::vendor::CoreKind;
use biopsy_image::{DumpKind, Encoding, Opened};
use biopsy_model::{Nanos, Tid};

/// Facts that stand beside the memory: in the recording, in the notes of the writer, in the name of the file.
#[derive(Clone, Default)]
pub struct DumpFacts<'a> {
    /// What the file is, in words: `ELF core, zstd`.
    pub format: String,
    /// What is in it, in words: `full`, `heap`, `stacks`.
    pub kind: Option<String>,
    /// Secrets of known shapes were masked in its memory; `None`: not known.
    pub scrubbed: Option<bool>,
    /// Size of the file in bytes.
    pub file_bytes: Option<u64>,
    /// How long the process was stopped for it.
    pub pause: Option<Nanos>,
    /// Its command line. The caller has redacted it.
    pub command_line: Option<String>,
    /// What was met while the dump was opened or made, in words.
    pub warnings: Vec<String>,
    /// The file is damaged or cut off.
    pub damaged: bool,
    /// What was recorded of threads beside the dump.
    pub threads: Vec<ThreadFacts>,
    /// What open descriptors lead to, redacted: `3` → `socket 10.0.0.7:5432`.
    pub descriptors: Vec<(u32, String)>,
    /// Redacts a text that comes from the memory of the process (the message of an abort). Without it no such text is shown.
    pub redact: Option<&'a dyn Fn(&str) -> String>,
    /// The managed runtimes in the image, which named and unwound its stacks too.
    pub managed: Option<&'a super::managed::runtimes::Runtimes<'a>>,
    /// What language runtimes other than .NET have: [`strands::read`](super::strands::read).
    pub strands: &'a [super::strands::RuntimeStrands],
    /// Files in place of what a core left out: [`strands::files`](super::strands::files).
    pub files: Option<&'a dyn biopsy_runtimes::MissingFiles>,
    /// What its threads wait for in other processes, and what these do.
    pub peers: Option<&'a biopsy_model::peers::PeerLook>,
    /// What it wrote last before it was held at its end. The caller has redacted it.
    pub last_words: &'a [String],
    /// Look at the managed heap: all objects by type. A second for ten million objects.
    pub heap: bool,
    /// The image is of a process that runs on, and not of a file.
    pub live: bool,
}

impl DumpFacts<'_> {
    /// What the opened file says of itself. The rest is for the caller to add.
    #[must_use]
    pub fn of(opened: &Opened) -> Self {
        let kind = match opened.kind {
            DumpKind::Core => "ELF core",
            DumpKind::Minidump => "minidump",
        };
        let note = opened.dump.as_ref();
        let packed =
            if opened.encoding == Encoding::Plain { String::new() } else { format!(", {}", opened.encoding) };
        let hinted = |warning: &biopsy_model::loss::Warning| match &warning.hint {
            Some(hint) => format!("{} ({hint})", warning.message),
            None => warning.message.clone(),
        };
        Self {
            format: format!("{kind}{packed}"),
            kind: note.and_then(|note| note.kind).map(|kind| {
                match kind {
                    CoreKind::Full => "full",
                    CoreKind::Heap => "heap",
                    CoreKind::Stacks => "stacks",
                }
                .to_owned()
            }),
            scrubbed: note.map(|note| note.scrubbed),
            pause: note.and_then(|note| note.pause_nanos).map(Nanos),
            damaged: opened.is_damaged(),
            warnings: opened.warnings.iter().map(hinted).collect(),
            ..Self::default()
        }
    }
}

impl std::fmt::Debug for DumpFacts<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DumpFacts")
            .field("format", &self.format)
            .field("kind", &self.kind)
            .field("scrubbed", &self.scrubbed)
            .field("redact", &self.redact.is_some())
            .finish_non_exhaustive()
    }
}

/// What was recorded of one thread beside the dump.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ThreadFacts {
    /// Which.
    pub tid: Tid,
    /// Its name.
    pub name: Option<String>,
    /// CPU time since its start.
    pub cpu: Option<Nanos>,
    /// The kernel's letter: `R`, `S`, `D` ... (proc(5)).
    pub state: Option<char>,
    /// The kernel function it waits in.
    pub wait_channel: Option<String>,
}
