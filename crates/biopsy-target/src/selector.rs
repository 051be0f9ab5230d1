//! What the user typed to name a process.

use biopsy_model::Pid;

use crate::process::proc_root::parse_pid;

/// Shortest prefix of a container id that is taken as one: what `docker ps` shows.
pub const MIN_CONTAINER_PREFIX: usize = 12;
const FULL_CONTAINER_ID: usize = 64;

/// Names a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// A pid.
    Pid(Pid),
    /// A prefix of a container id, at least 12 of its 64 hexadecimal digits. Tried as a name if no container has it.
    Container(String),
    /// A systemd unit with its kind: `nginx.service`. Tried as a name if there is no such unit: assemblies are
    /// called so too.
    Unit(String),
    /// A process name, executable, script, jar, main class, .NET entry assembly with or without `.dll`; as a last
    /// resort a systemd service without `.service`.
    Name(String),
}

/// What was typed names nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseSelectorError {
    /// An empty text.
    #[error("no process was named")]
    Empty,
    /// A number that is no pid.
    #[error("`{0}` is not a process id")]
    NotAPid(String),
}

impl ParseSelectorError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some("name it by pid, process name, .NET entry assembly, systemd unit or container id; `biopsy ps` lists them".to_owned())
    }
}

impl Selector {
    /// Parses what the user typed.
    ///
    /// # Errors
    /// It is empty, or a number that cannot be a pid.
    pub fn parse(text: &str) -> Result<Self, ParseSelectorError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ParseSelectorError::Empty);
        }
        // `kubectl` and others write the runtime before the id: `containerd://0123...`.
        if let Some((_, id)) = text.split_once("://")
            && is_container_prefix(id)
        {
            return Ok(Self::Container(id.to_owned()));
        }
        if is_container_prefix(text) {
            return Ok(Self::Container(text.to_owned()));
        }
        let signless = text.strip_prefix('-').unwrap_or(text);
        if signless.bytes().all(|byte| byte.is_ascii_digit()) && !signless.is_empty() {
            let pid = parse_pid(text).filter(|pid| i32::try_from(pid.0).is_ok());
            return pid.map(Self::Pid).ok_or_else(|| ParseSelectorError::NotAPid(text.to_owned()));
        }
        let is_unit =
            [".service", ".scope"].iter().any(|kind| text.len() > kind.len() && text.ends_with(kind));
        Ok(if is_unit { Self::Unit(text.to_owned()) } else { Self::Name(text.to_owned()) })
    }
}

fn is_container_prefix(text: &str) -> bool {
    (MIN_CONTAINER_PREFIX..=FULL_CONTAINER_ID).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pid(pid) => pid.fmt(f),
            Self::Container(text) | Self::Unit(text) | Self::Name(text) => {
                f.write_str(&crate::printable(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let parse = |text| Selector::parse(text).unwrap();
        assert_eq!(parse("4711"), Selector::Pid(Pid(4711)));
        assert_eq!(parse(" nginx "), Selector::Name("nginx".to_owned()));
        assert_eq!(parse("nginx.service"), Selector::Unit("nginx.service".to_owned()));
        assert_eq!(parse(".service"), Selector::Name(".service".to_owned()));
        assert_eq!(parse("Octopus.Server"), Selector::Name("Octopus.Server".to_owned()));
        assert_eq!(parse("0123456789ab"), Selector::Container("0123456789ab".to_owned()));
        assert_eq!(parse("docker://0123456789ab"), Selector::Container("0123456789ab".to_owned()));
        assert_eq!(parse("deadbeef"), Selector::Name("deadbeef".to_owned()));
        assert_eq!(parse("-weird"), Selector::Name("-weird".to_owned()));
    }

    #[test]
    fn refusals() {
        assert_eq!(Selector::parse("  "), Err(ParseSelectorError::Empty));
        for text in ["0", "-1", "007", "4294967295", "99999999999"] {
            assert_eq!(Selector::parse(text), Err(ParseSelectorError::NotAPid(text.to_owned())));
        }
    }
}
