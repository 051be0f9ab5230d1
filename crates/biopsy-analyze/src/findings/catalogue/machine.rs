//! What the machine, its operator or other processes take away.

use super::about::{About, of_recording};

pub(super) const ACCEPT_QUEUE: About = About {
    means: "Clients cannot connect: connections come faster than a process accepts them, or its backlog is short. The counter belongs to \
            the whole network namespace, so it need not be the target.",
    said: &[of_recording("listening sockets turn connections away", "metrics")],
    disproved_by: "`ss -ltn` shows no listening socket of the target whose queue (Recv-Q) comes near its backlog (Send-Q).",
    to_do: &["Compare `ss -ltn` (Recv-Q against Send-Q), and raise the backlog or accept faster"],
};

pub(super) const CGROUP_THROTTLED: About = About {
    means: "The CPU quota of the container or service runs out, and the kernel stops all of its threads until the next period. Other \
            slowness may be a consequence.",
    said: &[of_recording("the CPU quota runs out in 5 % of the periods (critical from 25 %)", "metrics")],
    disproved_by: "`nr_throttled` in `cpu.stat` of the cgroup stays the same while it is slow.",
    to_do: &[
        "Raise the quota (`cpu.max`, `CPUQuota=` of systemd, `--cpus` or `limits.cpu` of a container), or use fewer threads",
        "If the quota is meant, see the CPU flame graph for what uses it",
    ],
};

pub(super) const CPU_SATURATED_BY_OTHERS: About = About {
    means: "Other processes use the CPUs up, and the target waits for its turn. Its own code is not what takes the time.",
    said: &[of_recording(
        "CPUs 90 % busy, mostly by others, and a thread was ready without a CPU 20 % of the time (critical from 50 %). Behind a warning or \
         worse of the target's own that want of CPUs does not explain (a leak, a storm, a deadlock, a thread that does get the CPU for most of \
         the time it wants it)",
        "metrics, thread states",
    )],
    disproved_by: "The target is as slow when the others are gone.",
    to_do: &["See with `biopsy ps` or `top` which processes use the CPUs, and move or limit them"],
};

pub(super) const CPU_STEAL: About = About {
    means: "The host gives CPU time that this virtual machine wants to other machines, or its credit is used up. Nothing inside of it helps.",
    said: &[of_recording("the hypervisor takes 15 % of the CPUs (notice from 5 %)", "metrics")],
    disproved_by: "The target's threads were nearly never ready without a CPU.",
    to_do: &["Move the machine to another host or a larger class, or ask the operator of the host"],
};

pub(super) const MEMORY_PRESSURE: About = About {
    means: "Memory is short: threads wait while the kernel makes room, swaps, or reads again what it had thrown out.",
    said: &[of_recording(
        "tasks stalled for memory 8 % of the time, swapping, major faults, limits hit, or threads waiting for pages; a notice where only others of the machine wait",
        "metrics, waits",
    )],
    disproved_by: "The faults are the first reads of a program's own files after its start.",
    to_do: &[
        "See which process or cgroup has the memory: `biopsy ps`, the limits in the report",
        "Raise the limit, or give the largest user less",
    ],
};
