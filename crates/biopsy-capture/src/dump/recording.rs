//! A recording that dumps go into.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use biopsy_image::Image;
use biopsy_image::scrub::MaskCount;
use biopsy_model::Pid;
use biopsy_model::peers::PeerLook;
use biopsy_model::process::ProcessInfo;
use biopsy_record::context::{self, Moment};
use biopsy_record::dump::mask::Literals;
use biopsy_record::dump::{DumpProgress, Dumped, Origin};
use biopsy_recording::layout;
use biopsy_target::freeze::{FreezePlan, FrozenProcess};

use crate::failure::Failure;
use crate::job::Job;
use crate::place::Place;
use crate::recording::{Draft, output_failure};
use crate::target::Subject;
use crate::words::size;

use super::freeze::{ended_meanwhile, freeze_all, origin, release, secrets_of, thawing};
use super::plan::DumpPlan;
use super::write::{Until, Written, merge, write_image};

/// Dumps, with the context of their processes.
#[derive(Debug)]
pub(super) struct DumpRecording {
    pub(super) draft: Draft,
    pub(super) place: Place,
    /// All whose context was taken.
    pub(super) processes: Vec<ProcessInfo>,
    pub(super) dumps: Vec<Dumped>,
    /// Values that were masked in dumped memory, by rule.
    pub(super) masked: Vec<MaskCount>,
    /// What threads waited for in other processes, just before each was frozen for the first time.
    pub(super) peers: BTreeMap<Pid, PeerLook>,
    /// What processes that were held at their end wrote last.
    pub(super) words: BTreeMap<Pid, Vec<String>>,
    /// Dumps of one process are looks at it: the report has what did not move between them.
    pub(super) looks: bool,
    /// How many dumps of each process there are, those that are not written yet included.
    numbers: BTreeMap<Pid, u32>,
}

impl DumpRecording {
    /// Creates the recording and takes the context, before anything is stopped.
    pub(super) fn begin(
        plan: &DumpPlan,
        subject: &Subject,
        place: Place,
        job: &Job,
    ) -> Result<Self, Failure> {
        let draft = Draft::begin(job, &place.folder, &subject.target().key, &subject.name, &plan.command)?;
        let mut recording = Self {
            draft,
            place,
            processes: Vec::new(),
            dumps: Vec::new(),
            masked: Vec::new(),
            peers: BTreeMap::new(),
            words: BTreeMap::new(),
            looks: plan.looks > 1,
            numbers: BTreeMap::new(),
        };
        recording.take_context(subject)?;
        Ok(recording)
    }

    /// No dump came into it: it goes when it is dropped.
    pub(super) fn is_empty(&self) -> bool {
        self.dumps.is_empty()
    }

    /// Adds the context of those processes whose context is not there yet.
    pub(super) fn take_context(&mut self, subject: &Subject) -> Result<(), Failure> {
        let is_new = |one: &&ProcessInfo| !self.processes.iter().any(|known| known.key == one.key);
        let new: Vec<ProcessInfo> = subject.processes.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.draft.context(&new, Moment::Start).map_err(output_failure)?;
        self.processes.extend(new);
        self.draft.write_processes(&self.processes)
    }

    /// The number of the next dump of a process.
    pub(super) fn next_number(&mut self, pid: Pid) -> u32 {
        let number = self.numbers.entry(pid).or_default();
        *number = number.saturating_add(1);
        *number
    }

    /// Takes up a dump that was written.
    pub(super) fn add(&mut self, written: Written) -> Result<(), Failure> {
        let (dumped, masked) = written;
        merge(&mut self.masked, masked);
        self.dumps.push(dumped.map_err(output_failure)?);
        self.draft.keep();
        Ok(())
    }

    /// Searches the last dump for what was to be masked in it. It takes as long as reading it, so nothing is held meanwhile.
    pub(super) fn check_scrubbed(&mut self, literals: &Literals) -> Result<(), Failure> {
        match self.dumps.last_mut() {
            Some(dumped) => dumped.check_scrubbed(literals, &self.draft.folder).map_err(output_failure),
            None => Ok(()),
        }
    }

