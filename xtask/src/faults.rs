//! Each verb with its 1st, 2nd, 3rd ... n-th system call failing.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use biopsy_testkit::faults::{FAILING_CALLS, Fault, Patient, Problem, Trial, Verb, errno_name, occurrences};
use biopsy_testkit::{Privilege, Program, TargetProcess, dotnet_held, require, require_all};

use crate::run::{Outcome, release_program, target_folder};

/// What is run.
const VERBS: &[Verb] = &[
    verb("dump", "", "still", &["dump", "{pid}", "--output", "{out}.core"]),
    verb("dump", "--raw -o -", "still", &["dump", "{pid}", "--raw", "--output", "-"]),
    verb("dump", "--scrub", "still", &["dump", "{pid}", "--scrub", "--output", "{out}.core"]),
    verb("dump", "--tree", "family", &["dump", "{pid}", "--tree", "--output", "{out}.zip"]),
    verb(
        "dump",
        "--looks",
        "still",
        &["dump", "{pid}", "--looks", "2", "--every", "200ms", "--quiet", "--output", "{out}.zip"],
    ),
    verb("dump", "minidump", "still", &["dump", "{pid}", "--output", "{out}.dmp"]),
    verb(
        "dump",
        "--wait-for",
        "launcher",
        &["dump", "{pid}", "--wait-for", "short-lived", "--for", "5s", "--quiet", "--output", "{out}.zip"],
    ),
    verb("stacks", "", "still", &["stacks", "{pid}", "--json"]),
    verb("stacks", ".NET", "dotnet", &["stacks", "{pid}", "--json"]),
    verb("snapshot", "", "dotnet", &["snapshot", "{pid}", "--quiet", "--output", "{out}.zip"]),
    verb("snapshot", ".gcdump", "dotnet", &["snapshot", "{pid}", "--quiet", "--output", "{out}.gcdump"]),
    verb("trace", "", "busy", &["trace", "{pid}", "--for", "500ms", "--quiet", "--output", "{out}.zip"]),
    verb(
        "trace",
        "--launch",
        "still",
        &["trace", "--quiet", "--output", "{out}.zip", "--", "{program}", "sleep", "300"],
    ),
    verb("capture", "", "busy", &["capture", "{pid}", "--for", "500ms", "--quiet", "--output", "{out}.zip"]),
    verb(
        "capture",
        "--folder",
        "busy",
        &["capture", "{pid}", "--for", "500ms", "--quiet", "--folder", "--output", "{out}"],
    ),
    verb(
        "capture",
        "--logs",
        "family",
        &["capture", "{pid}", "--for", "500ms", "--quiet", "--logs", "{log}", "--output", "{out}.zip"],
    ),
    verb(
        "capture",
        "--stacks",
        "still",
        &["capture", "{pid}", "--for", "500ms", "--quiet", "--stacks", "--output", "{out}.zip"],
    ),
    verb(
        "capture",
        "--launch",
        "still",
        &[
            "capture",
            "--launch",
            "--metrics-every",
            "200ms",
            "--quiet",
            "--output",
            "{out}.zip",
            "--",
            "{program}",
            "sleep",
            "900",
        ],
    ),
    verb(
        "capture",
        ".NET",
        "dotnet",
        &["capture", "{pid}", "--for", "1s", "--quiet", "--output", "{out}.zip"],
    ),
    verb("watch", "", "still", &["watch", "--config", "{settings}", "--for", "8s", "--output", "{out}"]),
];

const fn verb(
    name: &'static str,
    variant: &'static str,
    patient: &'static str,
    arguments: &'static [&'static str],
) -> Verb {
    Verb { name, variant, arguments, patient }
}

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these verbs, or a verb with its variant (`dump --scrub`; `dump plain` is the one without)
    verbs: Vec<String>,
    /// Every occurrence of every call with every error, not a choice
    #[arg(long)]
    all: bool,
    /// Which occurrences are chosen behind the 16th
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these system calls
    #[arg(long, value_delimiter = ',')]
    calls: Vec<String>,
    /// Only this occurrence of each
    #[arg(long)]
    occurrence: Option<u64>,
    /// A biopsy; without it, the release program of this repository
    #[arg(long)]
    biopsy: Option<PathBuf>,
}

#[derive(Default)]
struct Row {
    calls: u64,
    kinds: usize,
    runs: u64,
    harmed: u64,
    silent: u64,
    left: u64,
    hung: u64,
    ending: u64,
}

