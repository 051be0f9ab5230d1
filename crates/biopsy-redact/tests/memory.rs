//! Secrets planted in memory at every alignment, in every encoding and across the edges of blocks: none is left.

use std::ops::Range;

use biopsy_redact::memory::{Literals, MemoryScanner, OVERLAP};
use proptest::prelude::*;

/// Blocks in which memory is read here: small, so that much lies across edges.
const BLOCK: usize = 4096;

#[derive(Clone, Copy, Debug)]
enum Written {
    Utf8,
    Little,
    Big,
}

const ALL: [Written; 3] = [Written::Utf8, Written::Little, Written::Big];

fn write(text: &str, how: Written) -> Vec<u8> {
    match how {
        Written::Utf8 => text.as_bytes().to_vec(),
        Written::Little => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Written::Big => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    }
}

/// A small generator of numbers: the same run each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }
}

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Values that programs keep, in texts that programs keep them in: `(text, value)`.
fn plant(kind: usize, n: &mut Numbers) -> (String, String) {
    // A digit and letters of both cases, as rules for tokens want it.
    let token = |n: &mut Numbers, length: usize| format!("a1B{}", n.text(LETTERS, length - 3));
    let around = |before: &str, value: String, after: &str| (format!("{before}{value}{after}"), value);
    match kind % 25 {
        0 => around("Server=db;User Id=app;Password=", token(n, 14), ";Encrypt=true"),
        1 => around("{\"user\":\"app\",\"password\":\"", token(n, 10), "\"}"),
        2 => around("{\"user\": \"app\", \"Password\" : \"", token(n, 10), "\", \"a\": 1}"),
        3 => around("using AK", format!("IA{}", n.text(CAPITALS, 16)), " now"),
        4 => {
            let value = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}", token(n, 300), token(n, 43));
            around("token ", value, " end")
        }
        5 => {
            let lines: Vec<String> = (0..26).map(|_| n.text(BASE64, 64)).collect();
            let value = lines[n.below(26)].clone();
            (
                format!(
                    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n",
                    lines.join("\n")
                ),
                value,
            )
        }
        6 => around(
            "AccountName=a;AccountKey=",
            format!("{}==", token(n, 86)),
            ";EndpointSuffix=core.windows.net",
        ),
        7 => around("clone with gh", format!("p_{}", token(n, 36)), " done"),
        8 => around("Authorization: Bearer ", token(n, 40), "\r\nHost: x"),
        9 => around("Authorization: Basic ", format!("dXNlcjpo{}=", token(n, 11)), "\r\n"),
        10 => around("Cookie: sid=", token(n, 24), "; theme=dark\r\n"),
        11 => around("postgres://app:", token(n, 12), "@db:5432/shop"),
        12 => around("x-api-key: ", token(n, 32), "\n"),
        13 => around("DB_PASSWORD=", token(n, 16), "\n"),
        14 => around("xox", format!("b-{}", token(n, 30)), "\""),
        15 => around("\"ClientSecret\": \"", token(n, 40), "\""),
        16 => around("<add key=\"SmtpPassword\" value=\"", token(n, 12), "\" />"),
        17 => around("?user=a&pwd=", token(n, 9), "&c=d"),
        18 => around(
            "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=",
            format!("{}=", token(n, 43)),
            "",
        ),
        19 => around("gl", format!("pat-{}", token(n, 20)), " "),
        20 => around("sk_l", format!("ive_{}", token(n, 24)), " "),
        21 => {
            around("https://a.blob.core.windows.net/c?sv=2&sig=", format!("{}%3D", token(n, 43)), "&se=2026")
        }
        22 => around("&access_token=", token(n, 64), "&state=1"),
        23 => around("key: API", format!("-{}", n.text(CAPITALS, 28)), " "),
        _ => around("<Password>", token(n, 11), "</Password>"),
    }
}

