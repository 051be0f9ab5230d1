//! Credentials of issuers as they look, made up, alone in a line: whoever plants them masks them.

use biopsy_redact::memory::{Literals, MemoryScanner};
use biopsy_redact::{BundleKey, Options, Redactor};

/// Made up of what their issuers say. `¦` is dropped; it keeps them from looking like live secrets to code hosts.
const CREDENTIALS: [&str; 25] = [
    "api_live.JR9¦UKnol4xl.FxYPibNzGXAyZXgbutJk33eBcVz6OOgM",
    "hawk.7LiSXp7b¦EUe051aYVI3g.pfuQc2QVkz5jYMZ84uPX",
    "vtwn_mdz6zS¦hUWP5MIBapTSBWdruKJJ3",
    "nyk_v0_nNr4¦ugwxdQhAYXAZSvJvAjWRRozcoCkNRGOEuPXyTd80DAzex0WswOZhvSU9sXfo",
    "os_v2_app_tao8507¦gbyxzwbwwpuyspy4ncjvzq72tkzqh7bnxqh9kkgeczlcs5nf31m7rushb4ks9zau5z2varzfh",
    "akab-eqw3p2e¦one53r8n3-gy00187idl9rruj7",
    "gitea_2312df41¦250cd044a5edd6caf628180cfeb60b67",
    "drone_4gOf1T0m¦q6gkz2O0oHEVnvwtUNU1yXUS",
    "spct_53n24J3v¦UQ00bQfsixBGooSCcPUH1sWwab45yQyM",
    "bce-v3/ALTAK-tVFsEOu¦BdrACvV9Gryl0K/d2b2511199afb9b1eee5e47d0ecec88debf4c314",
    "HPUAH8H7I¦5F8DYHXGYFX",
    "eyJtaXJvLm9yaWdpbiI6¦ImV1MDEifQ_ZwQWNpaatAMXPiNqoPbMH6goFiC",
    "eu01xx0885566e10¦1ec8d45ff63a27437b99NRAL",
    "LS0tLS1CRUdJTiBFTkNSWVBURUQg¦EDFCZvHV7rm6GTyp7OpVUoTe1Dna3NHE6ZqQ7eRD7f57earxwqfv",
    "TlRMTVNTUAADAAAA¦UTCPO5ejZoPuIpznz9tftHybLaCO3D2fwm1beW1KywWO1AUg2Zln",
    "ENC[AES256_GCM,data:D9mATJ6bjZtwMiNw¦Sbv7RFeC=,iv:7EUSdLVqp83KThlaVFfQFrNWgiKtzR2tWDkgCLh2Bgf=,tag:GvAy15pi3EZNMZsRtsAvkL==",
    "zxx4739f950481f4¦fa56349f76ee9e6c3d3",
    "A21AAZ587h2PdQyGsj5i6RZhJXXIP5rAl46ACS¦Yjg-cBGxqfTiMPDNewD5foEfIJZ9JPhv85j4NJ",
    "act.SCOHRKY1VX3s78sz2ZfHAPjd¦G0MM845UVbuML11G35GdWotBCXJqIRvQVDHhccI",
    "IGQVQYQbAIV9qO4f4AF4s4FcdCqIOwRLpPZty5kihm8cgLfSrpuLXfi12YhWSB0incNTh9IieNobDDj¦BCWxAEDLpAmmA",
    "rft.8rcwsfshJFuYd0htWjhAihjp8JR2¦3w8KyI1hO2b8CTmhdHNsECZ2Gb4MnOXH9",
    "gov01xx0885566e10¦1ec8d45ff63a27437b99NRAL",
    "pat14chars67890xy.f2¦312df41250cd044a5edd6caf628180cfeb60b672312df41250cd044a5edd6caf6",
    "hcp.eJsMr9JpGmQD6CM0g3JI¦zRxLkOcaRvlUWz2ij4FuzVUZ5TwsIqWgHr7Qhp83IYbA0R9",
    "mob-5e7899a0-2ef5-f3d3-3486¦-08b0b2fce45f",
];

#[test]
fn credentials_of_issuers_are_masked_without_a_name() {
    let redactor = Redactor::new(Options::default()).expect("the built-in packs are right");
    let mut left = Vec::new();
    for credential in CREDENTIALS.map(|credential| credential.replace('¦', "")) {
        let redactor = redactor.for_bundle(BundleKey::from_bytes([1; 32]));
        let masked = redactor.text(&format!("got {credential} from it")).text.into_owned();
        left.extend((masked.contains(&credential[credential.len() / 2..])).then_some(masked));
    }
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn they_are_masked_in_memory_too() {
    let scanner = MemoryScanner::new(&Literals::new()).expect("the built-in packs are right");
    for credential in CREDENTIALS.map(|credential| credential.replace('¦', "")) {
        let wide: Vec<u8> = credential.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for value in [credential.clone().into_bytes(), wide] {
            let mut memory = [&[0, 1, 2, 0, 0, 0][..], &value, &[0; 8]].concat();
            let whole = 0..memory.len();
            scanner.mask(&mut memory, whole, |_, _| {});
            assert!(!memory.windows(value.len()).any(|part| part == value), "{credential}");
        }
    }
}

#[test]
fn what_only_begins_like_them_stays() {
    let redactor = Redactor::new(Options::default()).expect("the built-in packs are right");
    for line in [
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUREakNDQWZhZ0F3SUJBZ0lRQU1w",
        "the hawk.flies.over.the.valley and drone_delivery_service is up",
        "akab-test, gitea_repository, spct_ and organizations/shop/apiKeys/list",
        "sdk-manager-9.0 and api-server-5c9f8d7b6-x2k9p",
    ] {
        assert_eq!(redactor.text(line).text, line);
    }
}
