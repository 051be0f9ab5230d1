//! What may be typed, and what is done then.

mod login;
mod query;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use biopsy_deliver::state::write_whole;
use biopsy_deliver::{Kind, Recipe};
use biopsy_lab::notices::{self, Form, Hook, Mailer, Ways};
use biopsy_lab::people::{self, Role, Roles};
use biopsy_lab::requests::{self, NewRequest};
use biopsy_lab::serve::{self, Serving, serve};
use biopsy_lab::web::Program;
use biopsy_lab::{Elsewhere, Lab, LabError, audit, cases, delete, open, readers};
use biopsy_seal::Recipient;
use biopsy_terminal::out;
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
    /// A database of PostgreSQL, instead of a file in the folder: `postgres://USER@HOST/NAME`.
    #[arg(long, global = true, value_name = "URL", env = "BIOPSY_LAB_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// A storage that speaks S3, instead of the folder: `s3://BUCKET/PREFIX`, with `AWS_ENDPOINT`, `AWS_ACCESS_KEY_ID` and so on in the environment.
    #[arg(long, global = true, value_name = "URL", env = "BIOPSY_LAB_STORAGE")]
    storage: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take in what customers send, analyse it, tell others.
    Serve(Box<ServeArgs>),
    /// Only analyse what arrives: another process for the same database and storage.
    Work {
        /// Analyses at once.
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        workers: usize,
    },
    /// Ask a customer for evidence.
    #[command(subcommand)]
    Request(RequestCommand),
    /// Look at cases, and delete them.
    #[command(subcommand)]
    Case(CaseCommand),
    /// Who may log in to the pages.
    #[command(subcommand)]
    Person(PersonCommand),
    /// Tokens, with which programs use the lab (`/lab/v1/openapi.json`).
    #[command(subcommand)]
    Token(TokenCommand),
    /// Whom new cases are sealed to: keys of your own that the lab does not have, so that it can read and analyse nothing.
    #[command(subcommand)]
    Readers(ReadersCommand),
    /// Ask over all cases, in SQL: `SHOW TABLES`, `DESCRIBE findings`, `SELECT ...`. It only reads, and only these tables.
    Query(query::QueryArgs),
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
    /// Tell it in a sentence, as Slack, Mattermost and their like take it.
    #[arg(long, requires = "webhook")]
    webhook_chat: bool,
    /// Send mail by this server: `smtps://HOST`, or `smtp://HOST:587?tls=required`.
    #[arg(long, value_name = "URL", requires = "mail_from")]
    mail: Option<String>,
    /// From this address.
    #[arg(long, value_name = "ADDRESS", requires = "mail")]
    mail_from: Option<String>,
    /// Tell these people what happens. Customers are told where they asked for it.
    #[arg(long, value_name = "ADDRESS", requires = "mail")]
    mail_to: Vec<String>,
    /// Log in to the mail server as this, with the password that is in `--mail-password-file`.
    #[arg(long, value_name = "NAME", requires_all = ["mail", "mail_password_file"])]
    mail_user: Option<String>,
    /// A file with the password of the mail server.
    #[arg(long, value_name = "FILE", requires = "mail_user")]
    mail_password_file: Option<PathBuf>,
    /// Give this program to customers who have no biopsy, at `/biopsy`, with its digest and the signature beside it (`FILE.sig`).
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    login: login::LoginArgs,
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
pub(crate) enum TokenCommand {
    /// Tokens, what each may do, until when.
    List,
    /// Make a token: prints it, once.
    New {
        /// What it is for; the log says `token:NAME`.
        name: String,
        /// What it may do: `intake`, `analyst`, `lead`, `auditor`. Can be given several times.
        #[arg(long = "role", value_name = "ROLE", required = true)]
        roles: Vec<Role>,
        /// For how many days it is good.
        #[arg(long, value_name = "DAYS", default_value_t = 90)]
        days: u32,
    },
    /// End a token, at once.
    Revoke {
        /// The name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReadersCommand {
    /// The keys that new cases are sealed to.
    List,
    /// Seal new cases to these keys, and to no others. Cases that are there stay as they are.
    Set {
        /// Public keys of age (`age1...`): `age-keygen -o KEYFILE` prints one.
        #[arg(value_name = "KEY", required = true)]
        readers: Vec<Recipient>,
    },
    /// Seal new cases to keys that the lab has, so that it reads and analyses them.
    Clear,
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
    /// Read what was sent with `biopsy`, where it is: nothing is decrypted to a disk.
    Open {
        /// The case.
        case: String,
        /// A verb of `biopsy` and its arguments, such as `analyze --html out.html` or `heap --holders TYPE`. [default: analyze]
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "VERB")]
        words: Vec<OsString>,
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
    let elsewhere = Elsewhere { database: cli.database, storage: cli.storage };
    let lab = Lab::open_with(&cli.data, cli.keys.as_deref(), &elsewhere).await?;
    match cli.command {
        Command::Serve(args) => serve_until_asked(lab, *args).await,
        Command::Work { workers } => {
            serve::begin_work(&lab, workers.clamp(1, 64));
            until_asked().await
        }
        Command::Request(RequestCommand::New(args)) => new_request(&lab, &args).await,
        Command::Request(RequestCommand::Revoke { id }) => requests::revoke(&lab, &id, &operator()).await,
        Command::Case(CaseCommand::List) => list(&lab).await,
        Command::Case(CaseCommand::Show { case, html, json }) => show(&lab, &case, html, json).await,
        Command::Case(CaseCommand::Open { case, words }) => {
            let status = open::with(&lab, &biopsy(), &case, &words, &operator()).await?;
            if status.success() {
                Ok(())
            } else {
                Err(LabError::Usage(format!("`biopsy` ended with {status}")))
            }
        }
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
        Command::Token(TokenCommand::List) => list_tokens(&lab).await,
        Command::Token(TokenCommand::New { name, roles, days }) => {
            let seconds = i64::from(days) * 24 * 3600;
            let token = people::token::make(&lab, &name, &Roles(roles), seconds, &operator()).await?;
            print(&format!("{token}\n"))
        }
        Command::Token(TokenCommand::Revoke { name }) => {
            people::token::revoke(&lab, &name, &operator()).await
        }
        Command::Readers(ReadersCommand::List) => {
            let keys = readers::readers_of_new(&lab).await?;
            print(&keys.iter().map(|key| format!("{key}\n")).collect::<String>())
        }
        Command::Readers(ReadersCommand::Set { readers }) => readers::set(&lab, &readers, &operator()).await,
        Command::Readers(ReadersCommand::Clear) => readers::set(&lab, &[], &operator()).await,
        Command::Query(args) => query::run(&lab, &args, &operator()).await,
        Command::Log => match audit::check(&lab.store).await? {
            Ok(lines) => print(&format!("{lines} lines, each as it was written\n")),
            Err(line) => Err(LabError::Usage(format!("line {line} of the log is not as it was written"))),
        },
        Command::Worker { .. } => Ok(()),
    }
}

