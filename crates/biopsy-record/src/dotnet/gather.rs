//! What is gathered of the events of one process while they come.

use std::sync::{Mutex, PoisonError};

use biopsy_dotnet::events::{Collector, Limits};
use biopsy_dotnet::methods::{MethodMap, NameAddresses};
use biopsy_dotnet::nettrace::Event;
use biopsy_model::process::Runtime;
use biopsy_model::runtime_trace::{RuntimeTrace, Sampled};
use biopsy_model::symbol::Function;
use biopsy_model::{Avma, MonoNanos, Pid};
use biopsy_recording::layout;

use crate::masking::Masking;

type Redact = Box<dyn FnMut(&str) -> String + Send>;

/// Gathers the events of all sessions of one process.
#[derive(Debug)]
pub(crate) struct Gatherer {
    collector: Collector<Redact>,
}

impl Gatherer {
    pub(crate) fn new(pid: Pid, source: String, masking: Masking, limits: &Limits) -> Self {
        let member = layout::runtime_member(pid);
        let redact: Redact = Box::new(move |text| masking.text(&member, text).into_owned());
        Self { collector: Collector::new(pid, source, limits, redact) }
    }

    pub(crate) fn event(&mut self, event: &Event<'_>) {
        self.collector.event(event);
    }

    /// No collection is under way.
    pub(crate) fn is_between_collections(&self) -> bool {
        self.collector.is_between_collections()
    }

    /// When the last event was.
    pub(crate) fn last(&self) -> Option<MonoNanos> {
        Some(self.collector.span()?.1)
    }

    /// A stream has ended, with what was lost of it.
    pub(crate) fn stream_ended(&mut self, lost: u64, unknown: u64, cut: bool) {
        self.collector.lost(lost, unknown, cut);
    }

    /// What came of it. Code is named by the methods that were compiled meanwhile, and else by `memory`.
    pub(crate) fn finish(
        mut self,
        runtime: Runtime,
        sampled: Vec<Sampled>,
        methods: &Mutex<MethodMap>,
        memory: &dyn NameAddresses,
    ) -> RuntimeTrace {
        self.collector.set_runtime(runtime);
        sampled.into_iter().for_each(|one| self.collector.note_sampled(one));
        self.collector.finish(&Names { methods, memory })
    }
}

/// Names of what was told of while recording, then of what is in memory.
struct Names<'m> {
    methods: &'m Mutex<MethodMap>,
    memory: &'m dyn NameAddresses,
}

impl NameAddresses for Names<'_> {
    fn name(&self, address: Avma) -> Option<Function> {
        let told = self.methods.lock().unwrap_or_else(PoisonError::into_inner).name(address);
        told.or_else(|| self.memory.name(address))
    }
}
