//! Objects of CPython 3.8 to 3.13, by what must be true of them: no offsets of a version are needed but those that are the same in all.

pub(crate) mod dictionaries;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod pools;
pub(crate) mod statics;

use biopsy_dotnet::graph::RootKind;
use biopsy_image::Image;
use biopsy_runtimes::Limits;
use biopsy_runtimes::python::{Variables, variables};

use crate::heap::Heap;
use crate::roots::Found;

/// The interpreter of a process.
pub(crate) struct Python {
    pub(crate) version: String,
    pub(crate) warning: Option<String>,
    found: Variables,
}

impl Python {
    /// `None`: it runs none.
    pub(crate) fn find(image: &dyn Image) -> Option<Self> {
        let found = variables(image, &Limits::default())?;
        let warning = found.free_threaded.then(|| {
            "objects of a Python without the interpreter's lock (free-threaded) are not told apart".to_owned()
        });
        Some(Self { version: found.version.clone(), warning, found })
    }

    /// Variables of functions that run hold what they refer to.
    pub(crate) fn variables(&self, heap: &Heap, found: &mut Found) {
        for one in &self.found.variables {
            if let Some(block) = heap.find(one.value) {
                let name = format!("variable {} of {}", one.name, one.function);
                found.add_named(block, RootKind::ThreadStatic, &name, one.value, 0);
            }
        }
    }
}
