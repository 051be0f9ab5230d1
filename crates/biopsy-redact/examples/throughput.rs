//! How fast text goes through: `cargo run --release -p biopsy-redact --example throughput [MIB]`.
#![expect(clippy::print_stdout, reason = "an example that measures prints what it measured")]

use std::io;

use biopsy_redact::{Options, Redactor, verify};

/// Lines as servers write them, with nothing secret in them.
const CLEAN: [&str; 10] = [
    r#"10.1.2.3 - - [21/Nov/2026:10:00:00 +0000] "GET /api/orders/4711?page=2&sort=date HTTP/1.1" 200 5123 "https://shop.example.com/orders" "Mozilla/5.0 (X11; Linux x86_64)""#,
    "2026-11-21 10:00:00.123 UTC [4711] app@shop LOG:  duration: 12.345 ms  statement: SELECT id, name FROM orders WHERE customer = $1 ORDER BY id LIMIT 50",
    "info: Microsoft.AspNetCore.Hosting.Diagnostics[2] Request finished HTTP/1.1 GET http://localhost:5000/api/orders - 200 - application/json;+charset=utf-8 12.4ms",
    "   at Shop.Orders.OrderService.LoadAsync(Int32 id, CancellationToken cancellationToken) in /src/Shop/Orders/OrderService.cs:line 142",
    "10:00:00   Verbose  |       Acquiring isolation mutex RunningScript with NoIsolation in ServerTasks-4711",
    "Nov 21 10:00:00 web-1 systemd[1]: Started session-4711.scope - Session 4711 of User app.",
    "Nov 21 10:00:00 web-1 sshd[4711]: Accepted publickey for app from 10.1.2.3 port 51234 ssh2: RSA SHA256:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ",
    r#"{"@t":"2026-11-21T10:00:00.1234567Z","@mt":"Handled {Path} in {Elapsed} ms","Path":"/api/orders","Elapsed":12.4,"RequestId":"0HN7L2K4","SpanId":"9f86d081884c7d65"}"#,
    "2026-11-21T10:00:00Z INFO build 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b deployed as 3f2504e0-4f89-41d3-9a0c-0305e82c3301 in 42 s",
    "System.Data.SqlClient, Version=4.6.1.3, Culture=neutral, PublicKeyToken=b03f5f7f11d50a3a",
];

/// Lines with a secret each.
const SECRET: [&str; 4] = [
    "Connecting with Server=db1;Database=shop;User Id=app;Password=hunter2;Encrypt=true",
    r#"10.1.2.3 - - [21/Nov/2026:10:00:00 +0000] "GET /login?user=bob&password=hun%20ter HTTP/1.1" 302 0 "-" "curl/8""#,
    "Cookie: sid=abc123def456; theme=dark",
    "authorization: Bearer 0123456789abcdef.ghijkl",
];

fn text(size: usize, secret_every: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 256);
    let mut line = 0;
    while text.len() < size {
        let source = if secret_every > 0 && line % secret_every == 0 {
            SECRET[line / secret_every % SECRET.len()]
        } else {
            CLEAN[line % CLEAN.len()]
        };
        text.extend_from_slice(source.as_bytes());
        text.push(b'\n');
        line += 1;
    }
    text
}

/// What a hostile log may hold to slow us down.
const HOSTILE: [&str; 16] = [
    "password=",
    "password=\"",
    "password:[",
    "password:{",
    "<password>",
    "name=\"password\" ",
    "--password ",
    "\"password\":\n",
    "://a:",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "authorization: ",
    "cookie: a=",
    "mysql ",
    "[redacted:jwt:0123abcd]",
    "eyJeyJ.",
];

/// Seconds of CPU this thread has used: on a busy machine the clock on the wall says little.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: u64 = stat.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    nanos as f64 / 1e9
}

/// MB per second of CPU.
fn rate(bytes: usize, run: impl FnOnce()) -> f64 {
    let start = cpu_seconds();
    run();
    bytes as f64 / 1e6 / (cpu_seconds() - start)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(64), |arg| arg.parse())?;
    let start = cpu_seconds();
    let redactor = Redactor::new(Options::default())?;
    println!(
        "compile the rules: {:.1} ms; MB/s are per second of CPU, one core",
        (cpu_seconds() - start) * 1e3
    );
    for (name, secret_every) in
        [("no secrets", 0), ("1 secret in 1000 lines", 1000), ("1 in 100", 100), ("1 in 10", 10)]
    {
        let text = text(mib << 20, secret_every);
        let mut hits = 0;
        let stream = rate(text.len(), || {
            if let Ok(summary) = redactor.stream(&text[..], io::sink()) {
                hits = summary.hits.iter().map(|hit| hit.count).sum();
            }
        });
        let lines = rate(text.len(), || {
            for line in String::from_utf8_lossy(&text).lines() {
                std::hint::black_box(redactor.text(line));
            }
        });
        println!("{name:24} stream {stream:7.1} MB/s   line by line {lines:7.1} MB/s   masked {hits}");
    }
    for secret in ["hunter2-propagated", "an0ther/s3cret"] {
        redactor.learn(secret, "example");
    }
    let text = text(mib << 20, 0);
    println!("learned values: {}", redactor.generation());
    println!(
        "{:24} stream {:7.1} MB/s",
        "with learned values",
        rate(text.len(), || {
            let _ = redactor.stream(&text[..], io::sink());
        })
    );
    for piece in HOSTILE {
        let text = piece.repeat((4 << 20) / piece.len());
        let speed = rate(text.len(), || {
            let _ = redactor.stream(text.as_bytes(), io::sink());
        });
        println!("hostile {piece:32?} {speed:7.1} MB/s");
    }
    let fingerprints = redactor.fingerprints();
    let mut findings = 0;
    let speed =
        rate(text.len(), || findings = verify::verify([("x".to_owned(), &text[..])], &fingerprints).len());
    println!("{:24} {speed:14.1} MB/s   findings {findings}", "verification");
    Ok(())
}
