//! What reports say over all cases: it can be asked, and goes with its case, from back-ups too.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use biopsy_cases::{About, Rows};
use biopsy_deliver::certificate::{Certificate, verify};
use biopsy_lab::derived::segments::{Made, files, sweep};
use biopsy_lab::derived::{ask, compact};
use biopsy_lab::store::Store;
use biopsy_lab::{LabError, audit, delete};
use serde_json::Value;

use crate::back_ends;
use crate::support::{Running, send};

fn report(signature: &str) -> String {
    format!(
        r#"{{"dumps": [{{"signature": {{"text": "{signature}", "version": 1}}}}],
            "findings": [{{"id": "crash", "severity": "critical", "title": "it died in {signature}"}}],
            "functions": [{{"name": "{signature}"}}], "metrics": {{"summary": [{{"table": "host", "column": "cpu"}}]}}}}"#
    )
}

/// As it is done when a report is made: one segment of these reports (upload, case, signature).
fn note(running: &Running, reports: &[(&str, &str, &str)]) {
    let lab = &running.lab;
    running.wait_for(async {
        let mut rows = Rows::default();
        for (upload, case, signature) in reports {
            rows.add(About { case, upload, analysed_at: 1_800_000_000 }, &report(signature)).unwrap();
        }
        let mut made = Made::new();
        for (table, rows) in rows.finish().unwrap() {
            made.add(lab, table, rows).await.unwrap();
        }
        let mut within = lab.store.begin().await.unwrap();
        let names: Vec<(&str, &str)> = reports.iter().map(|(upload, case, _)| (*upload, *case)).collect();
        made.put(lab, &mut within, &names).await.unwrap();
        for (_, case, _) in reports {
            let entry = audit::Entry { who: "lab", what: "analysed", of: case, detail: "" };
            audit::write(&mut within, entry).await.unwrap();
        }
        within.commit().await.unwrap();
    });
}

/// All rows, their fields with `|` between.
fn asked(running: &Running, sql: &str) -> Vec<String> {
    running.wait_for(async {
        let mut answer = ask::ask(&running.lab, sql, "analyst").await.unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = answer.next().await.unwrap() {
            rows.extend(batch.texts().unwrap().into_iter().map(|row| row.join("|")));
        }
        rows
    })
}

fn count(running: &Running, table: &'static str) -> i64 {
    let sql = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
    let (count,): (i64,) = running.wait_for(sqlx::query_as(sql).fetch_one(running.lab.store.pool())).unwrap();
    count
}

/// Names of the files of all segments.
fn objects(running: &Running) -> Vec<String> {
    let files = running.wait_for(files(&running.lab, None)).unwrap();
    files.into_iter().map(|(_, file)| file.name).collect()
}

