//! Command lines by argument: which option of which program takes a secret, and which looks the same and does not.

use biopsy_redact::{BundleKey, Options, Redactor};

use super::outline;

/// What becomes of arguments, which stand between `|`.
fn command(line: &str) -> String {
    let rules = Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right");
    shown(&rules, line)
}

fn shown(rules: &Redactor, line: &str) -> String {
    let args: Vec<String> = line.split('|').map(str::to_owned).collect();
    let once = rules.for_bundle(BundleKey::from_bytes([8; 32])).command_line(&args);
    assert_eq!(once.args.len(), args.len(), "{line}");
    let masks: usize = once.args.iter().map(|arg| arg.matches("[redacted:").count()).sum();
    let hits: u64 = once.hits.iter().map(|hit| hit.count).sum();
    assert!(masks as u64 <= hits, "{line}: {masks} masks, {hits} hits");
    outline(&once.args.join("|"))
}

fn check(rows: &[(&str, &str)]) {
    let rules = Redactor::new(Options::default()).expect("random bytes");
    let wrong: Vec<String> = rows
        .iter()
        .map(|(line, wanted)| (line, shown(&rules, line), wanted))
        .filter(|(_, shown, wanted)| shown != *wanted)
        .map(|(line, shown, wanted)| format!("{line} became {shown}, not {wanted}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn options_take_a_secret_of_the_programs_that_know_them_so() {
    check(&[
        ("mysql|-u|root|-pkern77|shop", "mysql|-u|root|-pM|shop"),
        ("sudo|/usr/bin/mariadb-dump|-pkern77", "sudo|/usr/bin/mariadb-dump|-pM"),
        ("C:\\bin\\mysql.exe|-pkern77", "C:\\bin\\mysql.exe|-pM"),
        ("mongosh|-u|app|-p|kern77", "mongosh|-u|app|-p|M"),
        ("docker|login|-u|ann|-p|kern77|r.example", "docker|login|-u|ann|-p|M|r.example"),
        ("psexec|-u|ann|-p|kern77|cmd", "psexec|-u|ann|-p|M|cmd"),
        ("7z|a|-pkern77|x.7z", "7z|a|-pM|x.7z"),
        ("sqlcmd|-S|db1|-P|kern77", "sqlcmd|-S|db1|-P|M"),
        ("sqlcmd|-S|db1|-Pkern77", "sqlcmd|-S|db1|-PM"),
        ("unzip|-P|kern77|x.zip", "unzip|-P|M|x.zip"),
        ("redis-cli|-h|db1|-a|kern77|ping", "redis-cli|-h|db1|-a|M|ping"),
        ("ldapsearch|-D|cn=a|-w|kern77", "ldapsearch|-D|cn=a|-w|M"),
        ("curl|-u|ann:kern77|https://x.example", "curl|-u|ann:M|https://x.example"),
        ("curl|--user|ann:kern77", "curl|--user|ann:M"),
        ("curl|--proxy-user|ann:kern77", "curl|--proxy-user|ann:M"),
        ("sshpass|-p|kern77|ssh|db1", "sshpass|-p|M|ssh|db1"),
        ("smbclient|//db/s|-U|ann%kern77", "smbclient|//db/s|-U|ann%M"),
        ("net|-U|SHOP/ann%kern77|ads", "net|-U|SHOP/ann%M|ads"),
    ]);
}

#[test]
fn the_same_options_of_other_programs_stay() {
    let lines = [
        "mysql|-u|root|-p|shop",
        "tar|-pxf|a.tar",
        "mongosh|-p|--quiet",
        "docker|run|-p|8080:80|shop",
        "cp|-P|a|b",
        "ls|-a|/srv",
        "grep|-w|kern77|a.log",
        "curl|-u|ann|https://x.example",
        "python|-u|run.py:main",
        "smbclient|//db/s|-U|ann",
        "ssh|-p|2222|db1",
        "mkdir|-p|/srv/a",
        "nc|-u|db1:53",
    ];
    check(&lines.map(|line| (line, line)));
}

#[test]
fn names_of_options_say_what_their_values_are() {
    check(&[
        ("tool|--password=kern77", "tool|--password=M"),
        ("tool|--password|kern77", "tool|--password|M"),
        ("tool|-password|kern77", "tool|-password|M"),
        ("tool|/password:kern77", "tool|/password:M"),
        ("tool|--db.password=kern77", "tool|--db.password=M"),
        ("java|-Dpassword=kern77|-jar|a.jar", "java|-Dpassword=M|-jar|a.jar"),
        ("gradle|-Pdb.password=kern77", "gradle|-Pdb.password=M"),
        ("msbuild|/p:DbPassword=kern77", "msbuild|/p:DbPassword=M"),
        ("env|PGPASSWORD=kern77|psql", "env|PGPASSWORD=M|psql"),
        ("sh|-c|X_PASSWORD=kern77 run --all", "sh|-c|X_PASSWORD=M run --all"),
        ("tool|--password|two words", "tool|--password|M"),
        ("tool|--url|postgres://a:kern77@db/x", "tool|--url|postgres://a:M@db/x"),
        ("tool|--header|Authorization: Bearer Blau77kern9x", "tool|--header|Authorization: Bearer M"),
        // What nobody would write by hand, whatever takes it.
        ("tool|q7Xk-2Zr9_bLm4TfWvN8", "tool|M"),
        ("tool|ann:q7Xk-2Zr9_bLm4TfWvN8@db1", "tool|ann:M@db1"),
    ]);
    let clean = [
        "tool|--password|--user",
        "tool|--password=",
        "tool|--password=****",
        "tool|--password=$DB_PASS",
        "tool|--password",
        "tool|--password-file|/run/secrets/db",
        "tool|--max-tokens=4096",
        "/opt/q7Xk-2Zr9_bLm4TfWvN8|--all",
        "",
        "|",
        "tool||--x|",
        "tool|=|==|--|-|/|:",
    ];
    check(&clean.map(|line| (line, line)));
}

#[test]
fn very_many_arguments_stay_as_many() {
    let many = vec!["--password=kern77"; 3000].join("|");
    assert_eq!(command(&many), vec!["--password=M"; 3000].join("|"));
}
