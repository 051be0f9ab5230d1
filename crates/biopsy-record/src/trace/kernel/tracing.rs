//! The programs at tracepoints, in the cheapest of the ways that the kernel takes.

use std::io;

use biopsy_sys::bpf::btf::Btf;
use biopsy_sys::bpf::{Link, Program, ProgramKind};

use super::error::KernelError;
use super::layout::config;
use super::maps::{Maps, word_of};
use super::switches::TaskLayout;
use super::user_registers::{UserRegisters, distance_program};
use super::{forks, switches, wakings};

/// The programs at tracepoints.
#[derive(Debug)]
pub(super) struct Tracing {
    forks: Program,
    switches: Program,
    wakings: Option<Program>,
    /// Wake-ups from interrupts can be told from those by threads.
    pub(super) tells_interrupts: bool,
}

const FORK: &str = "sched_process_fork";
const SWITCH: &str = "sched_switch";
const WAKING: &str = "sched_waking";

impl Tracing {
    /// What sees new threads and processes, and is always there.
    pub(super) fn attach_forks(&self, task: TaskLayout) -> Result<Link, KernelError> {
        attach(&self.forks, FORK, task)
    }

    /// What each switch costs.
    pub(super) fn attach_switches(&self, task: TaskLayout) -> Result<Vec<Link>, KernelError> {
        let wakings = self.wakings.iter().map(|program| (program, WAKING));
        let all = [(&self.switches, SWITCH)].into_iter().chain(wakings);
        all.map(|(program, tracepoint)| attach(program, tracepoint, task)).collect()
    }
}

fn attach(program: &Program, tracepoint: &'static str, task: TaskLayout) -> Result<Link, KernelError> {
    let link = if task.typed {
        program.attach_typed_tracepoint()
    } else {
        program.attach_raw_tracepoint(tracepoint)
    };
    link.map_err(|source| KernelError::Attach { tracepoint, source })
}

/// Loads them in the cheapest way that the kernel takes. Tried: versions say little about the kernels of some distributions.
pub(super) fn load_tracing(
    maps: &Maps,
    btf: &Btf,
    task: TaskLayout,
    wakeups: bool,
    may: impl Fn(&TaskLayout) -> bool,
) -> Result<(Tracing, TaskLayout), KernelError> {
    let typed = TaskLayout { typed: true, ..task };
    let loaded = loaded_registers(maps, btf, task.user_registers)
        .map(|user_registers| TaskLayout { user_registers, ..typed });
    let mut first = None;
    for task in loaded.into_iter().chain([typed, task]).filter(|task| may(task)) {
        match load_tracing_as(maps, btf, task, wakeups) {
            Ok(programs) => return Ok((programs, task)),
            Err(refused) => {
                ::tracing::debug!(%refused, ?task, "programs at tracepoints were refused");
                first = first.or(Some(refused));
            }
        }
    }
    Err(first.unwrap_or(KernelError::MissingType("bpf_rdonly_cast")))
}

fn load_tracing_as(maps: &Maps, btf: &Btf, task: TaskLayout, wakeups: bool) -> Result<Tracing, KernelError> {
    let load = |tracepoint, name, program: &[u64]| {
        let kind = if task.typed {
            let btf_id = btf.raw_tracepoint(tracepoint).ok_or(KernelError::MissingType(tracepoint))?;
            ProgramKind::TypedTracepoint { btf_id }
        } else {
            ProgramKind::RawTracepoint
        };
        Ok::<_, KernelError>(Program::load(kind, name, program)?)
    };
    let switches = load(SWITCH, "biopsy_switch", &switches::program(maps, task))?;
    let forks = load(FORK, "biopsy_fork", &forks::program(maps, task))?;
    let preempt_count = btf.variable("__preempt_count");
    let load_wakings =
        |preempt_count| load(WAKING, "biopsy_waking", &wakings::program(maps, task, preempt_count));
    // The counter's place differs between kernels: without it, interrupts cannot be told from threads.
    let (wakings, tells_interrupts) = match load_wakings(preempt_count) {
        Ok(program) => (program, preempt_count.is_some()),
        Err(error) if preempt_count.is_some() => {
            ::tracing::debug!(%error, "wake-ups from interrupts cannot be told");
            (load_wakings(None)?, false)
        }
        Err(error) => return Err(error),
    };
    let wakings = wakeups.then_some(wakings);
    Ok(Tracing { forks, switches, wakings, tells_interrupts })
}

/// How registers that the kernel tells of are found without asking it each time.
fn loaded_registers(maps: &Maps, btf: &Btf, registers: UserRegisters) -> Option<UserRegisters> {
    if registers != UserRegisters::Told {
        return None;
    }
    let stack = i16::try_from(btf.member_offset("task_struct", "stack")?).ok()?;
    let cast = btf.function("bpf_rdonly_cast")?;
    let structure = i32::try_from(btf.structure("pt_regs")?).ok()?;
    let program = distance_program(maps, stack);
    let noted = Program::load(ProgramKind::RawTracepoint, "biopsy_distance", &program)
        .map_err(io::Error::other)
        .and_then(|program| program.run_once());
    if let Err(error) = noted {
        ::tracing::debug!(%error, "where registers lie cannot be told");
        return None;
    }
    let distance = maps.config.load(word_of(config::REGISTERS_DISTANCE));
    let distance = i32::try_from(distance).ok().filter(|distance| (1..1 << 20).contains(distance))?;
    Some(UserRegisters::Loaded { stack, distance, structure, cast })
}
