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
