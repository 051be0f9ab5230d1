//! Examples of the rules in all encodings, planted secrets at every alignment, and cuts.

use proptest::prelude::*;

use super::fuzz::{masked, piece};
use super::*;

/// How a text stands in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Utf8,
    Little,
    Big,
}

pub(super) const ALL: [Written; 3] = [Written::Utf8, Written::Little, Written::Big];

pub(super) fn write(text: &str, how: Written) -> Vec<u8> {
    match how {
        Written::Utf8 => text.as_bytes().to_vec(),
        Written::Little => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Written::Big => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    }
}

pub(super) fn scanner() -> &'static MemoryScanner {
    static SCANNER: std::sync::OnceLock<MemoryScanner> = std::sync::OnceLock::new();
    SCANNER.get_or_init(|| MemoryScanner::new(&Literals::new()).expect("the built-in packs are right"))
}

fn splice(example: &str) -> String {
    example.replace('¦', "")
}

/// Does every character of `value`, searched for behind `from`, turn into the mask?
fn is_masked(before: &[u8], after: &[u8], value: &[u8]) -> bool {
    memchr::memmem::find_iter(before, value).any(|at| {
        value.iter().zip(&after[at..]).all(|(was, is)| *was == 0 || *is != *was || was.is_ascii_whitespace())
    })
}

/// A text in memory: other things around it, so that it is not cut by the end of the bytes.
fn in_memory(text: &str, how: Written) -> Vec<u8> {
    let mut memory = vec![1, 2, 0xff, 0, 0];
    memory.extend(write(text, how));
    memory.extend([0, 0, 0xff, 0xfe, 0]);
    memory
}

/// Examples that are left to the text rules: values too short to be worth it, names that are not ASCII, elements that
/// are cut short, and tokens without a rare start.
fn is_text_only(rule: &str, text: &str, values: &[String]) -> bool {
    match rule {
        "password" => {
            values.iter().any(|value| splice(value).chars().count() < 4)
                || text.starts_with("Пароль")
                || text.starts_with("<password>abc def\n")
                || text.starts_with("user,password")
                || text.contains("пароль")
                || text.contains("parola")
                || ["$ shopctl config get ", "* *", "mavenPassword - "]
                    .iter()
                    .any(|start| text.starts_with(start))
                || text.contains("input_value=")
        }
        "token" => text.starts_with("--azdo-pat") || text.starts_with("* *"),
        "auth-token" => text.starts_with("kubeadm_join_token - "),
        "smtp-auth" => text.contains("XOAUTH2"),
        "mail-token" => text.starts_with("bot "),
        "ai-key" => text.starts_with("sk-0"),
        "issuer-token" => ["use AAAAA", "use sl.", "use 4b1d"].iter().any(|start| text.starts_with(start)),
        "rsa-xml-key" => text.starts_with("<D>"),
        _ => false,
    }
}

