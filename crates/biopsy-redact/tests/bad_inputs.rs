//! Bad days: lines without an end, bytes of no encoding, values at the edge of a file, too many secrets, policies with mistakes.

use std::io::{self, Read};

use biopsy_redact::{BundleKey, Options, Redactor};

fn redactor() -> Redactor {
    Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right")
}

fn streamed(redactor: &Redactor, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    redactor.stream(text, &mut out).expect("memory can be written");
    out
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn nul_bytes_and_mixed_encodings_hide_nothing() {
    let redactor = redactor();
    let mut text = b"\0\0password=Blau77kern\0\0\nna\xefve caf\xe9 password=Gelb88kern\n".to_vec();
    text.extend(b"\xff\xfe");
    text.extend("password=Rot99kernA\n".encode_utf16().flat_map(u16::to_le_bytes));
    text.extend("пароль: Weiss55kern\n密码：Grau44kern\n".as_bytes());
    let out = streamed(&redactor, &text);
    for secret in ["Blau77kern", "Gelb88kern", "Weiss55kern", "Grau44kern"] {
        assert!(!contains(&out, secret), "{secret} is left in {}", String::from_utf8_lossy(&out));
    }
    let wide: String = "Rot99kernA".chars().flat_map(|c| [c, '\0']).collect();
    assert!(!contains(&out, &wide), "UTF-16 in other text");
    assert!(contains(&out, "na") && out.contains(&0xef) && out.contains(&0xe9), "what is no secret stays");
}

#[test]
fn a_log_rotated_in_the_middle_of_a_value_shows_neither_half() {
    let redactor = redactor();
    let whole = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ";
    // The secret was met whole before.
    streamed(&redactor, format!("api_key={whole}\n").as_bytes());
    let first = streamed(&redactor, format!("10:01 got api_key={}", &whole[..20]).as_bytes());
    assert!(!contains(&first, &whole[..8]), "{}", String::from_utf8_lossy(&first));
    let all = streamed(&redactor, format!("10:02 {whole} again\n").as_bytes());
    assert!(!contains(&all, &whole[..8]), "{}", String::from_utf8_lossy(&all));
}

#[test]
fn secrets_of_one_character_and_of_64_kilobytes_are_masked_behind_their_name() {
    let redactor = redactor();
    let short = redactor.text("{\"password\":\"x\",\"next\":\"x\"}").text.into_owned();
    assert!(short.starts_with("{\"password\":\"[redacted:password:"), "{short}");
    assert!(short.ends_with("\"next\":\"x\"}"), "one character is searched for nowhere: {short}");
    let long: String = (0..65_536u32)
        .map(|at| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 27) as u8 % 26))
        .collect();
    let out = streamed(&redactor, format!("{{\"password\":\"{long}\",\"next\":1}}\n").as_bytes());
    assert!(out.len() < 200 && contains(&out, "\"next\":1}"), "{} bytes are left", out.len());
}

#[test]
fn a_secret_that_is_a_word_of_the_log_is_masked_behind_its_name_alone() {
    let redactor = redactor();
    let log = "2026-01-02 10:00:01 INFO server started\n2026-01-02 10:00:02 WARNING server is slow\n";
    for word in ["INFO", "WARNING", "server", "started"] {
        let out = streamed(&redactor, format!("db_password={word}\n{log}").as_bytes());
        assert!(contains(&out, log), "{word}: {}", String::from_utf8_lossy(&out));
    }
}

#[test]
fn very_many_different_secrets_are_all_masked_behind_their_names() {
    let redactor = redactor();
    let text: String = (0..20_000u32)
        .map(|at| format!("{at} password=Kern{:08x}x\n", at.wrapping_mul(2_654_435_761)))
        .collect();
    let out = streamed(&redactor, text.as_bytes());
    let out = String::from_utf8(out).expect("it is ASCII");
    assert_eq!(out.lines().count(), 20_000);
    assert_eq!(out.lines().filter(|line| line.contains("password=[redacted:")).count(), 20_000);
    let learning = redactor.learning();
    assert!(learning.values <= 8192, "what is searched for is bounded: {learning:?}");
}

/// A file that becomes shorter while it is read: some of it, and then nothing.
struct Truncated<'t>(&'t [u8], usize);

impl Read for Truncated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.0.len()).min(1000);
        if self.1 == 0 {
            return Ok(0);
        }
        self.1 -= 1;
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn a_source_that_is_truncated_meanwhile_ends_there_without_its_secrets() {
    let redactor = redactor();
    let text = "10:01 login password=Blau77kern done\n".repeat(200);
    for reads in 1..4 {
        let mut out = Vec::new();
        let summary = redactor.stream(Truncated(text.as_bytes(), reads), &mut out).expect("it reads");
        assert_eq!(summary.bytes_in, reads as u64 * 1000);
        assert!(!contains(&out, "Blau77"), "{}", String::from_utf8_lossy(&out));
    }
}

#[test]
fn expressions_of_a_policy_cannot_explode() {
    let pack = r#"
description = "mine"
[[rule]]
id = "mine"
description = "what backtracks for ever in other engines"
kind = "shape"
keywords = ["aa"]
after = 60000
regex = '(?P<secret>(?:a+)+(?:a|aa)+b)'
"#;
    let redactor = Redactor::new(Options { extra_packs: vec![pack.to_owned()], ..Options::default() })
        .expect("a linear engine takes it");
    let text = "a".repeat(20_000);
    assert_eq!(redactor.text(&text).text, text);
    assert!(redactor.text("x aaab y").text.contains("[redacted:mine:"));
    // One that would need a huge automaton is refused.
    let huge = pack.replace("(?:a+)+(?:a|aa)+b", "(?:[a-z]{1,900}){1,900}b");
    let error =
        Redactor::new(Options { extra_packs: vec![huge], ..Options::default() }).expect_err("too large");
    assert!(error.to_string().contains("`mine`"), "{error}");
}

#[test]
fn mistakes_in_a_policy_are_told_with_their_line_and_column() {
    for (pack, place) in [
        (
            "description = \"mine\"\n[[rule]]\nid = \"x\"\nkind = \"shape\"\nkeyword = [\"a\"]\n",
            "line 5, column 1",
        ),
        ("description = \"mine\"\n[[rule]\nid = \"x\"\n", "line 2, column 8"),
        ("description = \"mine\"\n[[rule]]\nid = 7\n", "line 3, column 6"),
    ] {
        let error = Redactor::new(Options { extra_packs: vec![pack.to_owned()], ..Options::default() })
            .expect_err("it has a mistake");
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains(place), "{place}: {error}: {source}");
    }
}
