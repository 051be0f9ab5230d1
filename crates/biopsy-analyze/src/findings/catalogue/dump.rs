//! What a dump is, and what it lacks.

use super::about::{About, of_memory};

pub(super) const MANY_THREADS: About = About {
    means: "There are very many threads. Each costs memory and time to schedule; most likely each connection or task has one.",
    said: &[of_memory("500 threads or more (warning from 2,000)", "the list of threads")],
    disproved_by: "The number is meant, and does not grow.",
    to_do: &["See in which places most of them stand, and record whether their number grows"],
};

pub(super) const RUNNING: About = About {
    means: "These threads were on a CPU, or ready for one. One moment says little about CPU time: a trace does.",
    said: &[of_memory("threads execute code of their own", "registers")],
    disproved_by: "Other threads run in the next look.",
    to_do: &["If the process uses much CPU: `biopsy capture TARGET`"],
};

pub(super) const MEMORY_SPLIT: About = About {
    means: "What most of the memory is: heap, stacks, files, code. It is an orientation, and nothing is wrong by itself.",
    said: &[of_memory("always, where mappings are known", "mappings")],
    disproved_by: "Allocators of a program's own take their memory as anonymous mappings, which have no other name.",
    to_do: &[],
};

pub(super) const BROKEN_STACKS: About = About {
    means: "Some stacks break off before their root: their inner frames are right, where they began is not known.",
    said: &[of_memory("stacks do not reach their root", "stacks")],
    disproved_by: "The threads were just starting or ending.",
    to_do: &[
        "Put the program's files, or its debug files, where the process had them, and analyse again with `--symbols`",
    ],
};

pub(super) const NO_SYMBOLS: About = About {
    means: "Functions are shown as module and offset, because the files that have their names are not here.",
    said: &[of_memory("5 % of the frames have no names", "stacks")],
    disproved_by: "Nothing does; build ids say exactly which files have the names.",
    to_do: &["Install the debug packages of these files, and analyse again: no new dump is needed"],
};

pub(super) const INCOMPLETE_DUMP: About = About {
    means: "Memory is missing that should be in the dump: a thread or lock in it is not seen. What is said rests on what is there.",
    said: &[of_memory(
        "memory that should be there is not: the file is cut off, or a ceiling was reached",
        "mappings",
    )],
    disproved_by: "The part that is missing was left out on purpose, and no finding needs it.",
    to_do: &["Take the dump again, with room for all of it"],
};

pub(super) const SCRUBBED: About = About {
    means: "Values of known secret shapes were masked in the dump. It is not clean: a secret of another shape may be left.",
    said: &[of_memory("secrets of known shapes were masked", "the note of the dump")],
    disproved_by: "Nothing does; the counts are in the dump.",
    to_do: &["Treat the dump as secret all the same"],
};

pub(super) const OVERVIEW: About = About {
    means: "What the threads do, in one sentence: the orientation that each analysis of memory ends with.",
    said: &[of_memory("always", "registers")],
    disproved_by: "A look at another moment: this one says what was so then.",
    to_do: &[],
};