async fn serve_until_asked(lab: Lab, args: ServeArgs) -> Result<(), LabError> {
    let form = if args.webhook_chat { Form::Chat } else { Form::Standard };
    let hook = args.webhook.map(|url| Hook { url, is_private_allowed: args.webhook_private, form });
    let mailer = match (&args.mail, &args.mail_from) {
        (Some(url), Some(from)) => {
            let login = args.mail_user.zip(args.mail_password_file).map(|(name, file)| {
                let password = std::fs::read_to_string(&file).map_err(LabError::io("read", &file))?;
                Ok::<_, LabError>((name, password.trim_end().to_owned().into()))
            });
            Some(Mailer::new(url, from, login.transpose()?)?)
        }
        _ => None,
    };
    notices::mail::tell(&lab, &args.mail_to).await?;
    if hook.as_ref().is_some_and(|hook| hook.form == Form::Standard) {
        out::say(format!("notices are signed with {}", notices::shown_secret(&lab.webhook_secret()?)));
    }
    let ways = Ways { hook, mailer };
    let program = args.program.as_deref().map(Program::read).transpose()?;
    let serving = Serving {
        program,
        provider: args.login.provider()?.map(Arc::new),
        listen: args.listen,
        ways: Some(ways),
        workers: args.workers.min(64),
        silence: serve::SILENCE,
        connections: serve::CONNECTIONS,
    };
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
        let _ = out::text(&text, false);
    };
    tokio::select! {
        served = serve(lab, &serving, ready) => served,
        ended = until_asked() => ended,
    }
}

