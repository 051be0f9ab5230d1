//! Logs as servers write them: every planted secret goes, what is around it stays, and clean logs stay as they are.

use std::collections::BTreeMap;

use biopsy_redact::{BundleKey, Hit, Options, Redactor, verify};

const PLANTED: [(&str, &str); 5] = [
    ("nginx", include_str!("corpus/nginx.log")),
    ("postgres", include_str!("corpus/postgres.log")),
    ("aspnet", include_str!("corpus/aspnet.log")),
    ("octopus", include_str!("corpus/octopus.log")),
    ("systemd", include_str!("corpus/systemd.log")),
];
const CLEAN: &str = include_str!("corpus/clean.log");

fn redactor(learn_from_text: bool) -> Redactor {
    let options =
        Options { key: Some(BundleKey::from_bytes([5; 32])), learn_from_text, ..Options::default() };
    Redactor::new(options).expect("the built-in packs are right")
}

/// Secrets of all families, made here so that none is in the repository.
struct Maker {
    state: u64,
}

impl Maker {
    fn next(&mut self, below: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).expect("31 bits") % below
    }

    fn take(&mut self, alphabet: &str, length: usize) -> String {
        let bytes = alphabet.as_bytes();
        (0..length).map(|_| char::from(bytes[self.next(bytes.len())])).collect()
    }

    fn make(&mut self, kind: &str) -> String {
        const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        const HEX: &str = "0123456789abcdef";
        const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        match kind {
            // Ends with a letter, so that no punctuation of the line is part of it.
            "pw" => format!(
                "{}{}{}{}",
                self.take(LETTERS, 3),
                self.take("!#$%^*+_-~.", 1),
                self.take(ALNUM, 6),
                self.take("23456789", 2) + "x"
            ),
            "pwurl" => format!("{}%40{}7%21q", self.take(LETTERS, 3), self.take(ALNUM, 5)),
            "hex32" => format!("a1b2{}", self.take(HEX, 28)),
            "hex40" => format!("a1b2{}", self.take(HEX, 36)),
            "hex64" => format!("a1b2{}", self.take(HEX, 60)),
            "b64" => format!("aB1c2{}9Q=", self.take(BASE64, 34)),
            "b64url" => format!("aB1c2{}9Q", self.take(ALNUM, 34)),
            "token" => format!("tK1{}9z", self.take(ALNUM, 24)),
            "session" => format!("q1w2{}", self.take("abcdefghijklmnopqrstuvwxyz012345", 20)),
            "basic" => format!("dXNlcjpw{}MQ==", self.take(ALNUM, 12)),
            "jwt" => format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", self.take(ALNUM, 20), self.take(ALNUM, 30)),
            "bcrypt" => format!("$2b$12${}", self.take(ALNUM, 53)),
            "crypt" => format!("$6${}${}", self.take(ALNUM, 8), self.take(ALNUM, 86)),
            "aws" => format!("{}{}", "AKIA", self.take("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)),
            "ghp" => format!("{}{}", "ghp_", self.take(ALNUM, 36)),
            "glpat" => format!("{}{}", "glpat-", self.take(ALNUM, 20)),
            "slack" => format!("{}{}-{}", "xoxb-", self.take("0123456789", 12), self.take(ALNUM, 24)),
            "slackhook" => format!(
                "{}/services/T{}/B{}/{}",
                "hooks.slack.com",
                self.take(UPPER, 8),
                self.take(UPPER, 8),
                self.take(ALNUM, 24)
            ),
            "stripe" => format!("{}{}", "sk_live_", self.take(ALNUM, 24)),
            "npm" => format!("{}{}", "npm_", self.take(ALNUM, 36)),
            "pypi" => format!("{}{}", "pypi-AgEIcHlwaS5vcmc", self.take(ALNUM, 60)),
            "openai" => format!("{}{}1", "sk-proj-", self.take(ALNUM, 48)),
            "google" => format!("{}{}", "AIza", self.take(ALNUM, 35)),
            "octopus" => format!("{}{}", "API-", self.take(UPPER, 27)),
            "age" => format!("{}{}", "AGE-SECRET-KEY-1", self.take("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
            "vault" => format!("{}{}", "hvs.", self.take(ALNUM, 90)),
            "pemescaped" => format!("\\n{}\\n", self.take(BASE64, 64)),
            "pemline" => self.take(BASE64, 64),
            other => panic!("no such kind: {other}"),
        }
    }
}

/// The text with secrets in the place of `⟦kind⟧`, the secrets, and the text with `⟦⟧` there.
fn plant(template: &str, maker: &mut Maker) -> (String, Vec<(String, String)>, String) {
    let (mut text, mut secrets, mut skeleton) = (String::new(), Vec::new(), String::new());
    let mut rest = template;
    while let Some(start) = rest.find('⟦') {
        let end = start + rest[start..].find('⟧').expect("a closing bracket");
        let kind = &rest[start + '⟦'.len_utf8()..end];
        let secret = maker.make(kind);
        for out in [&mut text, &mut skeleton] {
            out.push_str(&rest[..start]);
        }
        text.push_str(&secret);
        skeleton.push_str("⟦⟧");
        secrets.push((kind.to_owned(), secret));
        rest = &rest[end + '⟧'.len_utf8()..];
    }
    text.push_str(rest);
    skeleton.push_str(rest);
    (text, secrets, skeleton)
}

/// The text with `⟦⟧` in the place of every mask.
fn without_masks(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("[redacted:") {
        let end = start + rest[start..].find(']').expect("a mask ends");
        out.push_str(&rest[..start]);
        out.push_str("⟦⟧");
        rest = &rest[end + 1..];
    }
    out + rest
}

/// Name, text, secrets with their kinds, skeleton.
type Planted = (&'static str, String, Vec<(String, String)>, String);

fn planted() -> Vec<Planted> {
    let mut maker = Maker { state: 42 };
    PLANTED
        .iter()
        .map(|(name, template)| {
            let (text, secrets, skeleton) = plant(template, &mut maker);
            (*name, text, secrets, skeleton)
        })
        .collect()
}

#[test]
fn every_planted_secret_goes_without_help_of_learning() {
    let redactor = redactor(false);
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    for (name, text, secrets, _) in planted() {
        let redacted = redactor.text(&text).text;
        for (line, was) in redacted.lines().zip(text.lines()) {
            for (kind, secret) in &secrets {
                if line.contains(secret.as_str()) {
                    survivors.push(format!("{name}: {kind} in {was}\n   -> {line}"));
                }
            }
        }
        for (kind, _) in secrets {
            *families.entry(kind).or_default() += 1;
        }
    }
    let total: usize = families.values().sum();
    assert!(total >= 120 && families.len() >= 25, "{total} planted: {families:?}");
    assert!(survivors.is_empty(), "{} of {total} survive:\n{}", survivors.len(), survivors.join("\n"));
}

#[test]
fn what_stands_around_secrets_stays() {
    let redactor = redactor(false);
    let mut wrong = Vec::new();
    for (_, text, _, skeleton) in planted() {
        let redacted = without_masks(&redactor.text(&text).text);
        let redacted: Vec<&str> = redacted.lines().filter(|line| !line.contains("RSA PRIVATE KEY")).collect();
        let skeleton: Vec<&str> = skeleton.lines().filter(|line| !line.contains("RSA PRIVATE KEY")).collect();
        assert_eq!(redacted.len(), skeleton.len());
        for (got, want) in redacted.into_iter().zip(skeleton) {
            if got != want {
                wrong.push(format!("want {want}\ngot   {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn line_by_line_as_streams_and_in_utf16_they_go_too() {
    let redactor = redactor(false);
    for (name, text, secrets, _) in planted() {
        let mut lines = redactor.lines();
        let by_line: Vec<String> = text.lines().map(|line| lines.line(line).text.into_owned()).collect();
        let by_line = by_line.join("\n");
        let mut streamed = Vec::new();
        let summary = redactor.stream(text.as_bytes(), &mut streamed).expect("memory can be written");
        let streamed = String::from_utf8(streamed).expect("it was UTF-8");
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let wide: Vec<u16> = redactor
            .bytes(&wide)
            .bytes
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        let wide = String::from_utf16(&wide).expect("it was UTF-16");
        for (kind, secret) in &secrets {
            for (how, redacted) in [("by line", &by_line), ("as stream", &streamed), ("in UTF-16", &wide)] {
                assert!(!redacted.contains(secret.as_str()), "{name} {how}: a {kind} survives");
            }
        }
        let masked: u64 = summary.hits.iter().map(|Hit { count, .. }| count).sum();
        assert!(masked + 1 >= secrets.len() as u64, "{name}: {masked} of {}", secrets.len());
    }
}

#[test]
fn clean_logs_stay_as_they_are() {
    let redactor = redactor(true);
    let changed: Vec<String> = CLEAN
        .lines()
        .filter_map(|line| {
            let redacted = redactor.text(line);
            (redacted.text != line).then(|| format!("was {line}\nnow {}", redacted.text))
        })
        .collect();
    assert!(changed.is_empty(), "{} lines change:\n{}", changed.len(), changed.join("\n"));
    assert!(redactor.text(CLEAN).hits.is_empty());
    assert_eq!(redactor.generation(), 0);
}

#[test]
fn the_verification_sees_what_was_planted_and_lets_redacted_and_clean_logs_pass() {
    let redactor = redactor(true);
    let members: Vec<(String, String)> =
        planted().into_iter().map(|(name, text, ..)| (name.to_owned(), text)).collect();
    let redacted: Vec<(String, String)> =
        members.iter().map(|(name, text)| (name.clone(), redactor.text(text).text.into_owned())).collect();
    let fingerprints = redactor.fingerprints();
    let look = |members: &[(String, String)]| {
        verify::verify(members.iter().map(|(name, text)| (name.clone(), text.as_bytes())), &fingerprints)
    };
    let findings = look(&redacted);
    assert!(
        findings.is_empty(),
        "{}",
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    );
    let clean = look(&[("clean".to_owned(), CLEAN.to_owned())]);
    assert!(clean.is_empty(), "{clean:?}");
    // It need not see everything, since it must not cry wolf, but most of it.
    let seen = look(&members);
    let planted: usize = members.iter().map(|(_, text)| text.lines().count()).sum();
    assert!(seen.len() * 2 > planted, "{} of {planted}", seen.len());
}
