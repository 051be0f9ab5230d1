//! State machines of async methods.

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::operations::Operations;
use crate::graph::{Graph, TypeIndex};
use crate::names::{Machine, display_as};
use crate::runtime::{FieldPlace, Runtime, TypeHandle};

/// State machines at most; with more, the rest is counted in a problem.
const MOST: usize = 2_000_000;
/// `TASK_STATE_FAULTED`, `TASK_STATE_CANCELED`, `TASK_STATE_RAN_TO_COMPLETION` of `Task`.
const COMPLETED: u32 = 0x20_0000 | 0x40_0000 | 0x100_0000;

/// What is known of a type of boxes.
#[derive(Clone, Debug)]
struct Shape {
    /// The method, as the programmer wrote it.
    method: u32,
    /// The machine is an object of its own (debug builds), to which a field leads at this offset; else it lies in the box.
    separate: Option<u32>,
    /// Offsets from the box, or from the separate machine: state, awaiters.
    state: u32,
    awaiters: Vec<u32>,
    /// Offset of `Task.m_stateFlags`; boxes of pooled builders are no tasks.
    flags: Option<u32>,
}

/// A state machine that stands at an `await`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Address of its box, which others await.
    pub(super) address: Avma,
    /// Index into [`Machines::methods`].
    pub(super) method: u32,
    /// What it awaits; 0: not known.
    pub(super) awaits: Avma,
}

/// All that stand at an `await`.
#[derive(Debug, Default)]
pub(super) struct Machines {
    pub(super) pending: Vec<Pending>,
    pub(super) methods: Vec<String>,
    /// Which of them: several types of boxes may be of one method.
    by_name: FxHashMap<String, u32>,
}

impl Machines {
    pub(super) fn find(runtime: &Runtime<'_>, graph: &Graph, counts: &mut Operations) -> Self {
        let mut found = Self::default();
        let mut shapes: FxHashMap<TypeIndex, Shape> = FxHashMap::default();
        for (index, of) in graph.types().iter().enumerate() {
            if is_box(&of.name)
                && let Some(shape) = found.shape(runtime, TypeHandle(of.method_table))
            {
                shapes.insert(TypeIndex(index as u32), shape);
            }
        }
        if shapes.is_empty() {
            return found;
        }
        let mut left_out = 0_u64;
        for object in graph.objects() {
            let Some(shape) = shapes.get(&object.of) else { continue };
            if found.pending.len() >= MOST {
                left_out += 1;
                continue;
            }
            found.add(runtime, object.address, shape, counts);
        }
        if left_out > 0 {
            counts.problems.push(format!("asynchronous operations: {left_out} more were not read"));
        }
        found
    }

    fn add(&mut self, runtime: &Runtime<'_>, of: Avma, shape: &Shape, counts: &mut Operations) {
        let Avma(address) = of;
        let memory = runtime.memory();
        let machine = match shape.separate {
            Some(offset) => memory.u64(address.wrapping_add(offset.into())).unwrap_or(0),
            None => address,
        };
        // A machine that has ended is cleared, and looks as if it stood at its first `await`. The task knows.
        let flags = shape.flags.and_then(|flags| memory.u32(address.wrapping_add(flags.into())).ok());
        if flags.is_some_and(|flags| flags & COMPLETED != 0) {
            counts.completed += 1;
            return;
        }
        let Ok(state) = memory.u32(machine.wrapping_add(shape.state.into())) else { return };
        match state.cast_signed() {
            // The compiler's numbers: at an await, running or not begun, ended.
            0.. => {}
            -2 => {
                counts.completed += 1;
                return;
            }
            _ => {
                counts.running += 1;
                return;
            }
        }
        // Awaiters begin with what they await; those that are not in use are cleared.
        let words = shape
            .awaiters
            .iter()
            .filter_map(|offset| memory.u64(machine.wrapping_add((*offset).into())).ok());
        let awaits = words.into_iter().find(|word| *word > 0xffff && *word % 8 == 0).unwrap_or(0);
        if awaits == 0 && flags.is_none() {
            // Back in its pool, and cleared.
            counts.completed += 1;
            return;
        }
        counts.pending += 1;
        self.pending.push(Pending { address: of, method: shape.method, awaits: Avma(awaits) });
    }

    /// The last type argument of a box is its machine.
    fn shape(&mut self, runtime: &Runtime<'_>, method_table: TypeHandle) -> Option<Shape> {
        let info = runtime.type_of(method_table).ok()?;
        let machine = *info.arguments.last()?;
        let machine_info = runtime.type_of(machine).ok()?;
        let field = |of: TypeHandle, name: &str| match runtime.find_field(of, name).ok()??.place {
            FieldPlace::Instance(offset) => Some(offset),
            _ => None,
        };
        let at = field(method_table, "StateMachine")?.checked_add(8)?;
        let is_value = matches!(machine_info.shape, crate::runtime::TypeShape::Value);
        // A value has no method table word before its fields.
        let (separate, base) = if is_value { (None, at) } else { (Some(at), 8) };
        let fields = runtime.fields(machine).ok()?;
        let offset = |field: &crate::runtime::Field| match field.place {
            FieldPlace::Instance(offset) => offset.checked_add(base),
            _ => None,
        };
        let state = fields.iter().find(|field| field.name == "<>1__state").and_then(offset)?;
        let awaiters =
            fields.iter().filter(|field| field.name.starts_with("<>u__")).filter_map(offset).collect();
        let shown = display_as(&machine_info.name, "MoveNext", Machine::Async);
        let method = shown.strip_suffix(" (async)").unwrap_or(&shown).to_owned();
        let methods = &mut self.methods;
        let method = *self.by_name.entry(method).or_insert_with_key(|method| {
            methods.push(method.clone());
            methods.len() as u32 - 1
        });
        let flags = field(method_table, "m_stateFlags").and_then(|offset| offset.checked_add(8));
        Some(Shape { method, separate, state, awaiters, flags })
    }
}

/// The method of a box that others await, by the type of the box.
pub(super) fn method_of_box(runtime: &Runtime<'_>, method_table: TypeHandle) -> Option<String> {
    let info = runtime.type_of(method_table).ok().filter(|info| is_box(&info.name))?;
    let machine = runtime.type_of(*info.arguments.last()?).ok()?;
    let shown = display_as(&machine.name, "MoveNext", Machine::Async);
    Some(shown.strip_suffix(" (async)").unwrap_or(&shown).to_owned())
}

/// Boxes of `AsyncTaskMethodBuilder` and its relatives, pooled ones too.
fn is_box(name: &str) -> bool {
    name.starts_with("System.Runtime.CompilerServices.")
        && name.contains("StateMachineBox<")
        && !name.ends_with(']')
}
