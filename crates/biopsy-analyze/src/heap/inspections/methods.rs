//! Asynchronous methods that have not ended: those that wait, and those that nobody can wake any more because nothing leads to them.

use biopsy_model::heap::TypeFamily;

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};

/// `TASK_STATE_FAULTED`, `TASK_STATE_CANCELED`, `TASK_STATE_RAN_TO_COMPLETION`.
const ENDED: u32 = 0x20_0000 | 0x40_0000 | 0x100_0000;

pub(super) fn inspect(view: View<'_>) -> [Option<Inspection>; 2] {
    let boxes: Vec<Option<(usize, &str)>> = view
        .graph
        .types()
        .iter()
        .map(|of| {
            let machine = machine_of(&of.name).filter(|_| of.family == TypeFamily::Task)?;
            Some((of.noted("m_stateFlags")?, machine))
        })
        .collect();
    let (mut waiting, mut lost) = (Rows::default(), Rows::default());
    view.graph.for_each_noted(|method, of, numbers| {
        let Some((flags, machine)) = boxes.get(of.0 as usize).copied().flatten() else { return };
        if numbers.get(flags).is_none_or(|flags| flags & ENDED != 0) {
            return;
        }
        if !view.is_live(method) {
            let size = view.graph.type_and_size(method).map_or(0, |(_, size)| size);
            lost.add(machine.to_owned(), 1, size);
            return;
        }
        let bytes = if view.is_below_its_like(method) { 0 } else { view.retained(method) };
        waiting.add(machine.to_owned(), 1, bytes);
    });
    // Where roots are missing nobody knows what is reachable.
    let is_known = !view.graph.roots().is_empty();
    [
        Inspection::of(InspectionKind::WaitingMethods, waiting.all()),
        Inspection::of(InspectionKind::LostMethods, lost.all()).filter(|_| is_known),
    ]
}

/// The state machine in the type of its box: the last type argument.
fn machine_of(name: &str) -> Option<&str> {
    let (_, arguments) = name.split_once("+AsyncStateMachineBox<")?;
    let arguments = arguments.strip_suffix('>')?;
    let (mut depth, mut start) = (0_u32, 0);
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    arguments.get(start..).map(str::trim_start)
}

#[cfg(test)]
mod tests {
    use super::machine_of;

    #[test]
    fn a_box_tells_its_state_machine() {
        let names = [
            (
                "A+AsyncStateMachineBox<System.Threading.Tasks.VoidTaskResult, App.Svc+<RunAsync>d__3>",
                Some("App.Svc+<RunAsync>d__3"),
            ),
            (
                "A+AsyncStateMachineBox<L<A,B>,App.Svc+<Get>d__1<A,L<B,C>>>",
                Some("App.Svc+<Get>d__1<A,L<B,C>>"),
            ),
            ("A+AsyncStateMachineBox<", None),
            ("App.Order", None),
        ];
        for (name, machine) in names {
            assert_eq!(machine_of(name), machine, "{name}");
        }
    }
}
