//! Passphrases of several words, which are no sentences.

/// `rusty-comet-battery-staple`, `Amber glacier icicle oyster`: words that make no sentence, as passphrases have them.
pub(crate) fn is_phrase(value: &[u8]) -> bool {
    const OF_SENTENCES: [&[u8]; 24] = [
        b"the",
        b"your",
        b"for",
        b"and",
        b"not",
        b"with",
        b"this",
        b"that",
        b"from",
        b"are",
        b"was",
        b"has",
        b"have",
        b"been",
        b"must",
        b"should",
        b"could",
        b"will",
        b"when",
        b"com",
        b"org",
        b"net",
        b"password",
        b"key",
    ];
    if value.len() < 18 || value.len() > 200 {
        return false;
    }
    let Some(separator) = value.iter().find(|b| !b.is_ascii_alphabetic()).filter(|b| b" -.".contains(b))
    else {
        return false;
    };
    let is_word = |word: &[u8]| {
        (3..=10).contains(&word.len())
            && word[1..].iter().all(u8::is_ascii_lowercase)
            && word[0].is_ascii_alphabetic()
            && !OF_SENTENCES.iter().any(|known| known.eq_ignore_ascii_case(word))
    };
    value.iter().filter(|b| *b == separator).count() >= 3 && value.split(|b| b == separator).all(is_word)
        || value.len() >= 20 && value.iter().filter(|b| **b == b'-').count() >= 3 && !value.contains(&b' ')
}

/// The same with points or blanks between its words: names of code and files have hyphens.
pub(crate) fn is_spoken_phrase(value: &[u8]) -> bool {
    is_phrase(value) && !value.contains(&b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrases_are_no_sentences() {
        for phrase in
            ["Amber glacier icicle oyster", "cobalt.falcon.hammer.pepper", "rusty-comet-battery-staple"]
        {
            assert!(is_phrase(phrase.as_bytes()), "{phrase}");
        }
        for other in [
            "the password must not be empty",
            "org.apache.kafka.clients",
            "issue_new_refresh_tokens",
            "two words",
        ] {
            assert!(!is_phrase(other.as_bytes()), "{other}");
        }
    }
}