fn delete(running: &Running, case: &str) -> Certificate {
    let text = running.wait_for(delete::case(&running.lab, case, "test", "it has served")).unwrap();
    verify(text.as_bytes(), None, None).unwrap().certificate
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_deleted_case_is_gone_from_what_is_kept_over_all_cases_and_from_back_ups_of_it() {
    let running = Running::start();
    for case in ["gone", "living", "other"] {
        running.ask(case);
    }
    note(&running, &[("u1", "gone", "settle"), ("u2", "living", "settle")]);
    note(&running, &[("u3", "gone", "refund")]);
    note(&running, &[("u4", "other", "settle")]);
    let of_settle = "SELECT case_id FROM signatures WHERE kind = 'crash' AND text = 'settle' ORDER BY 1";
    assert_eq!(asked(&running, of_settle), ["gone", "living", "other"]);
    let before = objects(&running);
    running.wait_for(running.lab.store.forget()).unwrap();
    copy(&running.path("lab"), &running.path("back-up"));
    let backed_up = back_ends::back_up(&running.path("lab"));

    let certificate = delete(&running, "gone");
    assert_eq!(asked(&running, of_settle), ["living", "other"]);
    for table in ["cases", "findings", "signatures", "metrics", "functions"] {
        let left = asked(&running, &format!("SELECT case_id FROM {table} ORDER BY 1"));
        assert_eq!(left, ["living", "other"], "{table}");
    }
    // The files that held it are gone, and the certificate names them; the others are as they were.
    let after = objects(&running);
    let removed: Vec<&String> = before.iter().filter(|name| !after.contains(name)).collect();
    assert_eq!(removed.len(), 10, "two segments of five tables");
    for name in removed {
        assert!(!running.is_stored(name), "{name}");
        let place = certificate.places.iter().find(|place| place.name == format!("objects/{name}")).unwrap();
        assert!(place.result.contains("written again without this case"), "{place:?}");
    }
    assert!(after.iter().all(|name| running.is_stored(name)));
    assert!(
        certificate
            .reads
            .iter()
            .any(|read| read.who == "analyst" && read.what.starts_with("queries over all cases")),
        "{:?}",
        certificate.reads
    );

    // Yesterday's database and files: whoever reads them has wraps, and no key to them.
    let store = match &backed_up.database {
        None => running.wait_for(Store::open(&running.path("back-up/lab.db"))).unwrap(),
        Some(url) => running.wait_for(Store::open_server(url)).unwrap(),
    };
    let wraps: Vec<(String, Vec<u8>)> =
        running.wait_for(sqlx::query_as("SELECT id, wrap FROM segments").fetch_all(store.pool())).unwrap();
    assert_eq!(wraps.len(), 3, "all are there");
    for (segment, wrap) in wraps {
        let error = running.lab.keys.unwrap_text(&format!("segment:{segment}"), &wrap).unwrap_err();
        assert!(matches!(error, LabError::KeyGone { .. }), "{segment}: {error}");
    }
    // And a lab that is opened again reads what lives.
    let again = running.opened_again();
    assert_eq!(running.wait_for(files(&again, None)).unwrap().len(), 10);
}

#[test]
fn a_wrap_of_a_segment_opens_nothing_else() {
    let running = Running::start();
    running.ask("one");
    note(&running, &[("u1", "one", "settle")]);
    let (segment, wrap): (String, Vec<u8>) = running
        .wait_for(sqlx::query_as("SELECT id, wrap FROM segments").fetch_one(running.lab.store.pool()))
        .unwrap();
    assert!(running.lab.keys.unwrap_text(&format!("segment:{segment}"), &wrap).is_ok());
    for other in [segment.clone(), "segment:other".to_owned(), "one".to_owned()] {
        assert!(running.lab.keys.unwrap_text(&other, &wrap).is_err(), "{other}");
    }
}

#[test]
fn many_small_segments_become_one_that_says_the_same() {
    let running = Running::start();
    let cases: Vec<String> = (0..17).map(|number| format!("case-{number:02}")).collect();
    for case in &cases {
        running.ask(case);
        note(&running, &[(case, case, "settle")]);
        // Analysed again, by a job that was taken for lost: it is the same report.
        note(&running, &[(case, case, "settle")]);
    }
    assert_eq!(count(&running, "segments"), 17);
    let all = "SELECT case_id FROM signatures WHERE text = 'settle' ORDER BY 1";
    assert_eq!(asked(&running, all), cases);
    let before = objects(&running);
    running.wait_for(compact::compact(&running.lab)).unwrap();
    assert_eq!(count(&running, "segments"), 2);
    assert_eq!(asked(&running, all), cases);
    // A query that runs may still read the old ones; later they are removed, and no others.
    running.wait_for(sweep(&running.lab)).unwrap();
    assert!(before.iter().all(|name| running.is_stored(name)));
    let later = sqlx::query("UPDATE discarded SET not_before = 0").execute(running.lab.store.pool());
    running.wait_for(later).unwrap();
    running.wait_for(sweep(&running.lab)).unwrap();
    let after = objects(&running);
    assert_eq!(before.iter().filter(|name| running.is_stored(name)).count(), 5);
    assert!(after.iter().all(|name| running.is_stored(name)));
    assert_eq!(count(&running, "discarded"), 0);
    assert_eq!(asked(&running, all), cases);
}

#[test]
fn a_case_is_deleted_while_segments_are_put_together() {
    let running = Running::start();
    let cases: Vec<String> = (0..16).map(|number| format!("case-{number:02}")).collect();
    for case in &cases {
        running.ask(case);
        note(&running, &[(case, case, "settle")]);
    }
    let lab = &running.lab;
    running.wait_for(async {
        let (one, other) = (lab.clone(), lab.clone());
        let compacting = tokio::spawn(async move { compact::compact(&one).await });
        let deleting =
            tokio::spawn(async move { delete::case(&other, "case-07", "test", "it has served").await });
        compacting.await.unwrap().unwrap();
        deleting.await.unwrap().unwrap();
    });
    let left = asked(&running, "SELECT case_id FROM findings ORDER BY 1");
    assert_eq!(left, cases.iter().filter(|case| *case != "case-07").cloned().collect::<Vec<_>>());
    assert_eq!(count(&running, "segment_reports WHERE case_id = 'case-07'"), 0);
}

fn program(running: &Running, words: &[&str]) -> Command {
    let elsewhere = back_ends::of(running.folder.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_biopsy-lab"));
    command.args(words).arg("--data").arg(running.path("lab"));
    if let (Some(database), Some(storage)) = (elsewhere.database, elsewhere.storage) {
        command.env("BIOPSY_LAB_DATABASE", database).env("BIOPSY_LAB_STORAGE", storage);
    }
    command
}

fn said(running: &Running, words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program(running, words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_command_asks_and_the_log_says_who_and_never_what_for() {
    let running = Running::start();
    running.ask("4711");
    note(&running, &[("u1", "4711", "settle")]);
    let sql = "SELECT case_id, text FROM signatures WHERE text = 'settle'";
    assert_eq!(
        said(&running, &["query", sql]),
        (Some(0), "case_id  text\n4711     settle\n".to_owned(), String::new())
    );
    let (_, json, _) = said(&running, &["query", "--json", sql]);
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["schema"], "biopsy-cases-answer");
    assert_eq!(answer["columns"], serde_json::json!(["case_id", "text"]));
    assert_eq!(answer["rows"], serde_json::json!([{"case_id": "4711", "text": "settle"}]));
    let (_, json, _) = said(&running, &["query", "--json", "SELECT * FROM findings WHERE false"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["rows"], serde_json::json!([]));

    let (code, out, error) = said(&running, &["query", "DROP TABLE findings"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.starts_with("error: `DROP` is not answered"), "{error}");
    let (code, _, error) = said(&running, &["query", "SELECT nothing FROM findings"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("hint: `SHOW TABLES` lists the tables"), "{error}");

    let lines = running.wait_for(audit::newest(&running.lab.store, 100)).unwrap();
    let queries: Vec<&str> =
        lines.iter().filter(|line| line.what == "queried").map(|line| line.detail.as_str()).collect();
    assert_eq!(queries, ["findings", "findings", "signatures", "signatures"]);
    assert!(lines.iter().all(|line| !line.detail.contains("settle")));
}

#[test]
fn a_copy_in_clear_is_named_as_out_of_reach() {
    let running = Running::start();
    running.ask("4711");
    note(&running, &[("u1", "4711", "settle")]);
    let to = running.path("copy");
    let (code, out, note) = said(&running, &["query", "--export", to.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{note}");
    assert!(out.contains("signatures.parquet: 1 rows"), "{out}");
    assert!(note.contains("a case that is deleted stays in them"), "{note}");
    let certificate = delete(&running, "4711");
    assert!(
        certificate.places.iter().any(|place| place.result.starts_with("out of the lab's reach")),
        "{:?}",
        certificate.places
    );
    // One that came later was never in it.
    running.ask("4712");
    let certificate = delete(&running, "4712");
    assert!(certificate.places.iter().all(|place| !place.result.starts_with("out of the lab's reach")));
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All of the way: sent, analysed by a worker of its own, asked.
#[test]
fn what_was_analysed_is_among_all_cases() {
    let running = Running::start();
    let _worker =
        Worker(program(&running, &["work"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    for (case, fixture) in [("4711", "lock-convoy-1.0.zip"), ("4712", "format-1.0.zip")] {
        let link = running.ask(case);
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(fixture);
        send(&link, &std::fs::read(fixture).unwrap(), &running.path(&format!("{case}.age"))).unwrap();
        let mut state = String::new();
        for _ in 0..1200 {
            state = running.wait_for(biopsy_lab::cases::find(&running.lab, case)).unwrap().state;
            if state != "received" {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(state, "analysed");
    }
    assert_eq!(asked(&running, "SELECT case_id FROM cases ORDER BY 1"), ["4711", "4712"]);
    for (table, case) in [("findings", "4711"), ("functions", "4711"), ("metrics", "4712")] {
        let rows = asked(&running, &format!("SELECT count(*) FROM {table} WHERE case_id = '{case}'"));
        assert_ne!(rows, ["0"], "{table}");
    }
    assert_eq!(asked(&running, "SELECT name FROM functions WHERE rank = 1 AND case_id = '4711'").len(), 1);
}
