//! What is masked reads as before: as many records, with the same names, in JSON, CSV, XML and YAML.

use biopsy_redact::verify::verify;
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

/// A cell with a secret behind its name, and the secret: letters and digits, with a digit, so that none of them is a word.
fn nameless_cell() -> impl Strategy<Value = (String, String)> {
    let forms = [
        "password={v}",
        "pwd: {v}",
        "--password {v}",
        "/login?u=1&password={v}",
        "client_secret '{v}'",
        "mysql -p{v} shop",
    ];
    (prop::sample::select(forms.to_vec()), "[A-Z][a-z]{2,5}[0-9][A-Za-z0-9]{6,14}[0-9]")
        .prop_map(|(form, value)| (form.replace("{v}", &value), value))
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
    fn rows_of_tables_without_names_keep_their_cells_and_show_no_secret(
        rows in prop::collection::vec((nameless_cell(), "[a-z]{2,6}", "(10\\.0\\.0\\.[0-9]{1,3}|)", "[0-9]{1,5}"), 3..7),
        own in 0_usize..4,
        separator in prop::sample::select(vec![",", ";", "\t"]),
    ) {
        let row = |((cell, _), word, address, number): &((String, String), String, String, String)| {
            let mut cells = vec![word.as_str(), address, number];
            cells.insert(own, cell);
            cells.join(separator) + "\n"
        };
        let text: String = rows.iter().map(row).collect();
        let cells = |text: &str| -> Vec<usize> { text.lines().map(|line| line.split(separator).count()).collect() };
        let masked = masked(&text);
        prop_assert_eq!(cells(&masked), cells(&text), "{} became {}", text, masked);
        for ((_, value), ..) in &rows {
            prop_assert!(!masked.contains(value.as_str()), "{} became {}", text, masked);
        }
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

/// Texts as they stand in documents: settings, commands, addresses, quotes at their ends, line ends, other scripts.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,20}",
        "(Password|token|api_key|PW)=[ -~]{1,14}",
        "postgres://app:[a-zA-Z\"'\\\\!#]{3,10}@db/x",
        "line1\npassword: [A-Za-z0-9]{4,10}\nline3 \t\\\\ end\"?",
        "--password [A-Za-z0-9]{6,10} --token=[A-Za-z0-9]{20}",
        "\\{\"password\": ?\"[A-Za-z0-9\"\\\\]{4,10}\"\\}",
        "(пароль: |密码：)[A-Za-z0-9]{6,10}",
    ]
}

/// Any JSON, with names of secrets at every depth.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        6 => any_text().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<i32>().prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("password"),
        Just("token"),
        Just("api_key"),
        Just("secret"),
        Just("user"),
        Just("value"),
        Just("name"),
        Just("headers"),
        Just("Authorization"),
        Just("Cookie"),
        Just("msg"),
        Just("x-api-key"),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 1..5)
                .prop_map(|pairs| pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
    .prop_filter("a document", |value| value.is_object())
}

/// Names and shape, without the texts.
fn shape_of(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}:{}", shape_of(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(shape_of).collect::<Vec<_>>().join(",")),
        _ => "_".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_parses_as_before(value in any_json()) {
        for text in [value.to_string(), format!("{value:#}"), format!("{value}\n{value}\n")] {
            let masked = masked(&text);
            let parsed: Result<Vec<serde_json::Value>, _> =
                serde_json::Deserializer::from_str(&masked).into_iter().collect();
            let parsed = parsed.map_err(|error| TestCaseError::fail(format!("{error}: {text}\nbecame {masked}")))?;
            for parsed in parsed {
                prop_assert_eq!(shape_of(&parsed), shape_of(&value), "{} became {}", text, masked);
            }
        }
    }
}

/// Personal data are numbers of JSON, too: a mask is a text.
#[test]
fn numbers_of_json_that_are_secrets_become_texts() {
    let redactor =
        Redactor::new(Options { personal: true, ..Options::default() }).expect("the packs are right");
    for line in
        [r#"{"card":4111111111111111,"n":[4111111111111111,5]}"#, r#"{"at": -1.5, "card": 4111111111111111}"#]
    {
        let masked = redactor.text(line).text.into_owned();
        assert!(
            !masked.contains("4111111111111111")
                && serde_json::from_str::<serde_json::Value>(&masked).is_ok(),
            "{masked}"
        );
    }
}

/// A text that ends with a backslash, before an object with the name of a secret.
#[test]
fn an_object_is_no_secret() {
    for line in [
        r#"{"token": "password=h2we07QrfZc3BNgv3tlAZC5TNzr7\\", "password": {"authorizations": []}}"#,
        r#"{"a":"password=u4mXrcV6FdcbR8Paf2j\\","passwords":{}}"#,
    ] {
        let masked = masked(line);
        assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{masked}");
    }
}

/// The last quoted value of a message: its quotes stay, in strings in strings, too.
#[test]
fn a_value_at_the_end_of_a_message_keeps_its_quotes() {
    let redactor = Redactor::new(Options::default()).unwrap();
    let message = "login with password: \"hunter22x\"";
    let in_csv = format!("1;\"{}\"", message.replace('"', "\"\""));
    let json = serde_json::json!({ "message": message }).to_string();
    let twice = serde_json::json!({ "log": json }).to_string();
    for text in [message.to_owned(), json, twice, in_csv] {
        let masked = redactor.text(&text).text.into_owned();
        let mask = masked.find("[redacted:").unwrap_or_else(|| panic!("not masked: {masked}"));
        let end = mask + masked[mask..].find(']').unwrap() + 1;
        assert_eq!(format!("{}hunter22x{}", &masked[..mask], &masked[end..]), text);
    }
}

/// What stands for a secret and is none: it stays, also as a log of JSON has it, and the last look does not refuse it.
#[test]
fn what_stays_is_not_refused_by_the_last_look() {
    const LINES: [&str; 15] = [
        "password: SecretStr",
        "Password:RequireNonAlphanumeric=false",
        "MYSQL_ROOT_PASSWORD: ${MYSQL_ROOT_PASSWORD?err}",
        "'password' => ['required', 'confirmed', Password::min(8)],",
        "kube_secret_info{namespace=\"shop\",secret=\"shop-db-1a2b3\"} 1",
        "octo create-release --apiKey $OctopusApiKey",
        "SLACK_BOT_TOKEN=xoxb-your-token",
        "GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "apiKey: 'xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx'",
        "STRIPE_SECRET_KEY=sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
        "JWT_SECRET_KEY=%kernel.project_dir%/config/jwt/private.pem",
        "kubectl create secret generic db --from-file=password=./pw.txt",
        "password: <path:secret/data/shop#password>",
        "secrets: [db_password, api_key]",
        "public-key-pins: pin-sha256=\"cUPcTAZWKaASuYWhhneDttWpY3oBAkE3h2+soZS7sWs=\"",
    ];
    let redactor = Redactor::new(Options::default()).unwrap();
    for line in LINES {
        for text in [format!("{line}\n"), serde_json::json!({ "message": line }).to_string()] {
            assert_eq!(redactor.text(&text).text, text);
            let found = verify([("log".to_owned(), text.as_bytes())], &redactor.fingerprints());
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }
}
