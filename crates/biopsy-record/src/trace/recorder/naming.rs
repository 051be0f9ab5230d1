//! Names of what was seen: of interpreters, of managed code, and of native frames, while the recording runs.

use std::sync::Arc;

use biopsy_model::timeline::TimelineEvent;
use biopsy_runtimes::python::SampledPython;

use super::super::frames::Frames;
use super::super::languages::{FoundLanguage, Java, Language, Node, Python};
use super::super::processes::ProcessChange;
use super::super::records::State;
use super::Recorder;

impl Recorder {
    /// What was found of interpreters: the sampling program is told where their frames are.
    pub(super) fn find_languages(&mut self) {
        let found = self.interpreters.found();
        self.set_languages(found);
    }

    pub(super) fn set_languages(&mut self, found: Vec<(u32, FoundLanguage)>) {
        for (pid, found) in found {
            if !self.state.frames.processes.contains(pid) {
                continue;
            }
            match found {
                FoundLanguage::Python(python) => {
                    let python = Python::new(pid, Arc::new(*python));
                    self.set_language(pid, Language::Python(Box::new(python)));
                }
                FoundLanguage::Java(java) => {
                    let java = Java::new(pid, Arc::new(*java));
                    if let Some(rules) = java.rules() {
                        self.state.frames.processes.set_compiled(pid, rules);
                        self.set_language(pid, Language::Java(Box::new(java)));
                    }
                }
                FoundLanguage::Node(node) => {
                    let node = Node::new(pid, Arc::new(*node));
                    self.set_language(pid, Language::Node(Box::new(node)));
                }
                FoundLanguage::NotRead(why) => {
                    let message =
                        format!("samples of process {pid} show the C code of its interpreter: {why}");
                    let result = self.state.sink.warn("trace.interpreter-not-read", message, None);
                    self.state.keep(result);
                }
            }
        }
    }

    fn set_language(&mut self, pid: u32, language: Language) {
        if let Language::Python(python) = &language
            && let Some(why) = self.read_frames_at_samples(pid, python.python())
        {
            let message = format!(
                "samples of process {pid} show the C code of Python in place of its functions: {why} (its waits have them)"
            );
            let result = self.state.sink.warn("trace.interpreter-not-read", message, None);
            self.state.keep(result);
        }
        self.state.frames.set_language(pid, language);
        let result = self.off_cpu.look_again(pid, &mut self.state.sink);
        self.state.keep(result);
    }

    /// Why the sampling program cannot read the frames of a Python.
    fn read_frames_at_samples(&self, pid: u32, python: &SampledPython) -> Option<String> {
        match (&self.attached.kernel, &python.walk) {
            (None, _) => Some("they are read by the kernel part of the trace, which is not there".to_owned()),
            (_, None) => {
                let version = &python.version;
                Some(format!("where threads of this Python {version} keep their state was not found"))
            }
            (Some(kernel), Some(walk)) => kernel.set_language(pid, walk).err().map(|error| error.to_string()),
        }
    }

    fn forget_language(&mut self, pid: u32) {
        if self.state.frames.forget_language(pid)
            && let Some(kernel) = &self.attached.kernel
        {
            let _ = kernel.forget_language(pid);
        }
    }

    /// Asks the thread of managed code for rules that are wanted, and for names: each round, because a process that ends takes
    /// the names of its methods with it.
    pub(super) fn serve_managed(&mut self) {
        self.ask_managed();
        for pid in self.state.frames.processes.rules_wanted() {
            self.managed.want_rules(pid);
        }
    }

    fn ask_managed(&mut self) {
        let Frames { processes, interner, languages, .. } = &mut self.state.frames;
        // Processes come before their frames, and end after them.
        let (mut ended, mut gone, mut forked) = (Vec::new(), Vec::new(), Vec::new());
        for change in processes.changes.drain(..) {
            match change {
                ProcessChange::Started(pid, rules) => {
                    self.managed.process(pid, &rules);
                    if !languages.contains_key(&pid) {
                        self.interpreters.look(pid);
                    }
                }
                ProcessChange::Exec(pid) => {
                    self.managed.exec(pid);
                    self.interpreters.look(pid);
                    forked.retain(|(_, child)| *child != pid);
                    gone.push(pid);
                }
                ProcessChange::Exited(pid) => {
                    self.interpreters.forget(pid);
                    ended.push(pid);
                    gone.push(pid);
                }
                ProcessChange::Forked { parent, child } => forked.push((parent, child)),
            }
        }
        let (managed, native) = processes.split_managed(interner.take_unnamed());
        self.managed.ask(managed);
        self.native.extend(native);
        for pid in ended {
            self.managed.exit(pid);
        }
        for (parent, child) in forked {
            if let Some(language) = self.state.frames.language(parent).and_then(|of| of.of_child(child)) {
                self.interpreters.forget(child);
                self.set_language(child, language);
            }
        }
        for pid in gone {
            self.forget_language(pid);
        }
    }

    /// Hands new frames to those who find names, and writes the names that they have found.
    pub(super) fn name_frames(&mut self, wait: bool) {
        self.ask_managed();
        let State { frames, sink, .. } = &mut self.state;
        let mut native = std::mem::take(&mut self.native);
        let found = self.managed.found(wait);
        for pid in found.rules {
            frames.processes.rules_changed(pid);
        }
        native.extend(found.unnamed);
        self.names.ask(native, &frames.processes.defined);
        let mut result = self.names.write_answers(wait, sink);
        for symbols in found.symbols {
            result = result.and_then(|()| sink.push(&TimelineEvent::Symbols(symbols)));
        }
        for (message, hint) in found.problems {
            result = result.and_then(|()| sink.warn("trace.managed-names", message, hint.map(str::to_owned)));
        }
        self.state.keep(result);
    }
}
