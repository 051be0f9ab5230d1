//! Decides: of the processes that are there, for which rule is something done now, and if not, why not.
//!
//! The engine has no clock and looks at nothing: it is told what there is and what time it is, on the clock that counts from the start of
//! the machine and goes on while it sleeps. A wall clock that jumps changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use biopsy_model::ProcessKey;

use crate::budget::Cost;
use crate::kinds::Kinds;
use crate::moment::Moment;
use crate::process::Observed;
use crate::rules::{Bound, Quantity, Rule, Verb, When, Who};
use crate::settings::Settings;

/// A day of the limits.
const DAY: Duration = Duration::from_secs(86_400);
/// Shortest time between two readings of CPU that are compared: the kernel counts in hundredths of a second.
const CPU_SPAN: Duration = Duration::from_millis(500);
/// Most commands that wait with their processes, of all rules: each is a process of biopsy.
const WAITING: usize = 32;

/// What is to be done about a process.
#[derive(Clone, PartialEq, Debug)]
pub enum Decision {
    /// A command is to be started; how it ends is told to [`Engine::ended`].
    Fire(Fire),
    /// A rule applies, and nothing is done. Said once for each process and rule.
    Held {
        /// Name of the rule.
        rule: String,
        /// Of which process.
        key: ProcessKey,
        /// Why.
        why: Held,
    },
}

/// A command that is to be started.
#[derive(Clone, PartialEq, Debug)]
pub struct Fire {
    /// By which it is named afterwards.
    pub id: u64,
    /// The rule.
    pub rule: Rule,
    /// Of which process.
    pub key: ProcessKey,
    /// What happened; of a command that waits, nothing yet.
    pub because: String,
    /// What the command waits for by itself.
    pub triggers: Vec<String>,
}

/// Why nothing is done although a rule applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Held {
    /// Only every Nth.
    NotEvery,
    /// Enough results in 24 hours.
    PerDay,
    /// Too soon after the last one.
    CoolDown,
    /// Enough of this rule at once.
    AtOnce,
    /// Enough of all rules at once.
    AllAtOnce,
    /// It is being recorded already.
    Busy,
    /// The disk is nearly full.
    Disk,
    /// Recording took more than the rule may.
    Budget,
}

impl Held {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NotEvery => "only every Nth process is recorded",
            Self::PerDay => "the rule has its results of 24 hours",
            Self::CoolDown => "too soon after the last one",
            Self::AtOnce => "the rule records as many at once as it may",
            Self::AllAtOnce => "as many are recorded at once as may be",
            Self::Busy => "it is being recorded already",
            Self::Disk => "the disk is nearly full",
            Self::Budget => "the rule has switched itself off: recording took more than it may",
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There is a result.
    Made,
    /// There is none: what it waited for did not happen, or it failed. It counts for no limit but the cool-down.
    Nothing,
    /// There is none, because somebody has killed it: it may begin anew. It counts as a result, so that it does not for ever.
    Killed,
}

/// What the disk has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Free bytes where results go.
    pub free: u64,
}

/// Of which processes the start is recorded.
#[derive(Clone, Default, Debug)]
pub struct Starters {
    who: Vec<Who>,
    kinds: Kinds,
    /// What a program alone tells of both; `None`: nothing.
    by_program: Option<(Vec<Who>, Kinds)>,
}

impl Starters {
    /// Whether a rule may apply to a program, of which name, file, entry and arguments are known, and nothing else.
    #[must_use]
    pub fn may_concern(&self, process: &Observed) -> bool {
        let Some((all, kinds)) = &self.by_program else { return true };
        all.iter().any(|who| kinds.applies(who, process))
    }

    /// Whether a rule applies to a program that is about to start.
    #[must_use]
    pub fn concern(&self, process: &Observed) -> bool {
        self.who.iter().any(|who| self.kinds.applies(who, process))
    }
}

