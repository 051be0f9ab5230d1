//! Everything that all evidence of one incident says: what was recorded over time, dumps, heaps, and one list of findings over them.

use biopsy_model::order::Order as _;
use std::collections::BTreeSet;

use biopsy_import::{Evidence, EvidenceError, FileSources};
use biopsy_model::capture::Capture;
use biopsy_redact::Redactor;

use crate::dump::DumpAnalysis;
use crate::findings::finding::Finding;
use crate::findings::{self, Incident};
use crate::footprint::FootprintSummary;
use crate::heap::{Growth, HeapSummary, several};
use crate::image::{Beside, analyze_opened, join_dumps};
use crate::recorded::Recorded;

/// What all evidence says.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// What was recorded over time; `None`: only moments are there.
    pub recorded: Option<Recorded>,
    /// Memory at one moment, the target's first.
    pub dumps: Vec<DumpAnalysis>,
    /// Managed heaps at one moment, the oldest first.
    pub heaps: Vec<HeapSummary>,
    /// What grew between them; `None`: there is one, or none.
    pub growth: Option<Growth>,
    /// Where the memory of processes went, the oldest first.
    pub footprints: Vec<FootprintSummary>,
    /// What is known to be missing beside what the parts say themselves.
    pub undetermined: Vec<String>,
    /// What only all evidence together says.
    findings: Vec<Finding>,
}

/// Several recordings over time were to be read as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeveralRecordings;

impl std::fmt::Display for SeveralRecordings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("several of the files are recordings over time, which one report cannot be about")
    }
}

impl std::error::Error for SeveralRecordings {}

/// Where a finding comes from: what its evidence refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The recording over time.
    Recorded,
    /// A dump: index into [`Diagnosis::dumps`].
    Dump(usize),
    /// All of it together.
    All,
}

impl Diagnosis {
    /// From the parts, each analysed by itself.
    #[must_use]
    pub fn new(mut recorded: Option<Recorded>, dumps: Vec<DumpAnalysis>, heaps: Vec<HeapSummary>) -> Self {
        let pair = recorded.as_ref().map(|recorded| (&recorded.capture, &recorded.analysis));
        let growth = Growth::of(&heaps.iter().collect::<Vec<_>>());
        let incident = Incident { recorded: pair, heaps: &heaps, growth: growth.as_ref(), footprints: &[] };
        let mut findings = findings::of_all(&incident);
        findings::settle_all(&mut findings, recorded.as_mut().map(|recorded| &mut recorded.analysis));
        let footprints = Vec::new();
        Self { recorded, dumps, heaps, growth, footprints, undetermined: Vec::new(), findings }
    }

    /// The same, and where the memory of processes went, the oldest first.
    #[must_use]
    pub fn with_footprints(mut self, footprints: Vec<FootprintSummary>) -> Self {
        let pair = self.recorded.as_ref().map(|recorded| (&recorded.capture, &recorded.analysis));
        let (heaps, growth) = (self.heaps.as_slice(), self.growth.as_ref());
        let incident = Incident { recorded: pair, heaps, growth, footprints: &footprints };
        let mut findings = findings::of_all(&incident);
        findings::settle_all(&mut findings, self.recorded.as_mut().map(|recorded| &mut recorded.analysis));
        Self { findings, footprints, ..self }
    }

    /// Of a recording alone.
    #[must_use]
    pub fn of_capture(capture: Capture) -> Self {
        Self::new(Some(Recorded::new(capture)), Vec::new(), Vec::new())
    }

    /// Of whatever a path leads to. `sources`: where files of the processes are looked for. Without a redactor, texts from the
    /// memory of a process are not shown.
    ///
    /// # Errors
    /// It cannot be read, or is nothing that is known.
    pub fn of(
        evidence: &mut Evidence,
        sources: &FileSources,
        redactor: Option<&Redactor>,
    ) -> Result<Self, EvidenceError> {
        Self::of_with(evidence, sources, &|| redactor)
    }

