//! Runs of characters that nobody would say or write by hand.

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
