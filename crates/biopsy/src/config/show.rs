//! Settings that hold, where they are from, and what is wrong with them.

use std::path::PathBuf;

use anstyle::Style;
use biopsy_capture::Failure;
use biopsy_standby::settings::{self, Loaded};
use biopsy_watch::quantity::{duration_text, size_text};
use biopsy_watch::settings::{Origin, origins};

use biopsy_cli::standing::check as command;
use biopsy_foreground::{Code, out};
use biopsy_terminal::table::{Align, Cell, Column};
use biopsy_terminal::terminal::Terminal;

const ORIGINS: &[Column] = &[
    Column { title: "KEY", align: Align::Left, expendable: 0 },
    Column { title: "VALUE", align: Align::Left, expendable: 0 },
    Column { title: "FROM", align: Align::Left, expendable: 0 },
];

const RULES: &[Column] = &[
    Column { title: "RULE", align: Align::Left, expendable: 0 },
    Column { title: "WHO", align: Align::Left, expendable: 0 },
    Column { title: "WHEN", align: Align::Left, expendable: 0 },
    Column { title: "DO", align: Align::Left, expendable: 0 },
];

/// `config show`.
pub(super) fn show(origin: bool, terminal: Terminal) -> Result<Code, Failure> {
    let loaded = settings::load(None, &command)?;
    let mut shown = String::new();
    let from = |one: &Origin| {
        let layer = &loaded.layers[one.layer];
        let hidden = if one.is_hidden { ", has no effect" } else { "" };
        format!("{} {}:{}:{}{hidden}", layer.name, layer.path.display(), one.place.line, one.place.column)
    };
    let all = origins(&loaded.layers);
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .filter(|one| origin || !one.is_hidden)
        .map(|one| {
            let style = if one.is_hidden { Style::new().dimmed() } else { Style::new() };
            let from = if origin { from(one) } else { loaded.layers[one.layer].name.to_owned() };
            vec![Cell::styled(&*one.path, style), Cell::styled(&*one.value, style), Cell::styled(from, style)]
        })
        .collect();
    if rows.is_empty() {
        shown.push_str("there are no settings; `biopsy config path` says where they would be\n");
    } else {
        shown.push_str(&out::table_text(terminal, ORIGINS, &rows));
    }
    let settings = &loaded.settings;
    let rule = |rule: &biopsy_watch::rules::Rule| {
        vec![
            Cell::styled(&*rule.name, Style::new().bold()),
            Cell::new(&*rule.who_text),
            Cell::new(rule.when_text()),
            Cell::new(rule.what.to_string()),
        ]
    };
    let rules: Vec<Vec<Cell>> = settings.rules.iter().map(rule).collect();
    if !rules.is_empty() {
        shown.push('\n');
        shown.push_str(&out::table_text(terminal, RULES, &rules));
    }
    let keep = &settings.keep;
    shown.push_str(&format!(
        "\nthe watcher ends after {}, keeps {} for {} and {} results of a rule, and leaves {} free\n",
        duration_text(settings.length),
        size_text(keep.bytes),
        duration_text(keep.age),
        keep.count,
        size_text(settings.min_free)
    ));
    out::text(&shown, terminal.colour)?;
    said(&loaded)
}

/// `config check`.
pub(super) fn check(files: &[PathBuf]) -> Result<Code, Failure> {
    let mut code = Code::Ok;
    let mut checked = 0;
    let given: Vec<Option<&PathBuf>> =
        if files.is_empty() { vec![None] } else { files.iter().map(Some).collect() };
    for file in given {
        let loaded = settings::load(file.map(PathBuf::as_path), &command)?;
        checked += loaded.layers.len();
        let found = said(&loaded)?;
        if found != Code::Ok {
            code = found;
        }
    }
    if code == Code::Ok {
        out::text(&format!("{checked} files of settings are in order\n"), false)?;
    }
    Ok(code)
}

/// Says what is wrong, on standard error.
fn said(loaded: &Loaded) -> Result<Code, Failure> {
    let mut code = Code::Ok;
    for (is_error, line) in loaded.lines() {
        out::say(format_args!("{line}"));
        if is_error {
            code = Code::BadInput;
        }
    }
    Ok(code)
}
