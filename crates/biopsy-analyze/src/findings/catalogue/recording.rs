//! What the recording says of itself, of logs, and of a process that is well.

use super::about::{About, of_dotnet, of_memory, of_recording};

pub(super) const LOG_ERRORS: About = About {
    means: "The program or something beside it wrote lines of error while it was recorded. They may be what is wrong, or always be there.",
    said: &[of_recording("error lines were logged (warning from one a second)", "logs")],
    disproved_by: "The same lines are in the log of a day when all was well.",
    to_do: &[
        "Read the first of them, not the most frequent one",
        "See on the page what else happened at that moment",
    ],
};

pub(super) const LOGGED_ERRORS: About = About {
    means: "The application itself logged errors, as events of the runtime say, whether or not they reached a file.",
    said: &[of_dotnet("the application logged errors (warning from 5 a second)", "its log events")],
    disproved_by: "The same errors are logged when all is well.",
    to_do: &["Read the first of them, and see on the page what else happened at that moment"],
};

pub(super) const TARGET_ENDED: About = About {
    means: "The process ended while it was recorded. What it died of is in its memory, which is gone, unless a dump was taken.",
    said: &[
        of_recording(
            "the target ended while it was recorded (info when it was launched for the recording): what ran last, what was thrown last (type \
         and place, the exception before it), a stack overflow",
            "process exits, samples, events",
        ),
        of_memory(
            "a thread ends the process by `exit` (info with status 0), in which function, and what the functions on its stack say of the reason; \
             of Java, which thread asked for it (`System.exit`, `Runtime.halt`)",
            "registers, stacks",
        ),
    ],
    disproved_by: "Somebody stopped it: see the journal of its service.",
    to_do: &["Have a dump written when it dies: `biopsy dump TARGET --on crash`"],
};

pub(super) const RECORDING_INCOMPLETE: About = About {
    means: "Parts of what was to be recorded are not there. What is said rests on what is there; shares may be wrong by what is missing.",
    said: &[of_recording(
        "it was cut short, 2 % of something was lost (warning from 20 %), or a fifth of the stacks, 20 or more, break off (info)",
        "the recording",
    )],
    disproved_by: "Nothing does: the losses were counted. They matter little where findings do not rest on what was lost.",
    to_do: &["Record again, for a shorter time, or when the machine is less busy"],
};

pub(super) const RUNTIME_EVENTS_INCOMPLETE: About = About {
    means: "The runtime threw events away because they came too fast: counts of exceptions, requests and allocations are too low.",
    said: &[of_dotnet("1 % of the runtime's events were lost (warning from 20 %)", "the stream")],
    disproved_by: "Nothing does: gaps in the numbers of the events were counted.",
    to_do: &["Record again for a shorter time, or when there is less load"],
};

pub(super) const IDLE: About = About {
    means: "The process has nothing to do, and waits as a healthy one does. If it should be busy, what it waits for is the answer.",
    said: &[of_recording("less than 0.1 cores used, and nothing else is found", "waits")],
    disproved_by: "Clients wait for it meanwhile: then it hangs, and `biopsy stacks` says where.",
    to_do: &["If it should be doing something: `biopsy stacks TARGET --looks 3`"],
};

pub(super) const LITTLE_CPU: About = About {
    means: "The process uses little CPU; what its threads waited for was not recorded, so idle and hanging look the same.",
    said: &[of_recording(
        "less than 0.1 cores used, and what the threads waited for was not recorded",
        "metrics or samples alone",
    )],
    disproved_by: "A recording with waits, which needs more privileges: see `biopsy doctor`.",
    to_do: &[
        "See `biopsy doctor` for what would record waits",
        "`biopsy stacks TARGET --looks 3` says where threads stand",
    ],
};

pub(super) const NO_BOTTLENECK: About = About {
    means: "The process works and nothing stands out: no resource is at its end. It may still be slow for one request among many.",
    said: &[of_recording("nothing else is found", "everything recorded")],
    disproved_by: "It was slow at another time than the one that was recorded.",
    to_do: &["Record while it is slow; hold that against a good time: `biopsy compare GOOD BAD`"],
};

pub(super) const NOTHING_RECORDED: About = About {
    means: "The recording holds neither a trace nor metrics: there is nothing that a finding could rest on.",
    said: &[of_recording("neither trace nor metrics are there", "the recording")],
    disproved_by: "Nothing does; what was refused stands under what could not be determined.",
    to_do: &["See `biopsy doctor` for what this machine and account can record"],
};
