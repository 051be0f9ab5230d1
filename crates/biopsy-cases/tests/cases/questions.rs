//! What may be asked, and how much of the files is read for it.

use biopsy_cases::{CasesError, Table};

use crate::support::{Lab, report, wait_for};

fn some_cases() -> Lab {
    let mut lab = Lab::default();
    lab.add(&[("4711", report("raise | settle", "settle")), ("4712", report("raise | refund", "refund"))]);
    lab.add(&[("4713", report("raise | settle", "settle"))]);
    lab
}

#[test]
fn equal_crashes_and_causes_are_counted_over_segments() {
    let lab = some_cases();
    let crashes = "SELECT text, count(DISTINCT case_id) AS cases FROM signatures WHERE kind = 'crash' GROUP BY text ORDER BY cases DESC";
    assert_eq!(lab.ask(crashes), ["raise | settle|2", "raise | refund|1"]);
    let joined = "SELECT s.case_id, c.build_id, f.title FROM signatures s JOIN cases c USING (case_id, upload) JOIN findings f USING (case_id, upload)
                  WHERE s.kind = 'crash' AND s.text = 'raise | settle' AND f.id = 'crash' ORDER BY 1";
    assert_eq!(lab.ask(joined), ["4711|c0ffee|shop died of SIGABRT", "4713|c0ffee|shop died of SIGABRT"]);
    assert_eq!(lab.ask("SELECT count(*) FROM functions"), ["6"]);
    assert_eq!(
        lab.ask(
            "SELECT upload FROM cases WHERE analysed_at > TIMESTAMP '2027-01-01T00:00:00Z' ORDER BY 1 LIMIT 1"
        ),
        ["u-4711"]
    );
}

#[test]
fn what_tables_there_are_can_be_asked() {
    let lab = some_cases();
    let tables = lab.ask("SHOW TABLES");
    for table in Table::ALL {
        assert!(tables.iter().any(|row| row.contains(table.name())), "{tables:?}");
    }
    assert_eq!(lab.ask("DESCRIBE findings").len(), 10);
    assert!(!lab.ask("EXPLAIN SELECT * FROM findings").is_empty());
    let none = Lab::default();
    assert_eq!(none.ask("SELECT count(*) FROM findings"), ["0"], "before there is any case");
}

#[test]
fn nothing_but_reading_is_answered() {
    let lab = some_cases();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let out = path.display();
    let refused = [
        format!("COPY findings TO '{out}'"),
        format!("COPY (SELECT 1) TO '{out}' STORED AS CSV"),
        format!("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{out}'"),
        "CREATE TABLE x AS SELECT * FROM findings".to_owned(),
        "CREATE VIEW x AS SELECT * FROM findings".to_owned(),
        "CREATE SCHEMA x".to_owned(),
        "CREATE FUNCTION f(int) RETURNS int RETURN $1".to_owned(),
        "INSERT INTO findings SELECT * FROM findings".to_owned(),
        "DELETE FROM findings".to_owned(),
        "UPDATE findings SET id = 'x'".to_owned(),
        "TRUNCATE TABLE findings".to_owned(),
        "DROP TABLE findings".to_owned(),
        "SET datafusion.runtime.memory_limit = '100G'".to_owned(),
        "RESET datafusion.execution.batch_size".to_owned(),
        "PREPARE p AS SELECT 1".to_owned(),
        "BEGIN".to_owned(),
        format!("EXPLAIN COPY findings TO '{out}'"),
        format!("EXPLAIN ANALYZE COPY findings TO '{out}'"),
        "SELECT * INTO x FROM findings".to_owned(),
        "WITH x AS (SELECT 1) INSERT INTO findings SELECT * FROM x".to_owned(),
        "SELECT 1; DROP TABLE findings".to_owned(),
    ];
    for sql in refused {
        let error = lab.answer(&sql).expect_err(&sql);
        assert!(
            matches!(error, CasesError::OnlyReads { .. } | CasesError::Question { .. }),
            "{sql}: {error}"
        );
    }
    assert!(!path.exists());
    assert_eq!(lab.ask("SELECT count(*) FROM findings"), ["6"]);
}