#[test]
fn every_example_of_every_rule_used_on_memory_holds_in_all_encodings() {
    let scanner = scanner();
    let mut wrong = Vec::new();
    for rule in rules::load(false, &[]).expect("the packs are right").rules {
        let Some(memory) = &rule.memory else { continue };
        for example in rule.matches.iter().chain(&memory.matches) {
            let text = splice(&example[0]);
            // What is too short for memory is masked in texts alone.
            let is_short = example[1..].iter().any(|value| splice(value).len() < memory.min_length);
            if is_short || is_text_only(&rule.id, &text, &example[1..]) {
                continue;
            }
            for how in ALL {
                let before = in_memory(&text, how);
                let after = masked(scanner, &before);
                let missed = example[1..]
                    .iter()
                    .find(|value| !is_masked(&before, &after, &write(&splice(value), how)));
                if let Some(value) = missed {
                    wrong.push(format!(
                        "{} {how:?}: {value:?} is left in {text:?}\n    {:?}",
                        rule.id,
                        String::from_utf8_lossy(&after)
                    ));
                }
                if masked(scanner, &after) != after {
                    wrong.push(format!("{} {how:?}: not idempotent: {text:?}", rule.id));
                }
            }
        }
        for text in rule.no_match.iter().chain(&memory.no_match).map(|text| splice(text)) {
            // In memory a token need not begin a word.
            if text.starts_with("task_live_") {
                continue;
            }
            for how in ALL {
                let before = in_memory(&text, how);
                if masked(scanner, &before) != before {
                    wrong.push(format!("{} {how:?}: must stay: {text:?}", rule.id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} examples fail:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn only_text_is_masked() {
    // No end of the text: what follows are pointers and lengths.
    for how in ALL {
        let mut memory = write("Server=db1;Password=hunter2", how);
        let end = memory.len();
        memory.extend([0x10, 0x80, 0x7f, 0x7f, 0, 0, 0x20, 0x41, 0x41, 0x41, 0x7f, 0x55, 0, 0, 0xc3, 0x28]);
        let after = masked(scanner(), &memory);
        assert_eq!(&after[end..], &memory[end..], "{how:?}");
        assert!(!is_left(&after, "hunter2", how), "{how:?}");
    }
}

fn is_left(memory: &[u8], value: &str, how: Written) -> bool {
    memchr::memmem::find(memory, &write(value, how)).is_some()
}

#[test]
fn tokens_are_found_behind_whatever_stands_in_front() {
    for token in ["gh¦p_0123456789abcdefghijABCDEFGHIJ012345", "xo¦xb-123456789012-abcdefghijkl"] {
        for how in ALL {
            let memory = [&b"A\x01Z"[..], &write(&splice(token), how), &[0, 0]].concat();
            assert!(!is_left(&masked(scanner(), &memory), &splice(token), how), "{token} {how:?}");
        }
    }
}

#[test]
fn values_beyond_ascii_are_masked_to_the_last_character() {
    for value in ["pässwörd€1", "пароль77", "k\u{1f511}y-x9z"] {
        for how in ALL {
            let memory = in_memory(&format!("a;Password={value};Timeout=5"), how);
            let after = masked(scanner(), &memory);
            let stars: usize = after.iter().filter(|byte| **byte == b'*').count();
            let units = match how {
                Written::Utf8 => value.len(),
                _ => value.encode_utf16().count(),
            };
            assert_eq!(stars, units, "{value} {how:?} {after:?}");
            let tail = write(";Timeout=5", how);
            assert!(memchr::memmem::find(&after, &tail).is_some());
        }
    }
}

#[test]
fn literals_are_masked_wherever_they_stand() {
    let mut literals = Literals::new();
    assert!(literals.add(b"n0t-s0-s3cret").expect("lists"));
    assert!(literals.add("schlüssel-4711".as_bytes()).expect("lists"));
    assert!(!literals.add(b"true").expect("lists"));
    assert!(!literals.add(b"postgres").expect("lists"));
    let scanner = MemoryScanner::new(&literals).expect("the packs are right");
    for value in ["n0t-s0-s3cret", "schlüssel-4711"] {
        for how in ALL {
            for lead in 0..5 {
                let mut memory = vec![b'a'; lead];
                memory.extend(write(value, how));
                memory.extend(b"zz\x01");
                let after = masked(&scanner, &memory);
                assert!(!is_left(&after, value, how), "{value} {how:?} {lead}");
                assert!(after.starts_with(&vec![b'a'; lead]) && after.ends_with(b"zz\x01"), "{how:?} {lead}");
            }
        }
    }
    // Inside a longer value, which goes on behind it.
    for how in ALL {
        let before = in_memory("a;Password=n0t-s0-s3cret-and-more;Timeout=5", how);
        let after = masked(&scanner, &before);
        let expected = in_memory("a;Password=**********************;Timeout=5", how);
        assert_eq!(after, expected, "{how:?}");
    }
    // The first byte of UTF-16, high byte first, may be the last of a page of zeros.
    let mut memory = vec![0; 4095];
    memory.extend(write("schlüssel-4711", Written::Big));
    assert!(!is_left(&masked(&scanner, &memory), "schlüssel-4711", Written::Big));
    // dXNlcjpuMHQtczAtczNjcmV0 is user:n0t-s0-s3cret.
    let after = masked(&scanner, b"dXNlcjpuMHQtczAtczNjcmV0");
    assert!(!after.ends_with(b"czNjcmV0"), "{:?}", String::from_utf8_lossy(&after));
}

#[test]
fn each_secret_is_counted_once_by_the_rule_that_found_its_start() {
    let text = "{\"access_token\":\"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w\",\"password\":\"hunter22\"}";
    for how in ALL {
        let mut memory = in_memory(text, how);
        let whole = 0..memory.len();
        let mut rules = Vec::new();
        scanner().mask(&mut memory, whole, |rule, _| rules.push(scanner().rules()[rule].clone()));
        assert_eq!(rules.len(), 2, "{how:?} {rules:?}");
        assert_eq!(rules[1], "password");
    }
}

#[test]
fn a_private_key_is_masked_from_its_first_and_from_its_last_line() {
    let line = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfnygWyF8PbnGy0AHB7MaHdgWyF8PbnGy0A\n";
    for lines in [1, 20, 50] {
        let body = line.repeat(lines);
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n");
        for how in ALL {
            for text in [&key[..], &key[..key.len() - 31], &key[32..]] {
                let after = masked(scanner(), &in_memory(text, how));
                assert!(!is_left(&after, &line[..10], how), "{lines} lines {how:?} {}", text.len());
                let ends = after.iter().filter(|byte| **byte == b'\n').count();
                assert!(ends >= lines, "line ends stay: {ends} of {lines}");
            }
        }
    }
}

#[test]
fn masked_pieces_are_the_masked_whole() {
    let mut memory = Vec::new();
    let secrets = ["Password=hunter2-long;", "https://bob:tok3n-x@git.example.com/", "x-api-key: 5f2a9c1e7b"];
    for (index, secret) in secrets.iter().cycle().take(300).enumerate() {
        memory.extend(write(secret, ALL[index % 3]));
        memory.extend(vec![index as u8; index % 97]);
    }
    let whole = masked(scanner(), &memory);
    for length in [1 << 10, 4096, 10_007] {
        let mut pieces = Vec::new();
        for start in (0..memory.len()).step_by(length) {
            pieces.extend(piece(scanner(), &memory, start, memory.len().min(start + length)));
        }
        assert!(pieces == whole, "pieces of {length}");
    }
}

/// A scanner that asks every rule at every place of each of its anchors, without the filter and whatever follows there.
fn slow_scanner() -> &'static MemoryScanner {
    static SCANNER: std::sync::OnceLock<MemoryScanner> = std::sync::OnceLock::new();
    SCANNER.get_or_init(|| {
        let mut scanner = MemoryScanner::new(&Literals::new()).expect("the built-in packs are right");
        for anchor in &mut scanner.set.anchors {
            if let Meaning::Rules(rules) = &mut anchor.meaning {
                rules.iter_mut().for_each(|asked| asked.outline = None);
            }
        }
        scanner
    })
}

fn found_slowly(bytes: &[u8]) -> Vec<Found> {
    let scanner = slow_scanner();
    let mut windows = Windows::new(bytes, Vec::new());
    let mut found = Vec::new();
    for start in 0..bytes.len() {
        for (number, anchor) in scanner.set.anchors.iter().enumerate() {
            for stride in [1, 2] {
                let at = Candidate { start, anchor: number, stride };
                scanner.look(bytes, &mut windows, anchor, at, &mut found);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Beginnings of credentials and names, their values, whole examples, and what is none of them.
fn texts() -> impl Strategy<Value = String> {
    let anchors = scanner().set.anchors.iter();
    let anchors: Vec<String> =
        anchors.map(|anchor| String::from_utf8_lossy(&anchor.bytes).into_owned()).collect();
    let rules = rules::load(false, &[]).expect("the packs are right").rules;
    let examples: Vec<String> =
        rules.iter().flat_map(|rule| &rule.matches).map(|example| splice(&example[0])).collect();
    prop_oneof![
        4 => prop::sample::select(anchors),
        2 => prop::sample::select(examples).prop_filter("short", |text| text.len() < 400),
        4 => "[A-Za-z0-9_.~+/=-]{1,40}",
        2 => "[=:\"' ,;&<>]{1,3}",
        1 => "[\\x00-\\x1f\\x7f]{1,9}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_filter_and_outlines_hide_nothing(
        pieces in prop::collection::vec((texts(), 0usize..3), 1..12),
    ) {
        let mut memory = Vec::new();
        for (text, how) in pieces {
            memory.extend(write(&text, ALL[how]));
        }
        let mut room = Room::default();
        scanner().find(&memory, &mut room);
        room.found.sort_unstable();
        prop_assert_eq!(&room.found, &found_slowly(&memory), "{:?}", String::from_utf8_lossy(&memory));
    }
}

#[test]
fn most_beginnings_of_credentials_are_asked_for_only_in_front_of_a_run() {
    let anchors = &scanner().set.anchors;
    let runs = anchors.iter().filter(|anchor| anchor.text().run >= gram::RUN).count();
    assert!(runs * 4 > anchors.len(), "{runs} of {}", anchors.len());
    assert!(anchors.iter().all(|anchor| anchor.text().run < gram::RUN || anchor.exact));
}
