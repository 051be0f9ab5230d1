//! What happens to requests.

use super::about::{About, of_dotnet};

pub(super) const N_PLUS_ONE: About = About {
    means: "One request runs the same command again and again, mostly one query for each row of another. Each costs a round trip.",
    said: &[of_dotnet(
        "one request runs the same command 15 times (critical from 100)",
        "command and request events",
    )],
    disproved_by: "The commands belong to a batch that is meant to run them, or are answered from memory.",
    to_do: &["Ask for all rows at once (a join, `IN`, `Include`), in the method that is named"],
};

pub(super) const SLOW_DEPENDENCY: About = About {
    means: "Another server takes most of the time of the requests served here. What is slow is there, or on the way.",
    said: &[of_dotnet(
        "requests to one server take 0.2 s (critical from 1 s), are half of the time of all requests sent, and these half of the time of \
         what is served",
        "request events",
    )],
    disproved_by: "The other server's own log says that it answered at once: then it is the way there, or this process, too busy to read answers.",
    to_do: &[
        "Look at that server at the same time",
        "Give the calls a time limit, and do not wait for them one after another",
    ],
};

pub(super) const REQUESTS_UNANSWERED: About = About {
    means: "Requests came in and no answer went out for as long as was recorded: something they await does not happen.",
    said: &[of_dotnet(
        "requests are open for 3 s, five times as long as their like; or counters show requests that are there all the time: more than those \
         seen explain",
        "request events, counters",
    )],
    disproved_by: "They are meant to stay open: long polling, event streams, web sockets.",
    to_do: &["`biopsy stacks TARGET` shows which asynchronous operations wait, and for what"],
};

pub(super) const FAILED_REQUESTS: About = About {
    means: "Answers of a route are errors of the server: clients do not get what they asked for.",
    said: &[of_dotnet(
        "5 % of the requests to a route fail (critical from 50 %, notice from 1 %)",
        "request events",
    )],
    disproved_by: "The clients ask for what is not there, and the status says so.",
    to_do: &["See which exceptions and log lines come at the same times"],
};

pub(super) const SLOW_REQUESTS: About = About {
    means: "Requests to a route take long. What went on meanwhile is listed; the same time alone is not a cause.",
    said: &[of_dotnet(
        "half of the requests to a route take longer than a second; lists what went on meanwhile",
        "request events and all others",
    )],
    disproved_by: "The route is meant to take long: it waits for work, or sends a large file.",
    to_do: &["Look at what the slowest ones have in common that the whole recording has not"],
};
