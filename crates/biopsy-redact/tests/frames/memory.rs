//! Secrets in memory, in frames that programs keep them in: not a byte beside them changes.

use std::cell::OnceCell;

use biopsy_redact::memory::{Literals, MemoryScanner};
use proptest::prelude::*;

use crate::content::name;

thread_local! {
    static SCANNER: OnceCell<MemoryScanner> = const { OnceCell::new() };
}

fn masked(bytes: &[u8]) -> Vec<u8> {
    let mut memory = bytes.to_vec();
    let whole = 0..memory.len();
    SCANNER.with(|kept| {
        let scanner =
            kept.get_or_init(|| MemoryScanner::new(&Literals::new()).expect("the built-in packs are right"));
        scanner.mask(&mut memory, whole, |_, _| {});
    });
    memory
}

/// What none of the frames takes for its end.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[A-Za-z0-9]{8,24}",
        2 => "[A-Za-z0-9!#$%^*_+=.~@-]{8,20}",
        1 => "[A-Za-z0-9+/]{24}==",
        1 => "ghp_[A-Za-z0-9]{36}",
        1 => "[a-f0-9]{32}",
        1 => "[A-Za-z]{5,8}[äöüп]{1,3}[0-9]{2}",
    ]
}

/// What stands between texts in a heap.
fn heap() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(vec![0; 16]),
        any::<[u8; 24]>().prop_map(|bytes| bytes.to_vec()),
        (0x7f00_0000_0000_u64..0x7fff_ffff_ffff).prop_map(|pointer| pointer.to_le_bytes().to_vec()),
        prop::sample::select(vec!["GET /items\0", "utf-8\0", "Shop.Orders\0", "password\0"])
            .prop_map(|text| text.as_bytes().to_vec()),
        prop::sample::select(vec!["Orders", "utf-8", "Password"]).prop_map(crate::wide),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// What stands in front of a value and behind it.
fn frame() -> impl Strategy<Value = (String, String)> {
    (name(), 0..13_u8).prop_map(|(name, kind)| {
        let name = name.replace(' ', "_");
        let (before, behind) = match kind {
            0 => (format!("{{\"user\":\"app\",\"{name}\":\""), "\"}".to_owned()),
            1 => (format!("user=app\n{name}="), "\nport=80\n".to_owned()),
            2 => (format!("user: app\n{name}: \""), "\"\nport: 80\n".to_owned()),
            3 => (format!("HOME=/srv\0{name}="), "\0SHLVL=1\0".to_owned()),
            4 => (format!("/usr/bin/shop --{name} "), " --port 80\0".to_owned()),
            5 => (format!("Server=db1;User Id=app;{name}="), ";Encrypt=true".to_owned()),
            6 => (format!("{name}: "), "\r\nAccept: */*\r\n\r\n".to_owned()),
            7 => (format!("<{name}>"), format!("</{name}><x>5</x>")),
            8 => (format!("<add key=\"{name}\" value=\""), "\" />".to_owned()),
            9 => (format!("connect with {name} '"), "' failed".to_owned()),
            10 => ("postgres://app:".to_owned(), "@db1:5432/shop?sslmode=off".to_owned()),
            11 => (format!("{name} = \""), "\" # for the shop".to_owned()),
            _ => (format!("{name} => '"), "', 'port' => 80".to_owned()),
        };
        (before, behind)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_beside_a_value_changes(
        (front, back) in (heap(), heap()),
        (before, behind) in frame(),
        value in value(),
        written in 0..3_u8,
    ) {
        let write = |text: &str| match written {
            0 => text.as_bytes().to_vec(),
            1 => crate::wide(text),
            _ => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        };
        // A heap has a zero behind each text.
        let (before, value) = ([front, vec![0; 4], write(&before)].concat(), write(&value));
        let memory = [&before[..], &value, &write(&behind), &[0; 4], &back].concat();
        let after = masked(&memory);
        prop_assert_eq!(after.len(), memory.len());
        let secret = before.len()..before.len() + value.len();
        let wrong: Vec<usize> =
            (0..memory.len()).filter(|at| memory[*at] != after[*at] && !secret.contains(at)).collect();
        // What the heap holds by chance may be a secret to a rule; what the frame holds is none.
        let of_frame = before.len().saturating_sub(120)..secret.end + write(&behind).len();
        let wrong: Vec<usize> = wrong.into_iter().filter(|at| of_frame.contains(at)).collect();
        prop_assert!(wrong.is_empty(), "{:?} of\n{}\n{}", wrong, memory.escape_ascii(), after.escape_ascii());
        prop_assert_eq!(masked(&after), after);
    }
}