/// Decides.
#[derive(Debug)]
pub struct Engine {
    rules: Vec<Rule>,
    kinds: Kinds,
    at_once: u32,
    min_free: u64,
    histories: BTreeMap<String, History>,
    processes: HashMap<ProcessKey, Tracked>,
    running: BTreeMap<u64, Running>,
    /// Rules that have switched themselves off.
    off: BTreeSet<String>,
    next: u64,
}

/// A rule has switched itself off.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchedOff {
    /// Its name.
    pub rule: String,
    /// Per cent of a core that one of its recordings took.
    pub percent: f64,
    /// Per cent that it may.
    pub budget: u32,
    /// All that it records: to be ended.
    pub running: Vec<u64>,
}

/// What a rule has done.
#[derive(Default, Debug)]
struct History {
    /// Beginnings within a day, oldest first, with the command's id; of results before this watcher without. What waited for something
    /// counts while it waits, and then from its result on.
    begun: VecDeque<(Moment, Option<u64>)>,
    last: Option<Moment>,
    matched: u64,
}

#[derive(Debug)]
struct Tracked {
    program: (String, Vec<String>),
    /// Indices of rules that apply.
    rules: Vec<usize>,
    /// By rule and index of its moment.
    latches: HashMap<(usize, usize), Latch>,
    said: BTreeSet<(usize, Held)>,
    cpu: Option<(Moment, Duration)>,
    cores: Option<f64>,
}

#[derive(Default, Debug)]
struct Latch {
    since: Option<Moment>,
    fired: bool,
}

/// Moments of a rule that are due, and what is said of them.
#[derive(Default)]
struct Due {
    whens: Vec<usize>,
    because: String,
    triggers: Vec<String>,
}

#[derive(Debug)]
struct Running {
    rule: String,
    key: ProcessKey,
    waits: bool,
    /// It waits for something that may happen on another day.
    may_end_late: bool,
    budget: u32,
    cost: Cost,
}

