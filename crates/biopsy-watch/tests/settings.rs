//! Settings as files: the vendor's own, layers, mistakes, and the published schema.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_watch::rules::{Source, Verb, When};
use biopsy_watch::settings::{SCHEMA_FILE, origins, schema};
use biopsy_watch::{Layer, Settings};

fn layer(name: &'static str, file: &str, text: &str) -> Layer {
    Layer::parse(name, PathBuf::from(file), text.to_owned()).unwrap()
}

/// Settings, and problems as they are shown; commands with an option `--bad` are refused.
fn settings(layers: &[Layer]) -> (Settings, Vec<String>) {
    let (settings, problems) = Settings::of(layers, &|what, triggers| {
        let bad = what.options.iter().any(|option| option == "--bad") || triggers.contains(&"sunrise");
        if bad { Err("the command line refuses it".to_owned()) } else { Ok(()) }
    });
    let shown = problems.iter().map(|(index, problem)| layers[*index].shown(problem)).collect();
    (settings, shown)
}

/// As the vendor's program writes it, and its documentation shows it.
const VENDORS: &str = r#"{
  "logging": {
    "processes": { "Other": false, "Compiler": false, "DevEnv": false },
    "trace": { "*": false },
    "stopLoggingAfterHours": 2.0
  },
  "debugging": { "processes": { "Compiler": false, "Rider": false } },
  "crashDumps": { "processes": { "Compiler": true, "TestHost": false }, "exceptionTypes": [ "*" ] },
  "profiling": { "kind": "performance", "processes": { "Compiler": true, "Other": false, "DotNetTool": true, "CodeLensService": false } }
}
"#;

#[test]
fn the_vendors_own_file_is_understood_as_it_is() {
    let (settings, problems) = settings(&[layer("given", "diagnostics.json", VENDORS)]);
    assert_eq!(problems, Vec::<String>::new());
    let rules: Vec<(&str, Source, Verb)> =
        settings.rules.iter().map(|rule| (rule.name.as_str(), rule.source, rule.what.verb)).collect();
    assert_eq!(
        rules,
        [
            ("profiling-Compiler", Source::Profiling, Verb::Trace),
            ("profiling-DotNetTool", Source::Profiling, Verb::Trace),
            ("crash-Compiler", Source::CrashDumps, Verb::Dump),
        ]
    );
    assert_eq!(settings.rules[2].when, [When::Trigger("crash".to_owned())]);
    assert_eq!(
        settings.length,
        Duration::from_secs(86_400),
        "it ends by itself, though the file never expires"
    );
}

#[test]
fn each_kind_of_profiling_is_a_command() {
    for (kind, verb, when) in [
        ("null", Verb::Trace, "start"),
        ("\"performance\"", Verb::Trace, "start"),
        ("\"performance-tracing\"", Verb::Trace, "start"),
        ("\"Performance-Timeline\"", Verb::Capture, "start"),
        ("\"memory\"", Verb::Snapshot, "alive>30s"),
        ("\"memory-allocation\"", Verb::Capture, "start"),
    ] {
        let text = format!("{{\"profiling\": {{\"kind\": {kind}, \"processes\": {{\"compiler\": true}}}}}}");
        let (settings, problems) = settings(&[layer("user", "x.json", &text)]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(
            (settings.rules[0].what.verb, settings.rules[0].when[0].to_string().as_str()),
            (verb, when),
            "{kind}"
        );
    }
    let text = r#"{"crashDumps": {"processes": {"Compiler": true}, "exceptionTypes": ["System.IO.IOException", "*"]}}"#;
    let (settings, _) = settings(&[layer("user", "x.json", text)]);
    let when: Vec<String> = settings.rules[0].when.iter().map(ToString::to_string).collect();
    assert_eq!(when, ["crash", "exception:System.IO.IOException"]);
}

#[test]
fn the_later_layer_holds_value_by_value() {
    let machine = layer(
        "machine",
        "/etc/biopsy/diagnostics.toml",
        "[profiling.processes]\nCompiler = true\n[watch]\nminFree = \"5GB\"\n[watch.rules.slow]\nwho = { entry = \"Shop.Api\" }\n\
         when = \"cpu>90%:30s\"\ndo = \"capture --for 60s\"\nperDay = 3\n[watch.rules.other]\nwho = \"TestHost\"\n",
    );
    let user = layer(
        "user",
        "/home/ann/.config/biopsy/diagnostics.json",
        "// mine\n{\"watch\": {\"rules\": {\"slow\": {\"PerDay\": 9}, \"other\": {\"on\": false}}, \"keep\": {\"age\": \"2d\"}}}",
    );
    let layers = [machine, user];
    let (settings, problems) = settings(&layers);
    assert!(problems.is_empty(), "{problems:?}");
    let names: Vec<&str> = settings.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["profiling-Compiler", "slow"]);
    assert_eq!(settings.rules[1].limits.per_day, 9);
    assert_eq!(settings.rules[1].what.options, ["--for", "60s"]);
    assert_eq!((settings.min_free, settings.keep.age), (5 << 30, Duration::from_secs(2 * 86_400)));
    let of: Vec<(String, usize, usize, bool)> = origins(&layers)
        .into_iter()
        .filter(|one| one.path.to_lowercase() == "watch.rules.slow.perday")
        .map(|one| (one.value, one.layer, one.place.line, one.is_hidden))
        .collect();
    assert_eq!(of, [("9".to_owned(), 1, 2, false), ("3".to_owned(), 0, 9, true)]);
}

