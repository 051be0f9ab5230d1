//! What holds of any text: equal values have equal masks, what is masked once is nowhere, in no form; text without secrets stays.

use biopsy_redact::memory::{Literals, MemoryScanner};
use biopsy_redact::{BundleKey, MASK_START, Options, Redactor};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// One that learns, with rules compiled once for each thread.
fn learning(key: u8) -> Redactor {
    thread_local! {
        static RULES: Redactor = Redactor::new(Options {
            key: Some(BundleKey::from_bytes([1; 32])),
            learn_from_text: true,
            ..Options::default()
        })
        .expect("the built-in packs are right");
    }
    RULES.with(|rules| rules.for_bundle(BundleKey::from_bytes([key; 32])))
}

/// The same cases each time.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_261_129),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The masks of a text, in their order.
fn masks(text: &str) -> Vec<&str> {
    let starts = text.match_indices(MASK_START).map(|(start, _)| start);
    starts.filter_map(|start| Some(&text[start..=start + text[start..].find(']')?])).collect()
}

/// Its pseudonym: the rule takes no part in it.
fn pseudonym(mask: &str) -> &str {
    mask.trim_end_matches(']').rsplit(':').next().unwrap_or_default()
}

/// No word, and nothing that any escaping leaves in more than one way.
fn value() -> impl Strategy<Value = String> {
    "[a-z]{2}[A-Z][0-9][A-Za-z0-9]{8,20}[0-9][a-z]"
}

/// A line that names it.
fn named(kind: u8, value: &str) -> String {
    match kind % 6 {
        0 => format!("Password={value};"),
        1 => format!("{{\"api_key\":\"{value}\"}}"),
        2 => format!("DB_PASSWORD={value}"),
        3 => format!("<password>{value}</password>"),
        4 => format!("app --token {value} --port 80"),
        _ => format!("postgres://app:{value}@db1:5432/shop"),
    }
}

/// Words of sentences, and numbers, times and paths between them.
fn sentence() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "the",
        "server",
        "was",
        "started",
        "with",
        "42",
        "connections",
        "on",
        "port",
        "8080",
        "and",
        "waits",
        "for",
        "requests",
        "of",
        "clients",
        "10:11:12",
        "INFO",
        "orders",
        "/var/log/shop",
        "in",
        "3",
        "ms",
    ]);
    prop::collection::vec(word, 1..20).prop_map(|words| words.join(" "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|group| {
            let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
            let letter = move |at: usize| char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
            (0..4).map(move |at| if at <= group.len() { letter(at) } else { '=' })
        })
        .collect()
}

/// What a process was given: letters and digits, signs, base64, a UUID, blanks.
const OF_PROCESS: [&str; 6] = [
    "Ku8treBlau77x",
    "p#Ve5ga!Rot%9",
    "uNiVztksCsDhcc0u9e8BrAJ/+w==",
    "7f3c21aa-58b0-4d21-9c1e-0a1b2c3d4e5f",
    "four words and 7 digits",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYzzQ",
];

