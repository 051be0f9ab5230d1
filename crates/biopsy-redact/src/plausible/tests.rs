//! Both sides of each line that is drawn between a secret and what only looks like one.

use proptest::prelude::*;

use super::*;

fn lists() -> Lists {
    Lists::new(Words::load().expect("the built-in lists are right"))
}

#[test]
fn what_stands_for_a_value_is_none() {
    let lists = lists();
    for text in [
        "",
        "  ",
        "****",
        "***hidden***",
        "xxxxx",
        "XX",
        "......",
        "--",
        "-",
        "•••",
        "••",
        "[redacted:password:0123abcd]",
        "${NAME}",
        "${app.db-password}",
        "$(NAME)",
        "#{Name}",
        "{{ name }}",
        "%(name)s",
        "@@name@@",
        "%{name}",
        "$[name]",
        "{name}",
        "<name>",
        "[HIDDEN]",
        "(none)",
        "{12}",
        "%NAME%",
        "%s",
        "?",
        "{}",
        "$NAME",
        "$DB_2",
        "$1",
        ":1",
        "$env:NAME",
        "@name",
        ":name",
        "null",
        "True",
        "NULL,",
        "sk-...",
        "sk_test_…",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "SG.xxxxxx",
        "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        "xoxb-your-token",
        "${NAME?not set}",
        "{{ lookup('env', 'DB_PASSWORD') }}",
        "<path:secret/data/shop#password>",
        "%kernel.project_dir%/config/jwt/private.pem",
        "%1",
        "$OctopusApiKey",
    ] {
        assert!(is_placeholder(text.as_bytes(), &lists), "`{text}`");
    }
    for text in [
        "x",
        "xX",
        "hunter...",
        "my-horse-xxxx",
        "horse-your-battery",
        "${Kq2x/?9fKq",
        "{{ 'hunter2' | b64enc }}",
        "{{ lookup('env', 'X') or 'hunter2' }}",
        "%4711",
        "horsexxxxxxxx",
        "{{ password | default('hunter2') }}",
        "%1x",
        "$OctopusHorse",
        "xxxxy",
        "aaaa",
        "hunter2",
        "${NAME:-hunter2}",
        "${NAME:=hunter2}",
        "${NAME",
        "{na=me}",
        "<na2me>",
        "[a1]",
        "%NAME",
        "__hunter22__",
        "$$(x9Kq2",
        "__NAME",
        "${Xfile(\"a\")}",
        "%NA2ME%",
        "$Name",
        "$2x",
        "$N",
        ":1a",
        "@name2",
        "@x",
        "•••x",
        "p•••",
        "[redacted:password:0123abcd]x",
        "[redacted:password:0123abc]",
    ] {
        assert!(!is_placeholder(text.as_bytes(), &lists), "`{text}`");
    }
}

#[test]
fn a_reference_is_short() {
    let reference = |length: usize| format!("${{{}}}", "n".repeat(length - 3));
    assert!(is_reference(reference(128).as_bytes()));
    assert!(!is_reference(reference(129).as_bytes()));
}

#[test]
fn expressions_of_source_code_are_no_values() {
    let lists = lists();
    for text in [
        "GetPassword()",
        "get_password();",
        "form.password(",
        "alice.computeSecret(key)",
        "process.env.DB_PASSWORD",
        "System.String",
        "{string",
    ] {
        assert!(is_code(text.as_bytes(), &lists), "`{text}`");
    }
    for text in ["hunter2()", "()", "(", "secret(key)", "a2.b(c)", "{", "{a1", "process", "hunter2;", ""] {
        assert!(!is_code(text.as_bytes(), &lists), "`{text}`");
    }
}

#[test]
fn punctuation_of_the_sentence_is_no_part_of_a_value() {
    for (value, bare) in
        [("abc.", "abc"), ("abc?!.,;:", "abc"), ("a.b", "a.b"), (".,", ""), ("", ""), ("abc-", "abc-")]
    {
        assert_eq!(trim_end_punctuation(value.as_bytes()), bare.as_bytes());
    }
}

#[test]
fn a_uuid_has_its_digits_and_hyphens_where_they_belong() {
    for (text, is) in [
        ("01234567-89ab-cdef-0123-456789ABCDEF", true),
        ("{01234567-89ab-cdef-0123-456789abcdef}", true),
        ("{01234567-89ab-cdef-0123-456789abcdef", false),
        ("01234567-89ab-cdef-0123-456789abcde", false),
        ("0123456789ab--cdef-0123-456789abcdef", false),
        ("01234567-89ab-cdef-0123-456789abcdeg", false),
    ] {
        assert_eq!(is_uuid(text.as_bytes()), is, "{text}");
    }
}