/// Bytes as heaps have them: pointers, small numbers, zeros and words, among them words that rules look for.
fn filler(n: &mut Numbers, length: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = [
        "customer",
        "passwordless",
        "System.String",
        "PublicKeyToken=b77a5c561934e089",
        "/usr/lib",
        "get_Password",
        "http://x/",
        "akia",
    ];
    let mut bytes = Vec::with_capacity(length + 64);
    while bytes.len() < length {
        match n.below(5) {
            0 => bytes.extend((0x7f00_0000_0000 + n.next() % (1 << 32)).to_le_bytes()),
            1 => bytes.extend((n.next() % 256).to_le_bytes()),
            2 => bytes.resize(bytes.len() + n.below(64), 0),
            3 => {
                bytes.extend(write(WORDS[n.below(8)], ALL[n.below(3)]));
                bytes.extend([0, 0]);
            }
            _ => bytes.extend(n.next().to_le_bytes()),
        }
    }
    bytes.truncate(length);
    // What is planted behind begins a text of its own.
    bytes.extend([0, 0]);
    bytes
}

fn scanner() -> &'static MemoryScanner {
    static SCANNER: std::sync::OnceLock<MemoryScanner> = std::sync::OnceLock::new();
    SCANNER.get_or_init(|| MemoryScanner::new(&Literals::new()).expect("the rules are right"))
}

/// Memory read in pieces that end at `ends`, each with what is around it.
fn masked(memory: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(memory.len());
    for end in ends.iter().copied().chain([memory.len()]) {
        let inner: Range<usize> = out.len()..end.clamp(out.len(), memory.len());
        let from = inner.start.saturating_sub(OVERLAP);
        let mut piece = memory[from..memory.len().min(inner.end + OVERLAP)].to_vec();
        scanner().mask(&mut piece, inner.start - from..inner.end - from, |_, _| {});
        out.extend_from_slice(&piece[inner.start - from..inner.end - from]);
    }
    out
}

fn holds(memory: &[u8], value: &[u8]) -> bool {
    memchr::memmem::find(memory, value).is_some()
}

#[test]
fn of_1000_planted_secrets_none_is_left_at_any_alignment_encoding_and_block_edge() {
    let mut n = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut left = Vec::new();
    for index in 0..1000 {
        let how = ALL[index % 3];
        let (text, value) = plant(index / 3, &mut n);
        let (text, value) = (write(&text, how), write(&value, how));
        // The edge of a block goes through each byte of the text in turn.
        let before = BLOCK - 2 - index % text.len().min(BLOCK / 2);
        let mut memory = filler(&mut n, before);
        memory.extend(&text);
        memory.extend([0, 0]);
        memory.extend(filler(&mut n, BLOCK));
        assert!(holds(&memory, &value));
        let ends: Vec<usize> = (BLOCK..memory.len()).step_by(BLOCK).collect();
        let after = masked(&memory, &ends);
        if holds(&after, &value) {
            left.push(format!("{index} {how:?}: {:?}", String::from_utf8_lossy(&text)));
        }
        assert_eq!(after.len(), memory.len());
    }
    assert!(left.is_empty(), "{} of 1000 are left:\n{}", left.len(), left.join("\n"));
}

#[test]
fn every_alignment_of_every_kind_is_found() {
    let mut n = Numbers(7);
    for kind in 0..25 {
        for how in ALL {
            let (text, value) = plant(kind, &mut n);
            let (text, value) = (write(&text, how), write(&value, how));
            // 130 is more than two vectors of the widest kind.
            for before in 0..130 {
                let mut memory = vec![0; before];
                memory.extend(&text);
                memory.extend([0, 0]);
                let after = masked(&memory, &[]);
                assert!(!holds(&after, &value), "{how:?} at {before}: {:?}", String::from_utf8_lossy(&text));
            }
        }
    }
}

