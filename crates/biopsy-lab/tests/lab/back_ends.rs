//! The same tests on PostgreSQL and a storage that speaks S3: this program starts both, and itself once more.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use biopsy_lab::Elsewhere;
use biopsy_testkit::require_that;

/// Where the server of databases is, and the storage, for a run on them.
const DATABASES: &str = "BIOPSY_TEST_DATABASES";
const STORAGE: &str = "BIOPSY_TEST_STORAGE";

/// Database and storage of the lab in this folder: its own, where there are servers.
pub(crate) fn of(folder: &Path) -> Elsewhere {
    let (Ok(databases), Ok(storage)) = (std::env::var(DATABASES), std::env::var(STORAGE)) else {
        return Elsewhere::default();
    };
    // A lab that is started again in its folder finds what it had.
    let kept = folder.join("database");
    let name = fs::read_to_string(&kept).unwrap_or_else(|_| {
        let name = format!("lab_{}", biopsy_deliver::state::hexadecimal(&biopsy_deliver::random::<8>()));
        psql(&databases, &format!("CREATE DATABASE {name}"));
        fs::write(&kept, &name).unwrap();
        name
    });
    Elsewhere { database: Some(format!("{databases}/{name}")), storage: Some(format!("{storage}/{name}")) }
}

/// A copy of the database of the lab in this folder, where it is not in the folder.
pub(crate) fn back_up(lab: &Path) -> Elsewhere {
    let Elsewhere { database: Some(url), storage } = of(lab.parent().unwrap()) else {
        return Elsewhere::default();
    };
    let copy = format!("{url}_copy");
    let (databases, name) = copy.rsplit_once('/').unwrap();
    psql(databases, &format!("CREATE DATABASE {name}"));
    let dumped = Command::new("pg_dump").arg(&url).output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let file = lab.with_extension("sql");
    fs::write(&file, dumped.stdout).unwrap();
    let read = Command::new("psql").args(["-qX", "-f"]).arg(&file).arg(&copy).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    Elsewhere { database: Some(copy), storage }
}

fn psql(databases: &str, statement: &str) {
    let done = Command::new("psql")
        .args(["-qX", "-c", statement, &format!("{databases}/postgres")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_for(port: u16) {
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nothing listens at port {port}");
}

/// The folder of PostgreSQL's programs, as Debian installs them.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").is_file())
}

/// PostgreSQL does not run as root.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command.env("LC_ALL", "C.UTF-8");
    command
}

fn start_postgres(bin: &Path, folder: &Path) -> (Server, String) {
    let port = free_port();
    let made =
        Command::new("install").args(["-d", "-o", "postgres", "-m", "700"]).arg(folder).status().unwrap();
    assert!(made.success());
    let mut init = as_postgres(&bin.join("initdb"));
    init.args(["--auth=trust", "--encoding=UTF8", "--no-sync", "-U", "lab", "-D"]).arg(folder);
    let done = init.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut server = as_postgres(&bin.join("postgres"));
    server.arg("-D").arg(folder).args([
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        &format!("port={port}"),
        "-k",
        "",
    ]);
    server.args(["-c", "fsync=off", "-c", "max_connections=300"]).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server(server.spawn().unwrap());
    wait_for(port);
    (server, format!("postgres://lab@127.0.0.1:{port}"))
}

/// `moto_server` of Python's `moto`, in the path or where `MOTO_SERVER` says.
fn moto() -> Option<PathBuf> {
    let named = std::env::var_os("MOTO_SERVER").map(PathBuf::from);
    named.or_else(|| {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join("moto_server"))
            .find(|one| one.is_file())
    })
}

fn start_moto(program: &Path) -> (Server, u16) {
    let port = free_port();
    let mut server = Command::new(program);
    server.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server(server.spawn().unwrap());
    wait_for(port);
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    agent.put(format!("http://127.0.0.1:{port}/labs")).send_empty().unwrap();
    (server, port)
}

#[test]
fn all_of_it_holds_on_postgresql_and_s3_too() {
    if std::env::var_os(DATABASES).is_some() {
        return;
    }
    let (bin, moto) = (postgres_programs(), moto());
    if !require_that(
        bin.is_some() && moto.is_some(),
        "needs PostgreSQL, and `moto_server` of Python's `moto`",
    ) {
        return;
    }
    let (bin, moto) = (bin.unwrap(), moto.unwrap());
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (_database, databases) = start_postgres(&bin, &folder.path().join("postgres"));
    let (_storage, port) = start_moto(&moto);
    // A browser's script and the worker know of neither.
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--test-threads=2", "--skip", "browser::", "--skip", "worker::", "--skip", "back_ends::"])
        .env(DATABASES, databases)
        .env(STORAGE, "s3://labs")
        .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
}