/// Runs all, prints the table; an error if anything was found. Each finding is in `target/faults/findings.txt`.
pub(crate) fn run(options: &Options) -> Outcome {
    let program = options.biopsy.clone().map_or_else(release_program, Ok)?;
    let folder = target_folder()?.join("faults");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let findings = folder.join("findings.txt");
    let mut text = String::new();
    let mut rows = Vec::new();
    if !require_all(&[Privilege::Root, Privilege::Cc, Privilege::Bpf]) {
        return Err("faults are found as root, on a machine with a C compiler".to_owned());
    }
    for verb in VERBS.iter().filter(|verb| wanted(options, verb)) {
        let title = title(verb);
        let Some(row) = run_verb(options, *verb, &program, &mut text) else {
            println!("{title}: skipped");
            continue;
        };
        println!("{title}: {} runs", row.runs);
        rows.push((title, row));
        std::fs::write(&findings, &text)
            .map_err(|error| format!("cannot write `{}`: {error}", findings.display()))?;
    }
    println!("\n{}", table(&rows));
    let bad: u64 =
        rows.iter().map(|(_, row)| row.harmed + row.silent + row.left + row.hung + row.ending).sum();
    match bad {
        0 => Ok(()),
        bad => Err(format!("{bad} findings, in {}", findings.display())),
    }
}

fn title(verb: &Verb) -> String {
    format!("{} {}", verb.name, verb.variant).trim().to_owned()
}

fn wanted(options: &Options, verb: &Verb) -> bool {
    let wanted = |one: &String| match verb.variant {
        "" => *one == format!("{} plain", verb.name),
        _ => *one == title(verb),
    };
    options.verbs.is_empty() || options.verbs.iter().any(|one| one == verb.name || wanted(one))
}

fn patient(kind: &str) -> Option<Patient> {
    Some(match kind {
        "still" => Patient::of(named(Program::Deadlock, &[])),
        "busy" => Patient::of(named(Program::LockConvoy, &["3"])),
        "family" => Patient::of(named(Program::SlowPeer, &[])),
        "launcher" => {
            let mut launcher = named(Program::Launcher, &[]);
            launcher.say(&format!("1000000 100000 -1 {} 0", Program::ShortLived.path().display()));
            Patient::restless(launcher)
        }
        _ if require(Privilege::DotNetTargets) => Patient::restless(dotnet_held("net10.0", &[])),
        _ => return None,
    })
}

/// Copies of a target are known by their arguments, and another run of this command may be under way.
fn named(program: Program, arguments: &[&str]) -> TargetProcess {
    let mut command = program.command();
    command.arg0(format!("{}-{}", program.name(), std::process::id())).args(arguments);
    TargetProcess::spawn(command)
}

fn run_verb(options: &Options, verb: Verb, program: &std::path::Path, text: &mut String) -> Option<Row> {
    let mut patient = self::patient(verb.patient)?;
    let mut born = std::time::Instant::now();
    let mut trial = Trial::begin(program, verb, &patient);
    let mut row = Row { calls: trial.counts().values().sum(), kinds: trial.counts().len(), ..Row::default() };
    for call in FAILING_CALLS {
        if !options.calls.is_empty() && !options.calls.iter().any(|name| name == call.name) {
            continue;
        }
        let count = trial.counts().get(&call.number).copied().unwrap_or(0);
        let chosen = |one: &u64| options.occurrence.is_none_or(|only| only == *one);
        for (round, occurrence) in
            occurrences(count, options.all || options.occurrence.is_some(), options.seed)
                .into_iter()
                .filter(chosen)
                .enumerate()
        {
            for (nth, errno) in call.errnos.iter().enumerate() {
                // Each error for the first two, then in turns.
                if !options.all && round >= 2 && nth != round % call.errnos.len() {
                    continue;
                }
                // The sick programs end by themselves after ten minutes.
                if born.elapsed().as_secs() > 420 {
                    patient = self::patient(verb.patient)?;
                    trial = Trial::begin(program, verb, &patient);
                    born = std::time::Instant::now();
                }
                let fault = Fault { number: call.number, occurrence, errno: *errno };
                let Some((problems, _)) = trial.with(fault, &patient) else { continue };
                row.runs += 1;
                for problem in &problems {
                    let what = format!("{}: {} {occurrence} {}", title(&verb), call.name, errno_name(*errno));
                    println!("{what}: {problem:?}");
                    let _ = writeln!(text, "{what}: {problem:?}");
                    *match problem {
                        Problem::Harmed(_) => &mut row.harmed,
                        Problem::SilentLoss(_) => &mut row.silent,
                        Problem::Leftover(_) => &mut row.left,
                        Problem::Hung(_) => &mut row.hung,
                        Problem::Ending(_) => &mut row.ending,
                    } += 1;
                }
                if problems.iter().any(|one| matches!(one, Problem::Harmed(_) | Problem::Leftover(_))) {
                    patient = self::patient(verb.patient)?;
                    trial = Trial::begin(program, verb, &patient);
                    born = std::time::Instant::now();
                }
            }
        }
    }
    Some(row)
}

fn table(rows: &[(String, Row)]) -> String {
    let mut text =
        "| verb | calls | kinds | runs | harmed | silent losses | leftovers | hung | wrong ends |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for (title, row) in rows {
        let Row { calls, kinds, runs, harmed, silent, left, hung, ending } = row;
        let _ = writeln!(
            text,
            "| `{title}` | {calls} | {kinds} | {runs} | {harmed} | {silent} | {left} | {hung} | {ending} |"
        );
    }
    text
}
