//! What costs CPU time beside the work itself: memory, processes, round trips.

use super::about::{About, of_recording};

pub(super) const GC_PRESSURE: About = About {
    means: "The program makes so much garbage that allocating and collecting it takes the CPU time its own work should have.",
    said: &[of_recording(
        "in a runtime that collects garbage and is not .NET: allocating and collecting take 30 % of the CPU time, and 0.3 cores are used, or wanted where others take them (a notice then, or where nobody waits for it). Names who allocates, or who asks for collections",
        "CPU samples",
    )],
    disproved_by: "The collections belong to a start or a large load that does not come again.",
    to_do: &[
        "Reuse what is allocated, or allocate less, in the function that is named",
        "Give the runtime more memory before it collects",
    ],
};

pub(super) const ALLOCATOR_CHURN: About = About {
    means: "Memory is taken and given back so often that the allocator takes the CPU time.",
    said: &[of_recording("the same of an allocator whose memory is given back by hand", "CPU samples")],
    disproved_by: "The time goes to few, very large pieces: then it is page faults.",
    to_do: &["Keep buffers between uses, or reserve them once, in the function that is named"],
};

pub(super) const PAGE_FAULTS: About = About {
    means: "Memory is given back to the kernel and taken again: each page is cleared and mapped anew every time.",
    said: &[of_recording(
        "page faults, and taking memory from the kernel and giving it back, take 30 % of the CPU time (a notice where nobody waits for it), some of it is giving back, and memory does not grow",
        "CPU samples with kernel frames, metrics",
    )],
    disproved_by: "Memory grows: then pages are touched for the first time.",
    to_do: &["Keep the memory: larger thresholds of the allocator for giving back, or buffers that live on"],
};

pub(super) const SHORT_LIVED_PROCESSES: About = About {
    means: "Processes are started that end at once: starting them costs more than what they do.",
    said: &[of_recording(
        "8 processes a second start and end, half of them within 0.25 s (warning from 20 a second, where who starts them waits 30 % of the time or they use 0.3 cores). Names the program and who starts it",
        "process starts and ends, waits",
    )],
    disproved_by: "A build or a batch whose work is to run programs.",
    to_do: &["Do the work in the process itself, or start one helper that stays"],
};

pub(super) const ROUND_TRIPS: About = About {
    means: "Many short questions to a peer, one after another: each is quick, and their number makes it slow.",
    said: &[of_recording(
        "a thread waits 40 % of the time for answers, 100 times a second, less than 5 ms each; or, of a runtime that waits for all connections in one place: a quarter of little CPU time is sending and receiving, and its threads go to sleep 1,000 times a second. Always a notice: a program whose work is to ask looks the same",
        "waits, CPU samples, lists of sockets",
    )],
    disproved_by: "The work of the program is to ask, and nobody waits for it.",
    to_do: &[
        "Ask for several things at once, or send questions before the answers to earlier ones have come",
    ],
};
