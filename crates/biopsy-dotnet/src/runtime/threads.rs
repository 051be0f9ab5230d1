//! The threads of a runtime, with what their objects say.

use biopsy_image::OwnNumbers;
use biopsy_model::Avma;

use super::{FieldPlace, ManagedThread, Runtime, RuntimeError, thread};

/// Characters of a name.
const NAME_CHARS: usize = 4096;

impl Runtime<'_> {
    /// All threads that the runtime knows.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn threads(&self) -> Result<Vec<ManagedThread>, RuntimeError> {
        let mut threads = thread::read(&self.memory, &self.threads, self.options.threads)?;
        let own = OwnNumbers::of(self.memory.image());
        for thread in &mut threads {
            thread.os_id = own.thread(thread.own_os_id).map_or(thread.own_os_id, |tid| tid.0);
        }
        for thread in &mut threads {
            thread.name = thread.object.and_then(|object| self.thread_name(object));
            thread.current_exception = thread.current_exception.and_then(|at| self.exception_at(at));
            if thread.allocation.0 == Avma(0) {
                thread.allocation = (Avma(0), Avma(0));
            }
        }
        Ok(threads)
    }

    /// The exception object that `value` is (11), or that the handle `value` holds (9, 10); `None` when it is neither.
    fn exception_at(&self, value: Avma) -> Option<Avma> {
        let is_exception = |object: &Avma| {
            let table = self.method_table_of(*object);
            table.is_ok_and(|table| self.is_a(table, self.known.exception).unwrap_or(false))
        };
        let held = self.memory.u64(value.0).ok().map(Avma);
        held.into_iter().chain([value]).find(is_exception)
    }

    fn thread_name(&self, object: Avma) -> Option<String> {
        let name = self.find_field(self.method_table_of(object).ok()?, "_name").ok()??;
        let FieldPlace::Instance(offset) = name.place else { return None };
        let at = object.0.wrapping_add(8 + u64::from(offset));
        let text = self.memory.u64(at).ok().filter(|&text| text != 0)?;
        let (text, _) = self.string(Avma(text), NAME_CHARS).ok()?;
        (!text.is_empty()).then_some(text)
    }
}