    /// The same with a redactor that is asked for when the first file is open: making one takes as long as that.
    ///
    /// # Errors
    /// As above.
    pub fn of_with<'r>(
        evidence: &mut Evidence,
        sources: &FileSources,
        redactor: &dyn Fn() -> Option<&'r Redactor>,
    ) -> Result<Self, EvidenceError> {
        let mut dumps = Vec::with_capacity(evidence.dumps());
        let mut not_read = Vec::new();
        let mut seen = BTreeSet::new();
        for number in 0..evidence.dumps() {
            match evidence.dump(number) {
                Ok(dump) => {
                    let pid = dump.opened.image.process().pid;
                    // They are of the moment of the first dump.
                    let peers = if seen.insert(pid) { evidence.peers(pid) } else { None };
                    let words = evidence.last_words(pid);
                    let beside = Beside { peers: peers.as_ref(), last_words: &words };
                    let (opened, bytes) = (&dump.opened, dump.file_bytes);
                    dumps.push(analyze_opened(opened, bytes, sources, redactor(), &beside));
                }
                // The others are worth reading.
                Err(error) if evidence.dumps() > 1 => not_read.push(with_causes(&error)),
                Err(error) => return Err(error),
            }
        }
        if dumps.is_empty() && !not_read.is_empty() {
            // None could be read: say why of the first.
            evidence.dump(0)?;
        }
        let heaps = several::of_file(evidence)?;
        let (footprints, not_whole) = evidence.footprints();
        not_read.extend(not_whole);
        let footprints: Vec<FootprintSummary> =
            footprints.into_iter().map(|(name, facts)| FootprintSummary { name, facts }).collect();
        let recorded = if dumps.is_empty() && heaps.is_empty() && footprints.is_empty() {
            Some(evidence.capture(sources)?)
        } else if evidence.is_recording() {
            Some(evidence.capture(sources)?).filter(Capture::holds_time)
        } else {
            None
        };
        let mut undetermined = if recorded.is_some() { Vec::new() } else { evidence.warnings() };
        undetermined.extend(not_read);
        let diagnosis = Self::new(recorded.map(Recorded::new), dumps, heaps).with_footprints(footprints);
        Ok(Self { undetermined, ..diagnosis })
    }

    /// Of dumps that are looks at processes: of each process the last one, with what did not move in any of them.
    #[must_use]
    pub fn of_looks(dumps: Vec<DumpAnalysis>) -> Self {
        Self::new(None, join_dumps(dumps), Vec::new())
    }

    /// Of several files of one incident, each analysed by itself. Dumps of one process at several moments become one: the last of them,
    /// with what moved.
    ///
    /// # Errors
    /// More than one of them is a recording over time: these are of different times, and are compared, not put together.
    pub fn of_several(all: Vec<Self>) -> Result<Self, SeveralRecordings> {
        let mut recorded = None;
        let (mut dumps, mut heaps) = (Vec::new(), Vec::new());
        let (mut footprints, mut undetermined) = (Vec::new(), Vec::new());
        for one in all {
            if one.recorded.is_some() && recorded.is_some() {
                return Err(SeveralRecordings);
            }
            recorded = recorded.or(one.recorded);
            dumps.extend(one.dumps);
            heaps.extend(one.heaps);
            footprints.extend(one.footprints);
            undetermined.extend(one.undetermined);
        }
        heaps.order_by(|a, b| a.facts.taken_at_unix_seconds.total_cmp(&b.facts.taken_at_unix_seconds));
        footprints.order_by(|a, b| a.facts.taken_at_unix_seconds.total_cmp(&b.facts.taken_at_unix_seconds));
        Ok(Self { undetermined, ..Self::new(recorded, join_dumps(dumps), heaps).with_footprints(footprints) })
    }

    /// All findings, the most important first, each with what its evidence refers to. Never empty but where there is no evidence.
    #[must_use]
    pub fn findings(&self) -> Vec<(Source, &Finding)> {
        let mut all: Vec<(Source, &Finding)> =
            self.findings.iter().map(|finding| (Source::All, finding)).collect();
        let recorded = self.recorded.iter().flat_map(|recorded| &recorded.analysis.findings);
        all.extend(recorded.map(|finding| (Source::Recorded, finding)));
        for (index, dump) in self.dumps.iter().enumerate() {
            all.extend(dump.findings.iter().map(|finding| (Source::Dump(index), finding)));
        }
        all.order_by(|(_, a), (_, b)| findings::by_importance(a, b));
        all
    }

    /// What the incident is about, for headings: the target's name.
    #[must_use]
    pub fn name(&self) -> &str {
        let recorded = self.recorded.iter().map(|recorded| recorded.capture.header.target_name.as_str());
        let dumps = self.dumps.iter().map(|dump| dump.identity.name.as_str());
        let heaps = self.heaps.iter().map(|heap| heap.name.as_str());
        let footprints = self.footprints.iter().map(|one| one.name.as_str());
        recorded.chain(dumps).chain(heaps).chain(footprints).find(|name| !name.is_empty()).unwrap_or_default()
    }

    /// A dump or a heap is damaged, or lacks what should be in it.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.dumps.iter().any(|dump| dump.damaged) || self.heaps.iter().any(|heap| !heap.facts.whole)
    }
}

/// An error as a sentence, causes included.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
