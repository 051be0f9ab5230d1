//! What a session of events is asked for, in each form of the command that runtimes know.

use crate::wire::{Command, Payload, commands};

/// Nettrace version 4, which all runtimes since .NET Core 3.0 write.
const NETTRACE: u32 = 1;

/// How much is said by the events of a provider.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventLevel {
    /// All that have no level.
    LogAlways,
    /// What ends a program.
    Critical,
    /// Errors.
    Error,
    /// Warnings.
    Warning,
    /// What happens.
    Informational,
    /// All.
    Verbose,
}

/// Events of one provider that are taken or left, by id. Since .NET 10; older runtimes send all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventFilter {
    /// These alone.
    Only(Vec<u32>),
    /// All but these.
    Without(Vec<u32>),
}

/// One provider of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provider {
    /// `Microsoft-Windows-DotNETRuntime`, or the name of an EventSource.
    pub name: String,
    /// Which kinds of events, a bit each.
    pub keywords: u64,
    /// Which of them.
    pub level: EventLevel,
    /// Arguments, `NAME=VALUE;NAME=VALUE`. Empty: none.
    pub arguments: String,
    /// Single events.
    pub filter: Option<EventFilter>,
}

impl Provider {
    /// Without arguments or filter.
    #[must_use]
    pub fn new(name: &str, keywords: u64, level: EventLevel) -> Self {
        Self { name: name.to_owned(), keywords, level, arguments: String::new(), filter: None }
    }

    /// With arguments.
    #[must_use]
    pub fn with_arguments(mut self, arguments: &str) -> Self {
        self.arguments = arguments.to_owned();
        self
    }

    /// With a filter.
    #[must_use]
    pub fn with_filter(mut self, filter: EventFilter) -> Self {
        self.filter = Some(filter);
        self
    }
}

/// What is sent at the end of a session about methods and modules that were there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rundown {
    /// Nothing. .NET Core 3.0 sends it anyway.
    None,
    /// What the runtime sends by default.
    Default,
    /// These kinds; before .NET 9: all of them.
    Keywords(u64),
}

/// Keywords of the default rundown (`ep_default_rundown_keyword`).
const DEFAULT_RUNDOWN: u64 = 0x8002_0139;

impl Rundown {
    fn keywords(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Default => DEFAULT_RUNDOWN,
            Self::Keywords(keywords) => keywords,
        }
    }
}

/// A session of events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// Most MiB in which the runtime keeps events until they are fetched.
    pub buffer_mb: u32,
    /// What is sent at the end.
    pub rundown: Rundown,
    /// Whether each event carries the managed stack of its thread. Before .NET 9 they do always.
    pub stacks: bool,
    /// Who speaks.
    pub providers: Vec<Provider>,
}

/// Forms of the command that starts a session, by its number: newest first.
pub(crate) const FORMS: [u8; 6] = [6, 5, 4, 3, 2, 1];

/// The command and payload of one form.
pub(crate) fn encode(config: &SessionConfig, form: u8) -> (Command, Payload) {
    let keywords = config.rundown.keywords();
    let (rundown, stacks) = (u8::from(keywords != 0), u8::from(config.stacks));
    let start = Payload::default();
    let (command, payload) = match form {
        5 | 6 => {
            let command = if form == 6 { commands::COLLECT_6 } else { commands::COLLECT_5 };
            // A session that streams, not one that writes to the kernel's user events.
            (command, start.u32(0).u32(config.buffer_mb).u32(NETTRACE).u64(keywords).u8(stacks))
        }
        4 => (commands::COLLECT_4, start.u32(config.buffer_mb).u32(NETTRACE).u64(keywords).u8(stacks)),
        3 => (commands::COLLECT_3, start.u32(config.buffer_mb).u32(NETTRACE).u8(rundown).u8(stacks)),
        2 => (commands::COLLECT_2, start.u32(config.buffer_mb).u32(NETTRACE).u8(rundown)),
        _ => (commands::COLLECT_1, start.u32(config.buffer_mb).u32(NETTRACE)),
    };
    let count = u32::try_from(config.providers.len()).unwrap_or(u32::MAX);
    let mut payload = payload.u32(count);
    for provider in &config.providers {
        payload = payload.u64(provider.keywords).u32(provider.level as u32);
        payload = payload.string(&provider.name).string(&provider.arguments);
        if form >= 5 {
            payload = encode_filter(payload, provider.filter.as_ref());
        }
    }
    // Events that do not fit the buffer are dropped and counted; the process never waits for us.
    (command, if form == 6 { payload.u32(0) } else { payload })
}

