//! Names and values in strings of their own, and neighbours in tables of strings.

use std::sync::LazyLock;

use super::*;
use crate::memory::{Literals, MemoryScanner};

/// It takes a tenth of a second to make, and is asked hundreds of times here.
static SCANNER: LazyLock<MemoryScanner> =
    LazyLock::new(|| MemoryScanner::new(&Literals::new()).expect("the rules are right"));

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn masked(memory: &[u8]) -> Vec<u8> {
    let mut memory = [&[7; 40][..], memory, &[7; 40]].concat();
    let whole = 0..memory.len();
    SCANNER.mask(&mut memory, whole, |_, _| {});
    memory[40..memory.len() - 40].to_vec()
}

/// Strings with what different writers put in front of and behind them.
fn written(texts: &[&str]) -> Vec<(&'static str, Vec<u8>)> {
    let joined =
        |each: &dyn Fn(&str) -> Vec<u8>| texts.iter().flat_map(|text| each(text)).collect::<Vec<u8>>();
    let count = |text: &str| text.len() as u32;
    let filled = |text: &str, to: usize| {
        let mut bytes = [text.as_bytes(), b"\0"].concat();
        bytes.resize(bytes.len().next_multiple_of(to), 0);
        bytes
    };
    let header = [0x18, 0x2b, 0x61, 0xe3, 0x7c, 0x7f, 0, 0];
    vec![
        ("C", joined(&|text| [text.as_bytes(), b"\0"].concat())),
        ("C, aligned", joined(&|text| filled(text, 8))),
        ("Windows", joined(&|text| wide(&format!("{text}\0")))),
        ("counted", joined(&|text| [&count(text).to_le_bytes()[..], text.as_bytes()].concat())),
        (
            "counted, high byte first",
            joined(&|text| [&count(text).to_be_bytes()[..], text.as_bytes()].concat()),
        ),
        (
            "counted in eight",
            joined(&|text| [&u64::from(count(text)).to_le_bytes()[..], text.as_bytes(), b"\0"].concat()),
        ),
        ("counted in one", joined(&|text| [&[count(text) as u8], text.as_bytes()].concat())),
        ("protobuf", joined(&|text| [&[0x12, count(text) as u8], text.as_bytes()].concat())),
        ("BSON", joined(&|text| [&(count(text) + 1).to_le_bytes()[..], text.as_bytes(), b"\0"].concat())),
        (
            ".NET",
            joined(&|text| {
                let mut bytes = [&header[..], &count(text).to_le_bytes(), &wide(text), &[0; 2]].concat();
                bytes.resize(bytes.len().next_multiple_of(8) + 4, 0);
                bytes
            }),
        ),
        ("BSTR", joined(&|text| [&(2 * count(text)).to_le_bytes()[..], &wide(text), &[0; 2]].concat())),
        (
            "Java",
            joined(&|text| {
                let mut bytes = [
                    &[1, 0, 0, 0, 0, 0, 0, 0][..],
                    &[0x10, 0x0c, 2, 0],
                    &count(text).to_le_bytes(),
                    text.as_bytes(),
                ]
                .concat();
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes
            }),
        ),
    ]
}

#[test]
fn values_in_strings_behind_their_names_are_masked() {
    for value in ["hX7kq2Lm9vT", "Winter_2031", "horse!77lamp", "7c9e6679-7425-40de-944b-e07fc1f90ae7"] {
        for name in ["db_password", "smtpPassword", "--admin-password"] {
            let stars = "*".repeat(value.len());
            let pairs = written(&["host", "db1", name, value, "port", "80"]).into_iter();
            for ((how, memory), (_, wanted)) in
                pairs.zip(written(&["host", "db1", name, &stars, "port", "80"]))
            {
                // A length of 36 is a `$`, which is the end of a name as well.
                if value.len() == 36 && matches!(how, "counted in one" | "protobuf") {
                    continue;
                }
                assert_eq!(
                    masked(&memory).escape_ascii().to_string(),
                    wanted.escape_ascii().to_string(),
                    "{how}, {value}"
                );
            }
        }
    }
}

#[test]
fn neighbours_in_tables_of_strings_stay() {
    for (name, neighbour) in [
        ("password", "username"),
        ("password", "last_login_2"),
        ("api_key", "OPENSSL_1_1_0"),
        ("SSL_CTX_use_PrivateKey", "EVP_sha512_256"),
        ("user_password", "utf8mb4_general_ci"),
        ("token", "%s:%d/%02x"),
        ("secret_key", "_ZN4core3fmt9Formatter17h2c9b5f7e8a1d3c4fE"),
        ("_ZN4llvm16createIPSCCPPassEv", "LLVMAddIPSCCPPass"),
        ("_ZN4llvm15SimplifyCFGPassC1Ev", "_ZN4llvm23SmallVectorTemplateBaseISt4pairIjE4growEm"),
        ("ZN12_GLOBAL__N_113ARMPassConfig12addPreSched2EvE3$_3", "ZN12_GLOBAL__N_113ARMPassConfig14addE3$_4"),
        ("db_password", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"),
        ("access_token", "application/json"),
        ("client_secret", "GLIBC_2.34"),
        ("password", "Passwords do not match."),
        ("password", "127.0.0.1"),
        ("password_changed_at", "hX7kq2Lm9vT"),
        ("compass", "hX7kq2Lm9vT"),
        ("LLVMAddGVNPass", "LLVMAddNewGVNPass"),
    ] {
        for (how, memory) in written(&["host", "db1", name, neighbour, "port", "80"]) {
            assert_eq!(
                masked(&memory).escape_ascii().to_string(),
                memory.escape_ascii().to_string(),
                "{how}, {name}"
            );
        }
    }
}

#[test]
fn a_name_below_and_its_value_is_one_entry_of_a_list() {
    for (memory, wanted) in [
        (
            "- name: DB_PASSWORD\n  value: hX7kq2Lm9\n- name: PORT\n",
            "- name: DB_PASSWORD\n  value: *********\n- name: PORT\n",
        ),
        ("- name: DB_PASSWORD\r\n  value: hX7kq2Lm9\r\n", "- name: DB_PASSWORD\r\n  value: *********\r\n"),
        (
            "- name: DB_PASSWORD\n- name: PORT\n  value: 80809191x\n",
            "- name: DB_PASSWORD\n- name: PORT\n  value: 80809191x\n",
        ),
    ] {
        assert_eq!(masked(memory.as_bytes()), wanted.as_bytes());
        assert_eq!(masked(&wide(memory)), wide(wanted));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_behind_a_name_are_taken(
        behind in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        is_wide in proptest::bool::ANY,
    ) {
        let encoding = if is_wide { Encoding::Little } else { Encoding::Bytes };
        let name = if is_wide { wide("password") } else { b"password".to_vec() };
        let memory = [&name[..], &behind].concat();
        let units = Units::new(&memory, encoding).expect("either is read");
        for end in units.ends_of_name(0, 8) {
            proptest::prop_assert!(end >= name.len());
            if let Some(value) = units.value_behind(end) {
                proptest::prop_assert!(end < value.start && value.end <= memory.len());
                proptest::prop_assert!(units.characters(&value).iter().all(|b| *b >= b' '));
            }
        }
    }
}
