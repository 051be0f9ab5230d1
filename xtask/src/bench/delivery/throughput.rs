//! A sealed file over loopback: `biopsy send` to the lab, and `curl -T` to nginx with WebDAV's PUT, in alternating rounds.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::temp_dir;

use super::lab::{LabProcess, Parcel};
use crate::bench::options::Options;
use crate::bench::statistics::{median, paired_ratio};
use crate::bench::table::{Column, Table};
use crate::run::Outcome;

const MEGABYTES: u64 = 1024;
const QUICK_MEGABYTES: u64 = 64;
const ROUNDS: usize = 5;

/// In a folder that is in memory, where the ways are compared and not what each thinks of the disk; and on the disk.
pub(super) fn measure(
    biopsy: &Path,
    lab: &Path,
    options: &Options,
    table: &mut Table,
    column: &mut Column,
) -> Outcome {
    let nginx = Path::new("/usr/sbin/nginx");
    if !nginx.is_file() || Command::new("curl").arg("--version").output().is_err() {
        println!("note: without nginx and curl: no throughput");
        return Ok(());
    }
    let megabytes = if options.quick { QUICK_MEGABYTES } else { MEGABYTES };
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { ROUNDS });
    let in_memory = tempfile_in_memory()?;
    let on_disk = temp_dir("bench-v");
    for (folder, name, row) in
        [(in_memory.path(), "in memory", "V3a"), (on_disk.path(), "on the disk", "V3b")]
    {
        let (ours, theirs) = alternate(biopsy, lab, folder, megabytes, rounds)?;
        let ratio = paired_ratio(&ours, &theirs);
        println!("V throughput {name}: {ours:.0?} MB/s; curl to nginx {theirs:.0?} MB/s; ratio {ratio:.2?}");
        table.judge(row, ratio);
        let (our_name, their_name): (&'static str, &'static str) = match row {
            "V3a" => ("upload, in memory, MB/s", "curl to nginx, in memory, MB/s"),
            _ => ("upload, on the disk, MB/s", "curl to nginx and sync, on the disk, MB/s"),
        };
        column.set(our_name, median(&ours));
        column.set(their_name, median(&theirs));
    }
    Ok(())
}

/// A folder on a file system of memory.
fn tempfile_in_memory() -> Outcome<biopsy_testkit::TempDir> {
    biopsy_testkit::TempDir::with_prefix_in("biopsy-bench-v-", "/dev/shm")
        .map_err(|error| format!("no folder in memory: {error}"))
}

fn alternate(
    biopsy: &Path,
    lab: &Path,
    folder: &Path,
    megabytes: u64,
    rounds: usize,
) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let lab = LabProcess::start(lab, folder, None, "0")?;
    let nginx = Nginx::start(folder)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let link = lab.ask(&format!("case-{round}"))?;
        let parcel = Parcel::of_noise(&link, megabytes, folder.join("sent.age"))?;
        let mut send = parcel.sending(biopsy, &link)?;
        let mut put = Command::new("curl");
        put.args(["-fsS", "--noproxy", "*", "-o", "/dev/null", "-T"]).arg(&parcel.path);
        put.arg(format!("http://127.0.0.1:{}/put/{round}", nginx.port));
        let arrived = nginx.folder.join(format!("put/{round}"));
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = |took: Duration| parcel.state.bytes as f64 / 1e6 / took.as_secs_f64();
        // What the lab acknowledges is on the disk; the same is asked of the other.
        let time_ours = |send: &mut Command| time(send, None).map(rate);
        let time_theirs = |put: &mut Command| time(put, Some(&arrived)).map(rate);
        if round % 2 == 0 {
            ours.push(time_ours(&mut send)?);
            theirs.push(time_theirs(&mut put)?);
        } else {
            theirs.push(time_theirs(&mut put)?);
            ours.push(time_ours(&mut send)?);
        }
        let kept = lab.kept();
        if !kept.iter().any(|file| parcel.is_same(file)) || !parcel.is_same(&arrived) {
            return Err("what arrived is not what was sent".to_owned());
        }
        for file in kept.iter().chain([&arrived, &parcel.path]) {
            let _ = std::fs::remove_file(file);
        }
    }
    Ok((ours, theirs))
}

fn time(command: &mut Command, synced: Option<&PathBuf>) -> Outcome<Duration> {
    let began = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    if let Some(file) = synced {
        let file = std::fs::File::open(file).and_then(|file| file.sync_data());
        file.map_err(|error| format!("nothing arrived: {error}"))?;
    }
    match status.success() {
        true => Ok(began.elapsed()),
        false => Err(format!("a sender ended with {status}")),
    }
}

/// Debian's nginx, with a configuration of its own.
struct Nginx {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Nginx {
    fn start(folder: &Path) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("cannot run nginx: {error}");
        let folder = folder.join("nginx");
        std::fs::create_dir_all(folder.join("put")).map_err(failed)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .map_err(failed)?
            .port();
        let shown = folder.display();
        let user = if Path::new("/root").metadata().is_ok() { "user root;" } else { "" };
        let text = format!(
            "{user} daemon off; worker_processes 1; pid {shown}/pid; error_log {shown}/errors;\n\
             events {{ }}\n\
             http {{ access_log off; client_max_body_size 0; client_body_temp_path {shown}/body; proxy_temp_path {shown}/p; \
             fastcgi_temp_path {shown}/f; uwsgi_temp_path {shown}/u; scgi_temp_path {shown}/s;\n\
             server {{ listen 127.0.0.1:{port}; root {shown}; location /put/ {{ dav_methods PUT; }} }} }}\n"
        );
        let configuration = folder.join("nginx.conf");
        std::fs::write(&configuration, text).map_err(failed)?;
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-c").arg(&configuration).arg("-p").arg(&folder);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let nginx = Self { child, port, folder };
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(nginx);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("nginx does not listen".to_owned())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it only where it is asked to.
        biopsy_testkit::send_signal(self.child.id(), biopsy_testkit::Signal::TERM);
        let _ = self.child.wait();
    }
}