    /// Writes one image, whatever it came from.
    pub(super) fn write_one(
        &mut self,
        plan: &DumpPlan,
        image: &dyn Image,
        literals: &Literals,
        origin: Origin,
        progress: &DumpProgress<'_>,
        job: &Job,
    ) -> Result<(), Failure> {
        let origin = Origin { number: self.next_number(image.process().pid), ..origin };
        let folder = Arc::clone(&self.draft.folder);
        let written = write_image(plan, image, literals, &origin, &folder, (job, Until::Asked), progress);
        self.add(written)
    }

    /// Freezes the processes of the plan and writes each.
    pub(super) fn dump(
        &mut self,
        plan: &DumpPlan,
        subject: &Subject,
        freezing: FreezePlan,
        reason: &str,
        job: &Job,
    ) -> Result<(), Failure> {
        let predicted: Vec<(Pid, Duration)> =
            freezing.processes.iter().map(|process| (process.key.pid, process.predicted_pause)).collect();
        let literals = secrets_of(plan, subject);
        // Before they are frozen: then their threads stand in other calls.
        // Of several dumps of a process the first one has them: they are of its moment.
        let pids = freezing.processes.iter().map(|process| process.key.pid);
        let first: Vec<Pid> = pids.filter(|pid| !self.numbers.contains_key(pid)).collect();
        let looks = biopsy_target::peers::look_all(&first);
        let (frozen, gone) = freeze_all(plan, freezing, job)?;
        for (pid, look) in first.into_iter().zip(looks) {
            self.keep_peers(pid, look)?;
        }
        self.draft.warn_all(&gone);
        let mut left_out = Vec::new();
        for process in frozen {
            let pid = process.process().pid;
            if job.is_asked() {
                left_out.push(pid.to_string());
                continue;
            }
            let origin = Origin {
                predicted_pause: predicted.iter().find(|(of, _)| *of == pid).map(|(_, pause)| *pause),
                reason: reason.to_owned(),
                ..origin(&process)
            };
            self.write_frozen(plan, process, &literals, origin, job)?;
        }
        if !left_out.is_empty() {
            let message = format!("stopped by a signal: there is no dump of {}", left_out.join(", "));
            self.draft.warn("dump.stopped", message);
        }
        Ok(())
    }

    /// Names of processes and paths of files are texts like others.
    fn keep_peers(&mut self, pid: Pid, mut look: PeerLook) -> Result<(), Failure> {
        let member = layout::peers_member(pid);
        for process in &mut look.processes {
            process.name = self.draft.masking.text(&member, &process.name).into_owned();
            for wait in process.threads.iter_mut().filter_map(|thread| thread.wait.as_mut()) {
                wait.what = self.draft.masking.text(&member, &wait.what).into_owned();
            }
        }
        self.draft.folder.peers(pid, &look).map_err(output_failure)?;
        self.peers.insert(pid, look);
        Ok(())
    }

    /// Keeps what a process that is held wrote last.
    pub(super) fn keep_words(&mut self, pid: Pid) -> Result<(), Failure> {
        let member = layout::words_member(pid);
        let words = biopsy_target::last_words(pid);
        if words.is_empty() {
            return Ok(());
        }
        // As one text: a key has several lines, of which the others say nothing.
        let words = self.draft.masking.text(&member, &words.join("\n")).into_owned();
        let words: Vec<String> = words.lines().map(str::to_owned).collect();
        self.draft.folder.last_words(pid, &words).map_err(output_failure)?;
        self.words.insert(pid, words);
        Ok(())
    }

    fn write_frozen(
        &mut self,
        plan: &DumpPlan,
        process: FrozenProcess,
        literals: &Literals,
        origin: Origin,
        job: &Job,
    ) -> Result<(), Failure> {
        let pid = process.process().pid;
        if let Some(copy) = process.child() {
            let Draft { folder, masking, .. } = &self.draft;
            context::write_smaps(folder, masking, pid, copy).map_err(output_failure)?;
        }
        self.write_one(plan, &process, literals, origin, &thawing(plan, &process), job)?;
        if let Some(left) = process.ended_early() {
            let message = format!(
                "the frozen copy of process {pid} was ended because memory ran short ({} were left): what was not written by \
                 then is missing",
                size(left.bytes)
            );
            self.draft.warn("dump.memory-short", message);
        }
        if let Some(message) = ended_meanwhile(&process) {
            self.draft.warn("dump.process-ended", message);
        }
        release(process, job);
        self.check_scrubbed(literals)
    }
}
