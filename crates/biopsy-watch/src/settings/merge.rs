//! What settings mean: layers, the later over the earlier, as rules and limits.

use std::path::PathBuf;
use std::time::Duration;

use crate::keep::Policy;
use crate::kinds::Kinds;
use crate::quantity;
use crate::rules::{Conditions, Limits, Pattern, Rule, Source, Verb, What, When, Who};
use crate::text::{Member, Node, Value};

use super::check::{Problem, meant};
use super::layers::Layer;
use super::vendor;

/// Says what is wrong with a command and, where there is one, with what it waits for.
pub type CommandCheck<'a> = &'a dyn Fn(&What, &[&str]) -> Result<(), String>;

/// What is to be watched.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Where results go; `None`: the usual place.
    pub folder: Option<PathBuf>,
    /// The watcher ends after this.
    pub length: Duration,
    /// How long results are kept.
    pub keep: Policy,
    /// Nothing is recorded with less free.
    pub min_free: u64,
    /// Most recordings at once.
    pub at_once: u32,
    /// A program that is told of results, and its arguments; none: nobody is.
    pub tell: Vec<String>,
    /// A file with links of open requests, each of which takes a result.
    pub send: Option<PathBuf>,
    /// Kinds, those that are shipped among them.
    pub kinds: Kinds,
    /// Rules that are on.
    pub rules: Vec<Rule>,
}

impl Settings {
    /// Of layers, the least important first, and what is wrong with them: index of the layer, and the problem. With an error among them
    /// the settings are not to be used.
    #[must_use]
    pub fn of(layers: &[Layer], command: CommandCheck<'_>) -> (Self, Vec<(usize, Problem)>) {
        let mut problems = Vec::new();
        let mut kinds = Kinds::shipped();
        for layer in layers {
            if let Some(own) = layer.root.at(&["watch", "kinds"]) {
                kinds.add(own);
            }
        }
        for (index, layer) in layers.iter().enumerate() {
            let mut found = layer.problems();
            if found.iter().all(|problem| !problem.is_error) {
                let earlier = merged(&layers[..index]);
                meaning(&layer.root, &earlier, &kinds, command, &mut found);
            }
            found.sort_by_key(|problem| problem.span.start);
            problems.extend(found.into_iter().map(|problem| (index, problem)));
        }
        (Self::read(&merged(layers), kinds), problems)
    }

    /// Whether it matters who started a process: to know that is as much work again as to know the process.
    #[must_use]
    pub fn ask_for_parents(&self) -> bool {
        self.kinds.ask_for_parents() || self.rules.iter().any(|rule| rule.who.asks_for_parents())
    }

    /// Keeps the last minutes of these processes, or, of none, of all those that rules are about.
    pub fn keep_recent(&mut self, length: &str, names: &[String]) {
        let keeps = |rule: &Rule| rule.what.verb == Verb::Recent;
        let mut added: Vec<Rule> = names.iter().map(|name| recent_of(name, length)).collect();
        if names.is_empty() {
            let is_new = |rule: &&Rule| {
                !keeps(rule) && !self.rules.iter().any(|other| keeps(other) && other.who == rule.who)
            };
            added = self.rules.iter().filter(is_new).map(|rule| rule.keeping_recent(length)).collect();
        }
        // They begin first, so that what the others record has a before.
        added.append(&mut self.rules);
        self.rules = added;
    }

    fn read(root: &Node, kinds: Kinds) -> Self {
        let watch = |path: &[&str]| root.get("watch")?.at(path);
        let duration = |path: &[&str]| quantity::duration(watch(path)?.text()?);
        let count = |path: &[&str]| watch(path).and_then(Node::number).map(as_count);
        let default = Policy::default();
        let mut rules = vendor::rules(root);
        for member in watch(&["rules"]).map(Node::members).unwrap_or_default() {
            let rule = rule(member);
            let kept = member.node.get("recent").and_then(Node::text);
            rules.extend(kept.and_then(|length| Some(rule.as_ref()?.keeping_recent(length))));
            rules.extend(rule);
        }
        Self {
            folder: watch(&["folder"]).and_then(Node::text).map(PathBuf::from),
            length: duration(&["for"]).unwrap_or(Duration::from_secs(24 * 3600)),
            keep: Policy {
                bytes: watch(&["keep", "size"]).and_then(size).unwrap_or(default.bytes),
                age: duration(&["keep", "age"]).unwrap_or(default.age),
                count: count(&["keep", "count"]).unwrap_or(default.count),
            },
            min_free: watch(&["minFree"]).and_then(size).unwrap_or(2 << 30),
            at_once: count(&["atOnce"]).unwrap_or(8),
            tell: watch(&["tell"])
                .map(|tell| tell.texts().into_iter().map(str::to_owned).collect())
                .unwrap_or_default(),
            send: watch(&["send"]).and_then(Node::text).map(PathBuf::from),
            kinds,
            rules,
        }
    }
}