#[test]
fn each_strength_asks_for_what_it_says() {
    use Strength::{Any, Mixed, Random, Token};
    let hex = |length: usize| "0a1b2c3d4e5f6789".chars().cycle().take(length).collect::<String>();
    // Value, then whether it is strong enough for each strength.
    let rows: Vec<(String, [bool; 4])> = [
        ("correct horse", [true, true, false, false]),
        ("0x7ffd5e8c1234", [false, false, false, false]),
        ("0x7ffd5e8c12345678a", [true, true, true, false]),
        ("12345678901", [true, false, false, false]),
        ("123456789012", [true, true, false, false]),
        ("/srv/app/key1234", [true, false, false, false]),
        ("./key1234x", [true, false, false, false]),
        ("~/key1234", [true, false, false, false]),
        ("C:\\key1234", [true, false, false, false]),
        ("rsa12key.pem", [true, false, false, false]),
        (".pem", [true, true, false, false]),
        ("hunter2", [true, true, false, false]),
        ("hunter22", [true, true, true, false]),
        ("hunter22.", [true, true, true, false]),
        // Two digits in forty characters are enough, in forty-one they are not.
        ("abcdefghijklmnopqrstuvwxyzabcdefghijkl12", [true, true, true, false]),
        ("abcdefghijklmnopqrstuvwxyzabcdefghijklm12", [true, true, false, false]),
        // Letters in both cases with one digit: in an order of no word, or from twenty characters on.
        ("aBcDeFgHiJkLmNoPqRs1", [true, true, true, false]),
        ("aBcDeFgHiJkLmNoPqR1", [true, true, true, false]),
        ("abcdefghiJklmnopqr1", [true, true, false, false]),
        ("01234567-89ab-cdef-0123-456789abcdef", [true, true, false, false]),
        ("aB3dE6gH9jK2mN5pQ8sT", [true, true, true, true]),
        ("aB3dE6gH9jK2mN5pQ8s", [true, true, true, false]),
        ("AB3DE6GH9JK2MN5PQ8ab", [true, true, true, false]),
        ("aB3d/6gH-jK2m_5pQ8sT", [true, true, true, false]),
        ("aB3d/6gH-jK2mN5pQ8sT", [true, true, true, true]),
    ]
    .into_iter()
    .map(|(value, strong)| (value.to_owned(), strong))
    .chain([(hex(32), [true, true, true, true]), (hex(31), [true, true, true, false])])
    .collect();
    for (value, strong) in rows {
        let found = [Any, Mixed, Token, Random].map(|strength| is_strong(value.as_bytes(), strength));
        assert_eq!(found, strong, "`{value}`");
    }
}

proptest! {
    #[test]
    fn entropy_is_that_of_the_counts_and_of_nothing_else(mut value in prop::collection::vec(any::<u8>(), 1..200)) {
        let before = entropy(&value);
        let most = (value.len() as f64).log2().min(8.0);
        prop_assert!((-1e-9..=most + 1e-9).contains(&before), "{before} of {} bytes", value.len());
        value.reverse();
        prop_assert!((entropy(&value) - before).abs() < 1e-9);
        // The same shares, twice as many.
        value.extend_from_within(..);
        prop_assert!((entropy(&value) - before).abs() < 1e-9);
    }

    #[test]
    fn equal_bytes_have_none_and_different_ones_all_of_it(byte: u8, length in 1usize..=256) {
        prop_assert!(entropy(&vec![byte; length]).abs() < 1e-9);
        let all: Vec<u8> = (0..length).map(|at| at as u8).collect();
        prop_assert!((entropy(&all) - (length as f64).log2()).abs() < 1e-9);
    }

    #[test]
    fn whatever_is_random_is_a_token_and_a_token_is_mixed(value in "[0-9a-fA-Z/+_-]{16,48}") {
        let strong = |strength| is_strong(value.as_bytes(), strength);
        let is_hex_number = value.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_place = value.starts_with('/');
        prop_assert!(!strong(Strength::Random) || strong(Strength::Token) || is_hex_number || is_place || is_uuid(value.as_bytes()));
        prop_assert!(!strong(Strength::Token) || strong(Strength::Mixed) || crate::called::is_file_name(value.as_bytes()));
        prop_assert!(!strong(Strength::Mixed) || strong(Strength::Any));
    }
}
