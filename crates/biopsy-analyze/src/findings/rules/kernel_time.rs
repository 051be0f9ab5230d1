//! Much time inside the kernel.

use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Value};
use crate::findings::scene::Scene;
use crate::trace::frames::as_u32;
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::words::percent;

/// Half of the CPU time in the kernel is unusual for anything but a file or network server at its limit.
const KERNEL_SHARE: f64 = 0.5;
/// CPUs that it uses, or wants, below which it harms nobody.
const LEAST_CORES: f64 = 0.3;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let used = scene.wanted_cores().filter(|&wanted| wanted >= LEAST_CORES)?;
    if scene.sampled <= 0.0 {
        return None;
    }
    // The cost of switching is a finding of its own.
    let kernel = scene.facts.kernel.as_secs_f64() - scene.facts.scheduling.as_secs_f64();
    let share = kernel / scene.sampled;
    let severity = grade(share, [f64::INFINITY, f64::INFINITY, KERNEL_SHARE])?;
    let tree = &scene.analysis.flames.all.cpu;
    let largest =
        scene.analysis.functions.iter().enumerate().filter(|(_, row)| row.kind == FunctionKind::Kernel);
    let largest = largest.max_by(|a, b| a.1.cpu_self.cmp(&b.1.cpu_self).then(b.0.cmp(&a.0)));
    let mut evidence = vec![fact(
        format!("{} of the CPU time is inside the kernel", percent(share)),
        Some(Value::Share(share)),
    )];
    if let Some((number, row)) = largest {
        let own = row.cpu_self.as_secs_f64() / scene.sampled;
        evidence.push(at(
            Reference::Function(FunctionHandle(as_u32(number))),
            format!("most of its own time has `{}` ({})", row.name, percent(own)),
            Some(Value::Share(own)),
        ));
    }
    let caller = scene.caller_of(tree, |_, row| row.kind == FunctionKind::Kernel);
    let mut place = String::new();
    if let Some((caller, share)) = caller {
        let name = scene.function_name(Some(caller)).unwrap_or_default();
        place = format!(", most on behalf of {name}");
        evidence.push(at(
            Reference::Function(caller),
            format!("{} of the kernel's time is on behalf of {name}", percent(share)),
            Some(Value::Share(share)),
        ));
    }
    Some(Finding {
        id: FindingId::KernelTime,
        severity,
        impact: share * (used / scene.cpus).min(1.0),
        title: format!("{} of the CPU time of {} is spent inside the kernel{place}", percent(share), scene.name),
        explanation: "Most likely many small system calls, page faults or copies: the program asks the kernel to work, the \
                      kernel is not at fault. The functions below the system call in the flame graph say which."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look in the CPU flame graph at the kernel frames below the calling function",
            "Count the system calls of that function; larger buffers or fewer calls help most",
        ]),
    })
}
