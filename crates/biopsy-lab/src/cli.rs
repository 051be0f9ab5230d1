//! What may be typed, and what is done then.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use biopsy_deliver::state::write_whole;
use biopsy_deliver::{Kind, Recipe};
use biopsy_lab::notices::{self, Hook};
use biopsy_lab::people::{self, Role, Roles};
use biopsy_lab::requests::{self, NewRequest};
use biopsy_lab::serve::{Serving, serve};
use biopsy_lab::{Lab, LabError, audit, cases, delete, out};
use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;

/// The vendor's side: asks for evidence, takes it in sealed, analyses it, and deletes it with a certificate.
#[derive(Debug, Parser)]
#[command(name = "biopsy-lab", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// The folder of the lab: database and sealed files. It is made where there is none.
    #[arg(long, global = true, value_name = "FOLDER", default_value = "./lab")]
    data: PathBuf,
    /// The folder of its keys. Never put it into the same back-up as the lab. [default: FOLDER.keys]
    #[arg(long, global = true, value_name = "FOLDER")]
    keys: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take in what customers send, analyse it, tell others.
    Serve(ServeArgs),
    /// Ask a customer for evidence.
    #[command(subcommand)]
    Request(RequestCommand),
    /// Look at cases, and delete them.
    #[command(subcommand)]
    Case(CaseCommand),
    /// Who may log in to the pages.
    #[command(subcommand)]
    Person(PersonCommand),
    /// Go through the lab's log: nothing in it was changed.
    Log,
    /// The process that reads what was sent.
    #[command(hide = true)]
    Worker { file: PathBuf },
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen. Behind a proxy that speaks https, unless it is this machine alone.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7788")]
    listen: SocketAddr,
    /// Tell this address what happens (Standard Webhooks).
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// It may be on this machine or in a private network, and speak plain http.
    #[arg(long, requires = "webhook")]
    webhook_private: bool,
    /// Analyses at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    workers: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RequestCommand {
    /// Make a request: prints a link, and the command line for the customer.
    New(NewArgs),
    /// End a request: its link is worth nothing any more.
    Revoke {
        /// The request, as it is in its link behind `/r/`.
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The case it is for.
    #[arg(long, value_name = "NAME")]
    case: String,
    /// What is asked for: `slow` or `hang` (recorded now), `file` or `report` (of a file that is there).
    #[arg(long, value_name = "RECIPE", default_value = "slow")]
    recipe: Kind,
    /// How long to record: `60s`, `3m`.
    #[arg(long = "for", value_name = "DURATION")]
    length: Option<SignedDuration>,
    /// The process, as `biopsy capture` takes it; the customer may name another.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Who asks, in words for the customer.
    #[arg(long, value_name = "NAME", default_value = "biopsy lab")]
    name: String,
    /// The address of the lab, as the customer reaches it.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7788")]
    address: String,
    /// How long the link may be used.
    #[arg(long, value_name = "DURATION", default_value = "72h")]
    valid: SignedDuration,
    /// Most megabytes that are taken.
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    max_size: u64,
    /// For how many days it is kept at most.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    keep_days: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PersonCommand {
    /// Who may log in, and what each may do.
    List,
    /// Invite somebody, or somebody again for new roles, a new password and phone: prints a link that is good once.
    Invite {
        /// The name that is typed at login.
        name: String,
        /// What the person may do: `intake`, `analyst`, `lead`, `auditor`, `administrator`. Can be given several times.
        #[arg(long = "role", value_name = "ROLE", required = true)]
        roles: Vec<Role>,
        /// The address of the lab, as people reach it.
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7788")]
        address: String,
    },
    /// Take all rights away, at once.
    Remove {
        /// The name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaseCommand {
    /// All cases.
    List,
    /// What is known of a case, and its report.
    Show {
        /// The case.
        case: String,
        /// Write the page to this file, instead of printing the report.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Print the report as JSON.
        #[arg(long, conflicts_with = "html")]
        json: bool,
    },
    /// Delete a case, so that no back-up holds it either; writes the certificate.
    Delete {
        /// The case.
        case: String,
        /// Why, for the certificate.
        #[arg(long, value_name = "TEXT", default_value = "it has served")]
        reason: String,
        /// Where the certificate goes. [default: certificate-CASE.json here]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

pub(crate) async fn run(cli: Cli) -> Result<(), LabError> {
    let lab = Lab::open(&cli.data, cli.keys.as_deref()).await?;
    match cli.command {
        Command::Serve(args) => serve_until_asked(lab, args).await,
        Command::Request(RequestCommand::New(args)) => new_request(&lab, &args).await,
        Command::Request(RequestCommand::Revoke { id }) => requests::revoke(&lab, &id, &operator()).await,
        Command::Case(CaseCommand::List) => list(&lab).await,
        Command::Case(CaseCommand::Show { case, html, json }) => show(&lab, &case, html, json).await,
        Command::Case(CaseCommand::Delete { case, reason, output }) => {
            let certificate = delete::case(&lab, &case, &operator(), &reason).await?;
            let output = output.unwrap_or_else(|| PathBuf::from(format!("certificate-{case}.json")));
            write_whole(&output, certificate.as_bytes()).map_err(LabError::io("write", &output))?;
            let shown = output.display();
            print(&format!(
                "case {case} is deleted: no copy of the lab can be read, back-ups included\ncertificate: {shown}\ncheck it: biopsy \
                 verify-deletion {shown} --signer {}\n",
                lab.signer.key().fingerprint()
            ))
        }
        Command::Person(PersonCommand::List) => list_people(&lab).await,
        Command::Person(PersonCommand::Invite { name, roles, address }) => {
            let word = people::invite::invite(&lab, &name, &Roles(roles), &operator()).await?;
            print(&format!("{}/welcome/{word}\n", address.trim_end_matches('/')))
        }
        Command::Person(PersonCommand::Remove { name }) => people::remove(&lab, &name, &operator()).await,
        Command::Log => match audit::check(&lab.store).await? {
            Ok(lines) => print(&format!("{lines} lines, each as it was written\n")),
            Err(line) => Err(LabError::Usage(format!("line {line} of the log is not as it was written"))),
        },
        Command::Worker { .. } => Ok(()),
    }
}

async fn serve_until_asked(lab: Lab, args: ServeArgs) -> Result<(), LabError> {
    let hook = args.webhook.map(|url| Hook { url, is_private_allowed: args.webhook_private });
    if hook.is_some() {
        out::say(&format!("notices are signed with {}", notices::shown_secret(&lab.webhook_secret()?)));
    }
    let serving = Serving { listen: args.listen, hook, workers: args.workers.clamp(1, 64) };
    // Somebody has to be the first.
    let first = match people::all(&lab).await?.iter().any(|person| person.has_accepted) {
        true => None,
        false => {
            let roles = Roles(vec![Role::Administrator, Role::Lead, Role::Auditor]);
            Some(people::invite::invite(&lab, "admin", &roles, &operator()).await?)
        }
    };
    let ready = |address: SocketAddr| {
        let mut text = format!("listening at http://{address}\n");
        if let Some(word) = &first {
            text.push_str(&format!("for you, the first to log in: http://{address}/welcome/{word}\n"));
        }
        let _ = out::print(&text);
    };
    let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(LabError::io("listen to", "signals"))?;
    tokio::select! {
        served = serve(lab, &serving, ready) => served,
        _ = end.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn new_request(lab: &Lab, args: &NewArgs) -> Result<(), LabError> {
    let seconds =
        |duration: SignedDuration| u64::try_from(duration.as_secs()).ok().filter(|&seconds| seconds > 0);
    let length = args.length.map(|length| {
        seconds(length).ok_or_else(|| LabError::Usage("a recording takes a second or more".to_owned()))
    });
    let new = NewRequest {
        case: args.case.clone(),
        lab_name: args.name.clone(),
        address: args.address.clone(),
        recipe: Recipe { kind: args.recipe, seconds: length.transpose()?, target: args.target.clone() },
        valid_seconds: args.valid.as_secs(),
        max_bytes: args.max_size.saturating_mul(1 << 20),
        kept_days: args.keep_days,
    };
    let link = requests::create(lab, &new, &operator()).await?;
    let text = link.to_text();
    let what = if args.recipe.is_captured() {
        format!("biopsy send --request '{}'", *text)
    } else {
        format!("biopsy send FILE --to '{}'", *text)
    };
    print(&format!("{}\n\nthe customer runs:\n  {what}\n", *text))
}

async fn list(lab: &Lab) -> Result<(), LabError> {
    let mut text = String::new();
    for case in cases::all(lab).await? {
        let created =
            jiff::Timestamp::from_second(case.created).map(|time| time.to_string()).unwrap_or_default();
        text.push_str(&format!("{:<24} {:<10} {created}\n", case.id, case.state));
    }
    print(&text)
}

async fn show(lab: &Lab, id: &str, html: Option<PathBuf>, json: bool) -> Result<(), LabError> {
    if let Some(path) = html {
        let page = cases::report(lab, id, "report.html", &operator()).await?;
        return write_whole(&path, &page).map_err(LabError::io("write", &path));
    }
    let kind = if json { "report.json" } else { "report.md" };
    let text = cases::report(lab, id, kind, &operator()).await?;
    print(&String::from_utf8_lossy(&text))
}

async fn list_people(lab: &Lab) -> Result<(), LabError> {
    let mut text = String::new();
    for person in people::all(lab).await? {
        let state = if person.has_accepted { "" } else { "  (invited)" };
        text.push_str(&format!("{:<24} {}{state}\n", person.name, person.roles));
    }
    print(&text)
}

/// Who types, for the log.
fn operator() -> String {
    format!("operator (uid {})", rustix::process::getuid().as_raw())
}

fn print(text: &str) -> Result<(), LabError> {
    match out::print(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(LabError::Io { what: "write", path: PathBuf::from("standard output"), source: error })
        }
        _ => Ok(()),
    }
}
