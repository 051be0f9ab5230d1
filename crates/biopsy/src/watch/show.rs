//! What the watcher says: a line for each thing that happens, for people or for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use biopsy_capture::Failure;
use biopsy_capture::words::size;
use biopsy_standby::{Happened, Listener};
use biopsy_watch::quantity::duration_text;
use biopsy_watch::rules::Rule;
use serde::Serialize;

use biopsy_foreground::{Code, out};
use biopsy_terminal::table::{Align, Cell, Column};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

#[derive(Serialize)]
struct Timed<'a> {
    time: String,
    #[serde(flatten)]
    line: &'a Happened<'a>,
}

/// What a rule has done, for the table at the end.
#[derive(Default)]
pub(super) struct Tally {
    begun: u64,
    made: u64,
    bytes: u64,
    held: BTreeMap<String, u64>,
}

/// Says it.
pub(super) struct Show {
    json: bool,
    terminal: Terminal,
    tallies: BTreeMap<String, Tally>,
    /// Why nothing can be said any more.
    failed: Option<Failure>,
}

const RULES: &[Column] = &[
    Column { title: "RULE", align: Align::Left, expendable: 0 },
    Column { title: "WHO", align: Align::Left, expendable: 0 },
    Column { title: "WHEN", align: Align::Left, expendable: 0 },
    Column { title: "LIMITS", align: Align::Left, expendable: 1 },
    Column { title: "DO", align: Align::Left, expendable: 0 },
];

const DONE: &[Column] = &[
    Column { title: "RULE", align: Align::Left, expendable: 0 },
    Column { title: "BEGUN", align: Align::Right, expendable: 0 },
    Column { title: "MADE", align: Align::Right, expendable: 0 },
    Column { title: "SIZE", align: Align::Right, expendable: 0 },
    Column { title: "NOT RECORDED", align: Align::Left, expendable: 0 },
];

impl Show {
    pub(super) fn new(json: bool, color: ColorChoice) -> Self {
        Self { json, terminal: Terminal::of_stdout(color), tallies: BTreeMap::new(), failed: None }
    }

    /// The table of what was done.
    pub(super) fn end(mut self, ran: Duration) -> Result<Code, Failure> {
        if self.json {
            self.happened(&Happened {
                event: "ended",
                text: format!("after {}", duration_text(ran)),
                ..Happened::default()
            });
        } else {
            let row = |(name, tally): (&String, &Tally)| {
                let held: Vec<String> =
                    tally.held.iter().map(|(why, count)| format!("{count}: {why}")).collect();
                vec![
                    Cell::styled(&**name, Style::new().bold()),
                    Cell::new(tally.begun.to_string()),
                    Cell::new(tally.made.to_string()),
                    Cell::new(size(tally.bytes)),
                    Cell::new(held.join("; ")),
                ]
            };
            let rows: Vec<_> = self.tallies.iter().map(row).collect();
            self.text(&format!("\nwatched for {}; nothing is on any more\n", duration_text(ran)));
            self.table(DONE, &rows);
        }
        match self.failed {
            Some(failure) => Err(failure),
            None => Ok(Code::Ok),
        }
    }

    fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) {
        self.written(out::table(self.terminal, columns, rows));
    }

    fn text(&mut self, text: &str) {
        self.written(out::text(text, self.terminal.colour));
    }

    /// That nobody can be told is no reason to watch no more: it is said at the end.
    fn written(&mut self, result: Result<Code, Failure>) {
        if let Err(failure) = result {
            self.failed.get_or_insert(failure);
        }
    }
}

impl Listener for Show {
    /// Says a line, and counts it.
    fn happened(&mut self, line: &Happened<'_>) {
        if !line.rule.is_empty() {
            let tally = self.tallies.entry(line.rule.to_owned()).or_default();
            match line.event {
                "begun" => tally.begun += 1,
                "made" => {
                    tally.made += 1;
                    tally.bytes += line.bytes.unwrap_or(0);
                }
                "held" => *tally.held.entry(line.text.clone()).or_default() += 1,
                _ => {}
            }
        }
        if self.json {
            let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
            self.written(out::line(&Timed { time, line }));
            return;
        }
        let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
        let style = match line.event {
            "made" => AnsiColor::Green.on_default(),
            "failed" | "off" => AnsiColor::Red.on_default(),
            "held" | "note" => AnsiColor::Yellow.on_default(),
            _ => Style::new(),
        };
        let who = match line.pid {
            Some(pid) => format!("{} ({pid}) ", line.name),
            None => String::new(),
        };
        let rule = if line.rule.is_empty() { String::new() } else { format!("{}: ", line.rule) };
        let bytes = line.bytes.map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default();
        let joint = if line.text.is_empty() { "" } else { "; " };
        let path = line.path.map(|path| format!("{joint}{}{bytes}", path.display())).unwrap_or_default();
        let text = format!("{rule}{who}{}{path}", line.text);
        let word = self.terminal.paint(style, &format!("{:6}", line.event));
        self.text(&format!(
            "{time}  {word}  {}\n",
            self.terminal.paint(Style::new(), &text).replace('\n', " ")
        ));
    }

    /// The table of rules.
    fn rules(&mut self, rules: &[Rule], note: &str) {
        if self.json {
            for rule in rules {
                let text = format!("{}; when {}; {}", rule.who_text, rule.when_text(), rule.what);
                self.happened(&Happened { event: "rule", rule: &rule.name, text, ..Happened::default() });
            }
            return;
        }
        let row = |rule: &Rule| {
            vec![
                Cell::styled(&*rule.name, Style::new().bold()),
                Cell::new(&*rule.who_text),
                Cell::new(rule.when_text()),
                Cell::new(rule.limits.to_string()),
                Cell::new(rule.what.to_string()),
            ]
        };
        self.table(RULES, &rules.iter().map(row).collect::<Vec<_>>());
        if !note.is_empty() {
            self.text(&format!("\n{note}\n"));
        }
    }
}
