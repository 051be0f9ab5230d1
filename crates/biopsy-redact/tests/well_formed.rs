//! What is masked reads as before: as many records, with the same names, in JSON, CSV, XML and YAML.

use biopsy_redact::{BundleKey, Options, Redactor};
use proptest::prelude::*;

thread_local! {
    static REDACTOR: Redactor = Redactor::new(Options {
        key: Some(BundleKey::from_bytes([7; 32])),
        learn_from_text: false,
        ..Options::default()
    })
    .expect("the built-in packs are right");
}

fn masked(text: &str) -> String {
    REDACTOR.with(|redactor| redactor.text(text).text.into_owned())
}

/// What stands between the quotes of JSON and CSV, in an element and behind a name of YAML: all but what ends it there.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9!#$%^*_+=.~/@-]{1,24}",
        "[A-Za-z]{3,8} [a-z]{2,8}: [A-Za-z0-9+/]{8,20}={0,2}",
        "[0-9]{1,12}",
        // A setting inside of a value, alone and behind words: it ends where the value does.
        "(at [a-z]{1,5} )?(PW|pwd|token|Password)=[A-Za-z0-9+/]{1,12}"
    ]
}

fn name() -> impl Strategy<Value = String> {
    let secret = [
        "password",
        "api_key",
        "DbPassword",
        "token",
        "client-secret",
        "pin",
        "Authorization",
        "cookie",
        "connectionString",
    ];
    prop_oneof![prop::sample::select(secret.map(str::to_owned).to_vec()), "[a-z]{1,8}"]
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((name(), value()), 1..5)
}

/// The frame of a document: all but what stands between its quotes, or in its elements.
fn frame(text: &str, open: &[char], close: &[char]) -> String {
    let mut inside = false;
    text.chars()
        .filter(|character| {
            let was = inside;
            if inside {
                inside = !close.contains(character)
            } else {
                inside = open.contains(character)
            }
            !was || !inside
        })
        .collect()
}

/// The frames of JSON that stands in strings of JSON, `depth` strings deep: each line is taken out as a reader of it would.
fn frames_within(text: &str, depth: usize) -> Vec<String> {
    let inner = |line: &str| {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        value["log"].as_str().expect("the text around was no secret").to_owned()
    };
    let innermost = |line: &str| (0..depth).fold(line.to_owned(), |line, _| inner(&line));
    text.lines().map(|line| frame(&innermost(line), &['"'], &['"'])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lines_of_json_keep_their_quotes_and_braces(records in prop::collection::vec(pairs(), 1..4)) {
        let record = |pairs: &Vec<(String, String)>| {
            let members: Vec<String> = pairs.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect();
            format!("{{{}}}\n", members.join(","))
        };
        let text: String = records.iter().map(record).collect();
        prop_assert_eq!(frame(&masked(&text), &['"'], &['"']), frame(&text, &['"'], &['"']));
        // The same as text in a line of JSON.
        let wrapped = |line: &str| format!("{{\"log\":\"{}\",\"n\":1}}", line.replace('\\', "\\\\").replace('"', "\\\""));
        let deeper = |text: &str| text.lines().map(|line| wrapped(line) + "\n").collect::<String>();
        let nested = deeper(&text);
        prop_assert_eq!(frames_within(&masked(&nested), 1), frames_within(&nested, 1));
        let nested = deeper(&nested);
        prop_assert_eq!(frames_within(&masked(&nested), 2), frames_within(&nested, 2));
    }

    #[test]
    fn records_of_csv_keep_their_cells(rows in prop::collection::vec(("[a-z]{1,6}", "[A-Za-z0-9!#$%^*_+=.~/@-]{1,24}", "[0-9]{1,6}"), 1..6), name in name()) {
        // `=3D` is an equals sign of mail, and what mail holds is no table.
        prop_assume!(rows.iter().all(|(_, value, _)| !value.contains("=3D") && !value.contains("=0A")));
        let mut text = format!("user,{name},count\n");
        rows.iter().for_each(|(user, value, count)| text.push_str(&format!("{user},{value},{count}\n")));
        let cells = |text: &str| -> Vec<usize> { text.lines().map(|line| line.split(',').count()).collect() };
        prop_assert_eq!(cells(&masked(&text)), cells(&text));
    }

    #[test]
    fn elements_stay(pairs in pairs()) {
        let element = |(name, value): &(String, String)| format!("  <{name} note=\"{value}\">{value}</{name}>\n");
        let text = format!("<all>\n{}</all>\n", pairs.iter().map(element).collect::<String>());
        let tags = |text: &str| frame(&frame(text, &['"'], &['"']), &['>'], &['<']);
        prop_assert_eq!(tags(&masked(&text)), tags(&text));
    }

    #[test]
    fn names_of_yaml_keep_their_depth(pairs in pairs()) {
        let line = |(index, (name, value)): (usize, &(String, String))| format!("{}{name}: \"{value}\"\n", " ".repeat(index % 3 * 2));
        let text: String = pairs.iter().enumerate().map(line).collect();
        let names = |text: &str| -> Vec<String> { text.lines().map(|line| line.split(": ").next().unwrap_or_default().to_owned()).collect() };
        prop_assert_eq!(names(&masked(&text)), names(&text));
    }
}

/// With `M` for each mask.
fn outline(text: &str) -> String {
    let masked = masked(text);
    let mut parts = masked.split("[redacted:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "M" + part.split_once(']').map_or("", |(_, rest)| rest))
}

#[test]
fn what_stands_for_lists_and_at_the_end_of_comments_and_elements_keeps_the_form() {
    for (text, expected) in [
        ("{\"data\": [112,97,115,115,119,111,114,100,61,66,108,97,117,55,55]}", "{\"data\": [\"M\"]}"),
        (
            "{\"password\": [112, 97, 115, 115, 119, 111, 114, 100], \"n\": 1}",
            "{\"password\": [\"M\"], \"n\": 1}",
        ),
        (
            "{\"m\":\"{\\\"password\\\":[112,97,115,115,119,111,114,100]}\"}",
            "{\"m\":\"{\\\"password\\\":[\\\"M\\\"]}\"}",
        ),
        ("{\"token\":[1,2,3],\"password\":true}", "{\"token\":[1,2,3],\"password\":true}"),
        ("{\"password\": [{\"value\": \"Blau77kern9x\"}]}", "{\"password\": [{\"value\": \"M\"}]}"),
        ("{\"password\":[[\"Blau77kern9x\"]]}", "{\"password\":[[\"M\"]]}"),
        ("<a><!-- password: Blau77kern9x--></a>", "<a><!-- password: M--></a>"),
        ("<?x password=Blau77kern9x?><a/>", "<?x password=M?><a/>"),
        ("<m>mysql -pBlau77kern9x</m>", "<m>mysql -pM</m>"),
        ("<m>curl -u bob:Blau77kern9x</m>", "<m>curl -u bob:M</m>"),
    ] {
        assert_eq!(outline(text), expected, "{text}");
    }
}