#[test]
fn no_other_files_are_read() {
    let lab = some_cases();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.csv", "a,b\n1,2\n"), ("a.json", "{\"a\": 1}\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let path = path.display();
        for sql in [
            format!("SELECT * FROM '{path}'"),
            format!("SELECT * FROM \"{path}\""),
            format!("SELECT * FROM 'file://{path}'"),
            format!("SELECT * FROM read_csv('{path}')"),
            format!("SELECT * FROM read_parquet('{path}')"),
            format!("SELECT * FROM parquet_metadata('{path}')"),
        ] {
            assert!(lab.answer(&sql).is_err(), "{sql}");
        }
    }
}

#[test]
fn what_is_not_understood_is_said_in_one_line() {
    let lab = some_cases();
    let said = |sql: &str| lab.answer(sql).unwrap_err().to_string();
    let unknown = said("SELECT nothing FROM findings");
    assert!(unknown.starts_with("cannot answer the query: ") && unknown.contains("nothing"), "{unknown}");
    let table = said("SELECT * FROM nowhere");
    assert!(table.contains("nowhere") && !table.contains("lab.public"), "{table}");
    let grammar = said("SELECT FROM WHERE");
    assert!(grammar.starts_with("cannot answer the query: "), "{grammar}");
    assert_eq!(
        said("DROP TABLE findings"),
        "`DROP` is not answered: a query only reads (`SELECT`, `WITH`, `EXPLAIN`, `SHOW TABLES`, `DESCRIBE`)"
    );
    for error in [
        unknown,
        table,
        grammar,
        said(&"x".repeat(100_000)),
        said(&format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000))),
    ] {
        assert!(!error.contains("backtrace") && error.len() < 2000, "{error}");
    }
}

#[test]
fn a_file_that_is_gone_is_said_as_such() {
    let lab = some_cases();
    lab.files.files.lock().unwrap().remove("s1-findings");
    let mut answer = lab.answer("SELECT count(*) FROM findings").unwrap();
    let error = wait_for(answer.next()).unwrap_err().to_string();
    assert!(error.contains("was replaced while it was read"), "{error}");
    assert_eq!(lab.ask("SELECT count(*) FROM functions"), ["6"]);
}

#[test]
fn memory_of_a_query_has_an_end() {
    let lab = some_cases();
    let sql = "SELECT array_agg(repeat(f.title, 1000)) FROM findings f, generate_series(1, 100000) s";
    let mut answer = lab.answer(sql).unwrap();
    let error = wait_for(answer.next()).unwrap_err();
    assert!(matches!(error, CasesError::TooLarge { .. }), "{error}");
    assert!(error.hint().is_some());
}

/// A text without a pattern.
fn noise(seed: usize) -> String {
    let mut state = seed as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", state >> 32)
    };
    (0..16).map(|_| next()).collect()
}

#[test]
fn a_search_for_one_signature_reads_the_rows_around_it_alone() {
    let mut lab = Lab::default();
    let names: Vec<String> = (0..8000).map(|number| format!("case-{number}")).collect();
    let report = |at| format!(r#"{{"dumps": [{{"signature": {{"text": "{}", "version": 1}}}}]}}"#, noise(at));
    let reports: Vec<(&str, String)> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), report(at))).collect();
    lab.add(&reports);
    let sizes = |sql: &str| {
        lab.files.read.lock().unwrap().clear();
        let rows = lab.ask(sql);
        let read = lab.files.read.lock().unwrap();
        assert!(read.iter().all(|(name, _)| name == "s0-signatures"), "{read:?}");
        (rows, read.iter().map(|(_, bytes)| *bytes).sum::<u64>())
    };
    let (all, of_all) = sizes("SELECT count(DISTINCT text) FROM signatures");
    assert_eq!(all, ["8000"]);
    let (one, of_one) =
        sizes(&format!("SELECT case_id FROM signatures WHERE kind = 'crash' AND text = '{}'", noise(1234)));
    assert_eq!(one, ["case-1234"]);
    let (none, of_none) = sizes("SELECT case_id FROM signatures WHERE text = 'zzz'");
    assert!(none.is_empty());
    assert!(of_none < of_one, "no row group can have it: {of_none} bytes, {of_one} for one");
    assert!(of_one * 2 < of_all, "{of_one} bytes for one, {of_all} for all");
}