/// One tree of several; of one name the later value holds, and objects are put together.
fn merged(layers: &[Layer]) -> Node {
    let mut root = Node { span: 0..0, value: Value::Map(Vec::new()) };
    for layer in layers {
        lay_over(&mut root, &layer.root);
    }
    root
}

fn lay_over(under: &mut Node, over: &Node) {
    // As deep as a parser lets a text be.
    let (Value::Map(below), Value::Map(above)) = (&mut under.value, &over.value) else {
        *under = over.clone();
        return;
    };
    for member in above {
        match below.iter_mut().find(|one| one.key.eq_ignore_ascii_case(&member.key)) {
            Some(one) => lay_over(&mut one.node, &member.node),
            None => below.push(member.clone()),
        }
    }
}

/// A rule that is on and makes sense; what makes none was said.
fn rule(member: &Member) -> Option<Rule> {
    let node = &member.node;
    if node.get("on").is_some_and(|on| !on.is_on()) {
        return None;
    }
    let who = node.get("who")?;
    let when = match node.get("when") {
        Some(when) => when.texts().iter().map(|text| When::parse(text)).collect::<Result<_, _>>().ok()?,
        None => vec![When::Start],
    };
    let what = match node.get("do") {
        Some(what) => What::parse(&what.texts()).ok()?,
        None => What::parse(&["trace"]).ok()?,
    };
    let default = Limits::default();
    let count = |key: &str, otherwise| node.get(key).and_then(Node::number).map_or(otherwise, as_count);
    let limits = Limits {
        per_day: count("perDay", default.per_day),
        cool_down: node
            .get("coolDown")
            .and_then(Node::text)
            .and_then(quantity::duration)
            .unwrap_or(default.cool_down),
        at_once: count("atOnce", default.at_once),
        every: count("every", default.every).max(1),
        budget: count("budget", default.budget),
    };
    Some(Rule {
        name: member.key.clone(),
        source: Source::Rules,
        who: Who::of(who),
        who_text: who_text(who),
        when,
        what,
        limits,
    })
}

/// The rule that keeps the last minutes of processes of a name, or of a systemd unit.
fn recent_of(name: &str, length: &str) -> Rule {
    let pattern = || vec![Pattern::new(name)];
    let conditions = if name.ends_with(".service") {
        Conditions { unit: pattern(), ..Conditions::default() }
    } else {
        Conditions { name: pattern(), ..Conditions::default() }
    };
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    Rule {
        name: format!("{}-recent", name.chars().take(50).map(letter).collect::<String>()),
        source: Source::Rules,
        who: Who(vec![conditions]),
        who_text: name.to_owned(),
        when: vec![When::Start],
        what: What { verb: Verb::Recent, options: vec![length.to_owned()] },
        limits: Limits::default(),
    }
}

