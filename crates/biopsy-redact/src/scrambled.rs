//! Runs of characters that nobody would say or write by hand.

/// What a letter costs behind another one, `a` to `z` each: bits by how often the pair stands in words and names (of documents and
/// sources in English and a dozen other languages), at most 9.
const PAIRS: [&[u8; 26]; 26] = [
    b"95448759597343959342678769",
    b"36673889358279489446389959",
    b"38583883594479279463589979",
    b"47742778289578479447576979",
    b"47436568799553767234867579",
    b"48763389299477389455499959",
    b"48782854498564579345488989",
    b"28872999398657389464598969",
    b"56455559998442369543959795",
    b"37781999596976377846398999",
    b"46751676399575569635586979",
    b"37752779298388379855579949",
    b"25772899398657439857599989",
    b"48433538497686479833668979",
    b"66448669697442649355455899",
    b"38663875598488349354598969",
    b"78767889799488977569097899",
    b"38652769397655379544668959",
    b"59582774396678558842497957",
    b"39672794299678479345598859",
    b"54564559599443749333999899",
    b"28781879299877569877899999",
    b"28663884299684369346899899",
    b"47473697397748729762888669",
    b"56575768499543529634786997",
    b"38771888499677489868799976",
];

/// Bits for each pair that words and names reach once in 200 to 2,000 times, by length, and nine of ten random runs do.
const UNSPOKEN: f32 = 5.5;
/// The same of short ones, of which one in eighty reaches it, and two of three random ones.
const UNSPOKEN_SHORT: f32 = 6.25;
/// Where short ones end, in bytes.
const SHORT: usize = 10;

/// Letters and digits in an order that no language and no name has; at least 8 bytes.
pub(crate) fn is_unspoken(value: &[u8]) -> bool {
    let least = if value.len() < SHORT { UNSPOKEN_SHORT } else { UNSPOKEN };
    value.len() >= 8 && bits_per_pair(value).is_some_and(|bits| bits >= least)
}

/// `bVozgt`: small and capital letters, or with something between, in an order that no name has, however short.
pub(crate) fn is_no_name(value: &[u8]) -> bool {
    let turned = value.iter().any(u8::is_ascii_lowercase) && value.iter().skip(1).any(u8::is_ascii_uppercase);
    // A capital letter with no small ones behind it begins no word of a name.
    let is_broken = |at: usize| {
        value[at].is_ascii_lowercase()
            && value[at + 1].is_ascii_uppercase()
            && value[at + 2..].iter().take_while(|b| b.is_ascii_lowercase()).count() < 2
    };
    let broken = (0..value.len().saturating_sub(1)).filter(|at| is_broken(*at)).count();
    turned
        && !value.contains(&b' ')
        && bits_per_pair(value).is_some_and(|bits| bits >= if broken > 0 { 4.25 } else { 5.0 })
}

/// What a pair of neighbours costs on the average; `None`: hardly any letters, or what no word and no token has.
pub(crate) fn bits_per_pair(value: &[u8]) -> Option<f32> {
    let body = &value[..value.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1)];
    if !body.is_ascii() || body.iter().any(|b| b"()[]{}<>=;,\"'`\\| \t".contains(b)) {
        return None;
    }
    let (mut bits, mut pairs, mut letters) = (0_u32, 0_u32, 0_u32);
    for (at, pair) in body.windows(2).enumerate() {
        let (one, other) = (pair[0], pair[1]);
        bits += match (one.is_ascii_alphabetic(), other.is_ascii_alphabetic()) {
            (true, true) if one.is_ascii_lowercase() && other.is_ascii_uppercase() => {
                // The next word of a name: `MyApp`.
                let hump = body[at + 2..].iter().take_while(|b| b.is_ascii_lowercase()).count();
                if hump >= 2 { 4 } else { 8 }
            }
            // An alphabet, as code has them.
            (true, true) if other == one + 1 || other == one => 2,
            (true, true) => {
                letters += 1;
                let index = |b: u8| usize::from(b.to_ascii_lowercase() - b'a');
                u32::from(PAIRS[index(one)][index(other)] - b'0')
            }
            _ if one.is_ascii_digit() && other.is_ascii_digit() => 4,
            (false, true) | (true, false) if one.is_ascii_digit() || other.is_ascii_digit() => 6,
            // Something between two words.
            _ if matches!(one, b'-' | b'_' | b'.' | b':' | b'/')
                || matches!(other, b'-' | b'_' | b'.' | b':' | b'/') =>
            {
                continue;
            }
            _ => 6,
        };
        pairs += 1;
    }
    (letters >= 3).then(|| bits as f32 / pairs as f32)
}