#[test]
fn what_is_around_a_secret_stays_to_the_byte() {
    let mut n = Numbers(11);
    for kind in 0..25 {
        for how in ALL {
            let (text, value) = plant(kind, &mut n);
            let (text, value) = (write(&text, how), write(&value, how));
            let head = filler(&mut n, 500);
            let tail = filler(&mut n, 500);
            let clean = |bytes: &[u8]| masked(bytes, &[]) == bytes;
            assert!(clean(&head) && clean(&tail), "the filler holds no secrets");
            let memory = [&head[..], &text, &[0, 0], &tail].concat();
            let after = masked(&memory, &[]);
            assert!(!holds(&after, &value));
            assert!(after.starts_with(&head) && after.ends_with(&tail), "{how:?} kind {kind}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The proof that a decision about a byte depends on nothing further away than the overlap: wherever memory is cut,
    /// the pieces are the whole.
    #[test]
    fn cuts_anywhere_change_nothing(seed in 1u64.., mut ends in prop::collection::vec(0usize..120_000, 0..40)) {
        let mut n = Numbers(seed);
        let mut memory = Vec::new();
        while memory.len() < 120_000 {
            let how = ALL[n.below(3)];
            let (text, _) = plant(n.below(25), &mut n);
            // Some without end, some cut short, some twice.
            let text = write(&text, how);
            let cut = n.below(text.len() + 1);
            memory.extend(if n.below(4) == 0 { &text[..cut] } else { &text[..] });
            if n.below(3) == 0 {
                let length = n.below(3000);
                memory.extend(filler(&mut n, length));
            }
            if n.below(40) == 0 {
                // Text longer than any rule reaches.
                let long = n.below(40_000);
                memory.extend(write(&n.text(BASE64, long), how));
            }
        }
        ends.sort_unstable();
        let whole = masked(&memory, &[]);
        prop_assert!(masked(&memory, &ends) == whole);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        biopsy_redact::memory::fuzz_memory(&bytes);
    }
}

/// Names that nobody has listed, where a random run stands behind them.
#[test]
fn names_that_end_in_key_are_asked_about_where_a_random_run_follows() {
    let scanner = MemoryScanner::new(&Literals::new()).expect("the built-in packs are right");
    for value in
        ["J5iRMGr1rJHBs9iZcUC9AFHyQaytPeN9", "95bbe767b76609f6f856a85a88d3adde-4", "4873c072ea03444d9f61"]
    {
        for frame in [
            "map[host:db1 ZORB_KEY:{} port:80]",
            "{\"user\"=>\"app\", \"zorbKey\"=>\"{}\"}",
            "{'user': 'app', 'zorb_key': '{}', 'port': 80}",
            "[Service]\nEnvironment=LANG=C\nEnvironment=ZORB_KEY={}\nUser=app\n",
            "Server=db1;User Id=app;ZorbKey={};Timeout=30",
            "<add key=\"ZorbKey\" value=\"{}\" />",
            "<zorbKey>{}</zorbKey>",
        ] {
            let text = frame.replace("{}", value);
            let wanted = frame.replace("{}", &"*".repeat(value.len()));
            for is_wide in [false, true] {
                let write = |text: &str| -> Vec<u8> {
                    match is_wide {
                        false => text.as_bytes().to_vec(),
                        true => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                    }
                };
                let mut memory = [&[0, 0x7f, 1, 0, 0][..], &write(&text), &[0, 0, 0, 0x10]].concat();
                let all = [&[0, 0x7f, 1, 0, 0][..], &write(&wanted), &[0, 0, 0, 0x10]].concat();
                let whole = 0..memory.len();
                scanner.mask(&mut memory, whole, |_, _| {});
                assert_eq!(memory.escape_ascii().to_string(), all.escape_ascii().to_string(), "{text}");
            }
        }
    }
}

/// Keys of other things, words and identifiers stay: a debugger needs them.
#[test]
fn keys_of_tables_caches_and_objects_stay() {
    let scanner = MemoryScanner::new(&Literals::new()).expect("the built-in packs are right");
    for text in [
        "cacheKey=J5iRMGr1rJHBs9iZcUC9AFHyQaytPeN9",
        "{\"partitionKey\":\"J5iRMGr1rJHBs9iZcUC9AFHyQaytPeN9\"}",
        "publicKey: 95bbe767b76609f6f856a85a88d3adde",
        "PrimaryKey=CustomersByNumberAndDate2",
        "registryKey: HKEY_LOCAL_MACHINE",
        "key=\"J5iR\"",
        "hotkey: ctrl+shift+p",
        "monkey=J5iRMGr1rJHBs9iZ",
        "sortKey>d__12.MoveNext()",
    ] {
        let before = [&[0, 0x7f, 1][..], text.as_bytes(), &[0, 0x10]].concat();
        let mut memory = before.clone();
        let whole = 0..memory.len();
        scanner.mask(&mut memory, whole, |_, _| {});
        assert_eq!(memory.escape_ascii().to_string(), before.escape_ascii().to_string());
    }
}
