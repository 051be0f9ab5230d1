//! Which arguments of which programs are masked.

use super::*;
use crate::{BundleKey, Options};

fn redactor() -> Redactor {
    thread_local! {
        static RULES: Redactor = Redactor::new(Options {
            key: Some(BundleKey::from_bytes([9; 32])),
            ..Options::default()
        })
        .expect("the built-in packs are right");
    }
    RULES.with(|rules| rules.for_bundle(BundleKey::from_bytes([9; 32])))
}

/// The arguments with `M` for each mask, with blanks between them.
fn outline(line: &[&str]) -> String {
    let args: Vec<String> = line.iter().map(|arg| (*arg).to_owned()).collect();
    let masked = redactor().command_line(&args);
    assert_eq!(masked.args.len(), args.len(), "{line:?}");
    let joined = masked.args.join(" ");
    let mut parts = joined.split("[redacted:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "M" + part.split_once(']').map_or("", |(_, rest)| rest))
}

#[test]
fn short_options_are_those_of_their_programs() {
    for (line, wanted) in [
        (&["mysql", "-u", "root", "-pKu8tre", "shop"][..], "mysql -u root -pM shop"),
        (&["mysql", "-p", "shop"], "mysql -p shop"),
        (&["sudo", "/usr/bin/mysqldump", "-pKu8tre"], "sudo /usr/bin/mysqldump -pM"),
        (&["ssh", "-p", "2222", "db1"], "ssh -p 2222 db1"),
        (&["sshpass", "-p", "Ku8tre", "ssh", "db1"], "sshpass -p M ssh db1"),
        (&["docker", "login", "-u", "ann", "-p", "Ku8tre"], "docker login -u ann -p M"),
        (&["docker", "run", "-p", "80:80", "shop"], "docker run -p 80:80 shop"),
        (&["redis-cli", "-a", "Ku8tre", "ping"], "redis-cli -a M ping"),
        (&["curl", "-u", "ann:Ku8tre", "http://db1/"], "curl -u ann:M http://db1/"),
        (&["curl", "-u", "ann", "http://db1/"], "curl -u ann http://db1/"),
        (&["net", "use", "-U", "ann%Ku8tre"], "net use -U ann%M"),
        (&[r"C:\bin\sqlcmd.exe", "-P", "Ku8tre"], r"C:\bin\sqlcmd.exe -P M"),
    ] {
        assert_eq!(outline(line), wanted, "{line:?}");
    }
}

#[test]
fn long_options_are_told_by_their_names() {
    for (line, wanted) in [
        (&["shop", "--password", "Ku8tre", "--port", "80"][..], "shop --password M --port 80"),
        (&["shop", "--password=Ku8tre"], "shop --password=M"),
        (&["shop", "-Ddb.password=Ku8tre", "-jar", "x.jar"], "shop -Ddb.password=M -jar x.jar"),
        (&["shop", "/p:DbPassword=Ku8tre"], "shop /p:DbPassword=M"),
        (&["shop", "/password:Ku8tre"], "shop /password:M"),
        (&["env", "PGPASSWORD=Ku8tre", "psql"], "env PGPASSWORD=M psql"),
        // Another option is no value, and neither is nothing.
        (&["shop", "--password", "--port", "80"], "shop --password --port 80"),
        (&["shop", "--password="], "shop --password="),
        (&["shop", "--password"], "shop --password"),
        (&["shop", "--password=${PW}"], "shop --password=${PW}"),
        (&["shop", "--token-file=/run/token"], "shop --token-file=/run/token"),
    ] {
        assert_eq!(outline(line), wanted, "{line:?}");
    }
}

#[test]
fn what_is_masked_once_is_learned_and_masked_again_is_as_it_was() {
    let redactor = redactor();
    let line = ["shop", "--password", "Ku8treBlau", "--port=80"].map(str::to_owned);
    let once = redactor.command_line(&line);
    assert_eq!(once.hits.iter().map(|hit| hit.count).sum::<u64>(), 1);
    assert!(!redactor.text("retry with Ku8treBlau now").text.contains("Ku8tre"));
    let twice = redactor.command_line(&once.args);
    assert_eq!((twice.args, twice.hits), (once.args, Vec::new()));
}

#[test]
fn arguments_that_are_commands_are_told() {
    for (arg, wanted) in [
        ("-c", true),
        ("-lc", true),
        ("/c", true),
        ("-Command", true),
        ("--eval", true),
        ("c", false),
        ("--config", false),
        ("-x", false),
    ] {
        assert_eq!(announces_script(arg), wanted, "{arg}");
    }
    for (name, value, wanted) in [
        ("DB_PASSWORD", "two words", true),
        ("DB_PASSWORD", "x; rm -r y", false),
        ("DB_PASSWORD", "x --port 80", false),
        ("DB_PASSWORD", "x Y=z", false),
        ("run this", "x y", false),
    ] {
        assert_eq!(is_setting_with_blanks(name, value), wanted, "{name}={value}");
    }
    for (text, wanted) in [("ann", true), ("ann.b-c_1", true), ("", false), ("http", true), ("a/b", false)] {
        assert_eq!(is_user(text), wanted, "{text}");
    }
}