/// Letters, digits and symbols in an order that no word and no name has.
pub(crate) fn is_scrambled(value: &[u8]) -> bool {
    #[derive(PartialEq)]
    enum Class {
        Lower,
        Upper,
        Digit,
        Symbol,
        Between,
    }
    let class = |b: u8| match b {
        b'a'..=b'z' | 0x80.. => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b'-' | b'_' | b'.' | b'/' | b':' | b' ' => Class::Between,
        _ => Class::Symbol,
    };
    let body = &value[..value.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1)];
    if body.iter().any(|b| b"()[]{}<>=;,\"'`\\| \t".contains(b)) {
        return false;
    }
    let mut turns = 0;
    for (at, pair) in body.windows(2).enumerate() {
        let (one, other) = (class(pair[0]), class(pair[1]));
        let is_capital = one == Class::Upper && other == Class::Lower;
        if one == other || one == Class::Between || other == Class::Between || is_capital {
            continue;
        }
        // The next word of a name: `MyApp`.
        let hump = body[at + 2..].iter().take_while(|b| b.is_ascii_lowercase()).count();
        if one == Class::Lower && other == Class::Upper && hump >= 2 {
            continue;
        }
        turns += 1;
    }
    let is_mixed = body.iter().any(|b| !b.is_ascii_alphabetic());
    let is_long = body.len() >= 12;
    turns * 5 >= body.len()
        && (is_mixed && (turns >= 4 && body.len() >= 8 || turns >= 3 && is_long) || turns >= 4 && is_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_would_say_is_told_from_names() {
        for value in ["tszFtQrvZjdagEVHSVsiJh", "Kq7xm2PzWq9d", "xKqvMZpwTj", "9fKq2LxV7bTn4WsYc8EdPm"] {
            assert!(is_scrambled(value.as_bytes()) || is_unspoken(value.as_bytes()), "{value}");
        }
        for value in [
            "TokenLifetimeMinutes15",
            "OrganizationServiceFactory",
            "shop-orders-worker",
            "kubernetes_pod_container_status",
            "Madrid2024",
            "AbstractSingletonProxyFactoryBean",
            "x86_64-unknown-linux-gnu",
            "2026-11-29T05:06:07Z",
            "",
            "a",
        ] {
            assert!(!is_scrambled(value.as_bytes()) && !is_unspoken(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn pairs_cost_what_words_have_of_them() {
        let bits = |value: &str| bits_per_pair(value.as_bytes());
        let (word, run) = (bits("password").expect("letters"), bits("xkqvzjwp").expect("letters"));
        assert!(word < 4.5 && run > 6.0, "{word} and {run}");
        // Too few letters, other scripts, signs that no token has.
        for value in ["12345678", "a1", "пароль", "pass word", "f(x)", ""] {
            assert_eq!(bits(value), None, "{value}");
        }
        // Padding says nothing.
        assert_eq!(bits("xkqvzjwp=="), bits("xkqvzjwp"));
    }

    proptest::proptest! {
        #[test]
        fn costs_are_within_the_table(value in "[ -~]{0,60}") {
            if let Some(bits) = bits_per_pair(value.as_bytes()) {
                proptest::prop_assert!((0.0..=9.0).contains(&bits), "{}", bits);
            }
        }

        #[test]
        fn words_with_a_number_behind_them_are_no_runs(words in proptest::collection::vec("(orders|shop|worker|client|request)", 1..4), number in 0_u32..1000) {
            let name = format!("{}{number}", words.join("-"));
            proptest::prop_assert!(!is_scrambled(name.as_bytes()), "{}", name);
        }
    }
}
