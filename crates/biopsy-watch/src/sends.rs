//! Which result goes to which open request: each request takes one, and what was begun goes on after any end of the watcher.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// So often is tried to send one; who sends has tried for minutes each time.
const TRIES: u32 = 5;
/// Longest text of a list of sends.
pub const LONGEST: usize = 1 << 20;

/// One result for one request.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
pub struct Send {
    /// Id of the request, which is no secret.
    pub request: String,
    /// The result.
    pub file: PathBuf,
    /// How often it was begun.
    #[serde(default)]
    pub tries: u32,
    /// The receipt is there.
    #[serde(default)]
    pub is_received: bool,
}

/// All of them, oldest first.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
pub struct Sends(pub Vec<Send>);

impl Sends {
    /// From its file; empty: it is none.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// As it stands in its file.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// A result was made: it goes to the first of these requests that has none. `false`: there is none.
    pub fn give<'a>(&mut self, file: &Path, requests: impl IntoIterator<Item = &'a str>) -> bool {
        let is_free = |request: &&str| !self.0.iter().any(|send| send.request == *request);
        let Some(request) = requests.into_iter().find(is_free) else { return false };
        self.0.push(Send {
            request: request.to_owned(),
            file: file.to_owned(),
            tries: 0,
            is_received: false,
        });
        true
    }

    /// The next that is to be sent, which counts as tried. Those that were tried less come first.
    pub fn take_next(&mut self) -> Option<Send> {
        let open = self.0.iter_mut().filter(|send| !send.is_received && send.tries < TRIES);
        let send = open.min_by_key(|send| send.tries)?;
        send.tries += 1;
        Some(send.clone())
    }

    /// It was received.
    pub fn received(&mut self, request: &str) {
        for send in self.0.iter_mut().filter(|send| send.request == request) {
            send.is_received = true;
        }
    }

    /// A watcher begins: what could not be sent is tried again.
    pub fn begin(&mut self) {
        self.0.iter_mut().for_each(|send| send.tries = 0);
    }

    /// Results that are on their way, and may not be removed.
    pub fn on_their_way(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(|send| !send.is_received).map(|send| send.file.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_takes_one_result_and_gets_it_after_all() {
        let mut sends = Sends::default();
        let requests = ["a", "b"];
        assert!(sends.give(Path::new("1.zip"), requests) && sends.give(Path::new("2.zip"), requests));
        assert!(!sends.give(Path::new("3.zip"), requests), "both have one");
        assert!(sends.give(Path::new("4.zip"), ["a", "b", "c"]));
        let next = |sends: &mut Sends| sends.take_next().map(|send| send.request);
        assert_eq!(next(&mut sends).as_deref(), Some("a"));
        assert_eq!(
            next(&mut sends).as_deref(),
            Some("b"),
            "one that cannot be sent does not stop the others"
        );
        sends.received("b");
        let mut sends = Sends::parse(&sends.to_text());
        let order: Vec<String> = std::iter::from_fn(|| next(&mut sends)).collect();
        assert_eq!(order.iter().filter(|request| *request == "b").count(), 0);
        assert_eq!(order.len(), 4 + 5, "not for ever: {order:?}");
        assert_eq!(sends.on_their_way().collect::<Vec<_>>(), [Path::new("1.zip"), Path::new("4.zip")]);
        sends.begin();
        assert_eq!(next(&mut sends).as_deref(), Some("a"));
        assert_eq!(Sends::parse("no json"), Sends::default());
    }
}
