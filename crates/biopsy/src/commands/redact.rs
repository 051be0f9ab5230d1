//! `biopsy redact`: files and folders again, without their secrets.

use biopsy_cli::RedactArgs;
use std::io::Write;
use std::path::{Path, PathBuf};

use biopsy_capture::words::{grouped, size};
use biopsy_capture::{Failure, FailureKind, Patience};
use biopsy_redact::{Options, Redactor, broken_examples, first_wrong_pack};
use biopsy_redact_files::{
    LeftOut, RewriteError, Rewritten, RewrittenFile, beside, check, find, rewrite, rewrite_one, stream,
};
use serde::Serialize;

use crate::running::begin;
use biopsy_foreground::{Code, interrupt, out};
use biopsy_terminal::table::{Align, Cell, Column};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

/// Longest line that is shown by `--check`, in characters.
const SHOWN: usize = 160;

/// Runs `biopsy redact`.
pub(crate) fn redact(args: &RedactArgs, color: ColorChoice) -> Result<Code, Failure> {
    let terminal = Terminal::of_stdout(color);
    let packs = args.policies.iter().map(|path| read_policy(path)).collect::<Result<Vec<_>, _>>()?;
    let Some(input) = &args.input else { return test(&args.policies, &packs) };
    let options = Options { personal: args.anonymize, extra_packs: packs.clone(), ..Options::default() };
    let redactor = Redactor::new(options).map_err(|error| policy_failure(&args.policies, &packs, &error))?;
    // What it reads and writes as a stream ends like any filter does.
    if input.as_os_str() == "-" {
        return standard_input(args, &redactor);
    }
    let (job, _) = begin(color, true, args.json, Patience::Limited(interrupt::SHORT))?;
    let found = find(input).map_err(failure)?;
    if args.check {
        return check_all(args, &redactor, &found, terminal);
    }
    if args.output.as_ref().is_some_and(|output| output.as_os_str() == "-") {
        let mut file = rewrite_one(&redactor, input, found, &|| job.is_asked()).map_err(failure)?;
        return out::written(std::io::copy(&mut file, &mut out::Shown).map(|_| ()));
    }
    let output = args.output.clone().unwrap_or_else(|| beside(input));
    let rewritten = rewrite(&redactor, input, found, &output, &|| job.is_asked()).map_err(failure)?;
    show(args, &rewritten, &output, terminal)
}

fn standard_input(args: &RedactArgs, redactor: &Redactor) -> Result<Code, Failure> {
    if args.check {
        return Err(Failure::new(
            FailureKind::Usage,
            "standard input cannot be checked: `--check` needs a file",
        ));
    }
    let from = std::io::stdin().lock();
    match &args.output {
        Some(path) if path.as_os_str() != "-" => {
            let write = |file: &mut std::fs::File| stream(redactor, from, file).map(|_| ());
            biopsy_capture::place::write_new_with(path, write).map(|()| Code::Ok)
        }
        _ => {
            let mut to = std::io::BufWriter::new(out::Shown);
            out::written(stream(redactor, from, &mut to).and_then(|_| to.flush()))
        }
    }
}

/// Each line in which something would be masked.
fn check_all(
    args: &RedactArgs,
    redactor: &Redactor,
    found: &biopsy_redact_files::Found,
    terminal: Terminal,
) -> Result<Code, Failure> {
    let mut lines = Vec::new();
    let left_out = check(redactor, found, |file, marked| {
        lines.push(CheckedLine {
            file: file.display().to_string(),
            line: marked.line,
            text: biopsy_terminal::table::cut(&marked.text, SHOWN, terminal.unicode),
            rules: marked.hits.into_iter().map(|hit| hit.rule).collect(),
        });
    })
    .map_err(failure)?;
    let code = if lines.is_empty() { Code::Ok } else { Code::Secrets };
    if args.json {
        let left_out = left_out.iter().map(LeftOutRow::new).collect();
        out::document(&Checked { lines, left_out })?;
        return Ok(code);
    }
    let mut text = String::new();
    for line in &lines {
        text.push_str(&format!("{}:{}: {}: {}\n", line.file, line.line, line.rules.join(", "), line.text));
    }
    out::text(&text, false)?;
    say_left_out(&left_out);
    Ok(code)
}