fn encode_filter(payload: Payload, filter: Option<&EventFilter>) -> Payload {
    let (enable, ids): (u8, &[u32]) = match filter {
        None => (0, &[]),
        Some(EventFilter::Only(ids)) => (1, ids),
        Some(EventFilter::Without(ids)) => (0, ids),
    };
    let payload = payload.u8(enable).u32(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    ids.iter().fold(payload, |payload, id| payload.u32(*id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn config() -> SessionConfig {
        SessionConfig {
            buffer_mb: 16,
            rundown: Rundown::None,
            stacks: false,
            providers: vec![
                Provider::new("P", 0x11, EventLevel::Verbose)
                    .with_arguments("A=1")
                    .with_filter(EventFilter::Without(vec![4, 5])),
            ],
        }
    }

    fn hex(form: u8) -> String {
        let (command, payload) = encode(&config(), form);
        let bytes = wire::encode(command, &payload).unwrap();
        bytes[16..18].iter().chain(&bytes[20..]).map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn every_form_as_the_document_has_it() {
        let provider = "0100000011000000000000000500000002000000500000000400000041003d0031000000";
        assert_eq!(hex(1), format!("02021000000001000000{provider}"));
        assert_eq!(hex(2), format!("0203100000000100000000{provider}"));
        assert_eq!(hex(3), format!("020410000000010000000000{provider}"));
        assert_eq!(hex(4), format!("02051000000001000000000000000000000000{provider}"));
        let filter = "00020000000400000005000000";
        let five = format!("000000001000000001000000000000000000000000{provider}{filter}");
        assert_eq!(hex(5), format!("0206{five}"));
        assert_eq!(hex(6), format!("0207{five}00000000"));
    }

    #[test]
    fn rundown_by_keyword_or_by_flag() {
        let mut config = config();
        config.rundown = Rundown::Default;
        let (command, payload) = encode(&config, 4);
        let bytes = wire::encode(command, &payload).unwrap();
        assert_eq!(bytes[28..36], DEFAULT_RUNDOWN.to_le_bytes());
        let (command, payload) = encode(&config, 2);
        assert_eq!(wire::encode(command, &payload).unwrap()[28], 1);
    }

    #[test]
    fn filters_and_providers_are_written_one_after_the_other() {
        let mut config = config();
        let tail = |config: &SessionConfig, form: u8, bytes: usize| {
            let (command, payload) = encode(config, form);
            let whole = wire::encode(command, &payload).unwrap();
            whole[whole.len() - bytes..].to_vec()
        };
        for (filter, wanted) in [
            (None, vec![0, 0, 0, 0, 0]),
            (Some(EventFilter::Only(vec![7])), vec![1, 1, 0, 0, 0, 7, 0, 0, 0]),
            (Some(EventFilter::Only(Vec::new())), vec![1, 0, 0, 0, 0]),
            (Some(EventFilter::Without(vec![1, 2])), vec![0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]),
        ] {
            config.providers[0].filter = filter;
            assert_eq!(tail(&config, 5, wanted.len()), wanted);
        }
        // Levels are numbers; a provider without arguments has none, which is a length of 0.
        for (level, number) in [(EventLevel::LogAlways, 0), (EventLevel::Error, 2), (EventLevel::Verbose, 5)]
        {
            config.providers = vec![Provider::new("Q", u64::MAX, level)];
            let wanted =
                [vec![0xff; 8], vec![number, 0, 0, 0, 2, 0, 0, 0, 0x51, 0, 0, 0, 0, 0, 0, 0]].concat();
            assert_eq!(tail(&config, 4, wanted.len()), wanted);
        }
        config.providers = vec![Provider::new("Q", 0, EventLevel::Error); 3];
        assert_eq!(tail(&config, 1, 3 * 24 + 4)[..4], [3, 0, 0, 0]);
    }

    #[test]
    fn stacks_and_kinds_of_rundown_are_asked_for_where_the_form_can_say_them() {
        let asked = |form: u8, at: usize, rundown: Rundown, stacks: bool| {
            let (command, payload) = encode(&SessionConfig { rundown, stacks, ..config() }, form);
            let bytes = wire::encode(command, &payload).unwrap();
            (bytes[at..at + 8].to_vec(), bytes[at + 8])
        };
        for (form, at) in [(4, 28), (5, 32), (6, 32)] {
            let keywords = Rundown::Keywords(0x1122);
            assert_eq!(asked(form, at, keywords, true), (0x1122_u64.to_le_bytes().to_vec(), 1));
            assert_eq!(asked(form, at, Rundown::None, false), (vec![0; 8], 0));
        }
        // A flag in place of the kinds.
        let (bytes, _) = asked(3, 28, Rundown::Keywords(0x1122), true);
        assert_eq!(bytes[..2], [1, 1]);
        let (bytes, _) = asked(3, 28, Rundown::None, false);
        assert_eq!(bytes[..2], [0, 0]);
    }
}
