//! Which processes.

use crate::process::Observed;
use crate::text::Node;

use super::pattern::Pattern;

/// Says whether a process is of a kind.
pub type IsOfKind<'a> = &'a dyn Fn(&str, &Observed) -> bool;

/// Which processes: one of these must hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Who(pub Vec<Conditions>);

/// Conditions that all must hold; of the patterns of one, any. An empty condition holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// Names of kinds.
    pub kinds: Vec<String>,
    /// Name of the process, file name of the executable, or entry.
    pub name: Vec<Pattern>,
    /// The executable.
    pub executable: Vec<Pattern>,
    /// What a runtime was told to run.
    pub entry: Vec<Pattern>,
    /// The first argument.
    pub command: Vec<Pattern>,
    /// Each of these matches an argument.
    pub arguments: Vec<Pattern>,
    /// None of these does.
    pub without: Vec<Pattern>,
    /// Who started it.
    pub parent: Vec<Pattern>,
    /// systemd unit.
    pub unit: Vec<Pattern>,
    /// Beginning of the container's id.
    pub container: Vec<String>,
    /// User, by name or number.
    pub user: Vec<String>,
}

impl Who {
    /// What a kind is called.
    #[must_use]
    pub fn kind(name: &str) -> Self {
        Self(vec![Conditions { kinds: vec![name.to_owned()], ..Conditions::default() }])
    }

    /// Of a node that was checked: the name of a kind, an object of conditions, or a list of such objects.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        match &node.value {
            crate::text::Value::Text(name) => Self::kind(name),
            crate::text::Value::List(nodes) => Self(nodes.iter().map(Conditions::of).collect()),
            _ => Self(vec![Conditions::of(node)]),
        }
    }

    /// Whether a process is one of them. A condition of none would be every process of the machine: it is nobody.
    #[must_use]
    pub fn is(&self, process: &Observed, is_of_kind: IsOfKind<'_>) -> bool {
        self.0.iter().any(|conditions| conditions.hold(process, is_of_kind))
    }

    /// What of it a program alone tells: its name, file and arguments. `None`: any program may be one.
    #[must_use]
    pub fn by_program(&self) -> Option<Self> {
        let one = |conditions: &Conditions| {
            let of_program = Conditions {
                parent: Vec::new(),
                unit: Vec::new(),
                container: Vec::new(),
                user: Vec::new(),
                ..conditions.clone()
            };
            (conditions.is_empty() || !of_program.is_empty()).then_some(of_program)
        };
        self.0.iter().map(one).collect::<Option<_>>().map(Self)
    }

    /// Whether it matters who started a process.
    #[must_use]
    pub fn asks_for_parents(&self) -> bool {
        self.0.iter().any(|conditions| !conditions.parent.is_empty())
    }

    /// All kinds that are named.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|conditions| conditions.kinds.iter().map(String::as_str))
    }
}

impl Conditions {
    fn of(node: &Node) -> Self {
        let texts = |key: &str| {
            node.get(key)
                .map(Node::texts)
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let patterns = |key: &str| texts(key).iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
        Self {
            kinds: texts("kind"),
            name: patterns("name"),
            executable: patterns("executable"),
            entry: patterns("entry"),
            command: patterns("command"),
            arguments: patterns("arguments"),
            without: patterns("without"),
            parent: patterns("parent"),
            unit: patterns("unit"),
            container: texts("container"),
            user: texts("user"),
        }
    }

    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self { without: self.without.clone(), ..Self::default() }
    }

    fn hold(&self, process: &Observed, is_of_kind: IsOfKind<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        let any = |patterns: &[Pattern], holds: &dyn Fn(&Pattern) -> bool| {
            patterns.is_empty() || patterns.iter().any(holds)
        };
        let entry = process.entry.as_deref().unwrap_or_default();
        let is_in_an_argument = |pattern: &Pattern| {
            // The first is the program itself.
            process.arguments.iter().skip(1).any(|argument| pattern.matches(argument))
        };
        let is_named = |pattern: &Pattern| {
            pattern.matches_file(&process.exe)
                || pattern.matches_file(entry)
                || pattern.matches_file(&process.name)
        };
        any(&self.name, &is_named)
            && any(&self.executable, &|pattern| pattern.matches_file(&process.exe))
            && any(&self.entry, &|pattern| pattern.matches_file(entry) || has_path(process, pattern))
            && any(&self.command, &|pattern| {
                process.arguments.get(1).is_some_and(|first| pattern.matches(first))
            })
            && self.arguments.iter().all(is_in_an_argument)
            && !self.without.iter().any(is_in_an_argument)
            && any(&self.parent, &|pattern| {
                process.parent_names.iter().any(|name| pattern.matches_file(name))
            })
            && any(&self.unit, &|pattern| process.unit.as_deref().is_some_and(|unit| is_unit(pattern, unit)))
            && (self.container.is_empty()
                || process
                    .container
                    .as_ref()
                    .is_some_and(|id| self.container.iter().any(|begin| is_container(id, begin))))
            && (self.user.is_empty()
                || self.user.iter().any(|user| *user == process.user || *user == process.uid.to_string()))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| is_of_kind(kind, process)))
    }
}

/// An entry that is named by its path is the argument that has it.
fn has_path(process: &Observed, pattern: &Pattern) -> bool {
    pattern.has_folders() && process.arguments.iter().any(|argument| pattern.matches(argument))
}

fn is_unit(pattern: &Pattern, unit: &str) -> bool {
    pattern.matches(unit) || unit.strip_suffix(".service").is_some_and(|name| pattern.matches(name))
}

fn is_container(id: &str, begin: &str) -> bool {
    begin.len() >= 4 && id.starts_with(begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;
    use crate::kinds::tests::process;
    use crate::text::parse_json;

    #[test]
    fn conditions() {
        let kinds = Kinds::shipped();
        let mut server =
            process("/usr/bin/dotnet", &["dotnet", "/srv/shop/Shop.Api.dll", "--urls", "http://*:80"]);
        server.unit = Some("shop.service".to_owned());
        server.container = Some("0123456789abcdef".to_owned());
        server.parent_names = vec!["systemd".to_owned()];
        for (who, expected) in [
            ("{\"entry\": \"Shop.Api\"}", true),
            ("{\"entry\": \"/srv/*/Shop.Api.dll\"}", true),
            ("{\"entry\": \"/opt/*/Shop.Api.dll\"}", false),
            ("{\"executable\": \"dotnet\", \"arguments\": \"--urls\"}", true),
            ("{\"executable\": \"dotnet\", \"without\": [\"--urls\"]}", false),
            ("{\"executable\": \"dotnet\", \"arguments\": [\"--urls\", \"--other\"]}", false),
            ("{\"unit\": \"shop\"}", true),
            ("{\"container\": \"0123\"}", true),
            ("{\"container\": \"0\"}", false),
            ("{\"parent\": \"systemd\", \"user\": \"1000\"}", true),
            ("{\"user\": [\"root\", \"ann\"]}", true),
            ("{\"user\": \"bob\"}", false),
            ("{\"kind\": [\"Compiler\", \"OctopusServer\"]}", false),
            ("{\"name\": \"shop.api\"}", true),
            ("{}", false),
            ("{\"without\": \"nothing\"}", false),
            ("[{\"unit\": \"x\"}, {\"unit\": \"shop.service\"}]", true),
            ("\"Compiler\"", false),
        ] {
            assert_eq!(kinds.applies(&Who::of(&parse_json(who).unwrap()), &server), expected, "{who}");
        }
    }
}
