//! From an image to its analysis: the runtimes in it, its stacks by their help, and what all that means.

use std::collections::BTreeSet;

use biopsy_image::{Image, Opened};
use biopsy_model::peers::PeerLook;
use biopsy_model::{Nanos, Tid};
use biopsy_redact::Redactor;
use biopsy_stacks::image::{ImageStacks, Options, walk};
use biopsy_stacks::symbols::FileSources;

use crate::dump::{self, DumpAnalysis, DumpFacts, Runtimes};
use crate::findings;

/// Analyses a dump. `stacks`: of the same image.
#[must_use]
pub fn analyze_dump(image: &dyn Image, stacks: &ImageStacks, facts: &DumpFacts<'_>) -> DumpAnalysis {
    let mut analysis = dump::facts_of(image, stacks, facts);
    analysis.findings = findings::of_dump(&analysis);
    analysis
}

/// Reads the stacks of all threads, native and managed, and analyses what there is. `sources`: where the files of the
/// process are looked for. `facts`: what is known besides; its runtimes are set here.
#[must_use]
pub fn analyze_image(image: &dyn Image, sources: &FileSources, facts: &DumpFacts<'_>) -> DumpAnalysis {
    let runtimes = Runtimes::open(image, &sources.roots);
    let files = dump::strands::files(image, &sources.roots);
    let strands = dump::strands::read(image, &files);
    let code = runtimes.code();
    let explicit = runtimes.explicit_frames();
    let options = Options {
        compiled: Some(&code),
        frames_of_compiled: Some(&code),
        resumes: Some(&explicit),
        ..Options::of(sources)
    };
    let mut stacks = walk(image, &options);
    explicit.add_to(&mut stacks);
    let facts =
        DumpFacts { managed: Some(&runtimes), strands: &strands, files: Some(&files), ..facts.clone() };
    analyze_dump(image, &stacks, &facts)
}

/// Puts looks at one process together, the oldest first: the last one, with what the others say of it. `idle`: of each time between two
/// looks, the threads that did not run, where that was counted. `None`: there is no look.
#[must_use]
pub fn join_looks(
    all: Vec<DumpAnalysis>,
    idle: Option<&[BTreeSet<Tid>]>,
    span: Option<Nanos>,
) -> Option<DumpAnalysis> {
    let mut joined = dump::join(all, idle, span)?;
    joined.findings = findings::of_dump(&joined);
    Some(joined)
}

/// Puts dumps of one process together wherever there are several.
pub(crate) fn join_dumps(all: Vec<DumpAnalysis>) -> Vec<DumpAnalysis> {
    let mut joined = dump::join_same(all);
    for one in joined.iter_mut().filter(|one| one.looks.is_some()) {
        one.findings = findings::of_dump(one);
    }
    joined
}

/// What was recorded beside a dump, where somebody looked.
#[derive(Clone, Copy, Default, Debug)]
pub struct Beside<'a> {
    /// What its threads waited for in other processes.
    pub peers: Option<&'a PeerLook>,
    /// What it wrote last, redacted.
    pub last_words: &'a [String],
}

/// The same of a dump that was opened. `file_bytes`: its size. Without a redactor, texts from the memory of the process are not
/// shown.
#[must_use]
pub fn analyze_opened(
    opened: &Opened,
    file_bytes: Option<u64>,
    sources: &FileSources,
    redactor: Option<&Redactor>,
    beside: &Beside<'_>,
) -> DumpAnalysis {
    let redact =
        |text: &str| redactor.map_or_else(String::new, |redactor| redactor.text(text).text.into_owned());
    let command_line = redactor.and_then(|redactor| {
        let arguments = &opened.image.process().command_line;
        let words: Vec<String> =
            arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        (!words.is_empty()).then(|| redactor.command_line(&words).args.join(" "))
    });
    let facts = DumpFacts {
        file_bytes,
        command_line,
        redact: redactor.is_some().then_some(&redact),
        heap: true,
        peers: beside.peers,
        last_words: beside.last_words,
        ..DumpFacts::of(opened)
    };
    analyze_image(&*opened.image, sources, &facts)
}
