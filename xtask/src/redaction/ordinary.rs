//! Logs as programs write them all day: made-up lines in the forms of six of them, for measuring speed where nothing is to be masked.

use std::fmt::Write as _;

use super::random::Random;

/// Lines in a row of one program.
const TURN: usize = 200;
const PAGES: [&str; 6] = ["cart", "item", "search", "checkout", "static/app", "api/v2/orders"];
const PACKAGES: [&str; 6] = ["libc6", "openssl", "libgnutls30", "tzdata", "curl", "python3.11-minimal"];
const STATES: [&str; 4] = ["half-configured", "unpacked", "installed", "triggers-pending"];
const UNITS: [&str; 5] = ["sshd", "cron", "systemd", "shop-worker", "kernel"];
const CLASSES: [&str; 4] = [
    "Microsoft.AspNetCore.Hosting.Diagnostics[2]",
    "Shop.Orders.Queue[14]",
    "Shop.Stock.Sync[0]",
    "Grpc.Net[7]",
];

/// At least so many bytes of such logs.
pub(super) fn logs(seed: u64, bytes: usize) -> String {
    let mut random = Random::named(seed, &["ordinary logs"]);
    let mut text = String::with_capacity(bytes + (64 << 10));
    let mut second = 0;
    while text.len() < bytes {
        for line in [access, statement, package, journal, console, collection] {
            for _ in 0..TURN {
                second += random.below(2);
                let time = format!("{:02}:{:02}:{:02}", second / 3600 % 24, second / 60 % 60, second % 60);
                line(&mut random, &time, &mut text);
            }
        }
    }
    text
}

/// nginx.
fn access(random: &mut Random, time: &str, text: &mut String) {
    let (page, size, version) = (random.pick(&PAGES), random.below(90_000), 90 + random.below(60));
    let (client, item) = (random.below(250), random.below(100_000));
    let _ = writeln!(
        text,
        "10.3.{}.{client} - - [29/Nov/2026:{time} +0000] \"GET /{page}/{item}?page={}&sort=price HTTP/1.1\" 200 {size} \
         \"https://shop.example.com/list?cat={}\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/{version}.0.0.0 Safari/537.36\"",
        random.below(4),
        random.below(40),
        random.below(90),
    );
}

/// PostgreSQL.
fn statement(random: &mut Random, time: &str, text: &mut String) {
    let (pid, milli, account) = (400 + random.below(30), random.below(1000), random.below(100_000));
    let _ = writeln!(
        text,
        "2026-11-29 {time}.{milli:03} UTC [{pid}] shop@orders LOG:  statement: UPDATE accounts SET balance = balance + {} WHERE \
         id = {account};\n2026-11-29 {time}.{milli:03} UTC [{pid}] shop@orders LOG:  duration: 0.{:03} ms",
        random.below(5000),
        random.below(1000),
    );
}

/// dpkg.
fn package(random: &mut Random, time: &str, text: &mut String) {
    let (name, patch) = (random.pick(&PACKAGES), random.below(20));
    let _ = match random.below(3) {
        0 => writeln!(text, "2026-11-29 {time} configure {name}:amd64 2.36-9+deb12u{patch} <none>"),
        _ => writeln!(
            text,
            "2026-11-29 {time} status {} {name}:amd64 2.36-9+deb12u{patch}",
            random.pick(&STATES)
        ),
    };
}

/// The journal of systemd, as `journalctl` prints it.
fn journal(random: &mut Random, time: &str, text: &mut String) {
    let (unit, pid) = (random.pick(&UNITS), 300 + random.below(30_000));
    let _ = match random.below(3) {
        0 => writeln!(
            text,
            "Nov 29 {time} web1 {unit}[{pid}]: Started session-{}.scope - Session of user ann.",
            pid % 97
        ),
        1 => writeln!(
            text,
            "Nov 29 {time} web1 {unit}[{pid}]: Connection closed by 10.3.0.{} port {pid}",
            pid % 250
        ),
        _ => {
            writeln!(
                text,
                "Nov 29 {time} web1 {unit}[{pid}]: worker {} done in {} ms",
                pid % 8,
                random.below(900)
            )
        }
    };
}

/// ASP.NET Core's console.
fn console(random: &mut Random, time: &str, text: &mut String) {
    let (class, page) = (random.pick(&CLASSES), random.pick(&PAGES));
    let _ = writeln!(
        text,
        "{time} info: {class}\n      Request finished HTTP/1.1 GET http://localhost:5000/{page}/{} - 200 {} application/json \
         {}.{:04}ms",
        random.below(10_000),
        random.below(9000),
        random.below(90),
        random.below(10_000),
    );
}

/// Java's collector.
fn collection(random: &mut Random, time: &str, text: &mut String) {
    let (number, before) = (random.below(100_000), 20 + random.below(900));
    let _ = writeln!(
        text,
        "[2026-11-29T{time}.{:03}+0000][info][gc,heap] GC({number}) Eden regions: {}->0({})\n\
         [2026-11-29T{time}.{:03}+0000][info][gc] GC({number}) Pause Young (Normal) (G1 Evacuation Pause) {before}M->{}M({}M) {}.{:03}ms",
        random.below(1000),
        random.below(60),
        random.below(60),
        random.below(1000),
        before / 2,
        before * 2,
        random.below(20),
        random.below(1000),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_writes_and_nothing_of_it_is_masked() {
        let text = logs(1, 400_000);
        for sign in
            ["Mozilla/5.0", "shop@orders", "<none>", "Session of user", "Request finished", "Pause Young"]
        {
            assert!(text.contains(sign), "{sign}");
        }
        let redactor =
            biopsy_redact::Redactor::new(biopsy_redact::Options::default()).expect("the built-in packs");
        let changed: Vec<_> =
            text.lines().filter(|line| redactor.text(line).text != **line).take(5).collect();
        assert!(changed.is_empty(), "{changed:#?}");
    }
}