impl Engine {
    /// By these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            rules: settings.rules.clone(),
            kinds: settings.kinds.clone(),
            at_once: settings.at_once,
            min_free: settings.min_free,
            histories: BTreeMap::new(),
            processes: HashMap::new(),
            running: BTreeMap::new(),
            off: BTreeSet::new(),
            next: 1,
        }
    }

    /// Goes on by other settings. What rules of the same name have done counts; processes that are there are looked at anew, but what
    /// has begun with them does not begin again.
    pub fn change(&mut self, settings: &Settings) {
        let old = std::mem::take(&mut self.rules);
        let place = |index: usize| settings.rules.iter().position(|rule| old.get(index) == Some(rule));
        for tracked in self.processes.values_mut() {
            tracked.latches = std::mem::take(&mut tracked.latches)
                .into_iter()
                .filter_map(|((rule, when), latch)| Some(((place(rule)?, when), latch)))
                .collect();
            tracked.program = Default::default();
            tracked.said.clear();
        }
        // One that was changed is another rule.
        let same = |name: &String| settings.rules.iter().any(|rule| rule.name == *name && old.contains(rule));
        self.off.retain(same);
        self.rules.clone_from(&settings.rules);
        self.kinds = settings.kinds.clone();
        self.at_once = settings.at_once;
        self.min_free = settings.min_free;
    }

    /// A result of a rule that was made so long ago, before this watcher.
    pub fn remember(&mut self, rule: &str, now: Moment, ago: Duration) {
        // Of before the start of the machine, as if it were of then: that only holds back more.
        let when = Moment(now.0.saturating_sub(ago));
        let history = self.histories.entry(rule.to_owned()).or_default();
        if ago < DAY {
            let at = history.begun.partition_point(|(begun, _)| *begun <= when);
            history.begun.insert(at, (when, None));
            history.last = history.last.max(Some(when));
        }
    }

    /// Whether any rule needs processes to be looked at again and again, rather than once.
    #[must_use]
    pub fn looks_again(&self) -> bool {
        let again = |when: &When| matches!(when, When::Alive(_) | When::Bound(_));
        self.rules.iter().any(|rule| rule.when.iter().any(again))
    }

    /// Whether any rule applies to a process, whatever it does.
    #[must_use]
    pub fn concerns(&self, process: &Observed) -> bool {
        self.rules.iter().any(|rule| self.kinds.applies(&rule.who, process))
    }

    /// Whether any rule records processes from their first instruction.
    #[must_use]
    pub fn records_starts(&self) -> bool {
        self.rules.iter().any(Rule::records_starts)
    }

    /// What says whether a program that is about to start is recorded, for whoever is asked at each execution.
    #[must_use]
    pub fn starters(&self) -> Starters {
        let rules = self.rules.iter().filter(|rule| rule.records_starts()).map(|rule| rule.who.clone());
        let who: Vec<Who> = rules.collect();
        Starters { by_program: self.kinds.by_program(&who), who, kinds: self.kinds.clone() }
    }

    /// Names of the rules that apply to a process.
    pub fn rules_of<'a>(&'a self, process: &'a Observed) -> impl Iterator<Item = &'a str> {
        let applies = |rule: &&Rule| self.kinds.applies(&rule.who, process);
        self.rules.iter().filter(applies).map(|rule| rule.name.as_str())
    }

    /// Looks at a process: one that started, executed another program, or is still there.
    pub fn look(&mut self, now: Moment, process: &Observed, disk: Disk) -> Vec<Decision> {
        let mut tracked = self.processes.remove(&process.key).unwrap_or_else(Tracked::new);
        if tracked.program.0 != process.exe || tracked.program.1 != process.arguments {
            self.meet(&mut tracked, process);
        }
        tracked.read_cpu(now, process.cpu);
        let mut decisions = Vec::new();
        for index in tracked.rules.clone() {
            self.ask(index, now, process, &mut tracked, disk, &mut decisions);
        }
        self.processes.insert(process.key.clone(), tracked);
        decisions
    }

    /// A command has ended.
    pub fn ended(&mut self, now: Moment, id: u64, outcome: Outcome) {
        let Some(running) = self.running.remove(&id) else { return };
        match outcome {
            Outcome::Made if running.may_end_late => {
                // It waited for days, perhaps: the result is of today.
                if let Some(history) = self.histories.get_mut(&running.rule) {
                    history.begun.retain(|(_, begun)| *begun != Some(id));
                    let at = history.begun.partition_point(|(begun, _)| *begun <= now);
                    history.begun.insert(at, (now, Some(id)));
                }
            }
            Outcome::Made => {}
            Outcome::Nothing => {
                if let Some(history) = self.histories.get_mut(&running.rule) {
                    history.begun.retain(|(_, begun)| *begun != Some(id));
                }
            }
            Outcome::Killed => {
                let index = self.rules.iter().position(|rule| rule.name == running.rule);
                if let Some(tracked) = self.processes.get_mut(&running.key) {
                    tracked.latches.retain(|(rule, _), _| Some(*rule) != index);
                }
            }
        }
    }

    /// A command goes on, and its recorder has used so much CPU time. A rule that costs more than it may is switched off.
    pub fn spent(&mut self, now: Moment, id: u64, used: Duration) -> Option<SwitchedOff> {
        let running = self.running.get_mut(&id)?;
        let percent = running.cost.percent(now, used)?;
        let (rule, budget) = (running.rule.clone(), running.budget);
        if percent <= f64::from(budget) || !self.off.insert(rule.clone()) {
            return None;
        }
        let of_rule = self.running.iter().filter(|(_, running)| running.rule == rule);
        let running = of_rule.map(|(id, _)| *id).collect();
        Some(SwitchedOff { rule, percent, budget, running })
    }

    /// Forgets all processes but these.
    pub fn retain(&mut self, there: impl Fn(&ProcessKey) -> bool) {
        self.processes.retain(|key, _| there(key));
    }

    /// How many commands run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Finds the rules that apply to the program that a process runs now.
    fn meet(&self, tracked: &mut Tracked, process: &Observed) {
        let had = std::mem::take(&mut tracked.rules);
        tracked.rules = (0..self.rules.len())
            .filter(|&index| self.kinds.applies(&self.rules[index].who, process))
            .collect();
        if !tracked.program.0.is_empty() {
            // Another program by exec: for rules that did not apply before, it is a start.
            tracked.latches.retain(|(rule, _), _| had.contains(rule));
        }
        tracked.program = (process.exe.clone(), process.arguments.clone());
    }

    fn ask(
        &mut self,
        index: usize,
        now: Moment,
        process: &Observed,
        tracked: &mut Tracked,
        disk: Disk,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(rule) = self.rules.get(index) else { return };
        // What others do about a process needs one that runs: they are asked when it does.
        if process.is_held && !rule.records_starts() {
            return;
        }
        // What keeps the last minutes waits with its process as well, and others record it meanwhile.
        let keeps = rule.what.verb == Verb::Recent;
        let (mut reached, mut awaited) = (Due::default(), Due::default());
        for (number, when) in rule.when.iter().enumerate() {
            let latch = tracked.latches.entry((index, number)).or_default();
            let because = match when {
                When::Start => Some("it started".to_owned()),
                When::Alive(time) => {
                    (process.age > *time).then(|| format!("it lives for {}", seconds(process.age)))
                }
                When::Bound(bound) => exceeded(bound, process, tracked.cores),
                When::Trigger(_) => Some(String::new()),
            };
            let Some(because) = because else {
                // It was false in between: it may come true again.
                *latch = Latch::default();
                continue;
            };
            let since = *latch.since.get_or_insert(now);
            let lasting = if let When::Bound(bound) = when { bound.lasting } else { Duration::ZERO };
            if latch.fired || now.since(since) < lasting {
                continue;
            }
            if let When::Trigger(trigger) = when {
                awaited.whens.push(number);
                awaited.triggers.push(trigger.clone());
            } else {
                reached.whens.push(number);
                if reached.because.is_empty() {
                    reached.because = because;
                }
            }
        }
        // One command records now, another one waits: neither stands for the other.
        for (due, waits) in [(reached, keeps), (awaited, true)] {
            if !due.whens.is_empty() {
                self.offer(index, now, process, tracked, due, waits, disk, decisions);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what was asked, and what came of it")]
    fn offer(
        &mut self,
        index: usize,
        now: Moment,
        process: &Observed,
        tracked: &mut Tracked,
        due: Due,
        waits: bool,
        disk: Disk,
        decisions: &mut Vec<Decision>,
    ) {
        let key = process.key.clone();
        let why = match self.may(index, now, &key, waits, disk) {
            Ok(id) => {
                due.whens.iter().for_each(|number| tracked.fire(index, *number));
                let (rule, because, triggers) = (self.rules[index].clone(), due.because, due.triggers);
                decisions.push(Decision::Fire(Fire { id, rule, key, because, triggers }));
                return;
            }
            Err(why) => why,
        };
        let rule = &self.rules[index];
        for number in due.whens {
            // A start is over once it was let pass; a condition that holds on is asked again.
            let is_over = matches!(rule.when.get(number), Some(When::Start | When::Trigger(_)));
            if is_over || why == Held::NotEvery {
                tracked.fire(index, number);
            }
        }
        if tracked.said.insert((index, why)) {
            decisions.push(Decision::Held { rule: rule.name.clone(), key, why });
        }
    }

    /// Whether a command may be started now, and its id.
    fn may(
        &mut self,
        index: usize,
        now: Moment,
        key: &ProcessKey,
        waits: bool,
        disk: Disk,
    ) -> Result<u64, Held> {
        let Rule { name, limits, what, .. } = &self.rules[index];
        let history = self.histories.entry(name.clone()).or_default();
        // One that waits may have its result in the end, however long ago it began.
        let running = &self.running;
        let is_late =
            |id: &Option<u64>| id.and_then(|id| running.get(&id)).is_some_and(|one| one.may_end_late);
        history.begun.retain(|(begun, id)| now.since(*begun) < DAY || is_late(id));
        history.matched += 1;
        if !(history.matched - 1).is_multiple_of(u64::from(limits.every)) {
            return Err(Held::NotEvery);
        }
        // What waits costs a process of ours, and the disk nothing; it is not counted with what records.
        let same = self.running.values().filter(|running| running.waits == waits);
        let (all, of_rule) =
            same.fold((0, 0), |(all, own), running| (all + 1, own + usize::from(running.rule == *name)));
        let (most, most_of_rule) = match (waits, what.verb) {
            (true, Verb::Recent) => (WAITING, limits.at_once as usize),
            (true, _) => (WAITING, WAITING),
            (false, _) => (self.at_once as usize, limits.at_once as usize),
        };
        let is_busy = !waits && self.running.values().any(|running| running.key == *key && !running.waits);
        let too_soon = history.last.is_some_and(|last| now.since(last) < limits.cool_down);
        let held = [
            (self.off.contains(name), Held::Budget),
            (disk.free < self.min_free, Held::Disk),
            (history.begun.len() >= limits.per_day as usize, Held::PerDay),
            (!waits && too_soon, Held::CoolDown),
            (is_busy, Held::Busy),
            (of_rule >= most_of_rule, Held::AtOnce),
            (all >= most, Held::AllAtOnce),
        ];
        if let Some(&(_, why)) = held.iter().find(|(holds, _)| *holds) {
            // It was none of those that are counted.
            history.matched -= 1;
            return Err(why);
        }
        let id = self.next;
        self.next += 1;
        history.begun.push_back((now, Some(id)));
        history.last = Some(now);
        let (rule, key, budget) = (name.clone(), key.clone(), limits.budget);
        let may_end_late = waits && what.verb != Verb::Recent;
        let cost = Cost::begin(now);
        self.running.insert(id, Running { rule, key, waits, may_end_late, budget, cost });
        Ok(id)
    }
}

impl Tracked {
    fn new() -> Self {
        Self {
            program: Default::default(),
            rules: Vec::new(),
            latches: HashMap::new(),
            said: BTreeSet::new(),
            cpu: None,
            cores: None,
        }
    }

    fn fire(&mut self, rule: usize, when: usize) {
        if let Some(latch) = self.latches.get_mut(&(rule, when)) {
            latch.fired = true;
        }
    }

    fn read_cpu(&mut self, now: Moment, cpu: Duration) {
        let Some((then, before)) = self.cpu else {
            self.cpu = Some((now, cpu));
            return;
        };
        let span = now.since(then);
        if span >= CPU_SPAN {
            self.cores = Some(cpu.saturating_sub(before).as_secs_f64() / span.as_secs_f64());
            self.cpu = Some((now, cpu));
        }
    }
}

fn exceeded(bound: &Bound, process: &Observed, cores: Option<f64>) -> Option<String> {
    let value = match bound.quantity {
        Quantity::Cpu => cores? * 100.0,
        Quantity::Memory => crate::rules::as_float(process.resident_bytes),
        Quantity::Threads => crate::rules::as_float(process.threads),
    };
    let text = || match bound.quantity {
        Quantity::Cpu => format!("CPU is at {value:.0} %"),
        Quantity::Memory => {
            format!("resident memory is {}", crate::quantity::size_text(process.resident_bytes))
        }
        Quantity::Threads => format!("it has {} threads", process.threads),
    };
    (value > bound.above).then(text)
}

fn seconds(duration: Duration) -> String {
    crate::quantity::duration_text(Duration::from_secs(duration.as_secs()))
}