fn who_text(node: &Node) -> String {
    if let Some(kind) = node.text() {
        return kind.to_owned();
    }
    let one = |member: &Member| format!("{} {}", member.key, member.node.texts().join(" or "));
    node.members().iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What the table of shapes cannot say.
fn meaning(
    root: &Node,
    earlier: &Node,
    kinds: &Kinds,
    command: CommandCheck<'_>,
    problems: &mut Vec<Problem>,
) {
    let mut say = |node: &Node, path: String, message: String, allowed: Option<String>, is_error: bool| {
        problems.push(Problem { span: node.span.clone(), path, message, allowed, is_error });
    };
    for section in ["profiling", "crashDumps", "logging", "debugging"] {
        for member in root.at(&[section, "processes"]).map(Node::members).unwrap_or_default() {
            let path = format!("{section}.processes.{}", member.key);
            match kinds.knows(&member.key) {
                None if member.key != "*" => {
                    let names: Vec<&str> = kinds.names().collect();
                    say(
                        &member.node,
                        path,
                        format!("there is no kind `{}`", member.key),
                        Some(meant(&member.key, &names)),
                        false,
                    );
                }
                Some(false) if member.node.is_on() && matches!(section, "profiling" | "crashDumps") => {
                    say(
                        &member.node,
                        path,
                        format!("`{}` has no processes on Linux", member.key),
                        None,
                        false,
                    );
                }
                _ if member.node.is_on() && matches!(section, "logging" | "debugging") => {
                    let message =
                        "this switches on what the vendor's own program does; biopsy does nothing with it";
                    say(&member.node, path, message.to_owned(), None, false);
                }
                _ => {}
            }
        }
    }
    for member in root.at(&["watch", "rules"]).map(Node::members).unwrap_or_default() {
        let path = |key: &str| format!("watch.rules.{}.{key}", member.key);
        let node = &member.node;
        let before = earlier.at(&["watch", "rules", &member.key]);
        let name_is_good = !member.key.is_empty()
            && member.key.len() <= 64
            && member.key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
        if !name_is_good {
            let message = format!("`{}` is no name of a rule", member.key);
            say(
                node,
                format!("watch.rules.{}", member.key),
                message,
                Some("allowed: letters, digits, `-`, `_` and `.`, which are in names of files".to_owned()),
                true,
            );
        }
        match node.get("who") {
            None if before.and_then(|rule| rule.get("who")).is_none() => {
                say(
                    node,
                    path("who"),
                    "the rule does not say whom it is about".to_owned(),
                    Some("for example `\"who\": \"Compiler\"`".to_owned()),
                    true,
                );
            }
            None => {}
            Some(who) => {
                let parsed = Who::of(who);
                if parsed.0.iter().any(|conditions| conditions.is_empty()) {
                    say(
                        who,
                        path("who"),
                        "nothing is asked: that would be every process of the machine".to_owned(),
                        None,
                        true,
                    );
                }
                for kind in parsed.kinds().filter(|kind| kinds.knows(kind) != Some(true)) {
                    let names: Vec<&str> = kinds.names().collect();
                    let (message, allowed) = match kinds.knows(kind) {
                        None => (format!("there is no kind `{kind}`"), Some(meant(kind, &names))),
                        Some(_) => (format!("`{kind}` has no processes on Linux"), None),
                    };
                    say(who, path("who"), message, allowed, kinds.knows(kind).is_none());
                }
            }
        }
        let mut triggers = Vec::new();
        for text in node.get("when").map(Node::texts).unwrap_or_default() {
            match When::parse(text) {
                Err(error) => {
                    if let Some(when) = node.get("when") {
                        say(when, path("when"), error.to_string(), None, true);
                    }
                }
                Ok(When::Trigger(_)) => triggers.push(text.trim()),
                Ok(When::Start | When::Alive(_) | When::Bound(_)) => {}
            }
        }
        let inherited = before.and_then(|rule| rule.get("do"));
        let texts = node.get("do").or(inherited).map_or_else(|| vec!["trace"], Node::texts);
        let checked = What::parse(&texts).map_err(|error| error.to_string());
        if let Err(message) = checked.and_then(|what| command(&what, &triggers)) {
            let at = node.get("do").or(node.get("when")).unwrap_or(node);
            say(at, path(if node.get("do").is_some() { "do" } else { "when" }), message, None, true);
        }
    }
}

fn size(node: &Node) -> Option<u64> {
    match &node.value {
        Value::Text(text) => quantity::size(text),
        Value::Number(_) => node.number().and_then(|number| quantity::size(&format!("{number:.0}"))),
        Value::Null | Value::Switch(_) | Value::List(_) | Value::Map(_) => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn as_count(number: f64) -> u32 {
    number.clamp(0.0, 1e9) as u32
}