/// Until somebody wants this process to end.
async fn until_asked() -> Result<(), LabError> {
    let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(LabError::io("listen to", "signals"))?;
    tokio::select! {
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
    let what = requests::command(args.recipe, &text);
    let mut said = zeroize::Zeroizing::new(format!("{}\n\nthe customer runs:\n  {what}\n", *text));
    if args.recipe == Kind::File {
        let keys = cases::find(lab, &args.case).await?.sealed_to()?;
        let readers: Vec<String> = keys.iter().map(|key| format!("-r {key}")).collect();
        let readers = readers.join(" ");
        let (place, secret) = (format!("{}/api/requests/{}/file", link.lab, link.id), link.secret.to_text());
        said.push_str(&format!(
            "or, without biopsy:\n  age {readers} -o FILE.age FILE && curl -fT FILE.age -H 'authorization: Bearer {}' '{place}'\n",
            *secret
        ));
    }
    print(&said)
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

async fn list_tokens(lab: &Lab) -> Result<(), LabError> {
    let time =
        |seconds| jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default();
    let mut text = String::new();
    for token in people::token::all(lab).await? {
        let used = token.used.map_or("never used".to_owned(), |used| format!("used {}", time(used)));
        text.push_str(&format!(
            "{:<24} {:<24} until {}  {used}\n",
            token.name,
            token.roles,
            time(token.expires)
        ));
    }
    print(&text)
}

async fn list_people(lab: &Lab) -> Result<(), LabError> {
    let mut text = String::new();
    for person in people::all(lab).await? {
        let state = match (person.is_vouched_for, person.has_accepted) {
            (true, _) => "  (by the provider)",
            (false, true) => "",
            (false, false) => "  (invited)",
        };
        text.push_str(&format!("{:<24} {}{state}\n", person.name, person.roles));
    }
    print(&text)
}

/// The program that reads recordings: beside this one first, since what is in the path may be another's.
fn biopsy() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("biopsy"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("biopsy"))
}

/// Who types, for the log.
fn operator() -> String {
    format!("operator (uid {})", rustix::process::getuid().as_raw())
}

fn print(text: &str) -> Result<(), LabError> {
    match out::text(text, false) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(LabError::Io { what: "write", path: PathBuf::from("standard output"), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of a command's own arguments must not be those of all commands: only parsing finds that out.
    #[test]
    fn each_command_can_be_typed() {
        let key = biopsy_seal::Identity::generate().recipient().to_string();
        let login = "--address https://lab --oidc-issuer https://p --oidc-client c --oidc-role a=b=lead --oidc-role c=auditor";
        for line in [
            "serve --webhook https://x --webhook-private --program p --workers 0",
            &format!("serve {login} --oidc-secret-file s --oidc-claim a.b --oidc-scope g --oidc-name n"),
            "work --workers 2",
            "request new --case 1 --recipe slow --for 3m --target t --address https://lab",
            "request revoke x",
            "case list",
            "case show 1 --json",
            "case open 1 heap --holders T",
            "case delete 1 --reason r -o c.json",
            "person list",
            "person invite a --role lead --role auditor --address https://lab",
            "person remove a",
            "token list",
            "token new a --role analyst --days 3",
            "token revoke a",
            "readers list",
            &format!("readers set {key} {key}"),
            "readers clear",
            "log",
        ] {
            let words = ["biopsy-lab", "--data", "d", "--keys", "k"].into_iter().chain(line.split(' '));
            let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(cli.keys.as_deref(), Some(std::path::Path::new("k")), "{line}");
        }
        for line in
            ["serve --oidc-issuer https://p", "serve --oidc-role x", "readers set", "readers set age1x"]
        {
            assert!(
                Cli::try_parse_from(["biopsy-lab"].into_iter().chain(line.split(' '))).is_err(),
                "{line}"
            );
        }
    }
}