#[test]
fn the_last_minutes_are_kept_of_those_that_rules_are_about_or_of_those_that_are_named() {
    let text = "{\"profiling\": {\"processes\": {\"Compiler\": true}}, \"watch\": {\"rules\": {\"shop\": {\"who\": {\"name\": \"shop\"}, \"recent\": \"5m\"}}}}";
    let (own, problems) = settings(&[layer("user", "x.json", text)]);
    assert_eq!(problems, [""; 0]);
    let rules = |settings: &Settings| -> Vec<String> {
        settings.rules.iter().map(|rule| format!("{}: {}", rule.name, rule.what)).collect()
    };
    let before = rules(&own);
    assert_eq!(before, ["profiling-Compiler: trace --no-children", "shop-recent: recent 5m", "shop: trace"]);
    let mut all = own.clone();
    all.keep_recent("10m", &[]);
    assert_eq!(
        rules(&all),
        [vec!["profiling-Compiler-recent: recent 10m".to_owned()], before.clone()].concat()
    );
    let mut named = own;
    named.keep_recent("10m", &["mariadbd".to_owned(), "a/b.service".to_owned()]);
    let first = vec!["mariadbd-recent: recent 10m".to_owned(), "a_b.service-recent: recent 10m".to_owned()];
    assert_eq!(rules(&named), [first, before].concat());
    assert!(named.rules[0].who.0[0].name.len() == 1 && named.rules[1].who.0[0].unit.len() == 1);
}

#[test]
fn mistakes_are_said_with_line_and_column() {
    for (text, says) in [
        (
            r#"{"profiling": {"processes": {"Compilers": true}}}"#,
            "x.json:1:43: warning: profiling.processes.Compilers: there is no kind `Compilers`; did you mean `Compiler`?",
        ),
        (r#"{"profiling": {"processes": {"DevEnv": true}}}"#, "`DevEnv` has no processes on Linux"),
        (r#"{"logging": {"processes": {"Compiler": true}}}"#, "biopsy does nothing with it"),
        (
            r#"{"watch": {"rules": {"a": {}}}}"#,
            "x.json:1:27: error: watch.rules.a.who: the rule does not say whom it is about",
        ),
        (r#"{"watch": {"rules": {"a": {"who": {}}}}}"#, "every process of the machine"),
        (r#"{"watch": {"rules": {"a": {"who": "Compilr"}}}}"#, "did you mean `Compiler`?"),
        (r#"{"watch": {"rules": {"a b": {"who": "Compiler"}}}}"#, "no name of a rule"),
        (
            r#"{"watch": {"rules": {"a": {"who": "Compiler", "when": "alive>soon"}}}}"#,
            "`alive>soon` is no moment",
        ),
        (
            r#"{"watch": {"rules": {"a": {"who": "Compiler", "when": "sunrise"}}}}"#,
            "watch.rules.a.when: the command line refuses it",
        ),
        (
            r#"{"watch": {"rules": {"a": {"who": "Compiler", "do": "trace --bad"}}}}"#,
            "1:53: error: watch.rules.a.do: the command line refuses it",
        ),
        (r#"{"watch": {"rules": {"a": {"who": "Compiler", "do": "send"}}}}"#, "`send` is none of"),
        (
            r#"{"watch": {"rules": {"a": {"who": "Compiler", "do": "trace -o /etc/x"}}}}"#,
            "`-o` is set by the watcher",
        ),
        (r#"{"version": 2}"#, "newer than the program"),
    ] {
        let (_, problems) = settings(&[layer("user", "x.json", text)]);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].contains(says), "{text}: {problems:?}");
    }
    let error = Layer::parse("user", PathBuf::from("x.json"), "{\n  \"a\": tru\n}".to_owned()).unwrap_err();
    assert!(error.to_string().starts_with("`x.json`, line 2, column 8: "), "{error}");
}

#[test]
fn the_schema_that_is_published_is_this_one() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(SCHEMA_FILE);
    let made = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("BIOPSY_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(published == made, "BIOPSY_WRITE_FIXTURES=1 writes it");
    for word in ["perDay", "exceptionTypes", "performance-timeline", "coolDown", "\"Compiler\\\": true"] {
        assert!(published.contains(word), "{word}");
    }
}
