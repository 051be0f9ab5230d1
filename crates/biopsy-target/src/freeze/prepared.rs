//! A process of a plan with everything that can be done before it stops.

use std::sync::Arc;

use biopsy_image::Mapping;
use biopsy_model::Pid;

use super::gadgets::{self, Gadgets};
use super::{FreezeError, Method, PreparedCopy, ProcessPlan};
use crate::address_space::{ProcessMemory, read_mappings};
use crate::process::identity::check_same;

/// A process made ready: everything that can be done before it stops.
pub(super) struct Prepared {
    pub(super) plan: ProcessPlan,
    pub(super) memory: Arc<ProcessMemory>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) gadgets: Option<Gadgets>,
    pub(super) copy: Option<Box<dyn PreparedCopy>>,
}

impl Prepared {
    /// Reads what there is to read, and finds or writes the instructions.
    pub(super) fn new(plan: ProcessPlan, copy: Option<Box<dyn PreparedCopy>>) -> Result<Self, FreezeError> {
        let pid = plan.key.pid;
        let gone = |_| FreezeError::Ended { pid };
        check_same(&plan.key).map_err(gone)?;
        let opening = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::PermissionDenied => FreezeError::NotPermitted { pid, source },
            std::io::ErrorKind::NotFound => FreezeError::Ended { pid },
            _ => FreezeError::step(pid, "opening its memory")(source),
        };
        let memory = Arc::new(ProcessMemory::open(pid).map_err(opening)?);
        let mappings = read_mappings(memory.tid()).map_err(opening)?;
        let gadgets = match plan.method {
            Method::CopyOnWrite => Some(gadgets::find(pid, &mappings, &memory)?),
            Method::StopAndCopy | Method::Refused => None,
        };
        Ok(Self { plan, memory, mappings, gadgets, copy })
    }

    pub(super) fn pid(&self) -> Pid {
        self.plan.key.pid
    }

    /// Removes what was written into the process to prepare it.
    pub(super) fn undo(&mut self) {
        if let Some(gadgets) = &mut self.gadgets {
            // The process is gone, or has executed another program: so is the stub.
            let _ = gadgets.remove_stub(&self.memory);
        }
    }
}