fn test(paths: &[PathBuf], packs: &[String]) -> Result<Code, Failure> {
    let mut wrong = 0;
    for (index, path) in paths.iter().enumerate() {
        let broken =
            broken_examples(&packs[..=index]).map_err(|error| policy_failure(paths, packs, &error))?;
        for example in &broken {
            out::text(&format!("{}: {example}\n", path.display()), false)?;
        }
        wrong += broken.len();
    }
    if wrong == 0 {
        out::say(format_args!("all examples hold"));
        return Ok(Code::Ok);
    }
    Err(Failure::new(FailureKind::BadInput, format!("{wrong} examples do not hold")))
}

fn read_policy(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::new(FailureKind::BadInput, format!("cannot read the policy `{}`: {error}", path.display()))
    })
}

/// Which file it is, and where in it.
fn policy_failure(paths: &[PathBuf], packs: &[String], error: &biopsy_redact::RedactError) -> Failure {
    let path = first_wrong_pack(packs).and_then(|at| paths.get(at));
    let name = path.map_or_else(String::new, |path| path.display().to_string());
    let why = Failure::from_error(FailureKind::BadInput, error).to_string();
    Failure::new(FailureKind::BadInput, format!("the policy `{name}` cannot be used: {why}"))
        .with_hint(error.hint())
}

fn failure(error: RewriteError) -> Failure {
    let kind = match &error {
        RewriteError::Secrets { .. } => FailureKind::Secrets,
        RewriteError::Stopped => FailureKind::Stopped,
        RewriteError::Folder => FailureKind::Usage,
        error if error.is_output() => FailureKind::Output,
        _ => FailureKind::BadInput,
    };
    Failure::from_error(kind, &error).with_hint(error.hint())
}

fn show(
    args: &RedactArgs,
    rewritten: &Rewritten,
    output: &Path,
    terminal: Terminal,
) -> Result<Code, Failure> {
    let code = if rewritten.files.is_empty() { Code::Partial } else { Code::Ok };
    if args.json {
        out::document(&Done {
            output: output.display().to_string(),
            files: rewritten.files.iter().map(FileRow::new).collect(),
            left_out: rewritten.left_out.iter().map(LeftOutRow::new).collect(),
        })?;
        return Ok(code);
    }
    let columns = [
        Column { title: "MASKED", align: Align::Right, expendable: 0 },
        Column { title: "RULE", align: Align::Left, expendable: 0 },
    ];
    let rows: Vec<Vec<Cell>> = rewritten
        .hits()
        .iter()
        .map(|hit| vec![Cell::new(grouped(hit.count)), Cell::new(&hit.rule)])
        .collect();
    out::table(terminal, &columns, &rows)?;
    say_left_out(&rewritten.left_out);
    let bytes: u64 = rewritten.files.iter().map(|file| file.bytes_in).sum();
    let files = rewritten.files.len();
    match files {
        0 => out::say(format_args!("nothing was written: there is no text in it")),
        _ => {
            let plural = if files == 1 { "file" } else { "files" };
            out::say(format_args!("wrote {} ({files} {plural}, {} of text)", output.display(), size(bytes)));
        }
    }
    Ok(code)
}

fn say_left_out(left_out: &[LeftOut]) {
    for left in left_out {
        out::say(format_args!("left out: {}: {}", left.name.display(), left.why));
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Done {
    output: String,
    files: Vec<FileRow>,
    left_out: Vec<LeftOutRow>,
}

/// What `--check --json` prints.
#[derive(Serialize)]
struct Checked {
    lines: Vec<CheckedLine>,
    left_out: Vec<LeftOutRow>,
}

#[derive(Serialize)]
struct CheckedLine {
    file: String,
    line: u64,
    rules: Vec<String>,
    text: String,
}

#[derive(Serialize)]
struct FileRow {
    path: String,
    bytes: u64,
    masked: Vec<RuleRow>,
}

#[derive(Serialize)]
struct RuleRow {
    rule: String,
    count: u64,
}

#[derive(Serialize)]
struct LeftOutRow {
    name: String,
    why: String,
}

impl FileRow {
    fn new(file: &RewrittenFile) -> Self {
        let masked =
            file.hits.iter().map(|hit| RuleRow { rule: hit.rule.clone(), count: hit.count }).collect();
        Self { path: file.path.display().to_string(), bytes: file.bytes_in, masked }
    }
}

impl LeftOutRow {
    fn new(left: &LeftOut) -> Self {
        Self { name: left.name.display().to_string(), why: left.why.clone() }
    }
}