thread_local! {
    static SCANNER: MemoryScanner = {
        let mut literals = Literals::new();
        for value in OF_PROCESS {
            assert!(literals.add(value.as_bytes()).expect("the lists are right"), "{value}");
        }
        MemoryScanner::new(&literals).expect("the rules are right")
    };
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn equal_values_have_equal_masks_and_others_have_others(one in value(), other in value(), kinds: (u8, u8, u8)) {
        prop_assume!(one != other);
        let redactor = learning(2);
        let text = [named(kinds.0, &one), named(kinds.1, &other), named(kinds.2, &one)].join("\n");
        let masked = redactor.text(&text).text.into_owned();
        let found: Vec<&str> = masks(&masked).into_iter().map(pseudonym).collect();
        prop_assert_eq!(found.len(), 3, "{} -> {}", text, masked);
        prop_assert_eq!(found[0], found[2], "{} -> {}", text, masked);
        prop_assert_ne!(found[0], found[1], "{} -> {}", text, masked);
        prop_assert!(found.iter().all(|name| name.len() == 8 && name.bytes().all(|b| b.is_ascii_hexdigit())));
    }

    #[test]
    fn under_another_key_nothing_compares(value in value(), kind: u8) {
        let text = named(kind, &value);
        let (one, other) = (learning(2).text(&text).text.into_owned(), learning(3).text(&text).text.into_owned());
        prop_assert_eq!(masks(&one).len(), 1);
        prop_assert_ne!(pseudonym(masks(&one)[0]), pseudonym(masks(&other)[0]));
    }

    #[test]
    fn what_is_masked_behind_its_name_is_nowhere_in_any_form(value in value(), kind: u8, before in sentence(), after in sentence()) {
        let redactor = learning(2);
        let wide: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let forms = [value.clone(), hex(value.as_bytes()), hex(value.as_bytes()).to_uppercase(),
            base64(value.as_bytes()), base64(&wide)];
        let first = redactor.text(&named(kind, &value)).text.into_owned();
        prop_assert!(!first.contains(&value), "{}", first);
        for form in &forms {
            let text = format!("{before} {form} {after}");
            let masked = redactor.text(&text).text.into_owned();
            prop_assert!(!masked.contains(form.as_str()), "{} -> {}", text, masked);
            // What is around it stays.
            prop_assert!(masked.starts_with(&format!("{before} ")) && masked.ends_with(&format!(" {after}")), "{} -> {}", text, masked);
        }
    }

    #[test]
    fn text_without_secrets_stays(lines in prop::collection::vec(sentence(), 1..8)) {
        let text = lines.join("\n");
        let redactor = learning(2);
        let redacted = redactor.text(&text);
        prop_assert_eq!(&*redacted.text, text.as_str());
        prop_assert!(redacted.hits.is_empty());
    }

    #[test]
    fn a_text_by_its_lines_is_the_text(values in prop::collection::vec((value(), any::<u8>(), sentence()), 1..8)) {
        let lines: Vec<String> = values.iter().map(|(value, kind, words)| format!("{words}, {}", named(*kind, value))).collect();
        let redactor = learning(2);
        let whole = redactor.text(&lines.join("\n")).text.into_owned();
        let apart: Vec<String> = lines.iter().map(|line| learning(2).text(line).text.into_owned()).collect();
        prop_assert_eq!(whole, apart.join("\n"));
    }

    #[test]
    fn what_is_masked_is_counted(values in prop::collection::vec((value(), any::<u8>()), 1..6)) {
        let text: Vec<String> = values.iter().map(|(value, kind)| named(*kind, value)).collect();
        let redactor = learning(2);
        let text = text.join("\n");
        let redacted = redactor.text(&text);
        let counted: u64 = redacted.hits.iter().map(|hit| hit.count).sum();
        prop_assert_eq!(counted, masks(&redacted.text).len() as u64, "{}", redacted.text);
    }

    #[test]
    fn a_value_of_the_process_is_masked_in_memory_and_not_a_byte_beside_it(
        value in prop::sample::select(OF_PROCESS.as_slice()),
        before in prop::collection::vec(any::<u8>(), 0..200),
        after in prop::collection::vec(any::<u8>(), 0..200),
        is_wide: bool,
    ) {
        let units = |unit: u16| if is_wide { unit.to_le_bytes().to_vec() } else { vec![unit as u8] };
        let written: Vec<u8> = value.encode_utf16().flat_map(units).collect();
        let given = [&before[..], &[0, 0], &written, &[0, 0], &after].concat();
        let mut memory = given.clone();
        let whole = 0..memory.len();
        SCANNER.with(|scanner| scanner.mask(&mut memory, whole, |_, _| {}));
        let place = before.len() + 2..before.len() + 2 + written.len();
        let mask: Vec<u8> = if is_wide { [b'*', 0].repeat(value.len()) } else { vec![b'*'; value.len()] };
        prop_assert_eq!(&memory[place.clone()], &mask[..]);
        prop_assert_eq!(&memory[..place.start], &given[..place.start]);
        prop_assert_eq!(&memory[place.end..], &given[place.end..]);
    }
}
